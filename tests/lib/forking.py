# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Forks without end, from two threads and with 64 MiB."""

import mmap
import os
import signal
import threading

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
# Of 4 KiB pages, so that most of its time is spent in fork.
memory = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, len(memory), 4096):
    memory[at] = 1


def fork():
    while True:
        if os.fork() == 0:
            os._exit(0)


threading.Thread(target=fork).start()
fork()
