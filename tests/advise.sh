#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# advise: of a stored machine profile, so that its figures are known; of a footprint made here; and
# tried. doctor: the copies expected.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

profile=$REPOSITORY/tests/fixtures/profile.json

# It has 16 MiB, of which it writes a quarter beside a child.
writer=$REPOSITORY/tests/lib/writer.py

# Of a live process: a share of its memory that is said to be written.
python3 "$writer" wait >pid &
waiting=$!
trap 'kill $waiting 2>/dev/null || true' EXIT
for _ in {1..100}; do [[ ! -s pid ]] || break; sleep 0.1; done
passes --json advise "$(<pid)" --write-fraction 0.25 --profile "$profile"
json 'd.summary.sentence | startswith("A fork stops python3")' \
	'd.summary.application.pages | 4096 <= . and . < 8192' \
	'd.summary.advice[0].choice == "as_it_is"' \
	'rows | distinct("choice") | includes(["as-it-is", "thp", "hugetlb", "freeze", "posix-spawn"])' \
	'all(rows | distinct("choice")[]; {choice: .} as $choice | all("stop_ns", "writes_ns", "extra_bytes";
		[one(.; $choice + {figure: ("low", "predicted", "high")})] | ordered))' \
	'one("writes_ns"; {choice: "posix-spawn", figure: "predicted"}) == 0' \
	'd.missing | all(.reason != "")' \
	'rows | distinct("choice") | all(startswith("dontfork:") | not)'
# What tend would make of this heap is what tend itself says of it.
if [[ $(id -u) == 0 ]]; then
	passes --json advise "$(<pid)" --profile "$profile"
	# By its name, where nothing else has it.
	says out "cowlab tend ($(<pid)|python3) --dry-run, then keep cowlab tend ($(<pid)|python3) running"
	stops() { jq "[.samples[] | select(.metric == \"stop_ns\" and .params == $1).value][0]" out; }
	now=$(stops '{"choice": "as-it-is", "figure": "predicted"}')
	after=$(stops '{"choice": "tend", "figure": "predicted"}')
	passes --json tend "$(<pid)" --dry-run --profile "$profile"
	json now="$now" after="$after" 'one("fork_ns"; {state: "now"}) / $now - 1 | fabs < 0.02' \
		'one("fork_ns"; {state: "after"}) / $after - 1 | fabs < 0.02'
	# It is not offered where it would be refused.
	python3 "$REPOSITORY/tests/lib/no_huge_pages.py" "$writer" wait >thpless &
	thpless=$!
	trap 'kill $waiting $thpless 2>/dev/null || true' EXIT
	for _ in {1..100}; do [[ ! -s thpless ]] || break; sleep 0.1; done
	refuses 1 'switched huge pages off for itself' tend "$(<thpless)" --dry-run --profile "$profile"
	passes --json advise "$(<thpless)" --profile "$profile"
	json 'pick({choice: "tend"}) == []' 'd.missing | any(.metric == "forecast of tend" and
		(.reason | contains("switched huge pages off for itself")))'
	kill $thpless 2>/dev/null || true # it may have ended by itself
	wait $thpless || true # ends by the signal above
fi
# With another running thread the writes are dearer, and letting it sleep is a choice.
passes --json advise "$(<pid)" --write-fraction 0.25 --threads 1 --profile "$profile"
json 'one("writes_ns"; {choice: "fewer-threads", figure: "predicted"})
	< one("writes_ns"; {choice: "as-it-is", figure: "predicted"})'
passes doctor "$(<pid)"
says out 'The next fork of python3 .* will not be refused'
passes --json advise "$(<pid)" --profile "$profile" --verify --rounds 2 --output of_pid
json 'values("copied_bytes"; {choice: "posix-spawn"}) == [] # what a spawned child writes is not counted' \
	'values("stop_ns"; {choice: "posix-spawn", figure: "measured"}) | length == 2'
kill $waiting
wait $waiting || true # it was killed above

# A server whose child lives: what that has copied is what is written, and tend would wait for its end.
python3 "$REPOSITORY/tests/lib/rewrites.py" &
parent=$!
trap 'kill $parent "$(<worker)" 2>/dev/null || true' EXIT
for _ in {1..100}; do [[ ! -s worker ]] || break; sleep 0.1; done
passes --json advise "$parent" --profile "$profile"
json 'd.summary.application | .written >= 8192 and .written < .pages' \
	'd.missing | any(.metric == "forecast of tend" and (.reason | contains("share the memory")))'
kill "$(<worker)"
wait "$parent"

# Of a footprint.
run footprint --output runs --method exclusive -- python3 "$writer"
is_status 0
footprint=$(only_run runs)
passes --json advise "$footprint" --profile "$profile" --program python3
json 'd.summary.application.written | 1024 <= . and . < 1400' \
	'd.summary.application.pages > 4096' \
	'd.summary.application.regions | length > 0' \
	'one("stop_ns"; {choice: "tend", figure: "predicted"}) > 0' \
	'one("writes_ns"; {choice: "policy:ccow:80", figure: "predicted"}) > 0' \
	'all("as-it-is", "policy:defer"; one("stop_ns"; {choice: ., figure: "predicted"}) > 0)' \
	'one("stop_ns"; {choice: "policy:defer", figure: "high"}) < one("stop_ns"; {choice: "as-it-is", figure: "low"})' \
	'one("writes_ns"; {choice: "policy:defer", figure: "predicted"})
		> one("writes_ns"; {choice: "as-it-is", figure: "predicted"})' \
	'rows | distinct("choice") | all(startswith("dontfork:") | not) # its child would be killed' \
	'pick({choice: "posix-spawn"}) == []'
passes advise "$footprint" --profile "$profile"
says out 'A fork stops python3 for'
says out 'runs beside it'
(($(wc -l <out) <= 22)) || fail "expected one screen, saw $(wc -l <out) lines: $(<out)"
says out "cowlab advise $footprint --tables"
# Several: each has its answer, and one that has none keeps nobody else's back.
run advise "$footprint" nosuch "$footprint" --profile "$profile"
is_status 1
[[ $(grep -c '^• A fork stops python3 for' out) == 2 ]] || fail "$called: expected two answers, saw: $(<out)"
says err '^cowlab: no process is named nosuch: '
passes advise "$footprint" --profile "$profile" --tables
says out 'MAP_HUGETLB'
says out 'the kernel policy defer: what a patched kernel would do'

# predict of the same.
passes --json predict "$footprint" --profile "$profile" --page-size-bytes 4096,2MiB
json 'values("fork_ns"; {policy: "stock"}) | length == 2' 'values("fork_ns"; {policy: "defer"}) | length == 1' \
	'rows[0].params | (.write_fraction | tonumber) * (.pages | tonumber) | 1024 <= . and . < 1400'
refuses 2 'cannot be used with' predict "$footprint" --size-bytes 20KiB --profile "$profile"

# Tried: the figures are measured here, so only counts are asserted.
passes --json advise "$footprint" --output tried --profile "$profile" --verify --rounds 2
json 'values("stop_ns"; {choice: "as-it-is", figure: "measured"}) | length == 2' \
	'(d.summary.application.written * 4096) as $expected |
		values("copied_bytes"; {choice: "as-it-is", figure: "measured"}) |
		all(0.98 * $expected <= . and . <= 1.15 * $expected)' \
	'd.missing | map(.metric) | includes(["trial of posix-spawn", "trial of hugetlb"])' \
	'd.run.name == "advise"'
says "$(only_run tried)/report.html" 'What a fork costs python3'
no_probes_left

# doctor knows what to expect of a process whose footprint it has.
python3 "$writer" wait >again &
waiting=$!
for _ in {1..100}; do [[ ! -s again ]] || break; sleep 0.1; done
passes --json doctor "$(<again)" --footprint "$footprint"
json 'd.summary.fork | 1024 * 4096 <= .expected_bytes and .expected_bytes <= .worst_case_bytes' \
	'd.summary.fork.findings | any(.what | contains("copies expected"))' \
	'd.summary.fork.sentence != ""'
kill $waiting
wait $waiting || true # it was killed above

# One that forks all the time: how often, what each fork copied, and what its children do.
if [[ $(id -u) == 0 ]]; then
	for kind in write exec; do
		rm -f ready
		python3 "$REPOSITORY/tests/lib/fork_server.py" $kind &
		server=$!
		trap 'kill $server 2>/dev/null || true' EXIT
		comes 10 test -e ready
		passes --json advise $server --profile "$profile"
		kill $server
		wait $server || true # it was killed above
		json 'd.summary.application.forks_per_s > 2' \
			'one("forks_per_s"; {choice: "thp", figure: "predicted"})
				> one("forks_per_s"; {choice: "as-it-is", figure: "predicted"})'
		case $kind in
		# Python itself writes some.
		write) json 'd.summary.application | .children == "serve" and
			.written >= 1000 and .written < 1300' ;;
		exec) json 'd.summary.application | .children == "execute" and .written < 300' \
			'rows | distinct("choice") | any(test("^dontfork:anonymous [0-9a-f]+-[0-9a-f]+$"))' ;;
		esac
	done
fi

# Redis: its last snapshot, its replicas, how it saves.
if command -v redis-server >/dev/null; then
	redis-server --port 0 --unixsocket "$PWD/socket" --dir "$PWD" --save '' --daemonize no >/dev/null &
	server=$!
	trap 'kill -9 $server 2>/dev/null || true' EXIT
	for _ in {1..100}; do [[ ! -S socket ]] || break; sleep 0.1; done
	passes --json doctor --redis "unix://$PWD/socket"
	json server="$server" \
		'd.summary.fork.findings | any(.what | contains("full synchronisation"))' \
		'd.summary.fork.sentence | contains("redis-server (\($server))")'
	# Before its first fork it has no figure of one, and afterwards its own.
	json 'd.summary | has("last_fork_ns") | not'
	passes doctor --redis "unix://$PWD/socket"
	! grep -qE 'last fork|--redis' out || fail "$called: expected nothing of a last fork, saw: $(<out)"
	passes doctor "$server"
	says out "unix://$PWD/socket"
	redis-cli -s socket bgsave >said
	own_us=$(redis-cli -s socket info stats | sed -n 's/^latest_fork_usec:\([0-9]*\).*/\1/p')
	passes --json doctor --redis "unix://$PWD/socket"
	json own_us="$own_us" 'd.summary.last_fork_ns == $own_us * 1000 and $own_us > 0'
	passes doctor --redis "unix://$PWD/socket"
	says out '^ +[0-9.]+ .s at its last fork, as the server measured it \(latest_fork_usec\)'
	passes advise "$server" --profile "$profile" --tables
	says out "unix://$PWD/socket"
	passes explain "unix://$PWD/socket"
	says out '^• Its last fork stopped redis-server for [0-9.]+ .s, as it measured itself'
	passes --json advise "unix://$PWD/socket" --profile "$profile"
	json 'd.summary.advice | any(.choice == {forkless: false} and
		(.step | contains("this is Redis")) and .forecast.Ok.stop_ns.value == 0)'
	kill -9 $server
fi
refuses 1 'no Redis answers at unix:///nowhere' doctor --redis unix:///nowhere
refuses 1 'no Redis answers at unix:///nowhere' advise unix:///nowhere --profile "$profile"

# What makes no sense.
refuses 2 'RUN' advise --profile "$profile"
refuses 2 '--json takes one target: run advise once for each' --json advise "$footprint" 1 --profile "$profile"
refuses 2 '--verify takes one target' advise "$footprint" 1 --verify --profile "$profile"
refuses 1 'no process 0' advise 0 --profile "$profile"
refuses 1 'there is no ./nowhere: runs are below' advise ./nowhere --profile "$profile"
refuses 1 'holds no footprint' advise "$(only_run tried)" --profile "$profile"
refuses 1 'no program vi: it has' advise "$footprint" --program vi --profile "$profile"
refuses 1 'machine profile' advise "$footprint" --profile empty
sed 's/"page_size_bytes": 4096/"page_size_bytes": 16384/' "$profile" >large.json
refuses 1 'same base page' advise "$footprint" --profile large.json
