# SPDX-License-Identifier: Apache-2.0 OR MIT
# python3 records.py RUNS: 120,000 records of 64 to 512 bytes, of which 20,000 are written at random and
# 2,000 made anew, RUNS times, each between two marks (../marks.c). With another allocator by LD_PRELOAD.
import gc
import os
import random
import sys

gc.disable()
draw = random.Random(1988)
records = [bytearray(draw.randrange(64, 512)) for _ in range(120_000)]
for run in range(int(sys.argv[1])):
    os.kill(os.getpid(), 40)
    for _ in range(20_000):
        records[draw.randrange(len(records))][0] = run & 255
    for _ in range(2_000):
        records[draw.randrange(len(records))] = bytearray(draw.randrange(64, 512))
    os.kill(os.getpid(), 41)
