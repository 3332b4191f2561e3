# SPDX-License-Identifier: Apache-2.0 OR MIT
"""forks_late.py FORKS BEFORE_S CHILD_S: forks after a while, and again when its child has ended. Ends 2 s
after its last fork."""

import os
import sys
import time

forks, before_s, child_s = map(int, sys.argv[1:])
for fork in range(forks):
    time.sleep(before_s)
    if os.fork() == 0:
        time.sleep(child_s)
        os._exit(0)
    if fork + 1 < forks:
        os.wait()
time.sleep(2)
