# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A child reads 200,000 objects after 1.5 s, and so writes their counts of references. Its pid goes to
`worker`."""

import os
import time

memory = [[number] for number in range(200000)]
child = os.fork()
if child == 0:
    time.sleep(1.5)
    for one in memory:
        one
    time.sleep(60)
open("worker", "w").write(str(child))
os.wait()
