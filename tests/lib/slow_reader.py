# SPDX-License-Identifier: Apache-2.0 OR MIT
"""slow_reader.py COWLAB PID: reads a footprint slowly; of PID and its children none may be stopped then."""

import fcntl
import os
import subprocess
import sys
import time

F_SETPIPE_SZ = 1031
cowlab, pid = sys.argv[1:]
reader, writer = os.pipe()
fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
words = [cowlab, "footprint", "--json", pid, "--forks", "1", "--stop"]
running = subprocess.Popen(words, stdout=writer, stderr=subprocess.PIPE, text=True)
os.close(writer)
data = os.read(reader, 1)
time.sleep(0.1)
stopped = []
for other in filter(str.isdigit, os.listdir("/proc")):
    try:
        name, rest = open(f"/proc/{other}/stat").read().rsplit(")", 1)
    except OSError:
        continue
    state, parent = rest.split()[:2]
    if state in "tT" and pid in (other, parent):
        stopped.append((name, state, parent))
while more := os.read(reader, 65536):
    data += more
errors = running.communicate()[1]
if running.returncode or len(data) < 5000:
    sys.exit(f"it wrote {len(data)} bytes and ended with {running.returncode}: {errors}")
if stopped:
    sys.exit(f"stopped while it waited for its reader: {stopped}")
