# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The five servers: how each starts, what its variants change, and its load."""

import csv
import glob
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request

from common import HERE, Server, free_port, loader

APPS = os.path.join(HERE, "apps")
JEMALLOC = "jemalloc instead of glibc's allocator"


def jemalloc():
    found = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if not found:
        raise SystemExit("libjemalloc.so.2 is not here: apt install libjemalloc2, or scripts/install footprints")
    return found[0]


class Web(Server):
    """It serves /0 to /999, each some items of a catalogue, from four workers."""

    def __init__(self, folder, variants=()):
        super().__init__(folder, variants)
        if "jemalloc" in variants:
            self.env["LD_PRELOAD"] = jemalloc()
        if "arenas" in variants:
            self.env["MALLOC_ARENA_MAX"] = "1"

    def ready(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/0", timeout=5) as answer:
            return answer.status == 200

    def load(self, seconds):
        script = os.path.join(HERE, "load.lua")
        url = f"http://127.0.0.1:{self.port}"
        text = loader("wrk", "-t1", "-c8", f"-d{seconds}s", "--latency", "-s", script, url)
        return json.loads(text.splitlines()[-1])


class Gunicorn(Web):
    """Django, 4 workers, the application loaded before they are forked."""

    needs = {"gunicorn": "gunicorn python3-django", "wrk": "wrk"}
    variants = {
        "freeze": "gc.freeze() when the application is loaded",
        "packed": "a category is three objects, its items pickled until they are asked for",
        "jemalloc": JEMALLOC,
    }

    def command(self):
        hook = "import gc\n    gc.collect(); gc.freeze()" if "freeze" in self.variants else "pass"
        settings = self.file("settings.py", f"def when_ready(server):\n    {hook}\n")
        if "packed" in self.variants:
            self.env["SHOP_ITEMS"] = "packed"
        self.env["PYTHONDONTWRITEBYTECODE"] = "1"
        return ["gunicorn", "--config", settings, "--preload", "--workers", "4", "--chdir", APPS,
                "--bind", f"127.0.0.1:{self.port}", "shop:application"]


class Puma(Web):
    """Sinatra, 4 workers of one thread, the application loaded before they are forked."""

    needs = {"puma": "puma ruby-sinatra", "wrk": "wrk"}
    variants = {
        "nakayoshi": "Puma's nakayoshi_fork: collect four times and compact before the fork",
        "collect": "GC.start four times before the fork",
        "interpolated": "the application interpolates strings that it joined",
        "arenas": "MALLOC_ARENA_MAX=1",
        "jemalloc": JEMALLOC,
    }

    def command(self):
        lines = {"nakayoshi": "nakayoshi_fork true", "collect": "before_fork { 4.times { GC.start } }"}
        settings = self.file("puma.rb", "\n".join(line for name, line in lines.items() if name in self.variants))
        if "interpolated" in self.variants:
            self.env["SHOP_TAGS"] = "interpolated"
        return ["puma", "--config", settings, "--environment", "production", "--workers", "4", "--threads", "1:1",
                "--preload", "--bind", f"tcp://127.0.0.1:{self.port}", os.path.join(APPS, "shop.ru")]


class Node(Web):
    """A cluster of 4 workers, each with a catalogue of its own: Node executes its workers."""

    needs = {"node": "nodejs", "wrk": "wrk"}
    variants = {"file": "the catalogue in a file that the workers read from, not in objects"}

    def command(self):
        how = "file" if "file" in self.variants else "objects"
        return ["node", os.path.join(APPS, "shop.js"), str(self.port), how, self.folder]


class Postgres(Server):
    """PostgreSQL behind pgbouncer, whose sessions are forked anew at the beginning of each load."""

    needs = {"pgbouncer": "pgbouncer", "setpriv": "util-linux"}
    variants = {
        "preload": "shared_preload_libraries=plpgsql,pg_stat_statements",
        "small-pool": "5 sessions instead of 20",
        "jemalloc": JEMALLOC,
    }
    stop = signal.SIGQUIT

    def __init__(self, folder, variants=()):
        super().__init__(folder, variants)
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pgbench"))
        if not found:
            raise SystemExit("pgbench is not here: apt install postgresql, or scripts/install footprints")
        self.programs = os.path.dirname(found[-1])
        # It refuses to run as root.
        self.user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        if "jemalloc" in variants:
            self.env["LD_PRELOAD"] = jemalloc()

    def tool(self, name, *words, port=5432):
        where = ["-h", self.folder, "-p", str(port), "-U", "postgres"]
        return loader(os.path.join(self.programs, name), *where, *words)

    def prepare(self):
        shutil.chown(self.folder, "postgres")
        data = os.path.join(self.folder, "data")
        loader(*self.user, os.path.join(self.programs, "initdb"), "-D", data, "-U", "postgres", "--auth=trust", "--no-sync")

    def command(self):
        settings = {"listen_addresses": "", "unix_socket_directories": self.folder, "fsync": "off",
                    "shared_buffers": "256MB", "max_connections": "100"}
        if "preload" in self.variants:
            settings["shared_preload_libraries"] = "plpgsql,pg_stat_statements"
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [*self.user, os.path.join(self.programs, "postgres"), "-D", os.path.join(self.folder, "data"), *words]

    def ready(self):
        return self.tool("psql", "-qtAc", "SELECT 1", "postgres").strip() == "1"

    def fill(self):
        if not self.tool("psql", "-qtAc", "SELECT to_regclass('pgbench_accounts')", "postgres").strip():
            self.tool("pgbench", "-i", "-s", "10", "-q", "postgres")
        size = 5 if "small-pool" in self.variants else 20
        settings = self.file("pool.ini", f"""[databases]
postgres = host={self.folder} port=5432 user=postgres
[pgbouncer]
unix_socket_dir = {self.folder}
listen_port = 6432
auth_type = any
admin_users = postgres
pool_mode = transaction
default_pool_size = {size}
""")
        self.pool = subprocess.Popen(["taskset", "-c", "0", *self.user, "pgbouncer", "-q", settings],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.exists(os.path.join(self.folder, ".s.PGSQL.6432")):
            time.sleep(0.05)

    def end(self):
        # First: a session whose client is gone ends in its own time, and copies while it does.
        status = super().end()
        self.pool.kill()
        self.pool.wait()
        return status

    def load(self, seconds):
        self.tool("pgbench", "-n", "-c", "20", "-T", str(seconds), "-b", "select-only@9", "-b", "simple-update@1",
                  "--log", "--log-prefix", os.path.join(self.folder, "times"), "postgres", port=6432)
        times_us = []
        for name in glob.glob(os.path.join(self.folder, "times.*")):
            with open(name, encoding="ascii") as log:
                times_us += [int(line.split()[2]) for line in log]
            os.unlink(name)
        times_us.sort()
        return {"rps": len(times_us) / seconds, "p99_ms": times_us[len(times_us) * 99 // 100] / 1000}


class Redis(Server):
    """300,000 keys of 1,000 bytes, saved by BGSAVE while they are written."""

    needs = {"redis-server": "redis-server", "redis-benchmark": "redis-tools"}
    variants = {
        "uncompressed": "rdbcompression no",
        "child-elsewhere": "bgsave_cpulist 1: the child does not share the server's CPU",
        "no-rehash": "activerehashing no",
        "retain": "jemalloc keeps what is free (MALLOC_CONF=dirty_decay_ms:-1)",
    }
    keys = 300000
    rps = None

    def command(self):
        if "retain" in self.variants:
            self.env["MALLOC_CONF"] = "dirty_decay_ms:-1,muzzy_decay_ms:-1"
        changed = {"uncompressed": ("--rdbcompression", "no"), "child-elsewhere": ("--bgsave_cpulist", "1"),
                   "no-rehash": ("--activerehashing", "no")}
        words = [word for variant in self.variants for word in changed.get(variant, ())]
        return ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "", "--dir", self.folder, *words]

    def cli(self, *words):
        return subprocess.check_output(["redis-cli", "-p", str(self.port), *words], text=True)

    def sets(self, requests, *words):
        command = ["redis-benchmark", "-p", str(self.port), "-t", "set", "-r", str(self.keys), "-d", "1000"]
        text = loader(*command, "-n", str(requests), "--csv", *words)
        row = list(csv.DictReader(text.splitlines()))[0]
        return {"rps": float(row["rps"]), "p99_ms": float(row["p99_latency_ms"])}

    def fill(self):
        self.sets(2 * self.keys, "-P", "50", "-c", "20")
        # How many requests last for a second, the same for all measurements.
        Redis.rps = Redis.rps or self.sets(20000, "-c", "20")["rps"]

    def load(self, seconds):
        self.cli("BGSAVE")
        row = self.sets(int(Redis.rps * seconds), "-c", "20")
        while "rdb_bgsave_in_progress:1" in self.cli("INFO", "persistence"):
            time.sleep(0.1)
        return row


SERVERS = {"gunicorn": Gunicorn, "puma": Puma, "postgres": Postgres, "redis": Redis, "node": Node}
