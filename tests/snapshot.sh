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
counts='cells(["forks", "zipf_alpha", "placement"]) | map(select(.params.forks == "yes")) |
	length == 6 and all(.forks as $forks | .minor_faults - .first_written_pages |
		0 <= . and . <= 40 + 8 * $forks)'
passes --json bench snapshot --size-bytes 16MiB --zipf-alpha 0,1.0,1.3 --set placement=scattered,ranked \
	--fork-every-s 0.002 --rounds 1
json "$counts" \
	'(values("throughput_per_s"; {forks: "yes"}) | length == 6) and
		(values("throughput_per_s"; {forks: "no"}) | length == 6)' \
	'values("writes") | all(. == 10 * 16 * 1024)' \
	'values("minor_faults"; {forks: "no"}) | all(. <= 40)' \
	'values("forks"; {forks: "no"}) | all(. == 0)' \
	'values("forks"; {forks: "yes"}) | add > 6' \
	'all({placement: ("scattered", "ranked"), forks: ("yes", "no"), zipf_alpha: "1"};
		quantiles("latency_ns"; .) | ordered)' \
	'values("rss_sum_bytes"; {forks: "yes"}) | all(. >= 2 * 16777216)' \
	'values("pss_sum_max_bytes") | all(16777216 <= . and . < 3.1 * 16777216)'
# What Zipf's law says of the pages that a cell touches: with the exponent 1.3 and the blocks in the
# order of their ranks far fewer than when all are as likely.
json 'values("coverage_percent"; {quantile: "p50", zipf_alpha: "1.3", placement: "ranked"}) <
	values("coverage_percent"; {quantile: "p50", zipf_alpha: "0", placement: "ranked"})'
rm -r runs

# Zipf's law itself: a fifth of the blocks gets so much of the writes.
json 'def weight($blocks; $alpha): [range(1; $blocks + 1) | pow(.; -$alpha)] | add;
	all(0, 1, 1.3; . as $alpha | values("preferred_fifth_writes"; {zipf_alpha: "\($alpha)", forks: "no"})[0] / 163840 -
		weight(16384 / 5 | floor; $alpha) / weight(16384; $alpha) | fabs < 0.01)'
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
json 'values("interval_ns"; {forks: "once"}) | length == 1' \
	'values("interval_ns"; {forks: "once"}) as $once | values("interval_ns"; {forks: "yes"}) == $once + $once' \
	'values("forks"; {forks: "yes"}) | all(. > 0)'
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
# fault or a page that was copied ahead and written. The program's own pages are a few a fork. In make test
# kernel_ccow.sh asks that.
if [[ -n ${COWLAB_TEST_LONG:-} ]]; then
	COWLAB_KERNEL=$REPOSITORY/kernel run --json bench --kernel patched --guest memory=1GiB,accelerator=tcg snapshot \
		--policy off,next:16,next:512 --size-bytes 16MiB --zipf-alpha 1.0 --rounds 1
	is_status 0
	json 'd.run.environments | distinct("accelerator") == ["tcg"]' \
		'cells(["forks", "policy"]) | map(select(.params.forks == "yes")) | length == 3 and all(
			.forks as $forks | .cow_faults + .precopy_written - .first_written_pages |
			0 <= . and . <= 8 + 8 * $forks)' \
		'cells(["forks", "policy"]) | map([.params.forks, .params.policy]) | same([["yes", "off"],
			["yes", "next:16"], ["yes", "next:512"], ["no", "off"], ["once", "off"]])' \
		'one("precopy_pages"; {policy: "off", forks: "yes"}) == 0' \
		'["next:512", "next:16", "off"] |
			map({policy: ., forks: "yes"} as $cell | one("cow_faults"; $cell) / one("first_written_pages"; $cell)) |
			.[0] < .[1] and .[1] < .[2]'
	grep -q 'Emulated (TCG)' "$(only_run runs)/report.html" || fail "the report does not say that it was emulated"
fi
