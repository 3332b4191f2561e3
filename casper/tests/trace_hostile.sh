#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# record beside programs that lie, other users that are curious, and a machine that fails.
# beside: it records programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"
COWLAB=$CASPER_TRACE
# shellcheck source=casper/tests/lib/record.sh
. "$REPOSITORY/casper/tests/lib/record.sh"
compile hostile "$REPOSITORY/casper/tests/programs/hostile.c"
compile seccomp "$REPOSITORY/casper/tests/programs/seccomp.c"
compile threads "$REPOSITORY/casper/libcasper/tests/threads.c"
library impatient -DLEAVE_LIMIT_NS=1000000000

# injected INJECTION ARGUMENT...: as `run`, with system calls of the recorder that fail or wait.
injected() {
	local injection=$1
	shift
	status=0
	strace -qq -o calls -e "inject=$injection" "$COWLAB" record --force --json "$@" \
		>out 2>err </dev/null || status=$?
	called="casper-trace record $* with $injection"
	grep -qE 'INJECTED|DELAYED' calls || fail "expected a call that was $injection, saw: $(<calls)"
	no_panic
}

# What the recorder stored stays, whatever the program says of itself.
record -- ./hostile forget
stores 1000
# A program that breaks the rules: said once, at once, and told in the document.
run record --force --json -- ./hostile stop
is_status 1
stores 1000
json 'd.breach | contains("on or off")'
says err 'closed early; what came before is in trace.casper'
[[ $(grep -c 'broke the rules' err) == 1 ]] || fail "expected one line about it, saw: $(<err)"

# No memory for more buffers: what found none is counted, and the trace has its end.
truncate -s 1M counts
injected fallocate:error=ENOMEM:when=8+ --buffer-bytes 65536 -- ./threads counts 20000 20
is_status 1
says err 'no memory for .* buffers'
accounts 400000
passes report trace.casper
[[ ! -s err ]] || fail "expected a trace that is whole, saw: $(<err)"

# A disk that does not answer, and a recorder that is stopped, for longer than programs wait for one.
export LD_LIBRARY_PATH=$PWD/impatient
for when_full in drop wait; do
	injected pwritev:delay_enter=2500000:when=5 --when-full $when_full --buffer-bytes 65536 -- ./ticks 300000 0 1000
	is_status 0
	accounts 300000
	"$COWLAB" record --force --json --when-full $when_full --buffer-bytes 65536 -- ./ticks 300000 0 1000 \
		>out 2>err </dev/null &
	recorder=$!
	sleep 0.5
	kill -STOP $recorder
	sleep 2.5
	kill -CONT $recorder
	status=0
	wait $recorder || status=$?
	called="casper-trace record --when-full $when_full, stopped meanwhile"
	is_status 0
	accounts 300000
done
unset LD_LIBRARY_PATH

# A filter that allows what libcasper(7) names would end the program on its way in: it is not asked.
./seccomp &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT
sleep 0.3
refuses 1 "process $pid runs under a seccomp filter" record --force $pid
sleep 0.3
kill -0 $pid || fail "expected the program under a filter to live on"
kill $pid

# A mapped file in whose place a pipe stands by now, which nobody writes to.
cp ticks moved
./moved &
pid=$!
sleep 0.3
rm moved
mkfifo 'moved (deleted)'
status=0
called="casper-trace record of a program whose file is a pipe"
timeout -k 5 20 "$COWLAB" record --force --json --duration-s 0.5 $pid >out 2>err </dev/null || status=$?
is_status 0
json 'd.stored_events > 50'
kill $pid

# A mapped file that is large: it is not read into memory.
cp ticks large
truncate -s 1000M large
./large &
pid=$!
sleep 0.3
"$COWLAB" record --force --json --duration-s 1 $pid >out 2>err </dev/null &
recorder=$!
while kib=$(awk '$1 == "VmHWM:" { print $2 }' /proc/$recorder/status 2>/dev/null) && [[ -n $kib ]]; do
	most_kib=$kib
	sleep 0.05
done
wait $recorder || fail "expected a large mapped file to be no obstacle, saw: $(<err)"
kill $pid
((most_kib < 300 << 10)) || fail "expected 300 MiB at most beside a mapped file of 1000 MiB, saw $most_kib KiB"

# A link where the trace should be: what it names stays as it is.
echo something >victim
chmod 644 victim
ln -sf victim linked
ln -sf nowhere dangling
for link in linked dangling; do
	refuses 1 "$link exists" record --output $link -- ./ticks 1
	refuses 1 'a trace is a new file' record --force --output $link -- ./ticks 1
done
[[ $(<victim) == something && $(stat -c %a victim) == 644 && ! -e nowhere ]] ||
	fail "expected what a link names to be left alone, saw: $(stat -c '%n %a %s' victim nowhere)"

# A library beside the program is loaded only where nobody else can have put it there.
mkdir -p other/bin other/libcasper
cp "$COWLAB" other/bin/
cp lib/libcasper.so.1 other/libcasper/
chmod 777 other
status=0
other/bin/casper-trace record --force --preload -- ./ticks 10 >out 2>err || status=$?
called="casper-trace record --preload in a folder of others"
is_status 1
says err "can change $PWD/other,.* give --preload=FILE"
chmod 755 other
other/bin/casper-trace record --force --preload -- ./ticks 10 2>err ||
	fail "expected a library that only its user can change to be loaded, saw: $(<err)"

# Root's recorder of another user's program: that user gets at nothing but the recording's memory.
if [[ $EUID == 0 ]]; then
	theirs=$(mktemp -d)
	cp ticks lib/libcasper.so.1 "$theirs"
	chmod 755 "$theirs"
	trap 'kill $their 2>/dev/null || true; rm -rf "$theirs"' EXIT
	start_theirs() {
		(cd "$theirs" && exec setpriv --reuid 65534 --regid 65534 --clear-groups \
			env LD_LIBRARY_PATH="$theirs" ./ticks) &
		their=$!
		sleep 0.3
	}
	start_theirs
	for ends_by in TERM KILL; do
		"$COWLAB" record --force --json $their >out 2>err </dev/null &
		recorder=$!
		sleep 1
		python3 "$REPOSITORY/casper/tests/lib/seize.py" 65534 $recorder >got 2>&1 ||
			fail "expected nothing to be taken from the recorder, saw: $(<got)"
		keeper=$(<"/proc/$recorder/task/$recorder/children")
		held=$(readlink /proc/${keeper% }/fd/* | sed 's/:.*//' | xargs)
		[[ $held == 'pipe /memfd /dev/null' ]] || fail "expected a keeper of the memory alone, saw: $held"
		kill -$ends_by $recorder
		status=0
		wait $recorder || status=$?
		called="casper-trace record PID of another user, ended by $ends_by"
		if [[ $ends_by == TERM ]]; then
			is_status 0
			json 'd.stored_events > 50'
		fi
		wait_for 2 test ! -d "/proc/${keeper% }" # it ends with its recorder
		kill -0 $their || fail "$called: expected the program to live on"
	done
	kill $their
	start_theirs
	"$COWLAB" record --force --json $their >out 2>err </dev/null &
	recorder=$!
	sleep 1
	# That would end whoever has it mapped (SIGBUS).
	truncate -s 0 /dev/shm/casper.65534
	kill -TERM $recorder
	status=0
	wait $recorder || status=$?
	called="casper-trace record PID whose user cut the gate short"
	is_status 0
	rm -f /dev/shm/casper.65534
fi
