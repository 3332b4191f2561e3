#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# calibrate: the machine profile, whole, and what predict makes of it.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

page=$(getconf PAGESIZE)

passes --json calibrate --rounds 2 --output cal
for metric in new_process_ns pte_ns_per_page trap_ns copy_ns_per_page cow_fault_ns reuse_fault_ns \
	memcpy_ns_per_page first_touch_ns_per_page timer_ns cow_among_work_ns fork_among_work_ns \
	pte_among_work_ns_per_page vma_anon_ns vma_ns spawn_ns; do
	json "len(values(bench='calibrate', metric='$metric')) == 2"
done
# Differences of two figures, such as trap_ns, may be near 0; what is measured itself may not.
json "d['format'] == 1 and d['run']['name'] == 'calibrate'" \
	"all(v > 0 for m in ('new_process_ns', 'copy_ns_per_page', 'cow_fault_ns', 'reuse_fault_ns',
	     'memcpy_ns_per_page', 'first_touch_ns_per_page', 'timer_ns')
	     for v in values(bench='calibrate', metric=m))" \
	"all({'page_size_bytes', 'threads'} <= r['params'].keys() for r in pick(bench='calibrate'))" \
	"all(r['unit'].startswith('ns') == ('_ns' in r['metric']) for r in rows),
	 {r['metric']: r['unit'] for r in rows if r['unit'].startswith('ns') != ('_ns' in r['metric'])}" \
	"len(values(metric='remote_flush_ns')) == 2
	 or 'remote_flush_ns' in [m['metric'] for m in d['missing']], d['missing']" \
	"len(values(metric='thp_fork_among_work_ns_per_huge_page')) == 2
	 or 'thp_fork_among_work_ns_per_huge_page' in [m['metric'] for m in d['missing']], d['missing']" \
	"len({r['params']['heap_bytes'] for r in pick(bench='calibrate-among-work')}) >= 2" \
	"len(values(metric='thp_split_ns')) == 2
	 or 'thp_split_ns' in [m['metric'] for m in d['missing']], d['missing']" \
	"all(m['reason'] for m in d['missing'])"

folder=$(only_run cal)
[[ -s $folder/run.json && -s $folder/samples.parquet && -s $folder/profile.json ]] ||
	fail "expected run.json, samples.parquet and profile.json, saw: $(ls "$folder")"
cp "$folder/profile.json" out
called="$folder/profile.json"
json "d['format'] == 1" "d['environment']['kernel'] == '$(uname -r)'" \
	"d['profile']['page_size_bytes'] == $page" \
	"all(c['low'] <= c['value'] <= c['high'] and c['name'] and c['unit']
	     for c in d['profile']['costs'].values()), d['profile']['costs']" \
	"d['profile']['costs']['cow_fault_ns']['value'] > 0" \
	"[e['pages'] for e in d['profile']['entries_among_work']][0] == 1024" \
	"{c['writer'] for c in d['profile']['curves']} == {'child', 'parent'}"

# The newest run's profile is what predict takes; the run, the file and the newest agree.
passes --json predict --profile cal --size-bytes 64MiB
cp out newest
passes --json predict --profile "$folder" --size-bytes 64MiB
cmp newest out || fail "the newest run and the run predict differently"
passes --json predict --profile "$folder/profile.json" --size-bytes 64MiB
cmp newest out || fail "the newest run and its file predict differently"
json "one(metric='elapsed_low_ns') <= one(metric='elapsed_ns') <= one(metric='elapsed_high_ns')"

# The run is one that compare reads; with itself it does not differ.
passes --json compare "$folder" "$folder"
json "d['summary']['different'] == 0" "d['summary']['compared'] > 0"

refuses 2 "--rounds" calibrate --rounds 1
refuses 2 "--rounds" calibrate --rounds 0
no_probes_left
