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
json "d['format'] == 1" \
	"d['missing'] == [] and 'summary' in d and d['run']['format'] == 1" \
	"d['run']['name'] == 'bench-fork-sweep' and d['run']['seed'] == 1988" \
	"d['run']['command'][-1] == 'runs'" \
	"all(e['page_size_bytes'] == $page and e['kernel'] for e in d['run']['environments'])" \
	"all({'bench', 'params', 'metric', 'unit', 'value', 'rep'} <= r.keys() for r in rows)" \
	"all(isinstance(v, str) for r in rows for v in r['params'].values())" \
	"{'real_ns', 'user_ns', 'sys_ns'} <= {r['metric'] for r in rows}" \
	"all(r['unit'] == 'ns' for r in rows if r['metric'].endswith('_ns'))" \
	"{r['rep'] for r in rows} == {0, 1}" \
	"len(pick(metric='real_ns', write_fraction='0.5')) == 2" \
	"len(pick(metric='real_ns', write_fraction='0')) == 2" \
	"{'forks', 'heap_bytes', 'write_fraction', 'method', 'writer', 'page_size_bytes', 'threads',
	  'populated'} <= rows[0]['params'].keys()" \
	"all(v >= 20 * (4 << 20) / 2 / $page
	     for v in values(metric='minor_faults', write_fraction='0.5')), values(metric='minor_faults')" \
	"all(-200 < min(values(metric='minor_faults', write_fraction='0.5'))
	     - max(values(metric='minor_faults', write_fraction='0')) - 20 * (2 << 20) / $page < 200
	     for _ in [0]), values(metric='minor_faults')"
folder=$(only_run runs)
for file in run.json samples.parquet tables/fork-sweep.csv; do
	[[ -s $folder/$file ]] || fail "expected $file in the run, saw: $(ls -R "$folder")"
done
head -c 4 "$folder/samples.parquet" | grep -q PAR1 || fail "samples.parquet is not Parquet"
tail -c 4 "$folder/samples.parquet" | grep -q PAR1 || fail "samples.parquet is cut"
head -n 1 "$folder/tables/fork-sweep.csv" | grep -q 'write_fraction,metric' ||
	fail "unexpected columns: $(head -n 1 "$folder/tables/fork-sweep.csv")"
cp out document
python3 -c 'import json, sys
document, run = json.load(open("document")), json.load(open(sys.argv[1]))
sys.exit(0 if document["run"] == run else f"run.json differs from the document: {run}")' \
	"$folder/run.json" || fail "see above"
[[ -z $(find runs -name '.unfinished-*') ]] || fail "unfinished folders: $(find runs)"

# Methods that copy nothing; lists make the product.
passes --json bench fork-sweep --forks 5,10 --heap-bytes 0,1MiB --write-fraction 0 --rounds 1 \
	--method fork,vfork,clone-vm-vfork,posix-spawn
json "{r['params']['method'] for r in rows} == {'fork', 'vfork', 'clone-vm-vfork', 'posix-spawn'}" \
	"len(pick(metric='real_ns')) == 2 * 2 * 4, len(pick(metric='real_ns'))" \
	"all(v > 0 for v in values(metric='real_ns'))" \
	"all(cell['minor_faults'] <= 10
	     for key, cell in each('method', 'forks', 'heap_bytes').items()
	     if key[0] in ('vfork', 'clone-vm-vfork')), each('method', 'forks', 'heap_bytes')"

# Who writes: copies cost a fault a page, whoever makes them; the next fork of a child's heap finds
# it as it was.
threads=0
[[ $(nproc) == 1 ]] || threads=0,1
passes --json bench fork-sweep --forks 4 --heap-bytes 4MiB --write-fraction 0.5 --rounds 1 \
	--writer child,parent,parent-reuse --threads "$threads"
json "len(pick(metric='real_ns')) == 3 * len('$threads'.split(','))" \
	"all(4 * (2 << 20) / $page <= v < 4 * (2 << 20) / $page + 200
	     for v in values(metric='minor_faults')), each('writer', 'threads')" \
	"all(v > 0 for v in values(metric='write_ns'))"

# Untouched: fork copies no entries, and populating took no faults.
passes --json bench fork-sweep --forks 4 --heap-bytes 4MiB --write-fraction 0,1 --rounds 1 \
	--set populated=false
json "{r['params']['populated'] for r in rows} == {'false'}" \
	"pick(metric='populate_pages_per_fault') == []" \
	"one(metric='minor_faults', write_fraction='1') >= 4 * (4 << 20) / $page"

# Beside the heap: other work, mappings, and a heap that copies have scattered; each tells itself apart.
passes --json bench fork-sweep --forks 3 --heap-bytes 1MiB --write-fraction 0 --rounds 1 \
	--set scattered=true --set settled=true --set work_us=0,500 --set vmas_anon=0,200 --set vmas=0,200
json "len(pick(metric='real_ns')) == 2 * 2 * 2" \
	"{r['params']['scattered'] for r in rows} == {'true'}" \
	"len({tuple(sorted(r['params'].items())) for r in rows}) == 8" \
	"all(v >= 3 * 500_000 for v in values(metric='real_ns', work_us='500'))"
refuses 2 'scattered' bench fork-sweep --set scattered=true --set populated=false
refuses 2 'scattered' bench fork-sweep --set scattered=true --page-size-bytes 2MiB
refuses 1 'max_map_count' bench fork-sweep --forks 1 --heap-bytes 0 --write-fraction 0 --rounds 1 \
	--set vmas=60000 --set vmas_anon=60000

# A probe's own mappings, which the model leaves out of every fork's (Vmas::OF_A_PROBE): 5 with pages
# of their own, and 9 others, of which a kernel may have some less (vvar_vclock, vsyscall).
"$COWLAB" bench fork-sweep --forks 100000 --heap-bytes 0 --write-fraction 0 --rounds 1 --output own \
	>own.out 2>&1 &
sweep=$!
for _ in {1..100}; do
	own=$(pgrep -o -f 'memfd:do_fork|^do_fork' -P $sweep || true)
	[[ -z $own ]] || break
	sleep 0.05
done
[[ -n ${own:-} ]] || fail "no probe was seen: $(cat own.out)"
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
	json "{r['params']['reap'] for r in rows} == {'$reap'}" \
		"len(pick(metric='real_ns')) == 1 and one(metric='real_ns') > 0"
done
json "one(metric='minor_faults') < 30 * (1 << 20) / $page, one(metric='minor_faults')"

# For people: a table, and the place of the run on standard error.
passes bench fork-sweep --forks 3 --heap-bytes 1MiB --rounds 1 --output people
says out 'real_ns'
says err "$(only_run people)"
no_probes_left
