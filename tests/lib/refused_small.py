# SPDX-License-Identifier: Apache-2.0 OR MIT
"""refused_small.py COMMAND...: it refuses a heap that does not fit, and takes little memory for that."""

import resource
import subprocess
import sys

done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
if done.returncode != 1 or "largest heap that fits" not in done.stderr or peak_mib > 256:
    sys.exit(f"expected a refusal within 256 MiB, saw {done} and a peak of {peak_mib} MiB")
