# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A pre-forking server: it loads its data, then forks workers that only read them.

  prefork.py [--freeze] [--requests N] [--objects N]
      one worker serves N requests and ends
  prefork.py --measure FILE --pairs N ...
      the same requests served in turn by the process itself and by a worker that it forks: what
      each took goes to FILE, one JSON object a line, as marks.c has them
"""

import argparse
import gc
import json
import os
import random
import resource
import socket
import subprocess
import sys
import time


def load(objects):
    """A catalogue as a web application keeps it: dictionaries, lists and strings."""
    rng = random.Random(1988)
    return {
        f"item{number}": {
            "id": number,
            "name": f"the item {number}",
            "price": rng.random() * 100,
            "tags": [f"tag{rng.randrange(1000)}" for _ in range(4)],
            "stock": {"here": rng.randrange(100), "there": rng.randrange(100)},
        }
        for number in range(objects)
    }


def answer(catalogue, line):
    """A request names a few items; the answer is their JSON."""
    keys = line.decode().split()
    return json.dumps([catalogue[key] for key in keys]).encode() + b"\n"


def client(port, requests, objects):
    """Ask for random items, a request at a time."""
    rng = random.Random(requests)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        reader = connection.makefile("rb")
        for _ in range(requests):
            keys = (f"item{rng.randrange(objects)}" for _ in range(10))
            connection.sendall(" ".join(keys).encode() + b"\n")
            if not json.loads(reader.readline()):
                raise SystemExit("an empty answer")


def serve(listener, catalogue, requests):
    """One connection; a full collection in its middle, as a worker makes from time to time."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as reader:
        for number in range(requests):
            if number == requests // 2:
                gc.collect()
            connection.sendall(answer(catalogue, reader.readline()))


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def text_of(file):
    with open(f"/proc/self/{file}", encoding="ascii") as text:
        return text.read().replace("\t", " ").replace("\n", "|")


def work(listener, catalogue, requests):
    began, before = time.process_time_ns(), faults()
    serve(listener, catalogue, requests)
    return {"cpu_ns": time.process_time_ns() - began, "minor_faults": faults() - before}


def forked(listener, catalogue, requests):
    """What a worker took, and the fork of it."""
    reading, writing = os.pipe()
    cpu = time.process_time_ns()
    pid = os.fork()
    if pid == 0:
        row = work(listener, catalogue, requests)
        row["child_rollup"], row["child_status"] = text_of("smaps_rollup"), text_of("status")
        with os.fdopen(writing, "w") as pipe:
            json.dump(row, pipe)
        os._exit(0)
    # Not by the clock: the worker shares this CPU, and may be first.
    fork_ns = time.process_time_ns() - cpu
    os.close(writing)
    with os.fdopen(reading) as pipe:
        row = json.load(pipe)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit("the worker failed")
    row["cpu_ns"] += fork_ns
    return row | {"fork_ns": fork_ns}


def with_client(listener, args, run):
    """Run with a client beside it: a program of its own, since a fork would share the catalogue."""
    port = listener.getsockname()[1]
    asking = [sys.executable, __file__, "--client", str(port)]
    sizes = ["--requests", str(args.requests), "--objects", str(args.objects)]
    with subprocess.Popen(asking + sizes) as process:
        row = run()
    if process.returncode:
        raise SystemExit("the client failed")
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--freeze", action="store_true")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--objects", type=int, default=100000)
    parser.add_argument("--client", type=int, metavar="PORT")
    parser.add_argument("--measure")
    parser.add_argument("--pairs", type=int, default=30)
    args = parser.parse_args()
    if args.measure or args.client:
        # The server has a CPU to itself, its client, which inherits that, the others.
        os.sched_setaffinity(0, range(os.cpu_count()))
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cpus[1:] or cpus if args.client else cpus[:1])
    if args.client:
        client(args.client, args.requests, args.objects)
        return

    listener = socket.create_server(("127.0.0.1", 0))
    catalogue = load(args.objects)
    gc.collect()
    if args.freeze:
        gc.freeze()
    if not args.measure:
        with_client(listener, args, lambda: forked(listener, catalogue, args.requests))
        return
    with open(args.measure, "a", encoding="ascii") as rows:
        for pair in range(args.pairs):
            held = pair % 3 == 2
            run = forked if held else work
            row = with_client(listener, args, lambda: run(listener, catalogue, args.requests))
            print(json.dumps({"pair": pair, "held": int(held)} | row), file=rows)


main()
