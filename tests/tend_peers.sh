#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tend --set ping=: a program that holds the port can neither fill tend's memory nor hold it up: its time and
# SIGTERM end it, a server that never answers is one error, and other targets are tended meanwhile. The same
# holds for a reader of its lines that never reads. Names of processes do not reach the terminal raw.
# beside: it waits most of the time, for peers of its own
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
		# A signal's time is 2 s; so is an answer's, after the second that it is to take.
		awk -v s="$seconds" -v after="$after" 'BEGIN { exit !(s < (after ? 2 : 3)) }' || fail "$way: it took $seconds s: $(cat err)"
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

# Bad servers that fail out of phase, and a good target without any.
for way in flood close drip; do
	coproc python3 "$REPOSITORY/tests/lib/peer.py" "$way" 2>"asked.$way"
	started+=("$COPROC_PID")
	read -r port <&"${COPROC[0]}"
	sleep 300 &
	started+=("$!")
	printf '[[target]]\npid = %s\nping = "127.0.0.1:%s"\n' "$!" "$port" >>policy
done 2>/dev/null # bash warns of a second coprocess
printf '[[target]]\npid = %s\n' "$target" >>policy
began=$SECONDS
"$COWLAB" tend --targets policy --set cpu_share=1 --budget-us 1000000 >tended 2>err </dev/null &
tend=$!
started+=("$tend")
comes 60 grep -q 'regions collapsed in' tended
comes 60 grep -q 'not one line' err
comes 60 grep -q 'no whole line' err
# Each is asked again after 2 s at the earliest.
(($(wc -l <asked.flood) <= (SECONDS - began) / 2 + 2)) || fail "asked $(wc -l <asked.flood) times in a few seconds"
kill "$tend"
wait "$tend" || fail "it ended with $?: $(cat err)"

# A name with an escape sequence in it.
python3 "$REPOSITORY/tests/lib/named.py" $'a\x1b[31mb' >named &
named=$!
started+=("$named")
comes 60 grep -q ready named
has_no_escape() {
	! grep -q $'\x1b' out err || fail "the name reaches the terminal: $(cat -v out err)"
}
passes tend "$named" --duration-s 1
says out 'a .31mb'
has_no_escape
refuses 1 'nobody answers' tend "$named" --duration-s 1 --set ping=127.0.0.1:1
has_no_escape

# More processes than it takes at a time: 64 are tended, and it says so.
cp "$(command -v sleep)" crowd
for _ in {1..70}; do
	./crowd 300 &
	started+=("$!")
done
for pid in "${started[@]: -70}"; do becomes "$pid" crowd; done
run tend crowd --json --duration-s 1
is_status 0
says err 'more than 64 processes match'
tended=$(jq -s '[.[].summary.pid | numbers] | unique | length' out)
[[ $tended == 64 ]] || fail "expected 64 processes to be tended, saw $tended"

# A reader that never reads, of what it prints or of what it says.
mkfifo full
exec 9<>full
dd if=/dev/zero of=full bs=4096 count=64 oflag=nonblock 2>/dev/null || true # until it is full
for stream in 1 2; do
	out=/dev/null err=/dev/null
	[[ $stream == 1 ]] && out=full || err=full
	"$COWLAB" tend "$target" --json --listen 127.0.0.1:0 >"$out" 2>"$err" </dev/null &
	tend=$!
	started+=("$tend")
	sleep 2
	kill "$tend"
	timeout 2 tail -s 0.1 --pid="$tend" -f /dev/null || fail "SIGTERM did not end it in 2 s with stream $stream full"
done
