#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# sharing, without root: against a program that says which pages it wrote, over ten generations of
# workers; huge pages, KSM and swap where they can be had here.
# beside: it looks at programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

command -v gcc >/dev/null || skip "needs gcc"
place=$(mktemp -d)
chmod 755 "$place"
ksm=/sys/kernel/mm/ksm ksm_before=
end() {
	[[ -z $ksm_before ]] || echo "$ksm_before" >$ksm/run
	swapoff "$place/swap" 2>/dev/null || :
	rm -rf "$place"
}
trap end EXIT
gcc -O2 -static -o "$place/family" "$REPOSITORY/tests/lib/family.c"
head -c 4096000 /dev/zero >"$place/file"
as=()
if [[ $(id -u) == 0 ]]; then
	command -v setpriv >/dev/null || skip "needs setpriv (util-linux), to run without root"
	as=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --)
	printf '#!/bin/bash\nexec %s %q "$@"\n' "${as[*]}" "$COWLAB" >"$place/cowlab"
	chmod 755 "$place/cowlab"
	COWLAB=$place/cowlab
fi
name=fam$$

# begin [ADVICE]: a parent; tell COMMAND: the file `truth` has what its workers have written now.
begin() {
	coproc FAMILY { exec "${as[@]}" "$place/family" "$name" "$place/file" "$@"; }
	# A coprocess's own are closed in subshells.
	local write=${FAMILY[1]}
	exec {to}>&"$write" {from}<&"${FAMILY[0]}" {write}>&-
	parent=$FAMILY_PID
	tell ''
}
tell() {
	local word rest
	[[ -z $* ]] || echo "$*" >&"$to"
	: >truth
	while read -r word rest <&"$from"; do
		[[ $word != 'done' ]] || return 0
		echo "$rest" >>truth
	done
	fail "the family ended at: $*"
}
finish() {
	exec {to}>&- {from}<&-
	wait "$parent" || fail "the family failed"
}
# The pid of worker N, from 1.
worker() { sed -n "$1s/ .*//p" truth; }

# is_true: what sharing says of each worker, and of all, is within 1% of what the program wrote.
is_true() {
	local truth
	truth=$(jq -Rnc '[inputs / " " | map(tonumber) | {pid: .[0], written: .[1], made: .[2]}]' truth)
	passes --json sharing "$name"
	# Of a page table, a stack and data some 20 pages come to each.
	json "truth=$truth" parent="$parent" \
		'def near(a; b): (a - b | fabs) <= 0.01 * b;
		 ($truth | fromjson) as $all | d.summary as $s
		 | $s.pid == $parent and ($s.workers | length) == ($all | length) + 1
		 and all($all[]; . as $t | any($s.workers[]; .pid == $t.pid and .parent == $parent
			and near(.own_bytes; ($t.written + $t.made) * 4096)
			and near(.copied_bytes; $t.written * 4096)
			and near(.shared_bytes; (20000 - $t.written) * 4096)
			and .shm_bytes == 2000 * 4096
			and .erosion_bytes_per_s == null and .shared_ends_s == null))' \
		'def near(a; b): (a - b | fabs) <= 0.01 * b;
		 ($truth | fromjson) as $all | d.summary as $s
		 | near($s.pss_bytes; 4096 * (20000 + 2000 + 1000 + ($all | map(.written + .made) | add)))
		 and near($s.saved.fork_bytes; 4096 * ($all | map(20000 - .written) | add))
		 and near($s.saved.shm_bytes; 4096 * 2000 * ($all | length))
		 and $s.saved.file_bytes < 4e6' \
		'd.missing | map(.metric) == ["erosion_bytes_per_s"]'
}

# Ten generations, of four workers at a time.
begin
refuses 1 "no process is named ${name}x" sharing "${name}x"
passes sharing "$name"
says out 'has no worker'
for written in 3000 6000 4000 9000; do tell fork $written 1000; done
is_true
for generation in {1..10}; do
	tell end "$(worker 1)"
	tell fork $((3000 + 1000 * generation)) $((100 * generation))
	is_true
done

# A worker means its family; the text answers first, and says how to know more.
passes --json sharing "$(worker 2)"
json parent="$parent" 'd.summary.pid == $parent'
passes sharing "$parent"
says out '^• 4 workers and their parent use [0-9.]+ MiB together; ps adds up to [0-9.]+ MiB: sharing'
says out "cowlab sharing $parent --duration-s 60"
says out 'worker [0-9]+ .* MiB'

# One of which nothing may be read is told, and what it takes.
tell fork 3000 0 hidden
passes --json sharing "$parent"
json 'd.summary.workers | length == 5' hidden="$(worker 5)" 'd.summary.unseen == [$hidden]' \
	'd.missing | any(.metric == "workers" and (.reason | test("1 more child .*CAP_SYS_PTRACE")))'
tell end "$(worker 5)"

# What is lost meanwhile: 100 pages a worker and turn, by each.
(for _ in {1..8}; do sleep 0.4; echo erode; done) >&"$to" &
passes --json sharing "$name" --duration-s 4 --interval-s 1
json '[d.summary.workers[] | select(.parent)] | length == 4 and all(.[]; .erosion_bytes_per_s > 0
	and (.shared_ends_s == null or
		(.shared_ends_s * .erosion_bytes_per_s - .shared_bytes | fabs) < 0.01 * .shared_bytes))' \
	'd.summary.sentences[1] | test("loses .* a minute(: at this rate nothing of its|; it is too young)")' \
	'[rows[] | select(.metric == "erosion_bytes_per_s")] | length == 5'
wait $!
for _ in {1..8}; do tell ''; done
is_true

# One ends between two looks, another takes its place, and the parent goes on.
"$COWLAB" --json sharing "$name" --watch --interval-s 0.2 >stream 2>err &
watching=$!
lines() {
	wait_for 20 jq -es "any(.[]; $1)" stream
}
lines true
gone=$(worker 1)
tell end "$gone"
lines "[.summary.workers[].pid] | index($gone) == null"
tell fork 5000 0
new=$(awk '$2 == 5000 { print $1 }' truth)
lines "[.summary.workers[].pid] | index($new)"
kill -INT $watching
status=0
wait $watching || status=$?
called='sharing --watch'
is_status 0
no_panic
jq -es --argjson gone "$gone" --argjson new "$new" 'def slot(p): [.[].summary.workers[] | select(.pid == p).slot]
	| unique; slot($gone) == slot($new) and (slot($new) | length) == 1' stream >/dev/null ||
	fail "expected $new in the slot of $gone: $(jq -c '.summary.workers | map([.pid, .slot])' stream)"

# Metrics, and the parent's end.
"$COWLAB" sharing "$name" --listen 127.0.0.1:0 --interval-s 0.2 >out 2>err &
serving=$!
wait_for 10 grep -q 'metrics at' err
python3 "$REPOSITORY/tests/lib/scrape.py" "$(sed -n 's/.*metrics at //p' err)" application/openmetrics-text >metrics
[[ $(grep -c "^cowlab_sharing_own_bytes{process=\"$name\",slot=\"[0-3]\"} [0-9]" metrics) == 4 ]] ||
	fail "expected four slots: $(cat metrics)"
grep -q "^cowlab_sharing_saved_bytes{process=\"$name\",by=\"fork\"} [0-9]" metrics || fail "$(cat metrics)"

# Two families of one name: which ones there are.
exec {other}> >(exec "${as[@]}" "$place/family" "$name" "$place/file" >/dev/null)
echo fork 10 10 >&"$other"
sleep 0.5
refuses 1 "^ *[0-9]+  $place/family $name" sharing "$name"
exec {other}>&-
finish
wait $serving || fail "the end of the parent ended it with $?: $(cat err)"
grep -q 'ended' err || fail "expected that the parent's end is said: $(cat err)"

# Another user's.
if [[ ${#as[@]} != 0 ]]; then
	sleep 60 &
	refuses 1 'CAP_SYS_PTRACE' sharing $!
	kill $!
fi

# Huge pages of which workers write parts.
if ! grep -q '\[never\]' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null; then
	begin huge
	tell fork 4000 0
	tell fork 8000 100
	grep -q '^AnonHugePages: *[0-9]\{5,\} kB' "/proc/$parent/smaps_rollup" || fail "no huge pages were made"
	is_true
	finish
else
	skipped="huge pages: switched off here"
fi

# Pages that KSM merged are shared, but not by fork. 250 contents are in 20,000 pages.
if [[ -w $ksm/run && $(<$ksm/run) == 0 ]]; then
	begin merge
	tell fork 4000 0
	ksm_before=0
	echo 1 >$ksm/run
	has_merged() {
		passes --json sharing "$name"
		jq -e '.summary.ksm_bytes > 1e6' out
	}
	# ksmd gives way to all others.
	wait_for 60 has_merged
	echo 2 >$ksm/run
	json 'd.summary.sentences | any(test("^KSM merged"))' 'd.summary.workers | any(.ksm_bytes > 0)' \
		'all(d.summary.workers[]; .shared_bytes + .own_bytes + .ksm_bytes < 24400 * 4096)'
	finish
else
	skipped+=" KSM: cannot be switched on here"
fi

# What is in swap is neither shared nor own. The worker writes 4,000 pages, which it gets back as its own.
if dd if=/dev/zero of="$place/swap" bs=1M count=100 status=none && chmod 600 "$place/swap" &&
	mkswap "$place/swap" >/dev/null 2>&1 && swapon "$place/swap" 2>/dev/null; then
	begin
	tell swap
	tell fork 4000 0
	passes --json sharing "$name"
	json 'd.summary.workers[1] | (.own_bytes - 4000 * 4096 | fabs) < 0.01 * .own_bytes
		and .swapped_bytes > 15000 * 4096
		and .own_bytes + .shared_bytes + .swapped_bytes < 20200 * 4096' \
		'd.summary.sentences | any(test("are in swap"))' \
		'd.summary | .swapped_bytes < (.workers | map(.swapped_bytes) | add) * 0.6'
	finish
else
	skipped+=" swap: none can be added here"
fi
[[ -z ${skipped:-} ]] || echo "not tried: $skipped"
