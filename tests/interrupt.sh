#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Signals in the middle: no process is left, no run that looks whole, and rounds that were whole are kept.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# begin ARGUMENT...: cowlab in the background, with the signals' default actions, which a shell's
# background processes do not have.
begin() {
	called="cowlab $*"
	env --default-signal=INT,TERM,HUP "$COWLAB" "$@" >out 2>err </dev/null &
	pid=$!
}
# interrupt SIGNAL: to cowlab alone; its exit status into $status.
interrupt() {
	called+=", SIG$1"
	status=0
	kill -s "$1" "$pid"
	wait "$pid" 2>/dev/null || status=$?
	no_panic
}
no_run() {
	local run
	for run in "$1"/*/ "$1"/.unfinished-*/; do
		[[ ! -e $run/run.json ]] || fail "$called: $run looks like a run: $(ls -AR "$1")"
	done
	[[ -z $(ls "$1") ]] || fail "$called: expected no run in $1, saw: $(ls -AR "$1")"
}
sweep=(bench fork-sweep --forks 100000 --heap-bytes 64MiB)

begin --json "${sweep[@]}" --set reap=each --output interrupted
probe_seen do_fork
interrupt INT
is_status 130
says err 'interrupted'
[[ ! -s out ]] || fail "$called: expected no document, saw: $(seen)"
no_probes_left
nothing_kept interrupted

begin "${sweep[@]}" --set reap=never --output terminated
probe_seen do_fork
interrupt TERM
[[ $status == 130 || $status == 143 ]] || fail "$called: expected 130 or 143, saw: $(seen)"
no_probes_left
nothing_kept terminated

# A second one while the first is obeyed, as impatient people do; here with children that wait for
# one another.
begin bench cow-faults --children 8 --size-bytes 64MiB --rounds 100 --output twice
probe_seen cow_faults
kill -s INT "$pid"
interrupt INT
is_status 130
no_probes_left
no_run twice

# It cannot be caught: the kernel ends the probes, and what is left does not look like a run.
begin "${sweep[@]}" --set reap=4 --output killed
probe_seen do_fork
interrupt KILL
is_status 137
no_probes_left
no_run killed
refuses 1 'no run in killed has a machine profile' predict --profile killed 20KiB
for folder in killed/.unfinished-*/; do
	[[ ! -e $folder ]] || refuses 1 'not a run' compare "$folder" "$folder"
done

# Of many rounds, those before the one that is ended: by a signal that can be caught as a run, by SIGKILL
# in the unfinished folder.
rounds=(bench fork-sweep --forks 1000 --heap-bytes 4KiB --write-fraction 0 --rounds 1000)
begin --json "${rounds[@]}" --output some
probe_seen do_fork
sleep 2
interrupt INT
is_status 130
[[ ! -s out ]] || fail "$called: expected no document, saw: $(seen)"
no_probes_left
some=$(only_run some)
says err "^cowlab: $some has what was measured before: .*interrupted"
passes --json compare "$some" "$some"
has_rounds() {
	holds "$1/run.json" 'd.missing | map(select(.metric == "rounds")) |
		length == 1 and (.[0].reason | test("^[1-9][0-9]* of 1000 were made: "))'
}
has_rounds "$some"

begin "${rounds[@]}" --output last
wait_for 30 compgen -G 'last/.unfinished-*/run.json'
interrupt KILL
is_status 137
no_probes_left
[[ -z $(ls last) ]] || fail "$called: expected no run that looks whole, saw: $(ls -AR last)"
last=$(echo last/.unfinished-*)
has_rounds "$last"
passes compare "$last" "$some"

# At the first probe that is seen: while memory is warmed, where that is done.
begin calibrate --output early
probe_seen '(keep_warm|do_fork|calibrate)'
interrupt INT
is_status 130
no_probes_left
nothing_kept early

# The probe dies, as the kernel's out-of-memory killer would have it.
begin "${sweep[@]}" --output bereft
probe_seen do_fork
for probe in $(our_probes | awk '$2 == "do_fork" { print $1 }'); do
	# The measuring one, not its children.
	! grep -qsx "PPid:[[:space:]]$pid" "/proc/$probe/status" || kill -KILL "$probe"
done
status=0
wait "$pid" || status=$?
called="$called, probe killed"
no_panic
is_status 1
says err 'do_fork was killed by signal 9'
no_probes_left
nothing_kept bereft
