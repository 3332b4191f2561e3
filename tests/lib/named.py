# SPDX-License-Identifier: Apache-2.0 OR MIT
"""named.py NAME: a process of that name, which sleeps once it has said `ready`."""

import ctypes
import os
import sys
import time

PR_SET_NAME = 15
ctypes.CDLL(None).prctl(PR_SET_NAME, os.fsencode(sys.argv[1]), 0, 0, 0)
print("ready", flush=True)
time.sleep(300)
