# SPDX-License-Identifier: Apache-2.0 OR MIT
"""refused_calls.py UNIT TRACE...: the system calls in files of `strace -f -o` that the SystemCallFilter=
lines of a unit refuse, one a line."""

import re
import subprocess
import sys

shown = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True)
groups = {}
for line in shown.stdout.splitlines():
    words = line.split("#")[0].split()
    if words and not line[0].isspace():
        group = groups.setdefault(words[0], set())
    elif words:
        group.update(words)


def calls(word):
    if not word.startswith("@"):
        return {word}
    return set().union(*(calls(inner) for inner in groups[word]))


# systemd allows these whatever a unit says (systemd.exec(5)).
allowed = calls("@default") | {"execve", "exit", "exit_group", "rt_sigreturn", "restart_syscall"}
for line in open(sys.argv[1]):
    name, _, value = line.strip().partition("=")
    if name != "SystemCallFilter":
        continue
    denies = value.startswith("~")
    for word in value.lstrip("~").split():
        allowed = allowed - calls(word) if denies else allowed | calls(word)
used = set()
for trace in sys.argv[2:]:
    used.update(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", open(trace).read(), re.M))
print("\n".join(sorted(used - allowed)))
