#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# footprint against a program that knows which of its pages are written, and what it refuses.
# beside: it waits most of the time, for programs of its own
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

lib=$REPOSITORY/tests/lib
# Static: nothing of a library is anonymous memory, so its counts are the program's own.
${CC:-cc} -O2 -Wall -Wextra -static -o truth "$lib/footprint_truth.c"
PAGES=8000 STEP=4
started=()
# shellcheck disable=SC2154
trap 'for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || :; done' EXIT

# background PROGRAM...: $pid is its process.
background() {
	"$@" >background.out 2>/dev/null &
	pid=$!
	started+=("$pid")
	sleep 0.3
}

# end: $pid is not needed any more.
end() {
	kill -9 "$pid"
	wait "$pid" 2>/dev/null || :
}

# within SPAN WRITER METRIC WANTED SHARE: of the anonymous memory, to that share.
within() {
	local span=$1 writer=$2 metric=$3 wanted=$4 share=$5
	json metric="$metric" span="$span" writer="$writer" wanted="$wanted" share="$share" \
		'values($metric; {span: $span, writer: $writer, mapping: "anonymous", region: null}) |
			any(. - $wanted | fabs <= $share * $wanted)'
}

written=$((PAGES / STEP))
methods=(exclusive snapshot)
[[ $(id -u) != 0 || ! -d /sys/kernel/tracing ]] || methods+=(faults)
for method in "${methods[@]}"; do
	passes --json footprint --method "$method" -- ./truth child $PAGES $STEP
	within fork-to-exit child cow_pages $written 0.005
	passes --json footprint --method "$method" -- ./truth parent $PAGES $STEP
	within fork-to-exit parent cow_pages $written 0.005
	passes --json footprint --method "$method" -- ./truth kernel $PAGES $STEP
	within fork-to-exit parent cow_pages $written 0.005
done
# More processes one after the other than there is room for at once.
if [[ " ${methods[*]} " == *' faults '* ]]; then
	many='i=0; while [ $i -lt 4200 ]; do (:); i=$((i+1)); done'
	passes --json footprint --method faults -- sh -c "$many; ./truth child $PAGES $STEP"
	within fork-to-exit child cow_pages $written 0.005
	json 'one("lost_faults") == 0'
	# One page after another; only faults tell.
	json written="$written" 'one("nearby_pages"; {program: "truth", writer: "child"}) >= $written * 0.99'
fi
passes --json footprint --method exclusive -- ./truth child $PAGES $STEP
json 'values("nearby_pages") == []'
# Bytes: one of each page, exactly, and 512-byte pages alike.
passes --json footprint --method snapshot -- ./truth child $PAGES $STEP
json written="$written" \
	'values("bytes_changed"; {mapping: "anonymous", writer: "child", region: null}) == [$written]'
# What is rewritten with the same bytes is a fault and a copy, and no change.
passes --json footprint --method snapshot -- ./truth child-same $PAGES $STEP
within fork-to-exit child cow_pages 0 0
passes --json footprint --method exclusive -- ./truth child-same $PAGES $STEP
within fork-to-exit child cow_pages $written 0.005

# Pages that were copied and then given back: those that the child freed before it ended, as an
# interpreter does at its exit. Faults count them; without BPF it is said how many may be missing.
for frees in unmaps discards python3 perl; do
	case $frees in
	python3) command=(python3 "$lib/frees.py") expected=8192 ;;
	perl) command=(perl "$lib/frees.pl") expected=8192 ;;
	*) command=(./truth "child-$frees" $PAGES $STEP) expected=$written ;;
	esac
	# An interpreter writes some pages of its own as well.
	if [[ " ${methods[*]} " == *' faults '* ]]; then
		passes --json footprint -- "${command[@]}"
		json expected="$expected" \
			'values("cow_pages"; {span: "fork-to-exit", writer: "child", mapping: "all"}) | max |
				$expected <= . and . <= 1.5 * $expected'
	fi
	passes --json footprint --method exclusive -- "${command[@]}"
	json expected="$expected" \
		'values("cow_pages"; {span: "fork-to-exit", writer: "child", mapping: "all"}) |
			max < $expected / 2' \
		'values("freed_unseen_pages"; {span: "fork-to-exit", writer: "child"}) | max |
			0.9 * $expected <= . and . <= 1.5 * $expected' \
		'd.missing | any(.metric == "cow_pages" and (.reason | contains("given back")))'
done
passes --json footprint --method exclusive -- ./truth child $PAGES $STEP
json 'one("freed_unseen_pages"; {span: "fork-to-exit", writer: "child"}) == 0' \
	'd.missing | all(.metric != "cow_pages")'

# Without a fork: between two signals, and between two times.
passes --json footprint --method snapshot --mark URG -- ./truth marks $PAGES $STEP
within marks own pages_written $written 0
passes --json footprint --method snapshot --mark URG -- ./truth new $PAGES $STEP
within marks own new_pages $PAGES 0
background ./truth forever $PAGES $STEP
passes --json footprint "$pid" --duration-s 1.2
within interval own pages_written $written 0
end

# A running process that forks.
background ./truth forks $PAGES $STEP 200
for method in "${methods[@]}"; do
	passes --json footprint "$pid" --forks 1 --method "$method"
	within fork-to-exit parent cow_pages $written 0.005
done
end
# What its child copied and then gave back while it lived.
for frees in unmaps discards; do
	background ./truth "forks-$frees" $PAGES $STEP 600
	if [[ " ${methods[*]} " == *' faults '* ]]; then
		passes --json footprint "$pid" --forks 1 --method faults
		within fork-to-exit child cow_pages $written 0.01
	fi
	passes --json footprint "$pid" --forks 1 --method exclusive
	json written="$written" \
		'values("freed_unseen_pages"; {span: "fork-to-exit", writer: "child"}) | max |
			0.9 * $written <= . and . <= 1.5 * $written' \
		'd.missing | any(.metric == "cow_pages" and (.reason | contains("given back")))'
	end
done
# A fork that comes in time is looked at to its end. It comes after some 3.5 s, and lasts 2 s.
background ./truth forks $PAGES $STEP 1500
passes --json footprint "$pid" --forks 1 --duration-s 4
within fork-to-exit parent cow_pages $written 0.005
end
# One that ends takes nothing back: between its forks, and while its child lives.
background python3 "$lib/forks_late.py" 2 5 1
passes --json footprint "$pid" --forks 100
json 'one("forks") == 2' 'd.missing | any(.reason | contains("after 2 of 100 forks"))'
background python3 "$lib/forks_late.py" 1 5 3
passes --json footprint "$pid" --forks 1
json 'one("forks") == 1' 'values("cow_pages"; {span: "fork-to-exit", mapping: "all"}) != []'

# A worker between two times: CPython puts its counts of references back, so that no byte tells what
# was copied. And nobody prices the forks of one that forks nobody.
background python3 "$lib/reads_objects.py"
wait_for 10 test -s worker
started+=("$(<worker)")
profile=$REPOSITORY/tests/fixtures/profile.json
passes --json footprint "$(<worker)" --duration-s 3
if [[ $(id -u) == 0 ]]; then
	json 'd.summary.method == "exclusive"' \
		'one("cow_pages"; {span: "interval", mapping: "all"}) >= 2000'
else
	json 'd.summary.method == "snapshot"' 'd.missing | any(.metric == "cow_pages")'
fi
json 'd.missing | any(.metric == "forks" and (.reason | contains("has no child of its own")))'
rm -rf of_worker && passes footprint "$(<worker)" --duration-s 0.3 --output of_worker
refuses 1 'has no child of its own' predict "$(only_run of_worker)" --profile "$profile"
kill -9 "$(<worker)"
# What it copied long ago it writes without a fault: that is said, and no share is made of it.
rm worker && background python3 "$lib/rewrites.py"
wait_for 10 test -s worker
started+=("$(<worker)")
if [[ $(id -u) == 0 ]]; then
	passes --json footprint "$(<worker)"
	json 'd.summary.method == "exclusive"' 'one("unknown_pages"; {span: "interval"}) >= 8192' \
		'values("write_fraction"; {mapping: "all"}) == []' \
		'd.missing | any(.metric == "pages_written" and
			(.reason | contains("were its own before the first moment") and contains("--method snapshot")))'
	passes --json tend "$(<worker)" --dry-run --profile "$profile"
	json 'values("fork_ns") == []' \
		'd.missing | any(.metric == "fork_ns" and (.reason | contains("has no child of its own")))'
fi
passes --json footprint "$(<worker)" --method snapshot
json 'one("pages_written"; {span: "interval", mapping: "all"}) >= 8192'
kill -9 "$(<worker)"

# A shell script: each of its children, and its exit status.
run --json footprint -- sh -c '(exit 0); /bin/true; x=$(echo a | cat); exit 7'
is_status 7
json 'rows | distinct("span") | includes(["run", "fork-to-exit", "fork-to-exec"])'

# A script that starts the program of its own name, as R's does: its subshells are not that program's forks.
mkdir -p bin && cp truth bin/alike
printf '#!/bin/sh\nx=$(:); y=$(:); exec bin/alike "$@"\n' >alike && chmod +x alike
passes --json footprint -- ./alike child $PAGES $STEP
within fork-to-exit child cow_pages $written 0.005
json 'values("spans"; {program: "alike", writer: "child", mapping: "all"}) == [1]'
json 'values("spans"; {program: "alike until its exec", writer: "child", mapping: "all"}) == [2]'

# SIGTERM is the command's, and ends with it; one that goes on is let go by the second.
rm -rf told && background "$COWLAB" footprint --output told -- ./truth forever 100 2
looking=$pid
wait_for 20 pgrep -x -P "$looking" truth
truth=$(pgrep -P "$looking")
sleep 0.5
kill -TERM "$looking"
status=0
wait "$looking" || status=$?
called='footprint, SIGTERM'
[[ $status == 143 ]] || fail "expected the command's status, saw $status"
[[ ! -d /proc/$truth ]] || fail "the command was not told to end"
only_run told >/dev/null
background "$COWLAB" footprint --output told -- env --ignore-signal=TERM ./truth forever 100 2
looking=$pid
wait_for 20 pgrep -x -P "$looking" truth
truth=$(pgrep -P "$looking")
sleep 0.5
started+=("$truth")
kill -TERM "$looking"
sleep 1
[[ -d /proc/$looking && -d /proc/$truth ]] || fail "expected both to go on after one signal"
SECONDS=0
kill -TERM "$looking"
wait "$looking" || status=$?
((SECONDS <= 5)) || fail "the second signal ended it after $SECONDS s"
[[ $(awk '/^TracerPid/ { print $2 }' "/proc/$truth/status") == 0 ]] || fail "it is still traced"
[[ $(awk '/^State/ { print $2 }' "/proc/$truth/status") == [SR] ]] || fail "it does not run on"
kill -9 "$truth"

# What the command prints is not mixed into the document.
rm -rf runs && passes --json footprint --method exclusive -- sh -c 'echo said; ./truth child 100 2'
json 'd.summary.forks >= 1'
says err '^said$'

# What is kept, and that no address is in it.
rm -rf kept && passes footprint --output kept -- ./truth child 100 2
kept=$(only_run kept)
[[ -s $kept/report.html && -s $kept/tables/footprint-fractions.csv ]] || fail "expected a report in $kept"
# One screen that begins with the answer; the run has every table.
(($(wc -l <out) <= 40)) || fail "$called: expected one screen, saw $(wc -l <out) lines: $(<out)"
says out '^• A fork of truth shares [0-9.]+ .iB with its child; .* \([0-9.]+%\) was copied before the child'
says out '^do now +(nothing|cowlab predict )'
says out "^all +every table of this run: cowlab report $kept"
passes report "$kept"
says out 'Write fractions'
says out '^A fork of truth shares '
# Many programs, and no fork.
passes footprint --output many_programs -- bash -c 'for i in 1 2 3; do (:); ls | cat >/dev/null; python3 -c "import subprocess as s; s.run([\"true\"])"; done'
(($(wc -l <out) <= 40)) || fail "$called: expected one screen, saw $(wc -l <out) lines: $(<out)"
# A damaged machine profile takes the prices away, and nothing else.
mkdir -p runs/damaged && echo '{' >runs/damaged/profile.json
passes footprint --output unpriced -- ./truth child 100 2
says out '^prices +not known: .*profile.json'
rm -r runs/damaged
passes footprint --output alone -- true
says out '^• No fork of true was seen: of its [0-9.]+ KiB of private memory it wrote'

# Bad input.
refuses 1 'there is no process 999999' footprint 999999
refuses 1 'no process is named -5' footprint -5
refuses 1 'kernel thread or a zombie' footprint 2
refuses 1 'use --forks N' footprint $$ --method exclusive
refuses 1 'cannot start ./nowhere' footprint -- ./nowhere
refuses 2 "unknown method 'magic'" footprint $$ --method magic
refuses 2 'PID|NAME' footprint
refuses 2 'cannot mark' footprint --mark KILL -- true
background sleep 1.5
refuses 1 'ended while it was looked at' footprint "$pid" --duration-s 5
background sh -c 'sleep 1.5; exec sleep 60'
refuses 1 'executed another program' footprint "$pid" --duration-s 2.5
background sleep 60
refuses 1 'did not fork within [0-9.]+ s' footprint "$pid" --forks 1 --duration-s 0.3
if [[ $(id -u) == 0 ]]; then
	run_as() { setpriv --reuid 65534 --clear-groups --no-new-privs -- "$@"; }
	status=0
	run_as "$COWLAB" footprint --output /tmp/nobody-$$ "$pid" >out 2>err || status=$?
	called='footprint without privilege'
	is_status 1
	says err 'CAP_SYS_PTRACE'
	rm -rf "/tmp/nobody-$$"
	# A program that its user may execute and not read cannot be traced: it has not run, and is gone.
	unread=$(mktemp -d) && chmod 777 "$unread"
	install -m 711 "$(command -v sleep)" "$unread/unread"
	status=0
	run_as "$COWLAB" footprint --output "$unread/runs" -- "$unread/unread" 60 >out 2>err ||
		status=$?
	called='footprint of a program that may not be read'
	is_status 1
	says err 'cannot start .*make it readable'
	for exe in /proc/[0-9]*/exe; do
		[[ $(readlink "$exe") != "$unread/unread" ]] || fail "it was left: $exe"
	done
	rm -rf "$unread"
fi
end

# 10,000 mappings; killed, it leaves the process running and untraced, and no run.
background python3 "$lib/many_mappings.py"
wait_for 20 awk 'END { exit NR < 5000 }' "/proc/$pid/maps"
passes footprint "$pid" --duration-s 0.2 --output many
"$COWLAB" footprint "$pid" --duration-s 60 --output killed >/dev/null 2>&1 &
looking=$!
sleep 1
kill -9 $looking
wait $looking 2>/dev/null || :
sleep 0.2
[[ $(awk '/^State/ { print $2 }' "/proc/$pid/status") == S ]] || fail "it does not run on"
[[ $(awk '/^TracerPid/ { print $2 }' "/proc/$pid/status") == 0 ]] || fail "it is still traced"
[[ -z $(find killed -mindepth 1 -not -name '.unfinished*' -not -path '*/.unfinished*') ]] ||
	fail "something was kept: $(find killed)"
