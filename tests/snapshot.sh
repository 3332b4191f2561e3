#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench snapshot: its counts agree with what the probe itself knows of its writes, natively and in a
# guest under policies; what makes no sense is refused; nothing is left behind.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# Refused before anything is measured.
refuses 2 'not in 0\.\.3' bench snapshot --zipf-alpha -1
refuses 2 'not in 0\.\.3' bench snapshot --zipf-alpha nonsense
refuses 2 'scattered, ranked' bench snapshot --set placement=everywhere
refuses 2 'not in 0.000001' bench snapshot --fork-every-s 0
refuses 2 'two blocks' bench snapshot --size-bytes 1KiB
refuses 1 'largest heap that fits' bench snapshot --size-bytes 1TiB
refuses 1 'interval-ns is too short' bench snapshot --size-bytes 32MiB --fork-every-s 0.000001 --rounds 1
nothing_kept runs

# Each page that is written first after a fork faults once, and a few of the program's own.
counts="all(0 <= c['minor_faults'] - c['first_written_pages'] <= 40 + 8 * c['forks']
	for k, c in each('forks', 'zipf_alpha', 'placement').items() if k[0] == 'yes'),
	each('forks', 'zipf_alpha', 'placement')"
passes --json bench snapshot --size-bytes 16MiB --zipf-alpha 0,1.0,1.3 --set placement=scattered,ranked \
	--fork-every-s 0.002 --rounds 1
json "$counts" \
	"len(values(metric='throughput_per_s', forks='yes')) == 6 and
		len(values(metric='throughput_per_s', forks='no')) == 6" \
	"all(v == 10 * 16 * 1024 for v in values(metric='writes'))" \
	"all(v <= 40 for v in values(metric='minor_faults', forks='no'))" \
	"all(v == 0 for v in values(metric='forks', forks='no'))" \
	"sum(values(metric='forks', forks='yes')) > 6" \
	"all(found == sorted(found) for p in ('scattered', 'ranked') for f in ('yes', 'no') for found in
		[[one(metric='latency_ns', quantile=q, placement=p, forks=f, zipf_alpha='1')
		for q in 'min p50 p90 p95 p99 p99.9 max'.split()]])" \
	"all(v >= 2 * 16 * 2**20 for v in values(metric='rss_sum_bytes', forks='yes'))" \
	"all(16 * 2**20 <= v < 3.1 * 16 * 2**20 for v in values(metric='pss_sum_max_bytes'))"
# What Zipf's law says of the pages that a cell touches: with the exponent 1.3 and the blocks in the
# order of their ranks far fewer than when all are as likely.
json "values(metric='coverage_percent', quantile='p50', zipf_alpha='1.3', placement='ranked') <
	values(metric='coverage_percent', quantile='p50', zipf_alpha='0', placement='ranked')"
rm -r runs

# Zipf's law itself: a fifth of the blocks gets so much of the writes.
json "all(abs(values(metric='preferred_fifth_writes', zipf_alpha=a, forks='no')[0] / 163840 -
	sum(r ** -float(a) for r in range(1, 16384 // 5 + 1)) /
	sum(r ** -float(a) for r in range(1, 16385))) < 0.01 for a in ('0', '1', '1.3'))"
# Calibrated: the interval is what a fork was felt for, or a third of what was looked at.
passes bench snapshot --size-bytes 16MiB --zipf-alpha 1.0 --rounds 2
says err 'this will take about [0-9]+ (s|minutes)'
says out 'no forks'
says out 'plain copy-on-write (gets over one in|did not get over one within)'
says out 'throughput, CCoW-80 '
folder=$(only_run runs)
[[ -s $folder/report.html && -s $folder/tables/snapshot-published.csv ]] ||
	fail "expected a report and its tables, saw: $(ls -R "$folder")"
cp out first
passes report --tables "$folder"
diff out first || fail "report RUN says something else than the run did"
rm -r runs
passes --json bench snapshot --size-bytes 16MiB --zipf-alpha 1.0 --rounds 2
json "len(values(metric='interval_ns', forks='once')) == 1" \
	"values(metric='interval_ns', forks='yes') == values(metric='interval_ns', forks='once') * 2" \
	"all(v > 0 for v in values(metric='forks', forks='yes'))"
rm -r runs

# Ctrl-C in the middle: neither the program nor its idle children are left.
"$COWLAB" bench snapshot --size-bytes 64MiB --fork-every-s 0.05 --rounds 100 >out 2>err </dev/null &
probe_seen snapshot
kill -INT $!
status=0
wait $! || status=$?
[[ $status == 130 ]] || fail "expected exit status 130 after Ctrl-C, saw: $(seen)"
no_probes_left
nothing_kept runs

# In a guest: with the policy off each first write is a copy-on-write fault, with 16 pages ahead a
# fault or a page that was copied ahead and written. The program's own pages are a few a fork.
COWLAB_KERNEL=$REPOSITORY/kernel run --json kernel bench --guest memory=1GiB,accelerator=tcg snapshot \
	--policy off,next:16,next:512:4 --size-bytes 16MiB --zipf-alpha 1.0 --rounds 1
is_status 0
json "{e['accelerator'] for e in d['run']['environments']} == {'tcg'}" \
	"all(0 <= c['cow_faults'] + c['precopy_written'] - c['first_written_pages'] <= 8 + 8 * c['forks']
		for k, c in each('forks', 'policy').items() if k[0] == 'yes'), each('forks', 'policy')" \
	"set(each('forks', 'policy')) == {('yes', 'off'), ('yes', 'next:16'), ('yes', 'next:512:4'),
		('no', 'off'), ('once', 'off')}, list(each('forks', 'policy'))" \
	"one(metric='precopy_pages', policy='off', forks='yes') == 0" \
	"one(metric='cow_faults', policy='next:512:4', forks='yes') <
		one(metric='cow_faults', policy='next:16', forks='yes') <
		one(metric='cow_faults', policy='off', forks='yes')"
grep -q 'Emulated (TCG)' "$(only_run runs)/report.html" || fail "the report does not say that it was emulated"
