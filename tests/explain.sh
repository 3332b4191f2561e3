#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# explain: one page on one program, with what root allows and without.
# beside: it looks at programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# A parent of 64 MiB that forks again and again, and copies 16 MiB each time.
name=snap$$
python3 - "$name" <<'PYTHON' &
import mmap
import os
import sys
import time

memory = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(memory), 4096):
    memory[at] = 1
open("/proc/self/comm", "w").write(sys.argv[1])
open("ready", "w").close()
while True:
    ended, end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(end)
        os.read(ended, 1)
        os._exit(0)
    for at in range(0, 16 << 20, 4096):
        memory[at] = 2
    time.sleep(0.5)
    os.close(end)
    os.waitpid(child, 0)
    os.close(ended)
    time.sleep(0.5)
PYTHON
parent=$!
trap 'kill $parent 2>/dev/null || true' EXIT
wait_for 20 test -e ready

passes --json explain "$name"
json parent="$parent" name="$name" 'd.summary.pid == $parent and d.summary.name == $name' \
	'd.summary.stop_ns | 0 < .low and .low <= .value and .value <= .high' 'd.summary.last_fork_ns == null' \
	'd.summary.fork.worst_case_bytes > 67108864' \
	'd.summary.advice | length > 2' \
	'd.summary.advice_sentence | test("(Each fork|The next fork of .*) stops")' \
	'd.summary.advice[0].forecast.Ok.stop_ns.value == d.summary.stop_ns.value' \
	'(d.summary.copies == null) == (d.missing | any(.metric == "copies"))'
[[ ! -e runs ]] || fail "$called: expected no run to be kept, saw: $(ls runs)"
if [[ $(jq '.summary.seen_forks' out) != null ]]; then
	json 'd.summary.seen_forks | 5 <= .forks and .forks <= 12 and .executed == 0 and .spawns == 0' \
		'd.summary.copies.copied_bytes / d.summary.seen_forks.forks | 15e6 < . and . < 21e6' \
		'd.summary.stop_ns | .source == "measured" and .value == d.summary.seen_forks.stop_ns' \
		'd.summary.copied_bytes | .source == "measured" and 15e6 < .value and .value < 21e6' \
		'd.summary.fork.expected_bytes - d.summary.copied_bytes.value - d.summary.fork.page_table_bytes | fabs < 1' \
		'd.summary.advice[0].forecast | tostring | contains("extra_bytes")'
fi
passes explain "$parent" --html page.html
for part in '<title>' explained 'What would help'; do says page.html "$part"; done
[[ ! -s page.html.unfinished ]]
if grep -q '^What it copies' out; then says page.html 'Pages copied, by code'; fi
says out "^• (Each fork stops $name for [0-9.]+ .s, as measured|The next fork of $name stops it for about), and copies"
if grep -q 'as measured' out; then
	! grep -q 'predicted' out || fail "$called: expected no prediction of what was measured, saw: $(<out)"
fi
for part in "^$name \\($parent\\), explained$" '^forks ' '^refused\?  no: ' '^What it copies$' '^What would help$'; do
	says out "$part"
done

[[ $(wc -l <out) -le 40 ]] || fail "$called: expected 40 lines at most, saw $(wc -l <out): $(<out)"

# Of one that ends meanwhile there is no next fork.
sleep 2 &
becomes $! sleep
passes explain $!
says out '^• sleep has ended\. A fork would have stopped it for'
says out 'Then it ended\.'
! grep -qE '^(refused|stop)' out || fail "$called: expected no next fork of what has ended, saw: $(<out)"

# For as long as is wished.
begin=$(date +%s)
passes --json explain "$parent" --duration-s 1
(($(date +%s) - begin < 8)) || fail "$called: expected some seconds, saw $(($(date +%s) - begin))"
if [[ $(jq '.summary.seen_forks' out) != null ]]; then
	json 'd.summary.seen_forks | 1 <= .duration_s and .duration_s < 4'
fi

# Workers that live on: their memory comes first, and of a stop nothing is said.
python3 - <<'PYTHON' &
import mmap
import os
import signal

memory = mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(memory), 4096):
    memory[at] = 1
pids = []
copied, copies = os.pipe()
for _ in range(2):
    pids.append(os.fork())
    if pids[-1] == 0:
        for at in range(0, 16 << 20, 4096):
            memory[at] = 2
        os.write(copies, b".")
        signal.pause()
signal.signal(signal.SIGTERM, lambda *_: ([os.kill(pid, 9) for pid in pids], os._exit(0)))
for _ in pids:
    os.read(copied, 1)
open("forked", "w").close()
signal.pause()
PYTHON
server=$!
trap 'kill $parent $server 2>/dev/null || true' EXIT
wait_for 20 test -e forked
passes explain "$server"
says out '^• 2 workers and their parent use [0-9.]+ MiB together; ps adds up to'
! grep -qE '^stop|stop at fork|A fork stops' out ||
	fail "$called: expected nothing of a stop, saw: $(<out)"
if ! grep -q 'How often it forks was not seen' out; then
	says out 'To see a fork, restart a worker'
	says out '^Freezing \(Python: gc.disable'
fi
kill $server

# One that forks all the time: how often, what each fork copied, and what its children do.
if [[ $(id -u) == 0 ]]; then
	for kind in write exec; do
		rm -f ready
		python3 "$REPOSITORY/tests/lib/fork_server.py" $kind &
		server=$!
		trap 'kill $parent $server 2>/dev/null || true' EXIT
		wait_for 10 test -e ready
		passes --json explain $server --duration-s 2
		kill $server
		wait $server || true # it was killed above
		json 'd.summary.application.forks_per_s > 2'
		case $kind in
		# Python itself writes some; the fork at the end of the 2 s may not have copied all of its 1,000 yet.
		write) json 'd.summary.application | .children == "serve" and
			.written >= 900 and .written < 1300' ;;
		exec) json 'd.summary.application | .children == "execute" and .written < 300' \
			'[d.summary.advice[].choice | objects | .dont_fork // empty] |
				any(test("^anonymous [0-9a-f]+-[0-9a-f]+$"))' ;;
		esac
	done
fi

# Without root: of one's own program, and what is not seen has a reason and a command.
if [[ $(id -u) == 0 ]] && command -v setpriv >/dev/null; then
	as_nobody
	"${as[@]}" sleep 100 &
	own=$!
	trap 'rm -rf "$place"; kill $parent $server $own 2>/dev/null || true' EXIT
	becomes "$own" sleep
	passes --json explain "$own"
	json 'd.summary.seen_forks == null and d.summary.copies == null and d.summary.sharing == null' \
		'd.missing | map(.metric) | index("seen_forks") != null and index("copies") != null' \
		'd.summary.stop_ns.value > 0'
	passes explain "$own"
	says out "as root: cowlab blame $own"
	refuses 1 "process $parent: .*run as root" explain "$parent"
fi
refuses 1 'no process is named nosuch' explain nosuch
refuses 2 'no folder no: make it first' explain "$parent" --html no/page.html
refuses 2 'TARGET' explain
