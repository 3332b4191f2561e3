#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# sharing --plan against a program that says what its workers copy after how many requests, with parents that
# were warmed up and not; and what it refuses.
# beside: it looks at programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

refuses 2 "'runs' does not say how many requests" sharing --plan runs other:10
refuses 2 'cannot be used with' sharing 1 --plan a:1 b:2
refuses 2 'required arguments' sharing
refuses 1 'there is no nowhere' sharing --plan nowhere:1 nowhere:2
refuses 1 'this is a run of `study`' sharing --plan "$REPOSITORY"/crates/report/tests/old_runs/study:{1,2}
[[ $(id -u) == 0 ]] || skip "blame needs root, or CAP_BPF and CAP_PERFMON"
command -v gcc >/dev/null || skip "needs gcc"
gcc -O2 -Wall -Wextra -o requests "$REPOSITORY/tests/lib/requests.c"
cp requests others

# measured VERB WARMED SERVED: a run, in the folder VERB-WARMED-SERVED, and what its workers say in copied and
# made.
measured() {
	local verb=$1 name=$1-$2-$3
	local with=(--method exclusive)
	[[ $verb != blame ]] || with=(--every 1)
	passes "$verb" "${with[@]}" --output "in-$name" -- bash -c "exec ./requests $2 $3 >$name.truth"
	mv "$(only_run "in-$name")" "$name"
	read -r copied made <"$name.truth"
	[[ $(sort -u "$name.truth" | wc -l) == 1 ]] || fail "its workers differ: $(cat "$name.truth")"
}

# What a worker's stack, data and page tables come to.
few=25
for verb in blame footprint; do
	for served in 1 10 100; do measured $verb 0 $served; done
	[[ $copied == 1800 && $made == 400 ]] || fail "the program wrote $copied and $made"
	measured $verb 10 100
	[[ $copied == 1300 && $made == 0 ]] || fail "warmed it wrote $copied and $made"
	measured $verb 100 100
	[[ $copied == 800 && $made == 0 ]] || fail "warmed it wrote $copied and $made"
	new=400 both=1
	[[ $verb != blame ]] || new=0 both=0

	# Cold runs: the truth is within their bounds, and these are as narrow as they can be.
	passes --json sharing --plan $verb-0-{1:1,10:10,100:100}
	json few=$few new=$new both=$both '4096 as $page | d.summary | .requests == 100 and .program == "requests"
		and ([.runs[].copied_bytes / $page] |
			.[0] >= 355 and .[0] < 355 + $few and .[1] >= 850 and .[1] < 850 + $few
			and .[2] >= 1800 and .[2] < 1800 + $few)
		and all(.runs[]; .workers == 3)
		and (.warmups | map(.warmed_requests) == [1, 10, 100] and all(.[]; .is_measured | not))
		and (.warmups | map([.saved_least_bytes / $page, .saved_most_bytes / $page]) |
			.[1][0] <= 500 + $new and .[1][1] >= 500 + $new and .[1][1] < 850 + $new + 2 * $few
			and .[2][0] <= 1000 + $new and .[2][1] >= 1000 + $new)' \
		'd.summary.sentences | any(test("RUN:10[0]?\\+100"))' \
		'values("saved_most_bytes") | length == 3'
	if [[ $verb == blame ]]; then
		# 1,300 pages are of all workers: what differs no warm-up saves.
		json few=$few 'd.summary | .runs[2].common_bytes / 4096 | . >= 1300 and . < 1300 + $few' \
			'd.summary.warmups[2].saved_most_bytes / 4096 | . >= 1300 and . < 1325' \
			'd.missing | any(.metric == "new_bytes")'
	else
		json 'd.summary.runs[2] | .forked_bytes > 20000 * 4096 and .new_bytes >= 400 * 4096 and .new_bytes < 420 * 4096' \
			'd.summary.sentences | any(test("^Forking pays: after 100 requests a worker still shares 9"))'
	fi

	# Parents that were warmed: to some pages what the program says.
	passes --json sharing --plan $verb-0-{1:1,10:10,100:100} $verb-10-100:10+100 $verb-100-100:100+100
	json few=$few new=$new 'd.summary.warmups | map(.saved_most_bytes / 4096) |
		(.[1] - 500 - $new | fabs) < $few and (.[2] - 1000 - $new | fabs) < $few and .[0] <= .[1] + 1' \
		'd.summary.warmups | map(.is_measured) == [false, true, true]' \
		'd.summary.sentences[0] | test("^Warming the parent with 100 requests saves each worker .* as measured")'
	passes sharing --plan $verb-0-100:100 $verb-10-100:10+100
	says out '^• Warming the parent with 10 requests saves each worker [0-9.]+ MiB of the [0-9.]+ MiB'
	says out ' measured'
done

refuses 2 'one run is no plan' sharing --plan blame-0-1:1
refuses 2 'two runs have 1 requests' sharing --plan blame-0-1:1 blame-0-10:1
refuses 2 'count different things' sharing --plan blame-0-1:1 footprint-0-10:10
refuses 2 'differ by more than their requests' sharing --plan blame-0-10:1 blame-0-1:10
refuses 2 'no run of 100 requests without a warm-up' sharing --plan blame-0-1:1 blame-10-100:10+100
passes blame --every 1 --output in-others -- ./others 0 10
refuses 2 'different programs: requests and others' sharing --plan blame-0-1:1 "$(only_run in-others):10"
cp -r blame-0-10 cut
head -c 1000 blame-0-10/stacks.pb.gz >cut/stacks.pb.gz
refuses 1 'stacks.pb.gz is cut, damaged or foreign' sharing --plan blame-0-1:1 cut:10
cp blame-0-10/stacks.pb.gz cut
head -c 1000 blame-0-10/samples.parquet >cut/samples.parquet
refuses 1 'samples.parquet' sharing --plan blame-0-1:1 cut:10
