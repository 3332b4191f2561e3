#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# predict: from a stored profile, so that its figures are known; and what it refuses.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

profile=$REPOSITORY/tests/fixtures/profile.json
page=4096

# Elapsed time and memory grow with the size and with the fraction, for either writer.
for writer in child parent; do
	passes --json predict --profile "$profile" --size-bytes 1MiB,4MiB,64MiB,256MiB,1GiB,10GiB \
		--write-fraction 0,0.25,0.5,1 --writer $writer
	json page=$page 'd.format == 1 and (d | has("run") | not)' \
		'values("elapsed_ns") | length == 6 * 4' \
		'cells(["pages", "write_fraction"]) |
			all(.elapsed_low_ns <= .elapsed_ns and .elapsed_ns <= .elapsed_high_ns)' \
		'all("0", "0.25", "0.5", "1"; values("elapsed_ns"; {write_fraction: .}) |
			ordered and .[0] < last)' \
		'all(rows | distinct("pages")[]; values("elapsed_ns"; {pages: .}) | ordered and .[0] < last)' \
		'cells(["pages", "write_fraction"]) | all((.params.pages | tonumber) as $pages |
			.extra_bytes - $pages * (.params.write_fraction | tonumber) * $page - $pages * 8 |
			0 <= . and . <= $pages * 8 * 0.02 + 16 * $page)' \
		'rows[0].params | keys | includes(["pages", "size_bytes", "write_fraction", "writer", "threads",
			"page_size_bytes", "policy"])'
done

# A profile that lacks the costs of forks among work says so; with them such a fork is dearer by
# what they say: 0.1 ms, and 50 ns for each of 16384 pages.
passes --json predict --profile "$profile" --size-bytes 64MiB --among-work
json 'd.summary | any(.[].prediction.notes[]; contains("fork_among_work_ns"))'
jq '.profile.costs |= . + (.pte_ns_per_page as $entry |
	{fork_among_work_ns: 1e5, pte_among_work_ns_per_page: 1e4} |
	map_values($entry + {value: ., low: ., high: .}))' "$profile" >among.json
passes --json predict --profile among.json --size-bytes 64MiB --among-work
json 'one("fork_ns"; {among_work: "true", policy: "stock"}) >= 1e5 + 1e4 * 16384' \
	'd.summary | any(.[].prediction.notes[]; test("fork_among_work|pte_among")) | not'

# The fraction is told as it was asked, and the size in pages as well.
passes --json predict --profile "$profile" --size-bytes 64MiB --write-fraction 0.1
json 'rows | distinct("pages") == ["16384"]'
json 'rows | distinct("write_fraction") == ["0.1"]'

# Another running thread makes copies dearer, huge pages make fork cheaper.
passes --json predict --profile "$profile" --size-bytes 256MiB --write-fraction 0.5 --threads 0,1
json 'one("elapsed_ns"; {threads: "1"}) > one("elapsed_ns"; {threads: "0"})'
passes --json predict --profile "$profile" --size-bytes 1GiB --page-size-bytes 4096,2MiB
json 'one("fork_ns"; {page_size_bytes: "2097152"}) < one("fork_ns"; {page_size_bytes: "4096", policy: "stock"})'

# By the newest run of a folder: the last by name.
mkdir -p runs/20260101T000000Z-calibrate runs/20260102T000000Z-calibrate runs/20260103T000000Z-bench
cp "$profile" runs/20260102T000000Z-calibrate/
sed 's/"host": "[^"]*"/"host": "older"/' "$profile" >runs/20260101T000000Z-calibrate/profile.json
passes predict --size-bytes 1GiB
says out 'runs/20260102T000000Z-calibrate'

# A kernel that leaves page tables for later stops a process for less, and its first writes take longer.
passes predict --profile "$profile" --size-bytes 1GiB
says out 'what the patched kernel would do with vm.cow_defer, not what this kernel does'
passes --json predict --profile "$profile" --size-bytes 3MiB,1GiB --write-fraction 0,0.5 \
	--page-size-bytes 4096,2MiB
json 'all("3145728", "1073741824"; {size_bytes: ., write_fraction: "0.5", page_size_bytes: "4096"} as $of |
		one("fork_high_ns"; $of + {policy: "defer"}) < one("fork_low_ns"; $of + {policy: "stock"}) and
		one("write_ns"; $of + {policy: "defer"}) > one("write_ns"; $of + {policy: "stock"}) and
		one("first_write_ns"; $of + {policy: "defer"}) > 10000)' \
	'pick({policy: "defer"}) | all(.params.page_size_bytes == "4096")' \
	'{write_fraction: "0", size_bytes: "1073741824", page_size_bytes: "4096", policy: "defer"} as $none |
		one("write_ns"; $none) == 0 and one("first_write_ns"; $none) > 10000'
refuses 2 '--policy defer copies nothing ahead.*cowlab predict' predict policies nowhere --policy defer

# No profile.
refuses 1 'nowhere.json.*calibrate' predict --profile nowhere.json --size-bytes 1GiB
mkdir empty
refuses 1 'no run in empty has a machine profile.*calibrate.*--profile' \
	predict --profile empty --size-bytes 1GiB
# Usual costs, within a factor of three, whatever was calibrated.
passes predict --profile usual --size-bytes 1GiB
says out 'by usual costs, within a factor of three'
passes --json predict --profile usual --size-bytes 1GiB
json '("stock", "defer") as $policy | one("fork_ns"; {policy: $policy}) as $fork |
	($fork / one("fork_low_ns"; {policy: $policy}) - 3 | fabs < 0.001) and
	(one("fork_high_ns"; {policy: $policy}) / $fork - 3 | fabs < 0.001)'
# Cut, foreign, of another version.
for bytes in 0 1 100 1000; do
	head -c "$bytes" "$profile" >cut.json
	refuses 1 'cut.json is cut, damaged or foreign' \
		predict --profile cut.json --size-bytes 1GiB
done
head -c 1000 /dev/zero >zeros.json
refuses 1 'zeros.json' predict --profile zeros.json --size-bytes 1GiB
printf '\377\376\000' >binary.json
refuses 1 'binary.json' predict --profile binary.json --size-bytes 1GiB
echo '{"name": "left-pad", "version": "1.0"}' >foreign.json
refuses 1 'foreign.json is cut, damaged or foreign' \
	predict --profile foreign.json --size-bytes 1GiB
# A newer cowlab may have renamed or added anything: its number is what to tell.
sed '0,/"format": 1/s//"format": 2/' "$profile" >newer.json
refuses 1 'newer.json has format 2.*reads format 1' predict --profile newer.json --size-bytes 1GiB
echo '{"format": 2, "machine": {}}' >newer.json
refuses 1 'newer.json has format 2.*reads format 1' predict --profile newer.json --size-bytes 1GiB
# Figures that no calibration gives: no panic, no nonsense.
sed 's/"page_size_bytes": 4096/"page_size_bytes": 0/' "$profile" >zero_page.json
refuses 1 'zero_page.json' predict --profile zero_page.json --size-bytes 1GiB
jq '.profile.curves = []' "$profile" >no_curves.json
refuses 1 'calibrate|no_curves' predict --profile no_curves.json --size-bytes 1GiB
jq '.profile.curves[].points = []' "$profile" >no_points.json
refuses 1 'calibrate|no_points' predict --profile no_points.json --size-bytes 1GiB

refuses 2 "'1.5' for '--write-fraction" predict --profile "$profile" --size-bytes 1GiB --write-fraction 1.5
refuses 2 '--written-before-fraction' \
	predict --profile "$profile" --size-bytes 1GiB --written-before-fraction 2
refuses 2 '--size-bytes' predict --profile "$profile"
refuses 2 '--size-bytes.*address space' predict --profile "$profile" --size-bytes 18446744073709551615
refuses 2 'not a size' predict --profile "$profile" --size-bytes lots
refuses 1 'pages of 65536' predict --profile "$profile" --size-bytes 1GiB --page-size-bytes 65536
