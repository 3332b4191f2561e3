#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# blame against a program that knows which of its functions copy how many pages, and what it refuses.
# beside: it looks at programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

refuses 2 'name running processes by PID.NAME' blame
refuses 2 'invalid value .0. for .--every' blame --every 0 -- true
refuses 2 'cannot be used with' blame 1 -- true
[[ $(id -u) == 0 ]] || skip "blame needs root, or CAP_BPF and CAP_PERFMON"
refuses 1 'no process 4194304' blame 4194304
refuses 1 'cannot start /nowhere/program' blame -- /nowhere/program
chmod 755 . && cp "$COWLAB" ./cowlab
if setpriv --reuid nobody --regid nogroup --clear-groups ./cowlab blame -- true >out 2>err </dev/null; then
	fail "nobody was let in"
fi
says err 'CAP_BPF and CAP_PERFMON'
rm cowlab

source=$REPOSITORY/tests/blame
cc=("${CC:-cc}" -O2 -Wall -Wextra -fomit-frame-pointer)
"${cc[@]}" -shared -fPIC -o liblibrary.so "$source/library.c"
"${cc[@]}" -pthread -o planted "$source/planted.c" ./liblibrary.so -Wl,-rpath,"$PWD"
SHARE=500

# each SLACK: what each function copied is what it wrote, to that share or to twice its own interval.
each() {
	local number=0 name
	for name in first second third fourth fifth read; do
		number=$((number + 1))
		json name="$name" wanted=$((number * SHARE)) slack="$1" \
			'[d.summary.places[] | select(.functions[0] | test("^" + $name + "(\\.isra\\.0|\\(2\\))?$"))] |
				(map(.pages) | add) as $pages | (map(.high_pages - .low_pages) | add) as $wide |
				($pages - $wanted | fabs) <= ($slack * $wanted + $wide)'
	done
}

# Others go first, but not behind what it starts.
passes --json blame --output nice -- sh -c 'sleep 0.2; cut -d" " -f19 /proc/$PPID/stat /proc/$$/stat >niceness'
[[ $(paste -sd' ' niceness) == "10 $(nice)" ]] || fail "niceness of blame and of its command: $(paste -sd' ' niceness)"

# Each copy is told.
passes --json blame --every 1 --output runs -- ./planted $SHARE
each 0.02
json share=$SHARE 'd.summary.lost_stacks == 0' 'd.summary.told_every == 1' \
	'd.summary.copied_pages >= 21 * $share and d.summary.copied_pages < 21 * $share * 1.02' \
	'd.summary.whole_stacks / d.summary.told_stacks > 0.95' \
	'd.summary.workers == {planted: 1}' \
	'values("reuse_faults") | all(. >= $share and . < 1.1 * $share)'
# What footprint counts by the page tables.
passes --json footprint --method exclusive -- ./planted $SHARE
json share=$SHARE \
	'values("cow_pages"; {span: "fork-to-exit", writer: "child", mapping: "all", region: null}) |
		add >= 21 * $share * 0.98 and add <= 21 * $share * 1.04'
# A sample of them.
passes --json blame --every 8 --output runs -- ./planted $SHARE
each 0
json share=$SHARE 'd.summary.told_stacks < 21 * $share / 6' 'd.summary.told_every == 8'
passes --json blame --output runs -- ./planted $SHARE
each 0

# The files of a run, and what reads them again.
runs=(runs/*-blame*)
for file in flame.svg report.html stacks.folded stacks.pb.gz run.json; do
	[[ -s ${runs[0]}/$file ]] || fail "$file is not in $(ls "${runs[0]}")"
done
[[ $(stat -c %a "${runs[0]}") == 700 ]] || fail "others may read the run"
grep -q fifth "${runs[0]}/flame.svg" || fail "fifth is not in the flame graph"
grep -q '^planted (child);_start;.*;main;child;fifth ' "${runs[0]}/stacks.folded" ||
	fail "the stacks are not whole: $(head -n 3 "${runs[0]}/stacks.folded")"
passes report "${runs[0]}"
says out 'read\(2\)'
refuses 1 'names and addresses' report "${runs[0]}" --share given
passes compare "${runs[0]}" "${runs[1]}" --flame-graph difference.svg
says out 'a worker of planted'
[[ -s difference.svg ]] || fail "there is no flame graph of the difference"
old=$REPOSITORY/crates/report/tests/old_runs
refuses 2 'for two runs of' compare "$old/study" "$old/study" --flame-graph no.svg
head -c 1000 "${runs[0]}/stacks.pb.gz" >cut && mv cut "${runs[0]}/stacks.pb.gz"
refuses 1 'stacks.pb.gz is cut, damaged or foreign' report "${runs[0]}"

# Nobody knows its functions, and its file is gone: stacks are as whole, and the file is named.
strip -o taken planted
passes --json blame --every 1 --output runs -- sh -c "exec 3<taken; rm taken; exec /proc/self/fd/3 $SHARE"
json 'd.summary.whole_stacks / d.summary.told_stacks > 0.95' \
	'any(d.summary.places[]; .functions | join(" ") | test("taken\\+0x"))'

# A process that is there, and ends in the middle; a command's end is cowlab's.
./planted 20000 &
passes blame $! --duration-s 60 --output runs
run blame --output runs -- sh -c 'exit 7'
is_status 7

# Code that its parent compiled before the fork, and dumped: in /tmp, or where it is mapped.
"${cc[@]}" -o jitted "$source/jitted.c"
for folder in /tmp "$PWD"; do
	./jitted "$folder" 500 &
	jitted=$!
	sleep 0.2
	passes --json blame $jitted --every 1 --duration-s 1.5 --output runs
	json 'd.summary.places[0] | .functions[0] == "compiled_before" and .pages >= 490 and .pages % 500 <= 10'
	# Another user's names are not believed.
	chown nobody "$folder/jit-$jitted.dump"
	passes --json blame $jitted --every 1 --duration-s 1.5 --output runs
	json 'd.summary.places[0].functions[0] == "[unnamed code]"'
	rm "$folder/jit-$jitted.dump"
	kill $jitted
	wait $jitted || :
done
