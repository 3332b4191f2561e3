# SPDX-License-Identifier: Apache-2.0 OR MIT
"""redis-server saving a snapshot while its records are updated.

  redis_save.py [--records N] [--updates N]
      one snapshot
  redis_save.py --measure FILE --pairs N ...
      the same updates without a snapshot and beside one, in turn: what the server took goes to
      FILE, one JSON object a line, as marks.c has them

The server runs in a folder of its own that goes with it, listens to no network, and keeps nothing.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time

VALUE_BYTES = 1000
VALUES = itertools.cycle([random.Random(seed).randbytes(VALUE_BYTES) for seed in range(61)])


class Server:
    """A redis-server of our own, and a connection to it."""

    def __init__(self, folder, pinned):
        path = os.path.join(folder, "socket")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--save", "",
             "--appendonly", "no", "--rdbcompression", "no", "--daemonize", "no",
             "--logfile", os.path.join(folder, "log"), *pinned])
        self.pid = self.process.pid
        self.socket = socket.socket(socket.AF_UNIX)
        for _ in range(200):
            try:
                self.socket.connect(path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(0.05)
        else:
            raise SystemExit("redis-server does not answer")
        self.reader = self.socket.makefile("rb")

    def send(self, *words):
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        text = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        return b"*%d\r\n%s" % (len(parts), text)

    def reply(self):
        line = self.reader.readline().rstrip()
        if line[:1] == b"-":
            raise SystemExit(f"redis-server: {line[1:].decode()}")
        if line[:1] == b"$":
            text = self.reader.read(int(line[1:]) + 2)
            return text[:-2]
        return line[1:]

    def ask(self, *words):
        self.socket.sendall(self.send(*words))
        return self.reply()

    def info(self, section):
        lines = self.ask("INFO", section).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def set_all(self, keys):
        """Sixteen updates on the way at a time, each with a value of its own: equal bytes would hide
        from a comparison what was written."""
        keys = list(keys)
        for first in range(0, len(keys), 16):
            some = keys[first:first + 16]
            self.socket.sendall(b"".join(self.send("SET", f"record{key}", next(VALUES)) for key in some))
            for _ in some:
                self.reply()

    def cpu_ns(self):
        """CPU time of the server's own threads, not of its children."""
        return time.clock_gettime_ns(~self.pid << 3 | 2)

    def faults(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            return int(stat.read().rsplit(")", 1)[1].split()[7])

    def child(self):
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as children:
            return next(iter(children.read().split()), None)

    def end(self):
        self.process.kill()
        self.process.wait()


def text_of(pid, file):
    with open(f"/proc/{pid}/{file}", encoding="ascii") as text:
        return text.read().replace("\t", " ").replace("\n", "|")


def updates(args, pair):
    """The same in the three pairs of a cycle: what settles has then taken the short faults of the
    pages that the snapshot before left write-protected."""
    rng = random.Random(pair // 3)
    return [rng.randrange(args.records) for _ in range(args.updates)]


def child_texts(child):
    """What there is to read of a child, which may end meanwhile."""
    try:
        return {"outlasted": 1, "child_rollup": text_of(child, "smaps_rollup"),
                "child_status": text_of(child, "status")}
    except (FileNotFoundError, ProcessLookupError):
        return {"outlasted": 0}


def beside_a_snapshot(server, keys):
    """Begin a snapshot, update, and wait for its end."""
    cpu, faults, wall = server.cpu_ns(), server.faults(), time.monotonic_ns()
    server.ask("BGSAVE")
    server.set_all(keys)
    row = {"cpu_ns": server.cpu_ns() - cpu, "wall_ns": time.monotonic_ns() - wall,
           "minor_faults": server.faults() - faults}
    row |= child_texts(server.child())
    while server.info("persistence")["rdb_bgsave_in_progress"] == "1":
        time.sleep(0.02)
    row["fork_ns"] = int(server.info("stats")["latest_fork_usec"]) * 1000
    row["cow_bytes"] = int(server.info("persistence")["rdb_last_cow_size"])
    return row


def alone(server, keys):
    cpu, faults, wall = server.cpu_ns(), server.faults(), time.monotonic_ns()
    server.set_all(keys)
    return {"cpu_ns": server.cpu_ns() - cpu, "wall_ns": time.monotonic_ns() - wall,
            "minor_faults": server.faults() - faults}


def pinning(measures):
    """Where the server is measured it has a CPU to itself; its children and this program another."""
    cpus = sorted(os.sched_getaffinity(0))
    if not measures or len(cpus) < 2:
        return []
    os.sched_setaffinity(0, cpus[1:])
    return ["--server_cpulist", str(cpus[0]), "--bgsave_cpulist", str(cpus[1]),
            "--bio_cpulist", str(cpus[1])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=300000)
    parser.add_argument("--updates", type=int, default=20000)
    parser.add_argument("--measure")
    parser.add_argument("--pairs", type=int, default=30)
    args = parser.parse_args()

    if not shutil.which("redis-server"):
        raise SystemExit("redis-server is not installed: scripts/install footprints")
    folder = tempfile.mkdtemp(prefix="cowlab-redis-")
    server = Server(folder, pinning(args.measure))
    try:
        server.set_all(range(args.records))
        if not args.measure:
            # What an update changes at its first time (a client's buffers, say) is over by then.
            server.set_all(updates(args, -1))
            row = beside_a_snapshot(server, updates(args, 2))
            print(json.dumps({name: row[name] for name in ("fork_ns", "cow_bytes", "outlasted")}))
            return
        with open(args.measure, "a", encoding="ascii") as rows:
            for pair in range(args.pairs):
                held = pair % 3 == 2
                run = beside_a_snapshot if held else alone
                row = run(server, updates(args, pair))
                print(json.dumps({"pair": pair, "held": int(held)} | row), file=rows, flush=True)
    finally:
        server.end()
        shutil.rmtree(folder)


main()
