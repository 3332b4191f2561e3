#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# study --quick: the main job, everything in it, in two rounds; as many as users get with
# COWLAB_TEST_LONG=1 (make test-long).
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

rounds=(--rounds 2)
least=2
if [[ -n ${COWLAB_TEST_LONG:-} ]]; then
	rounds=()
	least=4
fi
passes --json study --quick "${rounds[@]}" --output runs
json least=$least 'd.format == 1 and d.run.name == "study"' \
	'rows | distinct("bench") | includes(["calibrate", "fork-sweep", "fork-table", "cow-faults", "cow-check"])' \
	'rows | all(.unit != "")' \
	'pick({bench: "calibrate"}) | distinct("rep") | length >= $least' \
	'pick({bench: "cow-check"}) | distinct("children") == ["1", "2", "3", "4", "5", "6", "7", "8"]' \
	'd.missing | all(.reason != "")'

folder=$(only_run runs)
for file in run.json samples.parquet profile.json report.html; do
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

passes --json predict --profile runs --size-bytes 10GiB
json 'one("elapsed_low_ns") <= one("elapsed_ns") and one("elapsed_ns") <= one("elapsed_high_ns")'
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
