# SPDX-License-Identifier: Apache-2.0 OR MIT
"""timed.py PROGRAM SIGNAL_AFTER_S FLAG...: how `PROGRAM tend FLAG...` ends: its status, seconds and
largest RSS in MiB. The seconds count from SIGTERM, where one is sent."""

import os
import signal
import subprocess
import sys
import time

program, after, *flags = sys.argv[1:]
began = time.monotonic()
child = subprocess.Popen([program, "tend", *flags], stdout=subprocess.DEVNULL)
if float(after):
    time.sleep(float(after))
    began = time.monotonic()
    os.kill(child.pid, signal.SIGTERM)  # which does not reap it, as Popen would
# It must not hold up the test either.
while time.monotonic() < began + 30:
    pid, status, usage = os.wait4(child.pid, os.WNOHANG)
    if pid:
        break
    time.sleep(0.01)
else:
    child.kill()
    pid, status, usage = os.wait4(child.pid, 0)
print(os.waitstatus_to_exitcode(status), round(time.monotonic() - began, 2), usage.ru_maxrss >> 10)
