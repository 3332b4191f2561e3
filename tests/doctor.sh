#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# doctor: what this machine can measure, and whether a fork of a process would fail.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# at_most N: lines on standard output.
at_most() {
	[[ $(wc -l <out) -le $1 ]] || fail "$called: expected at most $1 lines, saw $(wc -l <out): $(cat out)"
}

# An answer of one screen; each thing that was looked at on demand.
passes doctor
at_most 25
says out 'huge pages from outside'
says out '--tables lists each'
passes doctor --tables
says out 'TLB flush of'
passes --json doctor
json page="$(getconf PAGESIZE)" 'd.format == 1 and rows == [] and (d | has("run") | not)' \
	'd.summary.capabilities | length > 5' \
	'd.summary.capabilities | all(.available or (.needs | . != null and . != ""))' \
	'(d.missing | map(.metric)) == (d.summary.capabilities | map(select(.available | not) | .name))' \
	'd.missing | all(.reason != "")' \
	'd.summary | has("fork") | not' \
	'd.summary.facts.page_size_bytes == $page'
[[ ! -s err ]] || fail "$called: expected nothing on standard error, saw: $(seen)"

# A process of our own.
sleep 100 &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT
becomes "$pid" sleep
passes doctor "$pid"
at_most 16
says out "^• The next fork of sleep \($pid\) "
for row in 'refused\?  no: ' 'copies    at most ' '          cowlab footprint [0-9]+ --forks 1: how much' 'stop      [0-9.]+ .s \([0-9.]+ .s to [0-9.]+ .s\)' \
	'children  none now' 'do now    nothing: the stop is short'; do
	says out "^$row"
done
passes doctor "$pid" --tables
says out "Would a fork of process $pid fail\?"
says out 'page tables, copied at fork'
passes --json doctor "$pid" "$$"
json own="$$" pid="$pid" 'd.summary.processes | map(.pid) == [$pid, $own]' 'd.summary | has("fork") | not'
# One that is not there keeps nobody else's answer back.
run doctor nosuch "$pid" 99999999999
is_status 1
says out "^• The next fork of sleep \\($pid\\) "
says err '^cowlab: no process is named nosuch: '
says err '^cowlab: .*no process'
[[ $(wc -l <err) == 2 ]] || fail "$called: expected a line for each, saw: $(<err)"
run --json doctor "$pid" nosuch
is_status 1
json pid="$pid" 'd.summary.processes | map(.pid) == [$pid]' \
	'd.missing | any(.metric == "processes" and (.reason | contains("nosuch")))'
passes --json doctor "$pid"
json 'd.summary.stop_ns | .low < .value and .value < .high and (.is_calibrated | not)' \
	'd.summary.fork | .worst_case_bytes == .private_bytes + .page_table_bytes' \
	'd.summary.fork.private_bytes | 0 < . and . < 67108864' \
	'd.summary.fork.page_table_bytes > 0' \
	'd.summary.fork.findings | all((.level | . == "ok" or . == "warning" or . == "will_fail") and
		.what != "" and .why != "")' \
	'd.summary.fork.findings | map(select(.level != "ok")) | all(.what_to_do | . != null and . != "")'
kill "$pid"
wait "$pid" || true # it was killed above
# A worker that forks nobody: the forks are its parent's.
python3 "$REPOSITORY/tests/lib/rewrites.py" &
parent=$!
trap 'kill $parent "$(<worker)" 2>/dev/null || true' EXIT
for _ in {1..100}; do [[ ! -s worker ]] || break; sleep 0.1; done
passes doctor "$(<worker)"
says out "is a worker of python3.* \($parent\) and forks nobody: cowlab doctor $parent"
kill "$(<worker)"
wait "$parent"

# It has gone.
refuses 1 "no process $pid" doctor "$pid"
refuses 1 "no process $pid" --json doctor "$pid"

# No pids.
refuses 1 'no process 0' doctor 0
refuses 1 'no process is named -1' doctor -1
refuses 1 'no process is named abc' doctor abc
refuses 2 'by its pid or its name' doctor ''
refuses 1 'no process' doctor 99999999999
# A thread is not a process; a zombie and a kernel thread have no memory.
if [[ -d /proc/2 && $(cat /proc/2/comm) == kthreadd ]]; then
	refuses 1 'process 2 .*no memory of its own' doctor 2
fi
