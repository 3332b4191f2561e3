#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tend: dense memory becomes huge pages and its bytes stay as they are; sparse memory, and memory that a
# child shares, is left alone; a tender that is killed leaves nothing; each refusal is one sentence.
#
# alone: what it takes of a CPU is compared with its budget.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

huge=/sys/kernel/mm/transparent_hugepage
[[ -d $huge ]] || skip "needs transparent huge pages"
[[ $(id -u) == 0 ]] || skip "needs root"
profile=$REPOSITORY/tests/fixtures/profile.json

# shellcheck source=tests/tend/target.sh
. "$REPOSITORY/tests/tend/target.sh"

# Pages of the target in huge pages, in MiB.
huge_mib() {
	awk '$1 == "AnonHugePages:" { print int($2 / 1024) }' "/proc/$target/smaps_rollup"
}

# What is wrong with the call.
refuses 2 TARGET tend
refuses 2 'not in 0\.001\.\.1' tend 1 --set cpu_share=2
refuses 1 'there is no process' tend 999999999 --once
refuses 1 'no process is called' tend no-such-name --once
refuses 1 'cannot read the machine profile' tend 1 --once --profile /nonexistent
refuses 1 'has no memory of its own' tend 2 --once

# What would be done; nothing is.
target 64
tell remap remapped
before=$(huge_mib)
passes --json tend "$target" --dry-run --profile "$profile"
json 'one("candidate_regions") >= 28' \
	'one("fork_ns"; {state: "after"}) < one("fork_ns"; {state: "now"})' \
	'["fork_low_ns", "fork_ns", "fork_high_ns"] | map(one(.; {state: "now"})) | ordered' \
	'd.summary[0].plan.filled_pages <= 8 * one("candidate_regions")'
[[ $(huge_mib) == "$before" ]] || fail "a dry run changed something"
passes tend "$target" --dry-run
says out 'by usual costs'
says out 'the same after tending'

# Done, and once more there is next to nothing to do (Python itself maps and unmaps memory).
passes --json tend "$target" --once --set cpu_share=1 --budget-us 1000000 --profile "$profile"
(($(huge_mib) >= before + 56)) || fail "expected huge pages, saw $(huge_mib) MiB of $before"
tell check whole
grep -q '"event":"done"' out || fail "expected an event 'done', saw: $(seen)"
holds out '$documents | all(keys | includes(["format", "samples", "summary", "missing"]))' \
	'$documents | last.summary | .event == "ended" and .collapsed_regions >= 28' \
	'$documents | last.samples | distinct("metric") | includes(["collapsed_regions", "stall_ns"])'
passes --json tend "$target" --dry-run --profile "$profile"
json 'one("candidate_regions") <= 2' 'one("huge_regions") >= 28'

# Sparse memory stays sparse.
tell sparse sparse
rss=$(awk '$1 == "Rss:" { print $2 }' "/proc/$target/smaps_rollup")
passes tend "$target" --once --set cpu_share=1 --budget-us 1000000
now=$(awk '$1 == "Rss:" { print $2 }' "/proc/$target/smaps_rollup")
((now <= rss + 1024)) || fail "memory grew from $rss to $now KiB"
ends

# Memory that goes between the look and its turn is passed over, and is no lack of huge pages. Each
# collapse is paid for in time, so that most are still to come.
target 64
tell remap remapped
"$COWLAB" --json tend "$target" --once --set cpu_share=0.05 --budget-us 1000000 >out 2>err </dev/null &
tend=$!
started+=("$tend")
wait_for 5 grep -q '"event":"surveyed"' out
tell unmap unmapped
status=0
wait "$tend" || status=$?
called="tend of memory that is unmapped meanwhile"
is_status 0
holds out '$documents | last.summary | .failed_regions.unmapped >= 8 and .collapsed_regions >= 12' \
	'$documents | last.summary.rests | has("no_huge_page") | not'
ends

# Whoever comes second is told.
target 16
"$COWLAB" --json tend "$target" >out 2>err </dev/null &
tend=$!
started+=("$tend")
wait_for 5 grep -q '"event":"surveyed"' out
passes tend "$target" --dry-run --once
says err "process $target is tended already"
kill -INT "$tend"
wait "$tend" || :
ends

# While a child shares the memory nothing is done; afterwards it is.
target 32
tell remap remapped
tell hold held
before=$(huge_mib)
# How long a collapse takes is the machine's, and five long ones in a row end in a rest of 10 s.
"$COWLAB" tend "$target" --set cpu_share=1 --budget-us 1000000 --listen 127.0.0.1:0 \
	>out 2>err </dev/null &
tend=$!
started+=("$tend")
sleep 1.5
[[ $(huge_mib) == "$before" ]] || fail "memory that a child shares was collapsed"
# With no more rights than it needs.
awk '$1 == "CapEff:" { exit $2 != "0000000000880004" }' "/proc/$tend/status" ||
	fail "expected three capabilities, saw $(grep CapEff "/proc/$tend/status")"
tell release released
has_grown() { (($(huge_mib) >= before + 24)); }
wait_for 10 has_grown # after the child has ended
tell fork forked
tell check whole
port=$(sed -n 's,.*http://127.0.0.1:\([0-9]*\)/metrics.*,\1,p' err)
python3 "$REPOSITORY/tests/lib/scrape.py" "http://127.0.0.1:$port/metrics" >served
# Who is connected and says nothing does not hold up the end.
exec 9<>"/dev/tcp/127.0.0.1/$port"
SECONDS=0
kill -TERM "$tend"
status=0
wait "$tend" || status=$?
is_status 0
((SECONDS <= 3)) || fail "the end took $SECONDS s"
exec 9<&-
says out 'told to end: [0-9]+ regions were collapsed'
says served '^cowlab_tend_collapsed_regions_total\{process="python3[^"]*"\} [1-9]'
says served '^cowlab_tend_forks_total\{process="python3'

# Its lines end with their reader, and it with them.
SECONDS=0
status=0
timeout 20 "$COWLAB" tend "$target" --json --set interval_s=1 2>err | head -n 1 >out || status=$?
called="tend --json | head"
is_status 0
((SECONDS <= 10)) || fail "tend went on for $SECONDS s without a reader"
says out '"event"'
# The target ends: that is said, and the tender ends as well.
"$COWLAB" tend "$target" >out 2>err </dev/null &
tend=$!
started+=("$tend")
sleep 0.5
ends
status=0
wait "$tend" || status=$?
is_status 0
says out 'it has ended'

# Killed at random moments, under it all: the bytes are the same, and nobody of it is left.
COWLAB=$COWLAB REPOSITORY=$REPOSITORY "$REPOSITORY/tests/tend/kills" 6 || fail "see above"

# Refusals. Not as root: which capability.
target 8
status=0
setpriv --reuid=nobody --regid=nogroup --clear-groups "$COWLAB" tend "$target" --once >out 2>err </dev/null || status=$?
called="tend as nobody"
is_status 1
says err 'needs CAP_SYS_PTRACE|may not be read.*CAP_SYS_PTRACE'
status=0
setpriv --bounding-set=-sys_nice "$COWLAB" tend "$target" --once >out 2>err </dev/null || status=$?
called="tend without CAP_SYS_NICE"
is_status 1
says err 'needs CAP_SYS_NICE'
# The program itself has switched them off.
tell nothp nothp
refuses 1 'switched huge pages off for itself \(PR_SET_THP_DISABLE\)' tend "$target" --once
ends
# The system has: as a program sees it whose /sys says so.
sed 's/\[//; s/\]//; s/never/[never]/' "$huge/enabled" >never
echo 'always [inherit] madvise never' >inherit
target 8
status=0
unshare --mount bash -c '
	mount --bind never "$1/enabled" && shift &&
	for size in /sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled; do
		[[ ! -e $size ]] || mount --bind inherit "$size"; done
	exec "$@"' - "$huge" "$COWLAB" tend "$target" --once >out 2>err </dev/null || status=$?
called="tend with THP never"
is_status 1
says err 'enabled is `never`.*write `madvise`'
ends
