#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# explain --quick: whether a fork of a process would fail, what it costs, and what each choice would change, at once;
# of a stored machine profile, so that its figures are known.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# at_most N: lines on standard output.
at_most() {
	[[ $(wc -l <out) -le $1 ]] || fail "$called: expected at most $1 lines, saw $(wc -l <out): $(cat out)"
}

# A process of our own, by usual costs.
sleep 100 &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT
becomes "$pid" sleep
passes explain "$pid" --quick
at_most 30
says out "^• The next fork of sleep stops it for about [0-9.]+ .s \([0-9.]+ .s to [0-9.]+ .s\), as predicted, and copies( [0-9.]+|$)"
for row in 'refused\?  no: ' 'copies    not known; [0-9.]+ .*iB, a tenth, is assumed for prices; at most ' \
	'          cowlab footprint [0-9]+ --forks 1: how much' \
	'stop      [0-9.]+ .s \([0-9.]+ .s to [0-9.]+ .s\), predicted by usual costs' \
	'children  none now' 'do now    nothing: the stop is short'; do
	says out "^$row"
done
passes explain "$pid" --quick --tables
says out "The next fork of sleep \($pid\) will not be refused"
says out 'page tables, copied at fork'
says out 'MAP_HUGETLB'
! grep -q 'kernel policy' out || fail "$called: expected no other kernel's choices, saw: $(<out)"
passes --json explain "$pid" "$$" --quick
json own="$$" pid="$pid" 'd.summary.processes | map(.pid) == [$pid, $own]' 'd.summary | has("fork") | not'
# One that is not there keeps nobody else's answer back.
run explain nosuch "$pid" 99999999999 --quick
is_status 1
says out "^• The next fork of sleep "
says err '^cowlab: no process is named nosuch: '
says err '^cowlab: .*no process'
[[ $(wc -l <err) == 2 ]] || fail "$called: expected a line for each, saw: $(<err)"
run --json explain "$pid" nosuch --quick
is_status 1
json pid="$pid" 'd.summary.processes | map(.pid) == [$pid]' \
	'd.missing | any(.metric == "processes" and (.reason | contains("nosuch")))'
passes --json explain "$pid" --quick
json 'd.summary.stop_ns | .low < .value and .value < .high and .source == "usual"' \
	'd.summary.copied_bytes.source == "assumed"' \
	'd.summary.fork | .worst_case_bytes == .private_bytes + .page_table_bytes and .expected_bytes == null' \
	'd.summary.fork.private_bytes | 0 < . and . < 67108864' \
	'd.summary.fork.page_table_bytes > 0' \
	'd.summary.fork.findings | all((.level | . == "ok" or . == "warning" or . == "will_fail") and
		.what != "" and .why != "")' \
	'd.summary.fork.findings | map(select(.level != "ok")) | all(.what_to_do | . != null and . != "")' \
	'd.missing | map(.metric) | index("seen_forks") != null and index("copies") != null'
kill "$pid"
wait "$pid" || true # it was killed above
# It has gone.
refuses 1 "no process $pid" explain "$pid" --quick
refuses 1 "no process $pid" --json explain "$pid" --quick

# No pids.
refuses 1 'no process 0' explain 0
refuses 1 'no process is named -1' explain -1
refuses 1 'no process is named abc' explain abc
refuses 2 'by its pid or its name' explain ''
refuses 1 'no process' explain 99999999999
# A thread is not a process; a zombie and a kernel thread have no memory.
if [[ -d /proc/2 && $(cat /proc/2/comm) == kthreadd ]]; then
	refuses 1 'process 2 .*no memory of its own' explain 2
fi

# By the newest run of a calibration here: known prices.
mkdir -p runs/20260101T000000Z-calibrate
cp "$REPOSITORY/tests/fixtures/profile.json" runs/20260101T000000Z-calibrate/
profile=$REPOSITORY/tests/fixtures/profile.json
# It has 16 MiB, of which it writes a quarter beside a child.
writer=$REPOSITORY/tests/lib/writer.py
python3 "$writer" wait >pid &
waiting=$!
trap 'kill $waiting 2>/dev/null || true' EXIT
wait_for 10 test -s pid
passes --json explain "$(<pid)" --quick
json 'd.summary.advice_sentence | startswith("The next fork of python3")' \
	'd.summary.stop_ns.source == "calibrated"' \
	'd.summary.application.pages | 4096 <= . and . < 8192' \
	'd.summary.advice[0].choice == "as_it_is"' \
	'd.summary.advice[0].forecast.Ok.stop_ns.value == d.summary.stop_ns.value' \
	'[d.summary.advice[].choice] | includes(["as_it_is", "thp", "hugetlb", "freeze", "spawn"])' \
	'd.summary.advice | map(select(.forecast.Ok)) | length > 4 and
		all(.forecast.Ok[] | .low <= .value and .value <= .high)' \
	'd.summary.advice[] | select(.choice == "spawn").forecast.Ok.writes_ns.value == 0' \
	'd.missing | all(.reason != "")' \
	'[d.summary.advice[].choice | objects] | all(has("dont_fork") or has("policy") | not)'
# What tend would make of this heap is what tend itself says of it.
if [[ $(id -u) == 0 ]]; then
	now=$(jq '.summary.advice[0].forecast.Ok.stop_ns.value' out)
	after=$(jq '.summary.advice[] | select(.choice == "tend").forecast.Ok.stop_ns.value' out)
	# By its name, where nothing else has it.
	passes explain "$(<pid)" --quick --tables
	tr -s '\n ' ' ' <out >joined
	says joined "cowlab tend ($(<pid)|python3)"
	passes --json tend "$(<pid)" --dry-run --profile "$profile"
	json now="$now" after="$after" 'one("fork_ns"; {state: "now"}) / $now - 1 | fabs < 0.02' \
		'one("fork_ns"; {state: "after"}) / $after - 1 | fabs < 0.02'
	# It is not offered where it would be refused.
	python3 "$REPOSITORY/tests/lib/no_huge_pages.py" "$writer" wait >thpless &
	thpless=$!
	trap 'kill $waiting $thpless 2>/dev/null || true' EXIT
	wait_for 10 test -s thpless
	refuses 1 'switched huge pages off for itself' tend "$(<thpless)" --dry-run --profile "$profile"
	passes --json explain "$(<thpless)" --quick
	json 'd.summary.advice[] | select(.choice == "tend").forecast | has("Err")' \
		'd.missing | any(.metric == "forecast of tend" and
		(.reason | contains("switched huge pages off for itself")))'
	kill $thpless 2>/dev/null || true # it may have ended by itself
	wait $thpless || true # ends by the signal above
fi
kill $waiting
wait $waiting || true # it was killed above

# A server whose child lives: what that has copied is what is expected, and tend would wait for its end. A worker that
# forks nobody: the forks are its parent's.
python3 "$REPOSITORY/tests/lib/rewrites.py" &
parent=$!
trap 'kill $parent "$(<worker)" 2>/dev/null || true' EXIT
wait_for 10 test -s worker
passes --json explain "$(<worker)" --quick
says err "is a worker, and the forks are its parent's: this is python3.* \($parent\)"
json parent=$parent 'd.summary.pid == $parent' 'd.summary.children == 1' \
	'd.summary.copied_bytes | .source == "children" and .value >= 8192 * 4096' \
	'd.summary.fork | .expected_bytes == .page_table_bytes + d.summary.copied_bytes.value' \
	'd.summary.fork.findings | any(.what | contains("copies expected"))' \
	'd.summary.application | .written >= 8192 and .written < .pages' \
	'd.missing | any(.metric == "forecast of tend" and (.reason | test("shares? the memory of")))'
kill "$(<worker)"
wait "$parent"

# Redis: its last snapshot, its replicas, how it saves.
if command -v redis-server >/dev/null; then
	redis-server --port 0 --unixsocket "$PWD/socket" --dir "$PWD" --save '' --daemonize no >/dev/null &
	server=$!
	trap 'kill -9 $server 2>/dev/null || true' EXIT
	wait_for 10 test -S socket
	passes --json explain "unix://$PWD/socket" --quick
	json server="$server" \
		'd.summary.fork.findings | any(.what | contains("full synchronisation"))' \
		'd.summary.fork.sentence | contains("redis-server (\($server))")'
	# Before its first fork it has no figure of one, and afterwards its own.
	json 'd.summary.last_fork_ns == null' 'd.summary.stop_ns.source == "calibrated"'
	passes explain "unix://$PWD/socket" --quick
	! grep -qE 'last fork|also what the server' out || fail "$called: expected nothing of a last fork, saw: $(<out)"
	passes explain "$server" --quick
	says out "cowlab explain unix://$PWD/socket: also what the server measured"
	redis-cli -s socket bgsave >said
	own_us=$(redis-cli -s socket info stats | sed -n 's/^latest_fork_usec:\([0-9]*\).*/\1/p')
	passes --json explain "unix://$PWD/socket" --quick
	json own_us="$own_us" 'd.summary.last_fork_ns == $own_us * 1000 and $own_us > 0' \
		'd.summary.stop_ns | .source == "asked" and .value == $own_us * 1000' \
		'd.summary.advice[0].forecast.Ok.stop_ns.value == $own_us * 1000' \
		'd.summary.advice | any(.choice == {forkless: false} and
			(.step | contains("this is Redis")) and .forecast.Ok.stop_ns.value == 0)'
	passes explain "unix://$PWD/socket" --quick
	says out '^stop +[0-9.]+ .s at its last fork, as the server measured it \(latest_fork_usec\)'
	says out '^• Its last fork stopped redis-server for [0-9.]+ .s, as it measured itself'
	kill -9 $server
fi
refuses 1 'no Redis answers at unix:///nowhere' explain unix:///nowhere
# What makes no sense.
refuses 2 '--html takes one target' explain 1 2 --html page.html
refuses 2 "cannot be used with '--duration-s" explain 1 --quick --duration-s 1
refuses 2 '`cowlab explain 1 --quick` has the choices' advise 1
