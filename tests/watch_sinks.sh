#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# watch: each of its sinks fails alone. A full disk ends the recording of frames, and neither the metrics
# nor the watch; with room again it goes on. A reader that stops reading stops neither the metrics nor the end.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ $(id -u) == 0 ]] || skip "needs root, for a small file system"

started=()
trap 'for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	umount -l disk 2>/dev/null || true' EXIT
sleep 300 &
target=$!
started+=("$target")
becomes "$target" sleep

# start FLAG...: a watch that serves metrics, at $url; its pid in $watch.
start() {
	"$COWLAB" watch "$target" --listen 127.0.0.1:0 --interval-s 0.1 "$@" 2>err </dev/null &
	watch=$!
	started+=("$watch")
	comes 30 grep -q 'metrics at' err
	url=$(grep -o 'http://[^ ]*' err)
}
# metric NAME: its value.
metric() {
	curl -fsS --max-time 10 "$url" | sed -n "s/^$1 //p"
}
# is_above NAME VALUE
is_above() {
	awk -v is="$(metric "$1")" -v than="$2" 'BEGIN { exit !(is > than) }'
}
has_lines() {
	(($(wc -l <"$1") >= $2))
}
# ends: SIGTERM ends it within 2 s; its exit status in $status.
ends() {
	status=0
	kill "$watch"
	timeout 2 tail -s 0.1 --pid="$watch" -f /dev/null || fail "SIGTERM did not end it in 2 s: $(cat err)"
	wait "$watch" || status=$?
}

# A disk that fills up, and has room again.
mkdir disk
mount -t tmpfs -o size=256k,mode=700 none disk
start --output disk/recorded
comes 30 has_lines disk/recorded 2
cat /dev/zero >disk/filler 2>/dev/null || true # until it is full
comes 30 grep -q 'cannot write disk/recorded (is the disk full?)' err
comes 30 is_above cowlab_watch_unrecorded_frames_total 3
[[ $(grep -c 'cannot write' err) == 1 ]] || fail "it is said once, and not: $(cat err)"
rm disk/filler
lines=$(wc -l <disk/recorded)
comes 30 has_lines disk/recorded $((lines + 3))
ends
[[ $status == 1 ]] || fail "frames are missing, and it ended with $status"
says err 'frames could not be written to disk/recorded'

# The next one goes on with what is whole.
lines=$(wc -l <disk/recorded)
head -n 1 disk/recorded | head -c 100 >>disk/recorded
passes watch "$target" --interval-s 0.1 --refreshes 2 --plain --output disk/recorded
has_lines disk/recorded $((lines + 2)) || fail "expected 2 lines more than $lines"
passes watch --replay disk/recorded --json
cp disk/recorded foreign
chmod 644 foreign
refuses 1 'is not a recording of yours' watch "$target" --output foreign

# A reader that never reads.
mkfifo full
exec 8<>full
dd if=/dev/zero of=full bs=4096 count=64 oflag=nonblock 2>/dev/null || true # until it is full
start --json >&8
comes 30 is_above cowlab_watch_skipped_frames_total 2
before=$(metric cowlab_watch_refresh_timestamp_seconds)
comes 30 is_above cowlab_watch_refresh_timestamp_seconds "$before"
ends
[[ $status == 0 ]] || fail "it ended with $status: $(cat err)"
