#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# study ccow: refused before anything is measured; in a guest, both of document 003's benchmarks and
# the sweep are in one run, from which the report and predictions are made.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

command -v redis-server >/dev/null || skip "needs redis-server: scripts/install redis"

export COWLAB_KERNEL=$REPOSITORY/kernel

refuses 2 'leave accelerator=icount out' study ccow --guest accelerator=icount
refuses 2 'not in 0\.\.3' study ccow --set zipf_alpha=-1
refuses 2 'share above 0' study ccow --set load=0
refuses 2 'the keys are zipf_alpha, ' study ccow --set spoon=1
refuses 2 'redis_bytes must hold two records' study 003 --set redis_bytes=1KiB
refuses 1 'largest heap that fits' study ccow --set size_bytes=1TiB
nothing_kept runs

run --json study ccow --guest accelerator=tcg,memory=1GiB --set zipf_alpha=1,1.3 --set size_bytes=16MiB \
	--set turnovers=1 --set redis_bytes=2MiB --set redis_turnovers=2 --set load=1 --rounds 1
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
"$COWLAB" report --tables "$folder" >text
for title in "document 003's microbenchmark" "document 003's second benchmark" 'document 002, patched' \
	'CCoW-All' 'too small for a huge page'; do
	grep -q "$title" text || fail "the report has nothing of '$title'"
done
passes --json predict policies "$folder"
json "d['summary']['checked'] >= 17" "d['summary']['median_error_points'] >= 0"
