#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# trace record beside programs that lie, other users that are curious, and a machine that fails.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"
# shellcheck source=casper/tests/lib/record.sh
. "$REPOSITORY/casper/tests/lib/record.sh"
compile hostile "$REPOSITORY/casper/tests/programs/hostile.c"
compile threads "$REPOSITORY/casper/libcasper/tests/threads.c"
library impatient -DLEAVE_LIMIT_NS=1000000000

# injected INJECTION ARGUMENT...: as `run`, with system calls of the recorder that fail or wait.
injected() {
	local injection=$1
	shift
	status=0
	strace -qq -o calls -e "inject=$injection" "$COWLAB" trace record --force --json "$@" \
		>out 2>err </dev/null || status=$?
	called="cowlab trace record $* with $injection"
	grep -qE 'INJECTED|DELAYED' calls || fail "expected a call that was $injection, saw: $(<calls)"
	no_panic
}

# What the recorder stored stays, whatever the program says of itself.
record -- ./hostile forget
stores 1000
# A program that breaks the rules: said once, at once, and told in the document.
run trace record --force --json -- ./hostile stop
is_status 1
stores 1000
json 'd.summary.breach | contains("on or off")'
says err 'closed early; what came before is in trace.casper'
[[ $(grep -c 'broke the rules' err) == 1 ]] || fail "expected one line about it, saw: $(<err)"

# No memory for more buffers: what found none is counted, and the trace has its end.
truncate -s 1M counts
injected fallocate:error=ENOMEM:when=8+ --buffer-bytes 65536 -- ./threads counts 20000 20
is_status 1
says err 'no memory for .* buffers'
accounts 400000
passes trace report trace.casper
[[ ! -s err ]] || fail "expected a trace that is whole, saw: $(<err)"

# A disk that does not answer, and a recorder that is stopped, for longer than programs wait for one.
export LD_LIBRARY_PATH=$PWD/impatient
for when_full in drop wait; do
	injected pwritev:delay_enter=2500000:when=5 --when-full $when_full --buffer-bytes 65536 -- ./ticks 300000 0 1000
	is_status 0
	accounts 300000
	"$COWLAB" trace record --force --json --when-full $when_full --buffer-bytes 65536 -- ./ticks 300000 0 1000 \
		>out 2>err </dev/null &
	recorder=$!
	sleep 0.5
	kill -STOP $recorder
	sleep 2.5
	kill -CONT $recorder
	status=0
	wait $recorder || status=$?
	called="cowlab trace record --when-full $when_full, stopped meanwhile"
	is_status 0
	accounts 300000
done
unset LD_LIBRARY_PATH

# A link where the trace should be: what it names stays as it is.
echo something >victim
chmod 644 victim
ln -sf victim linked
ln -sf nowhere dangling
for link in linked dangling; do
	refuses 1 "$link exists" trace record --output $link -- ./ticks 1
	refuses 1 'a trace is a new file' trace record --force --output $link -- ./ticks 1
done
[[ $(<victim) == something && $(stat -c %a victim) == 644 && ! -e nowhere ]] ||
	fail "expected what a link names to be left alone, saw: $(stat -c '%n %a %s' victim nowhere)"
