# SPDX-License-Identifier: Apache-2.0 OR MIT
"""writer.py [wait]: writes a quarter of its 16 MiB beside a child. With a word it prints its pid and waits
first."""

import mmap
import os
import sys
import time

PAGES = 4096
m = mmap.mmap(-1, PAGES * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(PAGES):
    m[page * 4096] = 1
if len(sys.argv) > 1:
    print(os.getpid(), flush=True)
    time.sleep(60)
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
for page in range(0, PAGES, 4):
    m[page * 4096] = 2
os.close(writing)
os.waitpid(pid, 0)
