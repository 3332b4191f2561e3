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
	json "d['format'] == 1 and 'run' not in d" \
		"len(pick(metric='elapsed_ns')) == 6 * 4" \
		"all(c['elapsed_low_ns'] <= c['elapsed_ns'] <= c['elapsed_high_ns']
		     for c in each('pages', 'write_fraction').values())" \
		"all(a == sorted(a) and a[0] < a[-1] for f in ['0', '0.25', '0.5', '1']
		     for a in [values(metric='elapsed_ns', write_fraction=f)]),
		 values(metric='elapsed_ns')" \
		"all(a == sorted(a) and a[0] < a[-1] for p in {r['params']['pages'] for r in rows}
		     for a in [values(metric='elapsed_ns', pages=p)])" \
		"all(0 <= c['extra_bytes'] - int(pages) * float(fraction) * $page - int(pages) * 8
		     <= int(pages) * 8 * 0.02 + 16 * $page
		     for (pages, fraction), c in each('pages', 'write_fraction').items()),
		 {k: c['extra_bytes'] for k, c in each('pages', 'write_fraction').items()}" \
		"{'pages', 'size_bytes', 'write_fraction', 'writer', 'threads', 'page_size_bytes', 'policy'}
		 <= rows[0]['params'].keys()"
done

# A profile that lacks the costs of forks among work says so; with them such a fork is dearer by
# what they say: 0.1 ms, and 50 ns for each of 16384 pages.
passes --json predict --profile "$profile" --size-bytes 64MiB --among-work
json "any('fork_among_work_ns' in note for a in d['summary'] for note in a['prediction']['notes'])"
python3 - "$profile" <<'END'
import json, sys
file = json.load(open(sys.argv[1]))
costs = file["profile"]["costs"]
entry = costs["pte_ns_per_page"]
def cost(value):
    return {**entry, "value": value, "low": value, "high": value}
costs["fork_among_work_ns"] = cost(1e5)
costs["pte_among_work_ns_per_page"] = cost(1e4)
json.dump(file, open("among.json", "w"))
END
passes --json predict --profile among.json --size-bytes 64MiB --among-work
json "one(metric='fork_ns', among_work='true') >= 1e5 + 1e4 * 16384" \
	"not any('fork_among_work' in note or 'pte_among' in note for a in d['summary'] for note in a['prediction']['notes'])"

# The fraction is told as it was asked, and the size in pages as well.
passes --json predict --profile "$profile" --size-bytes 64MiB --write-fraction 0.1
json "{r['params']['pages'] for r in rows} == {'16384'}"
json "{r['params']['write_fraction'] for r in rows} == {'0.1'},
	{r['params']['write_fraction'] for r in rows}"

# Another running thread makes copies dearer, huge pages make fork cheaper.
passes --json predict --profile "$profile" --size-bytes 256MiB --write-fraction 0.5 --threads 0,1
json "one(metric='elapsed_ns', threads='1') > one(metric='elapsed_ns', threads='0')"
passes --json predict --profile "$profile" --size-bytes 1GiB --page-size-bytes 4096,2MiB
json "one(metric='fork_ns', page_size_bytes='2097152') < one(metric='fork_ns', page_size_bytes='4096')"

# By the newest run of a folder: the last by name.
mkdir -p runs/20260101T000000Z-calibrate runs/20260102T000000Z-calibrate runs/20260103T000000Z-bench
cp "$profile" runs/20260102T000000Z-calibrate/
sed 's/"host": "[^"]*"/"host": "older"/' "$profile" >runs/20260101T000000Z-calibrate/profile.json
passes predict --size-bytes 1GiB
says out 'runs/20260102T000000Z-calibrate'

# No profile.
refuses 1 'nowhere.json.*calibrate' predict --profile nowhere.json --size-bytes 1GiB
mkdir empty
refuses 1 'no run in empty has a machine profile.*calibrate.*--profile' \
	predict --profile empty --size-bytes 1GiB
rm -r runs
refuses 1 'no run in runs has a machine profile' predict --size-bytes 1GiB
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
python3 -c 'import json, sys
d = json.load(open(sys.argv[1])); d["profile"]["curves"] = []
json.dump(d, open("no_curves.json", "w"))' "$profile"
refuses 1 'calibrate|no_curves' predict --profile no_curves.json --size-bytes 1GiB
python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
for c in d["profile"]["curves"]: c["points"] = []
json.dump(d, open("no_points.json", "w"))' "$profile"
refuses 1 'calibrate|no_points' predict --profile no_points.json --size-bytes 1GiB

refuses 2 "'1.5' for '--write-fraction" predict --profile "$profile" --size-bytes 1GiB --write-fraction 1.5
refuses 2 '--written-before-fraction' \
	predict --profile "$profile" --size-bytes 1GiB --written-before-fraction 2
refuses 2 '--size-bytes' predict --profile "$profile"
refuses 2 '--size-bytes.*address space' predict --profile "$profile" --size-bytes 18446744073709551615
refuses 2 'not a size' predict --profile "$profile" --size-bytes lots
refuses 1 'pages of 65536' predict --profile "$profile" --size-bytes 1GiB --page-size-bytes 65536
