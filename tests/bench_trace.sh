#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench trace: every tool that is there gives its figures, what is not there gives a reason, and
# nothing is left running.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

small=(--set events=16000 --set buffer_bytes=64KiB --rounds 2)

# The floor, alone.
passes --json bench trace --tool floor --threads 1,2 "${small[@]}" --output runs
json 'd.missing == [] and d.run.name == "bench-trace"' \
	'values("event_ns"; {tool: "floor"}) | length == 2 * 2' \
	'rows | distinct("rep") == [0, 1]' \
	'values("event_ns") | all(. > 0)' \
	'rows | all(.unit == "ns")' \
	'pick({metric: "event_batch_ns"}) | all(.params.batch_events == "8000")'
folder=$(only_run runs)
for file in run.json samples.parquet tables/trace.csv; do
	[[ -s $folder/$file ]] || fail "expected $file in the run, saw: $(ls -R "$folder")"
done

# libcasper, linked both ways: recorded, with nobody recording, and calls without the plain ones.
passes --json bench trace --tool casper,casper-finstrument --threads 1,2 "${small[@]}"
variants='cells(["tool", "variant", "threads"])'
json 'd.missing == []' \
	"$variants"' | map([.params.tool, .params.variant]) | same([["casper", "static"], ["casper", "shared"],
		["casper-finstrument", "static"], ["casper-finstrument", "shared"]])' \
	"$variants"' | map(select(.params.tool == "casper")) |
		all(keys | includes(["event_ns", "event_off_ns", "call_leaf_off_ns"])) and
		(group_by(.params.variant) | all((map(.event_off_ns) | min) < (map(.event_ns) | min)))' \
	"$variants"' | all(keys | includes(["call_leaf_ns", "call_nested_ns", "call_nested_off_ns"]))' \
	"$variants"' | all(. as $c | ["leaf", "nested"] | all(
		$c["call_\(.)_raw_ns"] - $c["call_\(.)_plain_ns"] - $c["call_\(.)_ns"] | fabs < 1e-6))'

# Peers that are not there: a reason that says what helps, never a row and never a failure.
mkdir empty
status=0
PATH=$PWD/empty "$COWLAB" --json bench trace --tool floor,lttng-ust,uftrace --threads 1 "${small[@]}" \
	>out 2>err </dev/null || status=$?
called="cowlab bench trace without peers"
is_status 0
json 'd.missing | distinct("metric") == ["trace: lttng-ust", "trace: uftrace"]' \
	'd.missing | all(.reason | contains("not installed") and contains("make bench-trace"))' \
	'rows | distinct("tool") == ["floor"]'
PATH=$PWD/empty "$COWLAB" bench trace --tool floor,uftrace --threads 1 "${small[@]}" \
	>out 2>err </dev/null || fail "expected a table, saw: $(seen)"
says out 'an event +floor'
says out 'not available: trace: uftrace: uftrace is not installed'

# Peers that are there. Everything that was made is found in what they stored.
daemons() {
	ps -eo pid=,comm= | awk '$2 ~ /^lttng-/ { print $1 }' | sort
}
before=$(daemons)
# `command -v` is content with one of several.
if command -v lttng >/dev/null && command -v uftrace >/dev/null &&
	command -v babeltrace2 >/dev/null && command -v cc >/dev/null; then
	passes --json bench trace --tool lttng-ust,uftrace --threads 1,2 "${small[@]}"
	json 'd.missing == []' \
		'cells(["tool", "variant"]) | map([.params.tool, .params.variant]) | same([["lttng-ust", "overwrite"],
			["lttng-ust", "discard"], ["uftrace", "pg"], ["uftrace", "finstrument"]])' \
		'rows | all(.params.version != null and .params.version != "")' \
		'values("event_ns"; {tool: "lttng-ust"}) | length == 2 * 2 * 2' \
		'values("lost_events") | length == 8 and all(. == 0)' \
		'values("missing_events") == [0, 0]' \
		'values("call_leaf_ns"; {tool: "uftrace"}) | length == 2 * 2 * 2' \
		'values("call_leaf_raw_ns") | all(. > 0)'
	# Ctrl-C while LTTng records: it must not wait for what the killed program will never write.
	"$COWLAB" bench trace --tool lttng-ust --rounds 100 --output interrupted >out 2>err </dev/null &
	pid=$!
	called='interrupted cowlab bench trace'
	sleep 4
	kill -INT $pid
	status=0
	wait $pid || status=$?
	is_status 130
	nothing_kept interrupted
else
	echo "the peers are not installed (make bench-trace): their own figures were not tested"
fi
daemons_are_as_before() { [[ $(daemons) == "$before" ]]; }
comes 5 daemons_are_as_before
! compgen -G '/dev/shm/cowlab-trace-*' >/dev/null || fail "left: $(ls -d /dev/shm/cowlab-trace-*)"
no_probes_left

refuses 2 'unknown tool .strace.: choose one of floor' bench trace --tool strace
refuses 2 'buffer_bytes must be a power of two' bench trace --set buffer_bytes=100000
refuses 2 'threads' bench trace --threads 0
