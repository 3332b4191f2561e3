#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""bounded.py MIB SECONDS COMMAND...: it ends in that time, and none of its processes has more memory at any time."""
import resource
import subprocess
import sys
import time

mib, seconds, *command = sys.argv[1:]
began = time.monotonic()
child = subprocess.Popen(command)
try:
    status = child.wait(float(seconds))
except subprocess.TimeoutExpired:
    child.kill()
    sys.exit(f"still running after {seconds} s")
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
print(f"{peak:.0f} MiB, {time.monotonic() - began:.1f} s", file=sys.stderr)
if peak > float(mib):
    sys.exit(f"{peak:.0f} MiB, and {mib} are allowed")
sys.exit(status)
