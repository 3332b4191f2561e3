# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Has 64 MiB and forks all the time, for a minute: a child that writes 1,000 pages (`write`), or one that executes
another program (`exec`). Makes the file `ready` when it begins to."""

import mmap
import os
import sys
import time

memory = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(memory), 4096):
    memory[at] = 1
open("ready", "w").close()
end = time.monotonic() + 60
while time.monotonic() < end:
    child = os.fork()
    if child == 0:
        if sys.argv[1] == "exec":
            os.execv("/bin/true", ["true"])
        for at in range(0, 1000 * 4096, 4096):
            memory[at] = 2
        os._exit(0)
    os.waitpid(child, 0)
