# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Maps 32 MiB, and at each line of its input forks a child that lives until the next line, while it writes
every second page itself. It is named forker."""

import ctypes
import mmap
import os
import sys
import time

own = os.getpid()
ctypes.CDLL(None).prctl(15, b"forker", 0, 0, 0)
size, page = 32 << 20, mmap.PAGESIZE
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE) if hasattr(mmap, "MADV_NOHUGEPAGE") else None
for at in range(0, size, page):
    memory[at] = 1
child = None
print("ready", flush=True)
for line in sys.stdin:
    if child:
        os.kill(child[0], 9)
        os.waitpid(child[0], 0)
        child = None
    if line.strip() == "fork":
        pid = os.fork()
        if pid == 0:
            # Not longer than its parent.
            while os.getppid() == own:
                time.sleep(0.1)
            os._exit(0)
        child = (pid,)
        # Faults are told apart by what was read at the fork: on a busy machine that is late.
        time.sleep(0.6)
        for at in range(0, size, 2 * page):
            memory[at] = 2
    elif line.strip() == "double":
        pid = os.fork()
        if pid == 0:
            # Gone before anybody can look at it, and its own child lives on.
            if os.fork() == 0:
                time.sleep(0.3)
            os._exit(0)
        os.waitpid(pid, 0)
    elif line.strip() == "exec":
        os.execvp("sleep", ["sleep", "60"])
    print("done", flush=True)
