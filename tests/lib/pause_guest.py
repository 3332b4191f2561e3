# SPDX-License-Identifier: Apache-2.0 OR MIT
"""pause_guest.py SOCKET FILE SECONDS: once FILE is there, the guest behind that QMP socket stands still for so
long."""

import json
import os
import socket
import sys
import time

path, file, seconds = sys.argv[1:]
while not os.path.exists(file):
    time.sleep(0.1)
with socket.socket(socket.AF_UNIX) as client:
    client.connect(path)
    lines = client.makefile("rw")
    # Its greeting.
    lines.readline()

    def execute(command):
        lines.write(json.dumps({"execute": command}) + "\n")
        lines.flush()
        # Events come between.
        while "return" not in (answer := json.loads(lines.readline())):
            if "error" in answer:
                sys.exit(f"{command}: {answer}")

    execute("qmp_capabilities")
    execute("stop")
    time.sleep(float(seconds))
    execute("cont")
