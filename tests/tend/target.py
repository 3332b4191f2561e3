# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A program whose memory is known: fills a mapping with bytes that follow from their address, and,
told by lines on its standard input, checks them, forks, remaps, unmaps, or ends. Prints a line for each."""

import ctypes
import mmap
import os
import sys
import time

SIZE = int(sys.argv[1]) << 20
HUGE = 2 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PRIVATE, ANONYMOUS, FIXED, READ_WRITE = 2, 0x20, 0x10, 3


def map_at(address, size, flags=0):
    found = libc.mmap(address, size, READ_WRITE, PRIVATE | ANONYMOUS | flags, -1, 0)
    assert found != ctypes.c_void_p(-1).value, ctypes.get_errno()
    return found


base = map_at(None, SIZE + HUGE)
base = (base + HUGE - 1) // HUGE * HUGE
PATTERN = bytes((7 * n + n // 251) % 256 for n in range(HUGE))


def fill(offset):
    ctypes.memmove(base + offset, PATTERN, HUGE)


def is_whole(offset):
    return ctypes.string_at(base + offset, HUGE) == PATTERN


for offset in range(0, SIZE, HUGE):
    fill(offset)
print("ready", flush=True)
children = []
for line in sys.stdin:
    word = line.strip()
    if word == "check":
        bad = [offset for offset in range(0, SIZE, HUGE) if not is_whole(offset)]
        print("whole" if not bad else f"damaged at {bad}", flush=True)
    elif word == "fork":
        # A child that shares all, and a parent that writes a byte in every region meanwhile.
        pid = os.fork()
        if pid == 0:
            time.sleep(0.3)
            good = all(is_whole(offset) for offset in range(0, SIZE, HUGE))
            os._exit(0 if good else 1)
        for offset in range(0, SIZE, HUGE):
            ctypes.memset(base + offset, PATTERN[0], 1)
        _, status = os.waitpid(pid, 0)
        print("forked" if status == 0 else "the child's memory is damaged", flush=True)
    elif word == "hold":
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
            os._exit(0)
        children.append(pid)
        print(f"held {pid}", flush=True)
    elif word == "crowd":
        # 299 children that stay, and then one after the other for 6 s.
        until = None
        while not until or time.monotonic() < until:
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            children.append(pid)
            if not until and len(children) == 300:
                until = time.monotonic() + 6
                print("crowded", flush=True)
            if until:
                time.sleep(0.05)
                os.kill(children[-1], 9)
                os.waitpid(children.pop(), 0)
        print("alone", flush=True)
    elif word == "release":
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        children = []
        print("released", flush=True)
    elif word == "remap":
        # Half of the regions go and come back, half a page at a time is given back in others.
        for offset in range(0, SIZE, 2 * HUGE):
            map_at(base + offset, HUGE, FIXED)
            fill(offset)
        for offset in range(HUGE, SIZE, 2 * HUGE):
            libc.madvise(base + offset + 65536, 4096, mmap.MADV_DONTNEED)
            ctypes.memmove(base + offset + 65536, PATTERN[65536 : 65536 + 4096], 4096)
        print("remapped", flush=True)
    elif word == "unmap":
        # The same half is gone for good; there is nothing to check any more.
        for offset in range(0, SIZE, 2 * HUGE):
            assert libc.munmap(base + offset, HUGE) == 0
        print("unmapped", flush=True)
    elif word == "sparse":
        for offset in range(0, SIZE, HUGE):
            libc.madvise(base + offset + HUGE // 2, HUGE // 2, mmap.MADV_DONTNEED)
        print("sparse", flush=True)
    elif word == "nothp":
        libc.prctl(41, 1, 0, 0, 0)
        print("nothp", flush=True)
    elif word == "end":
        break
