#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# predict: from a stored profile, so that its figures are known; of a footprint; and what it refuses.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

profile=$REPOSITORY/tests/fixtures/profile.json
page=4096

# Elapsed time and memory grow with the size and with the fraction.
passes --json predict --profile "$profile" 1MiB,4MiB,64MiB 256MiB 1GiB 10GiB --write-fraction 0,0.25,0.5,1
json page=$page 'd.format == 1 and (d | has("run") | not)' \
	'values("elapsed_ns"; {page_size_bytes: "4096"}) | length == 6 * 4' \
	'cells(["pages", "write_fraction", "page_size_bytes"]) |
		all(.elapsed_low_ns <= .elapsed_ns and .elapsed_ns <= .elapsed_high_ns)' \
	'all("0", "0.25", "0.5", "1"; values("elapsed_ns"; {write_fraction: ., page_size_bytes: "4096"}) |
		ordered and .[0] < last)' \
	'all(rows | distinct("pages")[]; values("elapsed_ns"; {pages: ., page_size_bytes: "4096"}) |
		ordered and .[0] < last)' \
	'[rows[] | select(.params.page_size_bytes == "4096" and .metric == "extra_bytes")] |
		all((.params.pages | tonumber) as $pages |
			.value - $pages * (.params.write_fraction | tonumber) * $page - $pages * 8 |
			0 <= . and . <= $pages * 8 * 0.02 + 16 * $page)' \
	'rows[0].params | keys | includes(["pages", "size_bytes", "write_fraction", "writer", "threads",
		"page_size_bytes", "policy"])'

# A profile that lacks the costs of forks among work says so; with them such a fork is dearer by
# what they say: 0.1 ms, and 50 ns for each of 16384 pages.
passes --json predict --profile "$profile" 64MiB
json 'd.summary.answers | any(.[].prediction.notes[]; contains("fork_among_work_ns"))'
jq '.profile.costs |= . + (.pte_ns_per_page as $entry |
	{fork_among_work_ns: 1e5, pte_among_work_ns_per_page: 1e4} |
	map_values($entry + {value: ., low: ., high: .}))' "$profile" >among.json
passes --json predict --profile among.json 64MiB
json 'one("fork_ns"; {among_work: "true", page_size_bytes: "4096"}) >= 1e5 + 1e4 * 16384' \
	'd.summary.answers | any(.[].prediction.notes[]; test("fork_among_work|pte_among")) | not'

# The fraction is told as it was asked, and the size in pages as well.
passes --json predict --profile "$profile" 64MiB --write-fraction 0.1
json 'rows | distinct("pages") == ["16384"]'
json 'rows | distinct("write_fraction") == ["0.1"]'

# Another running thread makes copies dearer, huge pages make fork cheaper.
passes --json predict --profile "$profile" 256MiB --write-fraction 0.5 --threads 0,1
json 'one("elapsed_ns"; {threads: "1", page_size_bytes: "4096"}) > one("elapsed_ns"; {threads: "0", page_size_bytes: "4096"})'
passes --json predict --profile "$profile" 1GiB
json 'one("fork_ns"; {page_size_bytes: "2097152"}) < one("fork_ns"; {page_size_bytes: "4096"})' \
	'pick({policy: "defer"}) == [] # nobody asked'

# By the newest run of a folder: the last by name.
mkdir -p runs/20260101T000000Z-calibrate runs/20260102T000000Z-calibrate runs/20260103T000000Z-bench
cp "$profile" runs/20260102T000000Z-calibrate/
sed 's/"host": "[^"]*"/"host": "older"/' "$profile" >runs/20260101T000000Z-calibrate/profile.json
passes predict 1GiB
says out 'runs/20260102T000000Z-calibrate'

# A kernel that leaves page tables for later stops a process for less, and its first writes take longer.
passes predict --profile "$profile" 1GiB --policy defer
says out 'what the patched kernel would do with vm.cow_defer, not what this kernel does'
passes --json predict --profile "$profile" 3MiB,1GiB --write-fraction 0,0.5 --policy defer
json 'all("3145728", "1073741824"; {size_bytes: ., write_fraction: "0.5", page_size_bytes: "4096"} as $of |
		one("fork_high_ns"; $of + {policy: "defer"}) < one("fork_low_ns"; $of + {policy: "stock"}) and
		one("write_ns"; $of + {policy: "defer"}) > one("write_ns"; $of + {policy: "stock"}) and
		one("first_write_ns"; $of + {policy: "defer"}) > 10000)' \
	'pick({policy: "defer"}) | all(.params.page_size_bytes == "4096")' \
	'{write_fraction: "0", size_bytes: "1073741824", page_size_bytes: "4096", policy: "defer"} as $none |
		one("write_ns"; $none) == 0 and one("first_write_ns"; $none) > 10000'
refuses 2 '--policy next depends on which pages are written' predict 1GiB --policy next

# No profile.
refuses 1 'nowhere.json.*calibrate' predict --profile nowhere.json 1GiB
mkdir empty
refuses 1 'no run in empty has a machine profile.*calibrate.*--profile' \
	predict --profile empty 1GiB
# Usual costs, within a factor of three, whatever was calibrated.
passes predict --profile usual 1GiB
says out 'by usual costs, within a factor of three'
passes --json predict --profile usual 1GiB --policy defer
json '({policy: ("stock", "defer"), page_size_bytes: "4096"}) as $of | one("fork_ns"; $of) as $fork |
	($fork / one("fork_low_ns"; $of) - 3 | fabs < 0.001) and
	(one("fork_high_ns"; $of) / $fork - 3 | fabs < 0.001)'
# Cut, foreign, of another version.
for bytes in 0 1 100 1000; do
	head -c "$bytes" "$profile" >cut.json
	refuses 1 'cut.json is cut, damaged or foreign' \
		predict --profile cut.json 1GiB
done
head -c 1000 /dev/zero >zeros.json
refuses 1 'zeros.json' predict --profile zeros.json 1GiB
printf '\377\376\000' >binary.json
refuses 1 'binary.json' predict --profile binary.json 1GiB
echo '{"name": "left-pad", "version": "1.0"}' >foreign.json
refuses 1 'foreign.json is cut, damaged or foreign' \
	predict --profile foreign.json 1GiB
# A newer cowlab may have renamed or added anything: its number is what to tell.
sed '0,/"format": 1/s//"format": 2/' "$profile" >newer.json
refuses 1 'newer.json has format 2.*reads format 1' predict --profile newer.json 1GiB
echo '{"format": 2, "machine": {}}' >newer.json
refuses 1 'newer.json has format 2.*reads format 1' predict --profile newer.json 1GiB
# Figures that no calibration gives: no panic, no nonsense.
sed 's/"page_size_bytes": 4096/"page_size_bytes": 0/' "$profile" >zero_page.json
refuses 1 'zero_page.json' predict --profile zero_page.json 1GiB
jq '.profile.curves = []' "$profile" >no_curves.json
refuses 1 'calibrate|no_curves' predict --profile no_curves.json 1GiB
jq '.profile.curves[].points = []' "$profile" >no_points.json
refuses 1 'calibrate|no_points' predict --profile no_points.json 1GiB

refuses 2 "'1.5' for '--write-fraction" predict --profile "$profile" 1GiB --write-fraction 1.5
refuses 2 'RUN\|SIZE' predict --profile "$profile"
refuses 2 'address space' predict --profile "$profile" 18446744073709551615
refuses 2 'not a size.*no run is at lots' predict --profile "$profile" lots

# A footprint's forks, and what each choice would change. It has 16 MiB, of which it writes a quarter beside a child.
writer=$REPOSITORY/tests/lib/writer.py
run footprint --output footprints --method exclusive -- python3 "$writer"
is_status 0
footprint=$(only_run footprints)
passes --json predict "$footprint" --profile "$profile" --program python3 --policy ccow,defer
json 'd.summary.application.written | 1024 <= . and . < 1400' \
	'd.summary.application.pages > 4096' \
	'd.summary.application.regions | length > 0' \
	'def of(choice): d.summary.advice[] | select(.choice == choice).forecast.Ok;
		of("tend").stop_ns.value > 0 and of({policy: "ccow:80"}).writes_ns.value > 0 and
		of("as_it_is").stop_ns.value > 0 and of({policy: "defer"}).stop_ns.high < of("as_it_is").stop_ns.low and
		of({policy: "defer"}).writes_ns.value > of("as_it_is").writes_ns.value' \
	'd.summary.advice | any(.choice | objects | has("dont_fork")) | not # its child would be killed' \
	'd.summary.advice[] | select(.choice == "spawn").forecast | has("Err")'
# A thread that computes meanwhile is counted, and its price is in what predict says.
cat >busy.py <<'END'
import os, threading, time
data = bytearray(32 << 20)
def compute():
    while True:
        sum(range(1000))
threading.Thread(target=compute, daemon=True).start()
child = os.fork()
if child == 0:
    time.sleep(1)
    os._exit(0)
for page in range(0, len(data), 4096):
    data[page] = 1
os.waitpid(child, 0)
END
run footprint --output busy --method exclusive -- python3 busy.py
is_status 0
busy=$(only_run busy)
passes --json predict "$busy" --profile "$profile"
json 'd.summary.application.threads > 0.1' 'd.summary.advice | any(.choice == "fewer_threads")'
passes --json predict "$busy" --profile "$profile" --threads 0
json 'd.summary.application.threads == 0'
# With another running thread the writes are dearer, and letting it sleep is a choice.
passes --json predict "$footprint" --threads 1 --profile "$profile"
json 'def of(choice): d.summary.advice[] | select(.choice == choice).forecast.Ok;
	of("fewer_threads").writes_ns.value < of("as_it_is").writes_ns.value'
passes predict "$footprint" --profile "$profile"
says out 'A fork stops python3 for'
says out 'runs beside it'
(($(wc -l <out) <= 22)) || fail "expected one screen, saw $(wc -l <out) lines: $(<out)"
says out "cowlab predict $footprint --tables"
! grep -q 'kernel policy' out || fail "$called: expected no other kernel's choices, saw: $(<out)"
# Several: each has its answer, and one that has none keeps nobody else's back.
run predict "$footprint" ./nowhere "$footprint" --profile "$profile"
is_status 1
[[ $(grep -c '^• A fork stops python3 for' out) == 2 ]] || fail "$called: expected two answers, saw: $(<out)"
says err '^cowlab: there is no ./nowhere: '
passes predict "$footprint" --profile "$profile" --tables --policy defer
says out 'MAP_HUGETLB'
says out 'the kernel policy defer: what a patched kernel would do'
# Without a fork there is none to price.
run footprint --output forkless -- true
is_status 0
refuses 1 'no fork of true was seen.*cowlab predict [0-9.]+[KM]iB' predict "$(only_run forkless)" --profile "$profile"
refuses 2 '--json takes one run, or sizes' --json predict "$footprint" 1GiB --profile "$profile"
mkdir other && cp runs/20260102T000000Z-calibrate/profile.json other/
refuses 1 'other' predict ./other --profile "$profile"
refuses 1 'no program vi: it has' predict "$footprint" --program vi --profile "$profile"
sed 's/"page_size_bytes": 4096/"page_size_bytes": 16384/' "$profile" >large.json
refuses 1 'same base page' predict "$footprint" --profile large.json
