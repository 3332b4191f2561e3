#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench cow-faults: the kernel counts as many faults as pages were written.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

page=$(getconf PAGESIZE)

# The bound, 0.5%, for each cell; of the child's writers, each writes every page.
cell='["pattern", "size_bytes", "writer", "children"]'
counts="cells($cell)"' | all(.minor_faults / .pages_written - 1 | fabs <= 0.005)'
# shellcheck disable=SC2016 # The names with a $ are jq's.
pages="cells($cell)"' | all(.pages_written == (.params.size_bytes | tonumber) / $page *
	if .params.writer == "child" then .params.children | tonumber else 1 end)'
ordered="all(cells($cell)"'[].params | {pattern, size_bytes, writer, children}; quantiles("fault_ns"; .) | ordered)'

passes --json bench cow-faults --pattern sequential,random --size-bytes 16MiB,64MiB \
	--writer child,parent --children 1,8 --rounds 1
json page="$page" "$counts" "$pages" "$ordered" \
	'cells(["pattern", "size_bytes", "writer", "children"]) | length == 2 * 2 * 2 * 2' \
	'values("elapsed_ns") | length == 16 and all(. > 0)' \
	'rows[0].params | keys |
		includes(["pattern", "size_bytes", "writer", "children", "threads", "policy"])'

# The seed makes the order, not the counts; it is recorded.
passes --json bench cow-faults --seed 7 --pattern sequential,random --size-bytes 16MiB \
	--writer child,parent --children 2,3,4,5,6,7 --rounds 1
json page="$page" "$counts" "$pages" "$ordered" \
	'cells(["pattern", "writer", "children"]) | length == 2 * 2 * 6' \
	'd.run.seed == 7'

passes --json bench cow-faults --pattern single --size-bytes 16MiB --writer child,parent --rounds 2
json 'values("pages_written") == [1, 1, 1, 1]' \
	'values("minor_faults") == [1, 1, 1, 1]'

if [[ $(nproc) != 1 ]]; then
	passes --json bench cow-faults --pattern sequential --size-bytes 4MiB --threads 1 \
		--writer child,parent --rounds 1
	json page="$page" "$counts" "$pages" 'rows | distinct("threads") == ["1"]'
fi

no_probes_left
