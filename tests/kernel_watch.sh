#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# watch in a guest where pids are used again, a CPU goes and comes back, the clock is set, and all of which stands
# still for 20 s.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ -n ${COWLAB_TEST_LONG:-} ]] || skip "in make test-hostile-long: two minutes in a guest"
export COWLAB_KERNEL=$REPOSITORY/kernel
mkdir shared
python3 "$REPOSITORY/tests/lib/pause_guest.py" qmp shared/pause 20 2>pause.err &
pause=$!
trap 'kill "$pause" 2>/dev/null || true' EXIT
run kernel boot --variant plain --qemu-argument=-qmp --qemu-argument="unix:$PWD/qmp,server=on,wait=off" --guest cpus=2,memory=1GiB,time_limit_s=420 --share "$PWD/shared" -- \
	env COWLAB="$COWLAB" REPOSITORY="$REPOSITORY" "$REPOSITORY/tests/lib/odd_guest.sh" "$PWD/shared"
is_status 0
wait "$pause" || fail "the guest was not paused: $(<pause.err)"
! grep -q 'not available: forks' shared/err || fail "no forks are seen in the guest: $(<shared/err)"
called='cowlab watch in a guest'
# What a failure has to be understood by.
tail -n 1 shared/frames | jq -c '.summary | {own, processes: [.processes[] | {ended, totals}]}'
# A busy host's time uses up watch's budget. It then counts forks and does not follow the children: their ends
# are missing from exits, and each of these was an unread event.
holds shared/frames 'latest.ended' 'latest.totals.forks == 10' \
	'(frames | last.own.unread_events) as $unread |
		latest.totals.exits | . <= 10 and 10 - . <= $unread' \
	'frames | last.own | .lost_events == 0 and .lost_processes == 0' \
	'all(frames[].processes[]; .minor_faults_per_s == null or .minor_faults_per_s >= 0)' \
	'frames | all(.interval_ns < 60e9)' \
	'frames | last.own.rss_bytes < 50e6'
