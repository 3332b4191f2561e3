#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# cowlab without a verb: which running programs fork, what that costs, and what to type next.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# A parent of 64 MiB with a name that would drive a terminal, and two children, one of which copies 16 MiB.
# Where others on this machine take all the time, nobody looks at what they share.
name=fam$$
python3 - "$name" <<'PYTHON' &
import mmap
import os
import signal
import sys

memory = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(memory), 4096):
    memory[at] = 1
open("/proc/self/comm", "w").write("\x1b[" + sys.argv[1])
pids = []
for copied in (0, 16 << 20):
    pid = os.fork()
    if pid == 0:
        for at in range(0, copied, 4096):
            memory[at] = 2
        open(f"copied{copied}", "w").close()
        signal.pause()
    pids.append(pid)
signal.signal(signal.SIGTERM, lambda *_: ([os.kill(pid, 9) for pid in pids], sys.exit()))
open("ready", "w").close()
signal.pause()
PYTHON
parent=$!
trap 'kill $parent 2>/dev/null || true' EXIT
wait_for 20 test -e ready -a -e copied16777216

passes
[[ $(wc -l <out) -le 50 ]] || fail "expected at most 50 lines, saw: $(cat out)"
says out "fam$$ \\($parent\\)"
says out '^type +to learn'
! grep -q $'\x1b' out || fail "expected no control characters of a process's name, saw: $(cat -v out)"
[[ $(tail -n 3 out | grep -c '^cowlab [a-z]') == 3 ]] || fail "expected three commands at the end, saw: $(cat out)"

passes --json
json parent="$parent" 'd.format == 1 and rows == [] and (d | has("run") | not)' \
	'd.summary.programs | map(select(.pid == $parent)) | length == 1' \
	'd.summary.programs[] | select(.pid == $parent) | .how == "workers" and .workers == 2 and .executed == 0' \
	'd.summary.programs[] | select(.pid == $parent) | .may_look and .is_surveyed and .alike == []' \
	'd.summary.programs[] | select(.pid == $parent) | .stop_ns | 0 < .low and .low < .value and .value < .high' \
	'd.summary.programs[] | select(.pid == $parent) |
		.own_bytes == null or (16777216 <= .own_bytes and .own_bytes < 33554432)' \
	'd.summary.programs[] | select(.pid == $parent) |
		.own_bytes == null or (100663296 < .saved_bytes and .saved_bytes < 167772160)' \
	'd.summary.programs | length <= 10' \
	'd.summary.programs | map([.how == "programs", -(.stop_ns.value // 0)]) | . == sort' \
	'd.summary.commands | length == 3 and all(.command | startswith("cowlab "))' \
	'd.summary.abilities | length == 6' \
	'(d.missing | map(.metric == "programs") | any) == (d.summary.unseen > 0)' \
	'(d.missing | map(.metric == "own_bytes") | any) ==
		(d.summary.programs | any(.how == "workers" and .may_look and .own_bytes == null))'
[[ ! -s err ]] || fail "$called: expected nothing on standard error, saw: $(seen)"

# Without root the same program is told by its size and its children's name; all that was not seen is one line.
if [[ $(id -u) == 0 ]] && command -v setpriv >/dev/null; then
	# From a folder whose runs, and their profiles, it may not read.
	as_nobody
	trap 'rm -rf "$place"; kill $parent 2>/dev/null || true' EXIT
	passes --json
	json parent="$parent" \
		'd.summary.programs[] | select(.pid == $parent) | .how == "workers" and .workers == 2' \
		'd.summary.programs[] | select(.pid == $parent) | (.may_look or .is_surveyed) | not' \
		'd.summary.programs[] | select(.pid == $parent) | .own_bytes == null and .saved_bytes == null' \
		'd.summary.programs[] | select(.pid == $parent) | .stop_ns.value > 0' \
		'd.summary.unseen >= 3' \
		'd.missing | map(select(.metric == "programs")) | length == 1'
	passes
	says out "^not seen +the memory of [0-9]+ processes: needs root, or CAP_SYS_PTRACE$"
	says out "\\($parent\\) +2 of its name +[67][0-9]\\.?[0-9]* MiB +roughly [0-9.]+ .s *$"
fi
