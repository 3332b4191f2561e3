#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# trace record: a command, a running program, and what can go wrong.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"
COWLAB=$CASPER_TRACE

# shellcheck source=casper/tests/lib/record.sh
. "$REPOSITORY/casper/tests/lib/record.sh"
compile checksum "$REPOSITORY/casper/examples/checksum.c"

# The paper's program: one event before and one after each block of 4096 bytes.
head -c 10000 /dev/zero >data
passes record -- ./checksum data
says err 'trace.casper: 6 events of 1 processes'
[[ $(stat -c %a trace.casper) == 600 ]] || fail "expected mode 600, saw $(stat -c %a trace.casper)"

# A trace is not replaced by accident.
refuses 1 exists record -- ./checksum data
record -- ./ticks 1000
stores 1000

# Types by name and by number; functions or not.
record --only tick -- ./ticks 1000
stores 500
record --only 0x21 -- ./ticks 1001
stores 500

# The command's status is ours.
run record --force -- ./ticks 10 7
is_status 7

# Functions that the compiler instrumented, in a program that is not linked with libcasper.
cat >calls.c <<'END'
int twice(int x) { return 2 * x; }
int main(void) { int x = 0; for (int i = 0; i < 100; i++) x += twice(i); return x == 0; }
END
cc -O0 -finstrument-functions calls.c -o calls
record --preload=lib/libcasper.so.1 -- ./calls
stores 202
record --preload=lib/libcasper.so.1 --function '!*' -- ./calls
stores 0

# What its descendants leave behind is reaped while the command lives, not when it ends.
# shellcheck disable=SC2016
record -- sh -c 'for _ in 1 2 3 4 5 6 7 8 9 10; do
		for _ in 1 2 3 4 5; do (true &); done
	done
	sleep 1
	for stat in /proc/[0-9]*/stat; do
		read -r pid name state parent _ 2>/dev/null <"$stat" || continue
		[ "$parent $state" != "$PPID Z" ] || echo "$pid $name"
	done >zombies
	./ticks 10
	exit 0'
stores 10
[[ ! -s zombies ]] || fail "expected no orphan to be left unreaped, saw: $(cat zombies)"
run record --force -- sh -c '(true &); ./ticks 10; exit 5'
is_status 5

# Told to end, it tells its command, and ends when that has ended.
cat >waiter <<'END'
./ticks 10
trap 'kill $!; exit 6' TERM
sleep 60 &
echo ready >told
wait
END
"$COWLAB" record --force -- sh ./waiter 2>err &
recorder=$!
wait_for 10 test -s told
kill -TERM $recorder
status=0
wait $recorder || status=$?
called="casper-trace record, told to end"
is_status 6

# A running program, twice; it goes on.
./ticks &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT
sleep 0.3
for _ in 1 2; do
	record $pid --duration-s 0.5
	json 'd.stored_events > 50'
done
# Ctrl-C ends a recording in order.
"$COWLAB" record --force $pid 2>err &
recorder=$!
sleep 0.5
kill -TERM $recorder
wait $recorder || fail "expected a recording that a signal ended to end in order, saw: $(cat err)"
# A recorder that is killed leaves no memory behind, and the program goes on.
"$COWLAB" record --force $pid 2>err &
recorder=$!
sleep 0.5
kill -KILL $recorder
status=0
wait $recorder || status=$?
called="casper-trace record PID, killed"
is_status 137
kill -0 $pid || fail "expected the program to outlive its recorder"
left=$(find /dev/shm -name 'casper*' ! -name 'casper.[0-9]*')
[[ -z $left ]] || fail "expected nothing in /dev/shm but gates, saw: $left"

# Another user's program is not for everybody; root's recorder takes on that user's rights.
if [[ $EUID == 0 ]] && command -v setpriv >/dev/null; then
	as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	# The test's own folder may lie below one that only its owner may enter.
	theirs=$(mktemp -d)
	trap 'kill $pid 2>/dev/null || true; rm -rf "$theirs"' EXIT
	cp "$COWLAB" "$theirs/casper-trace"
	cp ticks lib/libcasper.so.1 "$theirs"
	chmod 777 "$theirs"
	status=0
	(cd "$theirs" && "${as_nobody[@]}" ./casper-trace record $pid) 2>err || status=$?
	called="casper-trace record PID of another user"
	is_status 1
	says err "process $pid is user 0's: run as that user or as root"
	[[ ! -e $theirs/trace.casper ]] || fail "expected no trace of another user's program"
	(cd "$theirs" && exec "${as_nobody[@]}" env LD_LIBRARY_PATH="$theirs" ./ticks) &
	their=$!
	trap 'kill $pid $their 2>/dev/null || true; rm -rf "$theirs"' EXIT
	sleep 0.3
	record $their --duration-s 0.5
	json 'd.stored_events > 50'
	kill $their
fi

# Wrong use, and what cannot be.
refuses 1 'does not use libcasper' record --force -- true
[[ ! -e trace.casper ]] || fail "expected no trace of a program that recorded nothing"
refuses 1 'does not use libcasper' record $$
refuses 1 'no process 4194999' record 4194999
refuses 1 'cannot start ./nowhere' record --force -- ./nowhere
refuses 2 'power of two' record --force --buffer-bytes 100000 -- ./ticks 1
refuses 2 'required' record
for seconds in -1 0 nan inf; do
	refuses 2 'number of seconds' record --duration-s $seconds -- ./ticks 1
done
refuses 2 'cannot be used with' record --kernel 1
refuses 2 'kernel' record --function 'copy_*' -- ./ticks 1
refuses 2 'cannot wait' record --kernel --when-full wait -- ./ticks 1
if [[ ! -e /dev/casper ]]; then
	refuses 1 'no CASPER' record --kernel -- ./ticks 1
	COWLAB=${CASPER_TRACE%/*}/cowlab refuses 1 'no CASPER' bench fork-sections --forks 1 --size-bytes 0 --rounds 1
fi
[[ ! -e trace.casper ]] || fail "expected no trace of a kernel that records nothing"
refuses 1 'does its folder exist' record --output nowhere/trace -- ./ticks 1
refuses 1 'preload' record --force --preload=./nowhere -- ./ticks 1
[[ ! -e trace.casper ]] || fail "expected no trace of what did not run"

# A full disk: the program goes on, the trace says what it lacks, and what it has is good.
if [[ $EUID == 0 ]] && mkdir small && mount -t tmpfs -o size=256k tmpfs small 2>/dev/null; then
	run record --output small/trace -- ./ticks 100000
	cp small/trace full.casper
	umount small
	is_status 1
	says err 'lost: the disk was full'
fi
