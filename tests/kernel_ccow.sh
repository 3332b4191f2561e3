#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench ccow: refused before anything is measured; in a guest, both of document 003's benchmarks and
# the sweep are in one run, from which the report and predictions are made.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

command -v redis-server >/dev/null || skip "needs redis-server: scripts/install redis"

series=(--kernel-dir "$REPOSITORY/kernel")

refuses 2 'no policy' kernel bench --variant plain ccow
refuses 2 'leave --accelerator icount out' kernel bench --accelerator icount ccow
refuses 2 'not in 0\.\.3' bench ccow --zipf-alpha -1
refuses 2 'share above 0' bench ccow --load 0
refuses 2 'redis-bytes must hold two records' bench ccow --redis-bytes 1KiB
refuses 1 'largest heap that fits' bench ccow --size-bytes 1TiB
if [[ ! -e /proc/sys/vm/cow_precopy ]]; then
	refuses 1 'no vm\.cow_precopy: boot the patched one' bench ccow
fi
nothing_kept runs

run --json kernel bench "${series[@]}" --accelerator tcg --memory 1GiB ccow --zipf-alpha 1,1.3 \
	--size-bytes 16MiB --turnovers 1 --redis-bytes 2MiB --redis-turnovers 2 --load 1 --rounds 1
is_status 0
json "{r['bench'] for r in rows} == {'snapshot', 'redis', 'cow-faults'}" \
	"{r['params']['policy'] for r in pick(bench='snapshot', zipf_alpha='1', page_size_bytes='4096')}
		== {'off', 'ccow', 'ccow:0'} | {f'ccow:{t}' for t in range(70, 100, 5)}
		| {f'ccow:80:0:{32 << n}' for n in range(9) if n != 6}" \
	"{r['params']['policy'] for r in pick(bench='snapshot', zipf_alpha='1.3')} == {'off', 'ccow'}" \
	"{r['params']['policy'] for r in pick(bench='redis', page_size_bytes='4096')}
		== {'off', 'ccow', 'ccow:0'} | {f'ccow:{t}' for t in range(70, 100, 5)}" \
	"{r['params']['policy'] for b in ('snapshot', 'redis')
		for r in pick(bench=b, page_size_bytes='2097152')} == {'off', 'ccow'}" \
	"all(0 <= v <= 1 for m in ('before', 'after')
		for v in values(metric=f'free_unusable_{m}_fraction'))" \
	"len(values(metric='allocation_stalls')) == len(values(bench='snapshot', metric='writes'))" \
	"sum(values(bench='snapshot', policy='ccow:0', metric='precopy_pages')) > 0" \
	"sum(values(bench='redis', policy='ccow:0', metric='precopy_pages')) > 0"
folder=$(only_run runs)
"$COWLAB" report "$folder" >text
for title in "document 003's microbenchmark" "document 003's second benchmark" 'document 002, patched' \
	'CCoW-All' 'too small for a huge page'; do
	grep -q "$title" text || fail "the report has nothing of '$title'"
done
passes --json predict policies "$folder"
json "d['summary']['checked'] >= 17" "d['summary']['median_error_points'] >= 0"
