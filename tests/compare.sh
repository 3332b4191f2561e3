#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# compare: a run with itself, runs with nothing in common, and runs that are not whole.
# beside: it measures nothing
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

passes bench fork-sweep --forks 3 --heap-bytes 1MiB --write-fraction 0,1 --rounds 6 --output one
one=$(only_run one)
passes bench fork-table --iterations 5 --method vfork --size-bytes 1MiB --touched true --rounds 2 \
	--output other
other=$(only_run other)

# With itself: no figure differs.
passes compare "$one" "$one"
says out ': 0 different, [1-9][0-9]* without a difference'
passes --json compare "$one" "$one"
json 'd.format == 1' 'd.summary.different == 0' 'd.summary.compared > 0' \
	'd.summary.only_in_one == 0 and d.summary.environments_differ == []' \
	'd.summary.figures | all(.verdict != "different" and .first == .second)' \
	'd.summary.figures[0] | keys | includes(["bench", "params", "metric", "unit"])'
[[ ! -s err ]] || fail "$called: expected nothing on standard error, saw: $(seen)"
COLUMNS=300 passes compare --all "$one" "$one"
says out 'no difference seen'
says out 'real_ns'
# A trailing slash and a run moved elsewhere are the same run.
cp -r "$one" moved
passes compare "$one/" moved
says out ': 0 different'

# Nothing in common, by runs and by --bench.
refuses 1 'runs of unlike things: bench-fork-sweep, and bench-fork-table' compare "$one" "$other"
refuses 1 'no figure in common in fork-sweep' compare --bench fork-sweep "$one" "$other"
# Footprints of one program, and of another.
for program in true true false; do
	run footprint --method exclusive --output "of_$program" -- "$program"
done
of_true=(of_true/*)
passes compare "${of_true[@]}"
refuses 1 'unlike things: footprint of true, and footprint of false' compare "${of_true[0]}" of_false/*
refuses 1 'no figure in common in cow-faults' compare --bench cow-faults "$one" "$one"
passes --json compare --bench fork-sweep "$one" "$one"
json 'd.summary.figures | distinct("bench") == ["fork-sweep"]'

# Not whole. The second operand is looked at as closely as the first.
damaged() {
	rm -rf damaged
	cp -r "$one" damaged
}
not_read() {
	refuses 1 "$1" compare damaged "$one"
	refuses 1 "$1" compare "$one" damaged
	refuses 1 "$1" --json compare "$one" damaged
}
for bytes in 0 1 50 300; do
	damaged
	head -c "$bytes" "$one/run.json" >damaged/run.json
	not_read 'damaged/run.json'
done
size=$(wc -c <"$one/samples.ndjson.gz")
for bytes in 0 3 8 100 $((size / 2)) $((size - 8)) $((size - 1)); do
	damaged
	head -c "$bytes" "$one/samples.ndjson.gz" >damaged/samples.ndjson.gz
	not_read 'damaged/samples.ndjson.gz'
done
# One byte changed: refused, or not noticed where it holds no figure; but never a panic.
for offset in 4 20 $((size / 4)) $((size / 2)) $((3 * size / 4)) $((size - 6)) $((size - 200)); do
	damaged
	printf '\377' | dd of=damaged/samples.ndjson.gz bs=1 seek="$offset" conv=notrunc status=none
	run compare "$one" damaged
	[[ $status == 0 ]] || says err 'damaged'
done
damaged
rm damaged/samples.ndjson.gz
not_read 'damaged/samples.ndjson.gz'
damaged
rm damaged/run.json
not_read 'damaged.*run.json'
damaged
echo '{"name": "left-pad", "version": "1.0"}' >damaged/run.json
not_read 'damaged/run.json is cut, damaged or foreign'
damaged
sed -i 's/"format": 1/"format": 2/' damaged/run.json
not_read 'damaged/run.json has format 2'
damaged
head -c 5000 /dev/urandom >damaged/samples.ndjson.gz
not_read 'damaged/samples.ndjson.gz'
damaged
rm damaged/samples.ndjson.gz
mkdir damaged/samples.ndjson.gz
not_read 'damaged/samples.ndjson.gz'

rm -rf damaged
not_read 'there is no damaged: runs are below runs/'
mkdir damaged
not_read 'damaged is not a run of cowlab'
rmdir damaged
echo text >damaged
not_read 'damaged is not a run of cowlab'

refuses 2 'RUN|SECOND' compare "$one"
refuses 2 '--drift-percent' compare --drift-percent=-1 "$one" "$one"
refuses 2 '--drift-percent' compare --drift-percent nan "$one" "$one"
no_probes_left
