# SPDX-License-Identifier: Apache-2.0 OR MIT
"""python3 dicts.py RUNS: 150,000 small dicts in a list; each third gets another value, in order, RUNS
times, each between two marks (../marks.c)."""

import os
import sys

dicts = [{"number": i, "name": str(i), "lines": [i]} for i in range(150_000)]
for run in range(int(sys.argv[1])):
    os.kill(os.getpid(), 40)
    for each in dicts[::3]:
        each["lines"][0] = run
    os.kill(os.getpid(), 41)
