#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tend: names of processes do not reach the terminal raw, it takes 64 processes at a time, and a reader of its
# lines that never reads does not hold it up.
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

# A name with an escape sequence in it.
python3 "$REPOSITORY/tests/lib/named.py" $'a\x1b[31mb' >named &
named=$!
started+=("$named")
wait_for 60 grep -q ready named
has_no_escape() {
	! grep -q $'\x1b' out err || fail "the name reaches the terminal: $(cat -v out err)"
}
passes tend "$named" --duration-s 1
says out 'a .31mb'
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
