# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A pre-forking server in small: an application is loaded, workers are forked, each serves some
requests and ends, and the parent forks the next. Prints a line when it is loaded and one half way,
and waits for one after each; the last line has every time, in ns."""

import json
import os
import random
import sys
import time

megabytes, workers, forks, requests = map(int, sys.argv[1:5])


def load():
    # Objects as an application has them: dictionaries of small strings, some 1,100 bytes each.
    return [
        {f"field{field}": f"{number:06}-{field}-" + "x" * 40 for field in range(8)}
        for number in range(megabytes * 900)
    ]


def serve(table, chosen):
    """Requests of one worker: each reads some records (which writes their reference counts)."""
    took = []
    for _ in range(requests):
        began = time.perf_counter_ns()
        json.dumps([table[chosen.randrange(len(table))] for _ in range(20)])
        took.append(time.perf_counter_ns() - began)
        time.sleep(0.002)
    return took


def say(word):
    print(word, flush=True)
    sys.stdin.readline()


table = load()
say("loaded")
fork_ns, request_ns, alive = [], [], {}
for number in range(forks):
    while len(alive) >= workers:
        pid, _ = os.wait()
        with os.fdopen(alive.pop(pid), "rb") as pipe:
            request_ns += json.loads(pipe.read())
    ours, theirs = os.pipe()
    began = time.perf_counter_ns()
    pid = os.fork()
    if pid == 0:
        took = serve(table, random.Random(number))
        with os.fdopen(theirs, "wb") as pipe:
            pipe.write(json.dumps(took).encode())
        os._exit(0)
    fork_ns.append(time.perf_counter_ns() - began)
    os.close(theirs)
    alive[pid] = ours
    if number == forks // 2:
        say("half")
while alive:
    pid, _ = os.wait()
    with os.fdopen(alive.pop(pid), "rb") as pipe:
        request_ns += json.loads(pipe.read())
print(json.dumps({"fork_ns": fork_ns, "request_ns": request_ns}), flush=True)
