# SPDX-License-Identifier: Apache-2.0 OR MIT
"""seize.py UID PID: as that user, try to trace a process and to take its descriptors.

Prints what succeeded, a line each, and ends with 1 if anything did.
"""

import ctypes
import os
import sys

PTRACE_SEIZE = 0x4206
SYS_PIDFD_OPEN = 434
SYS_PIDFD_GETFD = 438


def main():
    user, pid = int(sys.argv[1]), int(sys.argv[2])
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    libc = ctypes.CDLL(None, use_errno=True)
    got = []
    handle = libc.syscall(SYS_PIDFD_OPEN, pid, 0)
    if handle < 0:
        sys.exit(f"pidfd_open {pid}: {os.strerror(ctypes.get_errno())}")
    for number in range(64):
        if libc.syscall(SYS_PIDFD_GETFD, handle, number, 0) >= 0:
            got.append(f"descriptor {number}")
    try:
        got.append(f"the list {os.listdir(f'/proc/{pid}/fd')}")
    except PermissionError:
        pass
    if libc.ptrace(PTRACE_SEIZE, pid, None, None) == 0:
        got.append("PTRACE_SEIZE")
    print(*got, sep="\n")
    sys.exit(bool(got))


main()
