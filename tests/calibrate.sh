#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# calibrate: the machine profile, whole, and what predict makes of it.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

page=$(getconf PAGESIZE)

passes --json calibrate --rounds 2 --output cal
says err '2 rounds: about .* minutes and .* s of CPU time on all CPUs; whatever else runs here is slowed'
load=$(cut -d' ' -f1 /proc/loadavg)
if [[ ${load%.*} -ge $(nproc) ]]; then
	says err 'the load average is .* calibrate when it is over, or take less with --rounds 2'
fi
for metric in new_process_ns pte_ns_per_page trap_ns copy_ns_per_page cow_fault_ns reuse_fault_ns \
	memcpy_ns_per_page first_touch_ns_per_page timer_ns cow_among_work_ns fork_among_work_ns \
	pte_among_work_ns_per_page vma_anon_ns vma_ns spawn_ns; do
	json metric="$metric" 'values($metric; {bench: "calibrate"}) | length == 2'
done
# Differences of two figures, such as trap_ns, may be near 0; what is measured itself may not.
json 'd.format == 1 and d.run.name == "calibrate"' \
	'all(("new_process_ns", "copy_ns_per_page", "cow_fault_ns", "reuse_fault_ns", "memcpy_ns_per_page",
		"first_touch_ns_per_page", "timer_ns") | values(.; {bench: "calibrate"})[]; . > 0)' \
	'pick({bench: "calibrate"}) | all(.params | has("page_size_bytes") and has("threads"))' \
	'rows | map(select((.unit | startswith("ns")) != (.metric | contains("_ns")))) == []' \
	'all("remote_flush_ns", "thp_fork_among_work_ns_per_huge_page", "thp_split_ns";
		(values(.) | length == 2) or (d.missing | distinct("metric") | index(.) != null))' \
	'pick({bench: "calibrate-among-work"}) | distinct("heap_bytes") | length >= 2' \
	'd.missing | all(.reason != "")'

folder=$(only_run cal)
[[ -s $folder/run.json && -s $folder/samples.parquet && -s $folder/profile.json ]] ||
	fail "expected run.json, samples.parquet and profile.json, saw: $(ls "$folder")"
cp "$folder/profile.json" out
called="$folder/profile.json"
json page="$page" kernel="$(uname -r)" 'd.format == 1' 'd.environment.kernel == $kernel' \
	'd.profile.page_size_bytes == $page' \
	'd.profile | all(.copies_by_pace, .copies_in_order; map(.own_ns) == (map(.own_ns) | sort) and length == 4)' \
	'd.profile.costs | all(.[]; .low <= .value and .value <= .high and .name != "" and .unit != "")' \
	'd.profile.costs.cow_fault_ns.value > 0' \
	'd.profile.entries_among_work[0].pages == 1024' \
	'd.profile.curves | distinct("writer") == ["child", "parent"]'

# The newest run's profile is what predict takes; the run, the file and the newest agree.
passes --json predict --profile cal --size-bytes 64MiB
cp out newest
passes --json predict --profile "$folder" --size-bytes 64MiB
cmp newest out || fail "the newest run and the run predict differently"
passes --json predict --profile "$folder/profile.json" --size-bytes 64MiB
cmp newest out || fail "the newest run and its file predict differently"
json 'one("elapsed_low_ns") <= one("elapsed_ns") and one("elapsed_ns") <= one("elapsed_high_ns")'

# Where nothing was calibrated predict does so first, for a short while, unless other work runs here.
[[ ! -e runs ]] || fail "expected no runs yet, saw: $(ls runs)"
passes --json predict --size-bytes 64MiB
if grep -q 'a short one is measured first' err; then
	[[ -s $(only_run runs)/profile.json ]] || fail "expected a run that has a profile, saw: $(find runs)"
	json '(one("fork_high_ns") / one("fork_ns") - 3 | fabs) > 0.01'
	passes --json predict --size-bytes 64MiB
	! grep -q 'measured first' err || fail "$called: expected the profile of before, saw: $(seen)"
else
	says err 'the load average is .*: nothing is measured, the prices are usual ones'
	[[ ! -e runs ]] || fail "expected no runs, saw: $(ls runs)"
fi

# The run is one that compare reads; with itself it does not differ.
passes --json compare "$folder" "$folder"
json 'd.summary.different == 0' 'd.summary.compared > 0'

refuses 2 "--rounds" calibrate --rounds 1
refuses 2 "--rounds" calibrate --rounds 0
no_probes_left
