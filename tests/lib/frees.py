# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A child writes each page of 32 MiB; both free them at their exit, as an interpreter does."""

import os

memory = [bytearray(b"x") * (1 << 20) for _ in range(32)]
if os.fork() == 0:
    for block in memory:
        for at in range(0, len(block), 4096):
            block[at] = 1
else:
    os.wait()
