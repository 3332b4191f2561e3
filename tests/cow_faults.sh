#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench cow-faults: the kernel counts as many faults as pages were written.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

page=$(getconf PAGESIZE)

# The bound, 0.5%, for each cell; of the child's writers, each writes every page.
counts="all(abs(c['minor_faults'] / c['pages_written'] - 1) <= 0.005
	for c in each('pattern', 'size_bytes', 'writer', 'children').values()),
	{k: (c['pages_written'], c['minor_faults'])
	 for k, c in each('pattern', 'size_bytes', 'writer', 'children').items()}"
pages="all(c['pages_written'] == int(size) / $page * (int(children) if writer == 'child' else 1)
	for (size, writer, children), c in each('size_bytes', 'writer', 'children').items()),
	each('size_bytes', 'writer', 'children')"
quantiles='min p50 p90 p95 p99 p99.9 max'
ordered="all(len(found) == 7 and found == sorted(found)
	for names in ['$quantiles'.split()]
	for key in each('pattern', 'size_bytes', 'writer', 'children')
	for found in [[one(metric='fault_ns', quantile=q, **dict(zip(
		('pattern', 'size_bytes', 'writer', 'children'), key))) for q in names]]), rows[-8:]"

passes --json bench cow-faults --pattern sequential,random --size-bytes 16MiB,64MiB \
	--writer child,parent --children 1,8 --rounds 1
json "$counts" "$pages" "$ordered" \
	"len(each('pattern', 'size_bytes', 'writer', 'children')) == 2 * 2 * 2 * 2" \
	"all(v > 0 for v in values(metric='elapsed_ns')) and len(values(metric='elapsed_ns')) == 16" \
	"{'pattern', 'size_bytes', 'writer', 'children', 'threads', 'policy'} <= rows[0]['params'].keys()"

# The seed makes the order, not the counts; it is recorded.
passes --json bench cow-faults --seed 7 --pattern sequential,random --size-bytes 16MiB \
	--writer child,parent --children 2,3,4,5,6,7 --rounds 1
json "$counts" "$pages" "$ordered" \
	"len(each('pattern', 'writer', 'children')) == 2 * 2 * 6" \
	"d['run']['seed'] == 7"

passes --json bench cow-faults --pattern single --size-bytes 16MiB --writer child,parent --rounds 2
json "values(metric='pages_written') == [1.0] * 4, values(metric='pages_written')" \
	"values(metric='minor_faults') == [1.0] * 4, values(metric='minor_faults')"

if [[ $(nproc) != 1 ]]; then
	passes --json bench cow-faults --pattern sequential --size-bytes 4MiB --threads 1 \
		--writer child,parent --rounds 1
	json "$counts" "$pages" "{r['params']['threads'] for r in rows} == {'1'}"
fi

no_probes_left
