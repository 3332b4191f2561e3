# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Has 10,000 mappings."""

import ctypes
import mmap
import time

libc = ctypes.CDLL(None)
kept = [mmap.mmap(-1, 8192) for _ in range(5000)]
for mapping in kept:
    mapping[0] = 1
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    libc.mprotect(ctypes.c_void_p(address), 4096, mmap.PROT_READ)
time.sleep(60)
