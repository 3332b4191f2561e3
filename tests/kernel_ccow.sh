#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# study ccow: refused before anything is measured; in a guest, both of CCoW's benchmarks and
# the sweep are in one run, from which the report and predictions are made. One threshold and the smallest region beside
# 2 MiB; all of the document's in make test-kernel-long.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

command -v redis-server >/dev/null || skip "needs redis-server: scripts/install redis"

export COWLAB_KERNEL=$REPOSITORY/kernel

refuses 2 'leave accelerator=icount out' study ccow --guest accelerator=icount
refuses 2 'not in 0\.\.3' study ccow --set zipf_alpha=-1
refuses 2 'not in 0\.001\.\.1' study ccow --set load=0
refuses 2 'choose one of zipf_alpha, ' study ccow --set spoon=1
refuses 2 'regions_kib: 48 is no power of two' study ccow --set regions_kib=48
refuses 2 'redis_bytes must hold two records' study 003 --set redis_bytes=1KiB
refuses 1 'largest heap that fits' study ccow --set size_bytes=1TiB
nothing_kept runs

thresholds=(80) regions=(32) fewer=(--set thresholds_percent=80 --set regions_kib=32)
if [[ -n ${COWLAB_TEST_LONG:-} ]]; then
	thresholds=(70 75 80 85 90 95) regions=(32 64 128 256 512 1024 4096 8192) fewer=()
fi
policies="off ccow ccow:0 ${thresholds[*]/#/ccow:}"
# Three turnovers: the server is looked at every 20 ms, and a snapshot begins when half of the updates are done. With half a
# turnover, the other half were once done before the next look.
run --json study ccow --guest accelerator=tcg,memory=1GiB "${fewer[@]}" --set zipf_alpha=1,1.3 --set size_bytes=16MiB \
	--set turnovers=1 --set redis_bytes=2MiB --set redis_turnovers=3 --set load=1 --rounds 1
is_status 0
json policies="$policies" sizes="${regions[*]/#/ccow:80:}" \
	'rows | distinct("bench") | same(["snapshot", "redis", "cow-faults"])' \
	'pick({bench: "snapshot", zipf_alpha: "1", page_size_bytes: "4096"}) | distinct("policy") |
		same("\($policies) \($sizes)" | split(" "))' \
	'pick({bench: "snapshot", zipf_alpha: "1.3"}) | distinct("policy") | same(["off", "ccow"])' \
	'pick({bench: "redis", page_size_bytes: "4096"}) | distinct("policy") | same($policies | split(" "))' \
	'pick({bench: "snapshot", page_size_bytes: "2097152"}) + pick({bench: "redis", page_size_bytes: "2097152"}) |
		distinct("policy") | same(["off", "ccow"])' \
	'values("precopy_pages"; {bench: "snapshot", policy: "ccow:0"}) | add > 0'
# To the page: with the policy off each first write after a fork is a copy-on-write fault, with another a fault or a
# page that was copied ahead and written. The program's own pages are a few a fork.
json policies=$((7 + ${#thresholds[@]} + ${#regions[@]})) \
	'cells(["bench", "forks", "policy", "zipf_alpha", "page_size_bytes"]) | map(select(.params.forks == "yes")) |
		length >= $policies and all(.forks as $forks | .cow_faults + .precopy_written - .first_written_pages |
			0 <= . and . <= 8 + 8 * $forks)' \
	'{bench: "snapshot", forks: "yes", zipf_alpha: "1", page_size_bytes: "4096"} as $cell |
		one("precopy_pages"; $cell + {policy: "off"}) == 0 and one("precopy_pages"; $cell + {policy: "ccow:0"}) > 0 and
		one("cow_faults"; $cell + {policy: "ccow:0"}) < one("first_written_pages"; $cell + {policy: "ccow:0"}) / 2'
# What the kernel counted in the server itself.
json servers=$((5 + ${#thresholds[@]})) '{bench: "redis", page_size_bytes: "4096", load: "closed"} as $cell |
		(values("precopy_pages"; $cell + {policy: "off"}) | length == 3 and all(. == 0)) and
		all("cow_faults", "precopy_pages", "fork_ns"; one(.; $cell + {policy: "ccow:0", snapshots: "bgsave"}) > 0) and
		one("cow_faults"; $cell + {policy: "off", snapshots: "bgsave"}) >
			one("cow_faults"; $cell + {policy: "off", snapshots: "none"})' \
	'values("served_updates") == values("updates") and (values("updates") | length == 5 * $servers)'
folder=$(only_run runs)
says "$folder/report.html" 'Emulated \(TCG\)'
"$COWLAB" report --tables "$folder" >text
for title in "CCoW's microbenchmark" "CCoW's second benchmark" 'next-page study, patched' \
	'CCoW-All'; do
	grep -q "$title" text || fail "the report has nothing of '$title'"
done
