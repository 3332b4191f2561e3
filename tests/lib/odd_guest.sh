#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# odd_guest.sh FOLDER: in a guest, as root. `watch` beside pids that are used again, CPUs that come and go,
# a clock that is set, and a pause of the whole guest once FOLDER/pause is there; its lines go to FOLDER/frames, what it says to FOLDER/err.
set -euo pipefail

: "${COWLAB:?is the program under test}" "${REPOSITORY:?is the folder with tests/lib}"
cd "$1"
echo 400 >/proc/sys/kernel/pid_max
coproc python3 "$REPOSITORY/tests/lib/forker.py"
# shellcheck disable=SC2153 # Bash sets it.
forker=$COPROC_PID
exec 5>&"${COPROC[1]}" 6<&"${COPROC[0]}"
read -r -u 6 _
tell() {
	echo "$1" >&5
	read -r -u 6 _
}
# More processes than there are pids.
wrap() {
	for _ in {1..500}; do (:); done
}

"$COWLAB" watch "$forker" --json --interval-s 0.5 >frames 2>err &
watch=$!
# watch counts forks from its first frame on, which comes late on a busy machine.
began=$SECONDS
until [[ -s frames ]]; do
	((SECONDS - began < 120)) || { echo "no frame within 120 s" >&2; exit 1; }
	sleep 0.1
done
echo "first frame after $((SECONDS - began)) s" >&2
for _ in {1..3}; do
	wrap
	tell fork
done
echo 0 >/sys/devices/system/cpu/cpu1/online
tell fork
wrap
echo 1 >/sys/devices/system/cpu/cpu1/online
tell fork
for step in '+1 hour' '-2 hours' '+1 hour'; do
	date -s "$(date -d "$step")" >/dev/null
	tell fork
	sleep 1
done
tell fork
touch pause
# It stands still within this.
sleep 5
tell fork
tell none
sleep 1
kill "$forker"
wait "$watch"
