# SPDX-License-Identifier: Apache-2.0 OR MIT
# python3 server.py ROWS PAIRS: a fork server, as fuzzers have one: 400,000 nodes of a parse graph are
# loaded once, each case is run by a child, which walks and writes 3,000 of them at random. Of three
# pairs one has a child; the rows are those of ../marks.c.
import gc
import json
import os
import random
import resource
import sys
import time

gc.disable()
nodes = [[i, i * 7 % 400_000] for i in range(400_000)]


def case(number):
    draw = random.Random(number)
    at = draw.randrange(len(nodes))
    for _ in range(3_000):
        nodes[at][0] = number
        at = (nodes[at][1] + draw.randrange(len(nodes))) % len(nodes)


def timed(number):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    began = time.process_time_ns()
    case(number)
    took = time.process_time_ns() - began
    return took, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


rows = open(sys.argv[1], "a")
for pair in range(int(sys.argv[2])):
    row = {"pair": pair, "held": int(pair % 3 == 2), "fork_ns": 0}
    if row["held"]:
        out, back = os.pipe()
        began = time.process_time_ns()
        child = os.fork()
        if child == 0:
            cost = timed(pair)
            with open("/proc/self/smaps_rollup") as rollup, open("/proc/self/status") as status:
                texts = [rollup.read().replace("\n", "|"), status.read().replace("\n", "|")]
            os.write(back, json.dumps([*cost, *texts]).encode())
            os._exit(0)
        row["fork_ns"] = time.process_time_ns() - began
        os.close(back)
        with os.fdopen(out) as answer:
            cpu, faults, rollup, status = json.loads(answer.read())
        os.waitpid(child, 0)
        row |= {"child_rollup": rollup, "child_status": status.replace('"', " ")}
        row |= {"cpu_ns": cpu + row["fork_ns"], "minor_faults": faults}
    else:
        row["cpu_ns"], row["minor_faults"] = timed(pair)
    rows.write(json.dumps(row) + "\n")
