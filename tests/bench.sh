#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench fork-sweep: the document, the run on disk, and every parameter.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

page=$(getconf PAGESIZE)

passes --json bench fork-sweep --forks 20 --heap-bytes 4MiB --write-fraction 0,0.5 --rounds 2 \
	--output runs
[[ ! -s err ]] || fail "$called: expected no progress where there is no terminal, saw: $(seen)"
json page="$page" 'd.format == 1' \
	'd.missing == [] and (d | has("summary")) and d.run.format == 1' \
	'd.run.name == "bench-fork-sweep" and d.run.seed == 1988' \
	'd.run.command | last == "runs"' \
	'd.run.environments | all(.page_size_bytes == $page and .kernel != "")' \
	'rows | all(keys | includes(["bench", "params", "metric", "unit", "value", "rep"]))' \
	'all(rows[].params[]; type == "string")' \
	'rows | distinct("metric") | includes(["real_ns", "user_ns", "sys_ns"])' \
	'rows | map(select(.metric | endswith("_ns"))) | all(.unit == "ns")' \
	'rows | distinct("rep") == [0, 1]' \
	'values("real_ns"; {write_fraction: "0.5"}) | length == 2' \
	'values("real_ns"; {write_fraction: "0"}) | length == 2' \
	'rows[0].params | keys | includes(["forks", "heap_bytes", "write_fraction", "method", "writer",
		"page_size_bytes", "threads", "populated"])' \
	'values("minor_faults"; {write_fraction: "0.5"}) | all(. >= 20 * 4194304 / 2 / $page)' \
	'(values("minor_faults"; {write_fraction: "0.5"}) | min)
		- (values("minor_faults"; {write_fraction: "0"}) | max) - 20 * 2097152 / $page | fabs < 200'
folder=$(only_run runs)
for file in run.json samples.ndjson.gz tables/fork-sweep.csv; do
	[[ -s $folder/$file ]] || fail "expected $file in the run, saw: $(ls -R "$folder")"
done
jq -e --slurpfile kept <(gzip -dc "$folder/samples.ndjson.gz") '.samples == $kept' out >same ||
	fail "samples.ndjson.gz differs from the document: $(gzip -dc "$folder/samples.ndjson.gz" | head -n 3)"
head -n 1 "$folder/tables/fork-sweep.csv" | grep -q 'write_fraction,metric' ||
	fail "unexpected columns: $(head -n 1 "$folder/tables/fork-sweep.csv")"
jq -e --slurpfile stored "$folder/run.json" '.run == $stored[0]' out >same ||
	fail "run.json differs from the document: $(<"$folder/run.json")"
[[ -z $(find runs -name '.unfinished-*') ]] || fail "unfinished folders: $(find runs)"

# Methods that copy nothing; lists make the product.
passes --json bench fork-sweep --forks 5,10 --heap-bytes 0,1MiB --write-fraction 0 --rounds 1 \
	--method fork,vfork,clone-vm-vfork,posix-spawn
json 'rows | distinct("method") | same(["fork", "vfork", "clone-vm-vfork", "posix-spawn"])' \
	'values("real_ns") | length == 2 * 2 * 4' \
	'values("real_ns") | all(. > 0)' \
	'cells(["method", "forks", "heap_bytes"]) | map(select(.params.method | test("vfork"))) |
		length > 0 and all(.minor_faults <= 10)'

# Who writes: copies cost a fault a page, whoever makes them; the next fork of a child's heap finds
# it as it was.
threads=0
[[ $(nproc) == 1 ]] || threads=0,1
passes --json bench fork-sweep --forks 4 --heap-bytes 4MiB --write-fraction 0.5 --rounds 1 \
	--writer child,parent,parent-reuse --threads "$threads"
json page="$page" 'values("real_ns") | length == 3 * '"$(tr -dc , <<<"$threads," | wc -c)" \
	'(4 * 2097152 / $page) as $written | values("minor_faults") |
		all($written <= . and . < $written + 200)' \
	'values("write_ns") | all(. > 0)'

# Untouched: fork copies no entries, and populating took no faults.
passes --json bench fork-sweep --forks 4 --heap-bytes 4MiB --write-fraction 0,1 --rounds 1 \
	--set populated=false
json page="$page" 'rows | distinct("populated") == ["false"]' \
	'pick({metric: "populate_pages_per_fault"}) == []' \
	'one("minor_faults"; {write_fraction: "1"}) >= 4 * 4194304 / $page'

# Beside the heap: other work, mappings, and a heap that copies have scattered; each tells itself apart.
passes --json bench fork-sweep --forks 3 --heap-bytes 1MiB --write-fraction 0 --rounds 1 \
	--set scattered=true --set settled=true --set work_us=0,500 --set vmas_anon=0,200 --set vmas=0,200
json 'values("real_ns") | length == 2 * 2 * 2' \
	'rows | distinct("scattered") == ["true"]' \
	'rows | distinct("params") | length == 8' \
	'values("real_ns"; {work_us: "500"}) | length > 0 and all(. >= 3 * 500000)'
refuses 2 'scattered' bench fork-sweep --set scattered=true --set populated=false
refuses 2 'scattered' bench fork-sweep --set scattered=true --page-size-bytes 2MiB
refuses 1 'max_map_count' bench fork-sweep --forks 1 --heap-bytes 0 --write-fraction 0 --rounds 1 \
	--set vmas=60000 --set vmas_anon=60000

# A probe's own mappings, which the model leaves out of every fork's (Vmas::OF_A_PROBE): 5 with pages
# of their own, and 9 others, of which a kernel may have some less (vvar_vclock, vsyscall).
"$COWLAB" bench fork-sweep --forks 100000 --heap-bytes 0 --write-fraction 0 --rounds 1 --output own \
	>own.out 2>&1 &
sweep=$!
wait_for 10 pgrep -f 'memfd:do_fork|^do_fork' -P $sweep
own=$(pgrep -o -f 'memfd:do_fork|^do_fork' -P $sweep)
sleep 0.2
awk '/^[0-9a-f]+-[0-9a-f]+ / { all++ } /^Anonymous: +[1-9]/ { anon++ } END { print anon, all - anon }' \
	"/proc/$own/smaps" >mappings
kill -INT $sweep
wait $sweep || true # it was interrupted
read -r anon others <mappings
((anon == 5 && others >= 6 && others <= 10)) || fail "a probe has $anon and $others mappings, not 5 and 9"

# How children are reaped; the CPU time of those never waited for is lost, as published.
for reap in 4 never; do
	passes --json bench fork-sweep --forks 30 --heap-bytes 1MiB --write-fraction 1 --rounds 1 \
		--set "reap=$reap"
	json reap="$reap" 'rows | distinct("reap") == ["\($reap)"]' \
		'one("real_ns") > 0'
done
json page="$page" 'one("minor_faults") < 30 * 1048576 / $page'

# For people: a table, and the place of the run on standard error.
passes bench fork-sweep --forks 3 --heap-bytes 1MiB --rounds 1 --output people
says out 'real_ns'
says err "$(only_run people)"
no_probes_left
