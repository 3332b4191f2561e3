# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A child writes 32 MiB again and again, twenty times a second. Its pid goes to `worker` once it has copied
them."""

import mmap
import os
import time

memory = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(memory), 4096):
    memory[at] = 1
copied, copies = os.pipe()
child = os.fork()
while child == 0:
    for at in range(0, len(memory), 4096):
        memory[at] = (memory[at] + 1) % 256
    if copies:
        os.close(copies)
        copies = None
    time.sleep(0.05)
os.close(copies)
os.read(copied, 1)
open("worker", "w").write(str(child))
os.wait()
