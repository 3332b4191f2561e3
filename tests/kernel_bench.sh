#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench --kernel: refusals before anything is booted; policies that the kernel's counts agree with to
# the page; counted instructions; programs; and nothing left after Ctrl-C.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

export COWLAB_KERNEL=$REPOSITORY/kernel
# guest ACCELERATOR[,KEY=VALUE…] ARGUMENT…
guest() {
	run bench --kernel patched --guest "memory=1GiB,accelerator=$1" "${@:2}"
}

# What makes no sense is said at once.
refuses 2 'next:PAGES' bench cow-faults --kernel patched --policy nonsense
refuses 2 '1\.\.512' bench cow-faults --kernel patched --policy next:513
refuses 2 'one CPU' bench cow-faults --kernel patched --guest accelerator=icount,cpus=2
refuses 2 'add --kernel patched' bench cow-faults --guest memory=1GiB
refuses 2 'boots=0 is not in 1\.\.100' bench cow-faults --kernel patched --guest boots=0
refuses 2 'policy next: kernels without .* add patched' \
	bench --kernel plain,upstream cow-faults --policy off,next
refuses 2 'twice' bench --kernel patched,patched cow-faults
if [[ ! -e /proc/sys/vm/cow_precopy ]]; then
	refuses 1 'no vm\.cow_precopy: boot the patched one with .cowlab kernel boot.' \
		bench cow-faults --policy next
fi
# Nor is anything measured first by a study whose guests cannot be booted.
printf '#!/bin/bash\nPATH=/nonexistent exec "%s" "$@"\n' "$COWLAB" >bare
chmod +x bare
for verb in 'bench cow-faults --kernel patched' 'study next-page'; do
	# shellcheck disable=SC2086
	COWLAB=$PWD/bare refuses 1 'qemu-system-x86_64' $verb
done
nothing_kept runs

# To the page: with the policy off every page is a fault, with it on a fault or copied ahead. Twice in make test-kernel-long.
rounds=${COWLAB_TEST_LONG:+2}
rounds=${rounds:-1}
guest tcg --json cow-faults --policy off,next,next:16,next:512 \
	--pattern single,sequential,random --size-bytes 16MiB --rounds "$rounds"
is_status 0
json rounds="$rounds" 'd.run.environments | distinct("accelerator") == ["tcg"]' \
	'd.run.environments[0].build.variant == "patched"' \
	'rows | distinct("variant") == ["patched"]' \
	'rows | distinct("policy") | same(["off", "next", "next:16", "next:512"])' \
	'all("single", "sequential", "random"; {policy: "off", pattern: .} as $cell |
		(values("cow_faults"; $cell) | max) == (values("pages_written"; $cell) | max))' \
	'cells(["policy", "pattern", "rep"]) | map(select(.params.pattern != "single")) |
		length == 2 * 4 * $rounds and all(.cow_faults + .precopy_written == .pages_written)' \
	'values("precopy_wasted"; {policy: "next:16", pattern: "single"}) | max <= 2' \
	'values("cow_faults"; {policy: "next", pattern: "sequential"}) | max <= 2048 + 8' \
	'values("flushes"; {policy: "next:16", pattern: "sequential"}) | max <= 4096 / 16 + 16' \
	'values("flushes"; {policy: "next:512", pattern: "sequential"}) | max <= 4096 / 16 / 4' \
	'values("cow_faults"; {policy: "next", pattern: "random"}) |
		all(. / 4096 - (1 - (-1 | exp)) | fabs < 0.02)' \
	'values("copy_ns"; {policy: "off", pattern: "random", quantile: "p99"}) | length == $rounds' \
	'{policy: "off", pattern: "random", quantile: "p50"} as $cell |
		[values("copy_ns"; $cell), values("kernel_fault_ns"; $cell)] | transpose | all(.[0] < .[1])'
folder=$(only_run runs)
grep -q 'Emulated (TCG)' "$folder/report.html" || fail "the report does not say that it was emulated"
"$COWLAB" report --tables "$folder" >text
captions=$(grep -c '^Emulated (TCG): ' text)
[[ $captions -ge 3 ]] || fail "expected the label at every table, saw $captions"
rm -r runs

# Instructions: no times among them, and the same twice.
guest icount,boots=2 cow-faults --json \
	--policy off --pattern single --size-bytes 1MiB --rounds 1
is_status 0
json 'rows | all(.metric | endswith("_ns") | not)' \
	'd.run.environments | distinct("accelerator") == ["icount"]' \
	'values("fault_instructions"; {quantile: "p50"}) | max / min < 1.01' \
	'rows | distinct("rep") == [0, 1]'
rm -r runs

# Page tables that are copied later are no part of fork's instructions.
guest icount --json fork-sweep --set policy=off,defer --heap-bytes 64MiB --write-fraction 0 \
	--forks 5 --rounds 2
is_status 0
json 'values("fork_instructions"; {policy: "off"}) as $off |
	values("fork_instructions"; {policy: "defer"}) as $defer |
	($off | length) == 2 and ($defer | length) == 2 and ($off | min) > 10 * ($defer | max)'
rm -r runs

# A program of one's own, and one that fails.
guest tcg --json command --policy off,next --rounds 1 -- \
	sh -c 'for i in 1 2 3; do /bin/true; done'
is_status 0
json 'pick({metric: "elapsed_ns"}) | map(.params.policy) | sort == ["next", "off"]' \
	'values("minor_faults") + values("cow_faults") | all(. > 0)'
rm -r runs
guest tcg command --rounds 1 -- false
is_status 1
says err 'ended with 1'
nothing_kept runs

# A guest that must be killed leaves the rounds that were whole, of all kernels before it.
guest tcg,time_limit_s=30 command --policy off,next --rounds 1000 -- sleep 1
is_status 1
folder=$(only_run runs)
says err "^cowlab: $folder has what was measured before: the guest did not end within 30 s"
holds "$folder/run.json" 'd.missing | map({key: .metric, value: .reason}) | from_entries |
	(.rounds | endswith(" of 1000 were made: it was killed")) and
	(.boots | startswith("not all were made: the guest did not end within 30 s"))'
passes report "$folder"
rm -r runs

# Ctrl-C ends the guest and keeps nothing of a round that was not whole.
"$COWLAB" bench --kernel patched --guest memory=1GiB,accelerator=tcg cow-faults >/dev/null 2>err &
wait_for 10 some our_guests
kill -INT $!
status=0
wait $! || status=$?
[[ $status == 130 ]] || fail "expected exit status 130 after Ctrl-C, saw $status"
[[ -z $(our_guests) ]] || fail "a guest is left after Ctrl-C: $(our_guests)"
nothing_kept runs
