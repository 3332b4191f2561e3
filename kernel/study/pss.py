# SPDX-License-Identifier: GPL-2.0-only
"""pss [MIB [WORKERS]]: what a pre-forking server's memory is after its workers have written, as the sum of all PSS.

The parent fills MIB (default 128) and forks WORKERS (4), each of which writes a quarter of the pages: in order, in runs of 1 to
64 pages at random places, or each page by itself. With an mTHP size enabled, on a kernel with and without copy-on-write
around, the difference is what that costs in memory."""

import mmap
import os
import random
import sys

PAGE = mmap.PAGESIZE
mib = int(sys.argv[1]) if len(sys.argv) > 1 else 128
workers = int(sys.argv[2]) if len(sys.argv) > 2 else 4
pages = (mib << 20) // PAGE


def in_order(rng):
    first = rng.randrange(pages * 3 // 4)
    return range(first, first + pages // 4)


def runs(rng):
    left = pages // 4
    while left > 0:
        length = min(rng.randint(1, 64), left)
        first = rng.randrange(pages - length)
        yield from range(first, first + length)
        left -= length


def alone(rng):
    return rng.sample(range(pages), pages // 4)


def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("Pss_Anon:"))


memory = mmap.mmap(-1, mib << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(memory), PAGE):
    memory[at] = 1
for name, order in [("in order", in_order), ("in runs", runs), ("each by itself", alone)]:
    children = []
    for number in range(workers):
        ready, done = os.pipe()
        wait, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            written = set(order(random.Random(number)))
            for page in sorted(written) if name != "each by itself" else order(random.Random(number)):
                memory[page * PAGE] = 2
            os.write(done, len(written).to_bytes(8, "little"))
            os.close(go)
            os.read(wait, 1)
            os._exit(0)
        os.close(done)
        os.close(wait)
        children.append((pid, ready, go))
    written = sum(int.from_bytes(os.read(ready, 8), "little") for _, ready, _ in children)
    total = sum(pss(pid) for pid in [os.getpid()] + [pid for pid, _, _ in children])
    print(f"{name}: {written * PAGE // 1024} KiB written, {total} KiB of PSS", flush=True)
    # All first: each worker holds the ends of those before it.
    for _, ready, go in children:
        os.close(go)
        os.close(ready)
    for pid, _, _ in children:
        os.waitpid(pid, 0)
