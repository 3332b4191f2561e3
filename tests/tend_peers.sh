#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tend --set ping=: whoever holds the port can neither fill its memory nor hold it up: its time and SIGTERM
# end it, and a server that never answers is one error.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ -d /sys/kernel/mm/transparent_hugepage ]] || skip "needs transparent huge pages"
[[ $(id -u) == 0 ]] || skip "needs root"

started=()
trap 'for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done' EXIT

# One that does not end by itself, with memory that pays to be collapsed.
mkfifo to from
python3 "$REPOSITORY/tests/tend/target.py" 64 <to >from &
target=$!
started+=("$target")
exec 7>to 8<from
read -r -t 60 _ <&8 || fail "the target does not start"

# tended SIGNAL_AFTER_S FLAG...: its status, seconds and largest RSS in MiB, into `took`.
tended() {
	python3 "$REPOSITORY/tests/lib/timed.py" "$COWLAB" "$@" >took 2>err
}

for way in flood drip later silent full; do
	coproc python3 "$REPOSITORY/tests/lib/peer.py" "$way"
	started+=("$COPROC_PID")
	read -r port <&"${COPROC[0]}"
	for after in 0 0.5; do
		tended "$after" "$target" --set "ping=127.0.0.1:$port" --duration-s 1
		read -r status seconds mib <took
		echo "$way, SIGTERM after $after s: ended with $status in $seconds s, $mib MiB at most"
		# An answer's time is 2 s; so is a signal's.
		awk -v s="$seconds" 'BEGIN { exit !(s < 3) }' || fail "$way: it took $seconds s: $(cat err)"
		((mib < 100)) || fail "$way: it took $mib MiB"
		if [[ $way == later ]]; then
			((status == 0)) || fail "$way: it ended with $status: $(cat err)"
		elif [[ $way == flood ]]; then
			((status == 1)) && grep -q 'not one line' err || fail "$way: $status: $(cat err)"
		fi
		[[ $(wc -l <err) -le 2 ]] || fail "$way: expected one sentence, saw $(cat err)"
	done
	# With time enough to find out, one sentence says what is wrong with the server.
	if [[ $way != later ]]; then
		refuses 1 'not one line|no whole line after 2 s|no connection after 2 s' \
			tend "$target" --set "ping=127.0.0.1:$port" --duration-s 10
	fi
	kill -9 "$COPROC_PID"
	wait "$COPROC_PID" 2>/dev/null || true # its status is the signal's
done
