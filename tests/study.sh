#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# study --quick: the main job, everything in it, in two rounds, as on a machine with 700 MiB of free memory; the
# machine profile that it measures, whole, and what predict makes of it. With COWLAB_TEST_LONG=1 (make test-long) with
# the memory that there is, as many rounds as users get, and calibrate by itself, which measures the same profile.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

page=$(getconf PAGESIZE)

# is_calibrated FOLDER LEAST: `out` has the rows of a calibration of LEAST rounds or more, and the run its profile.
is_calibrated() {
	local folder=$1 metric
	for metric in new_process_ns pte_ns_per_page trap_ns copy_ns_per_page cow_fault_ns reuse_fault_ns \
		memcpy_ns_per_page first_touch_ns_per_page timer_ns cow_among_work_ns fork_among_work_ns \
		pte_among_work_ns_per_page vma_anon_ns vma_ns spawn_ns; do
		json metric="$metric" least="$2" 'values($metric; {bench: "calibrate"}) | length >= $least'
	done
	# Differences of two figures, such as trap_ns, may be near 0; what is measured itself may not.
	json least="$2" 'all(("new_process_ns", "copy_ns_per_page", "cow_fault_ns", "reuse_fault_ns",
			"memcpy_ns_per_page", "first_touch_ns_per_page", "timer_ns") | values(.; {bench: "calibrate"})[]; . > 0)' \
		'pick({bench: "calibrate"}) | all(.params | has("page_size_bytes") and has("threads"))' \
		'pick({bench: "calibrate"}) | map(select((.unit | startswith("ns")) != (.metric | contains("_ns")))) == []' \
		'all("remote_flush_ns", "thp_fork_among_work_ns_per_huge_page", "thp_split_ns";
			(values(.) | length >= $least) or (d.missing | distinct("metric") | index(.) != null))' \
		'pick({bench: "calibrate-among-work"}) | distinct("heap_bytes") | length >= 2'
	holds "$folder/profile.json" page="$page" kernel="$(uname -r)" '$documents | length == 1' 'd.format == 1' \
		'd.environment.kernel == $kernel' 'd.profile.page_size_bytes == $page' \
		'd.profile | all(.copies_by_pace, .copies_in_order; map(.own_ns) == (map(.own_ns) | sort) and length == 4)' \
		'd.profile.costs | all(.[]; .low <= .value and .value <= .high and .name != "" and .unit != "")' \
		'd.profile.costs.cow_fault_ns.value > 0' \
		'd.profile.entries_among_work[0].pages == 1024' \
		'd.profile.curves | distinct("writer") == ["child", "parent"]'
}

refuses 2 "--rounds" calibrate --rounds 1
refuses 2 "--rounds" calibrate --rounds 0
rounds=(--rounds 2)
least=2
if [[ -n ${COWLAB_TEST_LONG:-} ]]; then
	rounds=()
	least=4
	passes --json calibrate --rounds 2 --output cal
	says err '2 rounds: about .* minutes and .* s of CPU time on all CPUs; whatever else runs here is slowed'
	load=$(cut -d' ' -f1 /proc/loadavg)
	if [[ ${load%.*} -ge $(nproc) ]]; then
		says err 'the load average is .* calibrate when it is over, or take less with --rounds 2'
	fi
	json 'd.run.name == "calibrate"'
	is_calibrated "$(only_run cal)" 2
fi
# Heaps then end at 64 MiB, which is said: half of the time that heaps of 1 GiB take.
study() {
	passes --json study --quick "${rounds[@]}" --output runs
}
if [[ -z ${COWLAB_TEST_LONG:-} && $(id -u) == 0 ]] && unshare -m true 2>/dev/null; then
	sed 's/^MemAvailable:.*/MemAvailable: 716800 kB/' /proc/meminfo >meminfo
	cat >small <<-END
		#!/bin/sh
		exec unshare -m sh -c 'mount --bind "\$0" /proc/meminfo && exec "\$@"' "$PWD/meminfo" "$COWLAB" "\$@"
	END
	chmod +x small
	COWLAB=$PWD/small study
	json 'd.missing | any(.metric == "heaps up to 1 GiB" and (.reason | contains("heaps end at 67108864 bytes")))'
else
	study
fi
json least=$least 'd.format == 1 and d.run.name == "study"' \
	'rows | distinct("bench") | includes(["calibrate", "fork-sweep", "fork-table", "cow-faults", "cow-check"])' \
	'rows | all(.unit != "")' \
	'pick({bench: "cow-check"}) | distinct("children") == ["1", "2", "3", "4", "5", "6", "7", "8"]' \
	'd.missing | all(.reason != "")'

folder=$(only_run runs)
is_calibrated "$folder" $least
for file in run.json samples.ndjson.gz profile.json report.html; do
	[[ -s $folder/$file ]] || fail "expected $file in the run, saw: $(ls -R "$folder")"
done
tables=("$folder"/tables/*.csv)
[[ ${#tables[@]} -ge 3 ]] || fail "expected tables, saw: ${tables[*]}"
for table in "${tables[@]}"; do
	[[ $(wc -l <"$table") -ge 2 ]] || fail "$table has no rows"
done

# All ways to make a process, with touched memory and without.
for table in "$folder"/tables/fork-table-{touched,untouched}.csv; do
	ways=$(tail -n +2 "$table" | cut -d, -f1 | sort | paste -sd ' ')
	[[ $ways == 'fork fork+exec posix-spawn vfork vfork+exec' ]] || fail "$table has only: $ways"
done

# The page works without a network and from a file.
page=$folder/report.html
grep -qi '^<!doctype html>' "$page" || fail "report.html is no HTML page"
tail -c 100 "$page" | grep -qi '</html>' || fail "report.html is cut"
! grep -qiE '<(script|img|link|iframe)[^>]+(src|href)="(https?:)?//' "$page" ||
	fail "report.html loads something from a network"

# The newest run's profile is what predict takes; the run, the file and the newest agree.
passes --json predict --profile runs 10GiB
cp out newest
for profile in "$folder" "$folder/profile.json"; do
	passes --json predict --profile "$profile" 10GiB
	cmp newest out || fail "the newest run and $profile predict differently"
done
json base="$(getconf PAGESIZE)" '{page_size_bytes: ($base | tostring)} as $of |
	one("elapsed_low_ns"; $of) <= one("elapsed_ns"; $of) and one("elapsed_ns"; $of) <= one("elapsed_high_ns"; $of)'
passes --json compare "$folder" "$folder"
json 'd.summary.different == 0 and d.summary.compared > 100'
passes report "$folder"
[[ $(wc -l <out) -le 60 ]] || fail "expected at most 60 lines of findings, saw $(wc -l <out)"
[[ -s out ]] || fail "$called: expected the findings, saw nothing"
passes report "$folder" --output again.html
[[ -s again.html ]] || fail "$called: expected again.html"

# Interrupted before its end, it keeps nothing.
env --default-signal=INT "$COWLAB" study --output early >out 2>err </dev/null &
pid=$!
probe_seen '(keep_warm|do_fork|calibrate)'
sleep 2
kill -s INT "$pid"
status=0
wait "$pid" || status=$?
called='cowlab study, SIGINT'
is_status 130
no_probes_left
nothing_kept early
