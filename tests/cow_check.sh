#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench cow-check: nobody sees another's data, and the check can fail.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

page=$(getconf PAGESIZE)

# By default 1 to 8 children over base pages and THP.
passes --json bench cow-check --output checks
json page="$page" 'values("checked_pages") | all(. > 0)' \
	'pick({page_size_bytes: "\($page)"}) | distinct("children") == ["1", "2", "3", "4", "5", "6", "7", "8"]' \
	'rows | distinct("page_size_bytes") | length <= 2'
thp=$(cat /sys/kernel/mm/transparent_hugepage/hpage_pmd_size 2>/dev/null || echo none)
if grep -q "\"page_size_bytes\": \"$thp\"" out; then
	json thp="$thp" \
		'pick({page_size_bytes: "\($thp)"}) | distinct("children") == ["1", "2", "3", "4", "5", "6", "7", "8"]'
else
	echo "THP is not available here: $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>&1)"
	refuses 2 'pages of|transparent_hugepage' bench cow-check --page-size-bytes 2MiB
fi

# Memory that is shared on purpose: who sees what, where; and nothing is kept.
for children in 1 8; do
	run --json bench cow-check --set shared=true --children "$children" --size-bytes 4MiB --output broken
	is_status 1
	says err '(parent|child) [0-9]+ sees 0x[0-9a-f]+ where 0x[0-9a-f]+ belongs: page [0-9]+, byte [0-9]+'
	[[ ! -s out ]] || fail "$called: expected no document, saw: $(seen)"
	nothing_kept broken
done

refuses 2 '--size-bytes' bench cow-check --size-bytes "$page"
no_probes_left
