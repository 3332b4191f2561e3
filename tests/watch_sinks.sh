#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# watch: a reader that stops reading stops neither the metrics nor the end.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

started=()
trap 'for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done' EXIT
sleep 300 &
target=$!
started+=("$target")
becomes "$target" sleep

# start FLAG...: a watch that serves metrics, at $url; its pid in $watch.
start() {
	"$COWLAB" watch "$target" --listen 127.0.0.1:0 --interval-s 0.1 "$@" 2>err </dev/null &
	watch=$!
	started+=("$watch")
	wait_for 30 grep -q 'metrics at' err
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
# ends: SIGTERM ends it within 2 s; its exit status in $status.
ends() {
	status=0
	kill "$watch"
	timeout 2 tail -s 0.1 --pid="$watch" -f /dev/null || fail "SIGTERM did not end it in 2 s: $(cat err)"
	wait "$watch" || status=$?
}

# A reader that never reads.
mkfifo full
exec 8<>full
dd if=/dev/zero of=full bs=4096 count=64 oflag=nonblock 2>/dev/null || true # until it is full
start --json >&8
wait_for 30 is_above cowlab_watch_skipped_frames_total 2
before=$(metric cowlab_watch_refresh_timestamp_seconds)
wait_for 30 is_above cowlab_watch_refresh_timestamp_seconds "$before"
ends
[[ $status == 0 ]] || fail "it ended with $status: $(cat err)"
