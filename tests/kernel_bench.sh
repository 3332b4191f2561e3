#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# kernel bench: refusals before anything is booted; policies that the kernel's counts agree with to
# the page; counted instructions; programs; and nothing left after Ctrl-C.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

export COWLAB_KERNEL=$REPOSITORY/kernel
# guest ACCELERATOR[,KEY=VALUE…] ARGUMENT…
guest() {
	run kernel bench --guest "memory=1GiB,accelerator=$1" "${@:2}"
}

# What makes no sense is said at once.
refuses 2 'next:PAGES' kernel bench cow-faults --policy nonsense
refuses 2 '1\.\.512' kernel bench cow-faults --policy next:513
refuses 2 'one CPU' kernel bench cow-faults --guest accelerator=icount,cpus=2
refuses 2 'twice' kernel bench --variant patched,patched cow-faults
if [[ ! -e /proc/sys/vm/cow_precopy ]]; then
	refuses 1 'no vm\.cow_precopy: boot the patched one with .cowlab kernel boot.' \
		bench cow-faults --policy next
fi
# Nor is anything measured first by a study whose guests cannot be booted.
printf '#!/bin/bash\nPATH=/nonexistent exec "%s" "$@"\n' "$COWLAB" >bare
chmod +x bare
for verb in 'kernel bench cow-faults' 'study next-page'; do
	# shellcheck disable=SC2086
	COWLAB=$PWD/bare refuses 1 'qemu-system-x86_64' $verb
done
nothing_kept runs

# To the page: with the policy off every page is a fault, with it on a fault or copied ahead.
guest tcg --json cow-faults --policy off,next,next:16,next:512:4 \
	--pattern single,sequential,random --size-bytes 16MiB --rounds 2
is_status 0
exact="abs(c['cow_faults'] + c['precopy_written'] - c['pages_written']) == 0"
json "{e['accelerator'] for e in d['run']['environments']} == {'tcg'}" \
	"d['run']['environments'][0]['build']['variant'] == 'patched'" \
	"{r['params']['variant'] for r in rows} == {'patched'}" \
	"{r['params']['policy'] for r in rows} == {'off', 'next', 'next:16', 'next:512:4'}" \
	"all(c['cow_faults'] == c['pages_written'] for c in [{m: max(values(policy='off', metric=m,
		pattern=p)) for m in ('cow_faults', 'pages_written')} for p in ('single', 'sequential',
		'random')])" \
	"all($exact for p in ('sequential', 'random') for q in ('off', 'next', 'next:16', 'next:512:4') for rep in (0, 1)
		for c in [{m: [r['value'] for r in pick(policy=q, pattern=p, metric=m) if r['rep'] == rep][0]
		for m in ('cow_faults', 'precopy_written', 'pages_written')}])" \
	"max(values(policy='next:16', pattern='single', metric='precopy_wasted')) <= 2" \
	"max(values(policy='next', pattern='sequential', metric='cow_faults')) <= 2048 + 8" \
	"max(values(policy='next:16', pattern='sequential', metric='flushes')) <= 4096 / 16 + 16" \
	"min(values(policy='next:512:4', pattern='sequential', metric='allocations')) >= 4096 / 16 / 2" \
	"max(values(policy='next:512:4', pattern='sequential', metric='flushes')) <= 4096 / 16 / 4" \
	"all(abs(v / 4096 - (1 - math.exp(-1))) < 0.02 for v in
		values(policy='next', pattern='random', metric='cow_faults'))" \
	"len(values(policy='off', pattern='random', metric='copy_ns', quantile='p99')) == 2" \
	"all(a < b for a, b in zip(values(policy='off', pattern='random', metric='copy_ns', quantile='p50'),
		values(policy='off', pattern='random', metric='kernel_fault_ns', quantile='p50')))"
folder=$(only_run runs)
grep -q 'Emulated (TCG)' "$folder/report.html" || fail "the report does not say that it was emulated"
"$COWLAB" report --tables "$folder" >text
captions=$(grep -c '^Emulated (TCG): ' text)
[[ $captions -ge 3 ]] || fail "expected the label at every table, saw $captions"
rm -r runs

# Instructions: no times among them, and the same twice.
guest icount cow-faults --json --boots 2 \
	--policy off --pattern single --size-bytes 1MiB --rounds 1
is_status 0
json "not [r for r in rows if r['metric'].endswith('_ns')]" \
	"{e['accelerator'] for e in d['run']['environments']} == {'icount'}" \
	"[max(v) / min(v) for v in [values(metric='fault_instructions', quantile='p50')]][0] < 1.01" \
	"{r['rep'] for r in rows} == {0, 1}"
rm -r runs

# A program of one's own, and one that fails.
guest tcg --json command --policy off,next --rounds 1 -- \
	sh -c 'for i in 1 2 3; do /bin/true; done'
is_status 0
json "sorted(r['params']['policy'] for r in pick(metric='elapsed_ns')) == ['next', 'off']" \
	"all(v > 0 for v in values(metric='minor_faults') + values(metric='cow_faults'))"
rm -r runs
guest tcg command --rounds 1 -- false
is_status 1
says err 'ended with 1'
nothing_kept runs

# A guest that must be killed leaves the rounds that were whole, of all kernels before it.
guest tcg,time_limit_s=30 cow-faults --policy off,next --pattern single --size-bytes 1MiB --rounds 1000
is_status 1
folder=$(only_run runs)
says err "^cowlab: $folder has what was measured before: the guest did not end within 30 s"
python3 - "$folder/run.json" <<'EOF' || fail "expected what the guest lacks in run.json, saw: $(<"$folder/run.json")"
import json, sys
missing = {m["metric"]: m["reason"] for m in json.load(open(sys.argv[1]))["missing"]}
assert missing["rounds"].endswith(" of 1000 were made: it was killed"), missing
assert missing["boots"].startswith("not all were made: the guest did not end within 30 s"), missing
EOF
passes report "$folder"
rm -r runs

# Ctrl-C ends the guest and keeps nothing of a round that was not whole.
our_guests() {
	local pid
	while read -r pid; do
		[[ $(readlink "/proc/$pid/exe") != *qemu-system* ]] || echo "$pid"
	done < <(grep -lzxF "COWLAB_TEST_MARK=$COWLAB_TEST_MARK" /proc/[0-9]*/environ 2>/dev/null |
		tr -dc '0-9\n')
}
"$COWLAB" kernel bench --guest memory=1GiB,accelerator=tcg cow-faults >/dev/null 2>err &
for tries in {1..100}; do
	[[ -z $(our_guests) ]] || break
	sleep 0.1
done
[[ -n $(our_guests) ]] || fail "no guest was seen after $tries looks: $(<err)"
kill -INT $!
status=0
wait $! || status=$?
[[ $status == 130 ]] || fail "expected exit status 130 after Ctrl-C, saw $status"
[[ -z $(our_guests) ]] || fail "a guest is left after Ctrl-C: $(our_guests)"
nothing_kept runs
