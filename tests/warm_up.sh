#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# compare of two blames, and of two footprints, says how many bytes a worker of a warmed parent copies less: against a
# program that says what its workers copy.
# beside: it looks at programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ $(id -u) == 0 ]] || skip "blame needs root, or CAP_BPF and CAP_PERFMON"
command -v gcc >/dev/null || skip "needs gcc"
gcc -O2 -Wall -Wextra -o requests "$REPOSITORY/tests/lib/requests.c"

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

# A worker copies 1,000 of 1,800 pages less, 3.91 MiB, and makes 400 less, 1.56 MiB.
for verb in blame footprint; do
	measured $verb 0 100
	[[ $copied == 1800 && $made == 400 ]] || fail "the program wrote $copied and $made"
	measured $verb 100 100
	[[ $copied == 800 && $made == 0 ]] || fail "warmed it wrote $copied and $made"
	COLUMNS=200 passes compare $verb-0-100 $verb-100-100
	says out "MiB copied a (worker of requests|fork by requests, fork-to-exit, child) in $verb-0-100, .* in $verb-100-100: 3[.]9[0-9]* MiB less"
done
says out 'requests, fork-to-exit, child .*anon.* copied .*MiB .*MiB +-3[.]9'
says out 'requests, fork-to-exit, child .*anon.* made new .*MiB .* +-1[.][56]'
passes --json compare footprint-0-100 footprint-100-100
json '[d.summary.figures[] | select(.metric == "cow_pages" and .params.writer == "child" and .params.mapping == "all"
	and .params.program == "requests")] | any((.first - .second) / 3 | 990 < . and . < 1010)'
# The other way round it is more.
passes compare blame-100-100 blame-0-100
says out '3[.]9[0-9]* MiB more'

cp -r blame-0-100 cut
head -c 1000 blame-0-100/stacks.pb.gz >cut/stacks.pb.gz
refuses 1 'stacks.pb.gz is cut, damaged or foreign' compare blame-0-100 cut
