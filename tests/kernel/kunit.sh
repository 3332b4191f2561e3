#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The series' KUnit tests, which the kernel ran at boot (kunit.enable=1): their results as one KTAP
# document. Exit status 0: passed, 1: failed, 4: skipped.
set -euo pipefail

results=(/sys/kernel/debug/kunit/*/results)
if [[ ! -e ${results[0]} ]]; then
	grep -qw kunit.enable=1 /proc/cmdline || {
		echo "this kernel was booted without kunit.enable=1"
		exit 4
	}
	[[ ! -e /proc/cow_stats ]] || {
		echo "not ok: a kernel with the series, and no KUnit suite ran"
		exit 1
	}
	echo "this kernel has no KUnit suites"
	exit 4
fi
echo "KTAP version 1"
echo "1..${#results[@]}"
for i in "${!results[@]}"; do
	# Each is a document of its own, with a plan of one suite: "ok 1 casper".
	sed -E "/^(KTAP version 1|1\.\.1)\$/d; s/^((not )?ok) 1 /\1 $((i + 1)) /" "${results[i]}"
done
! grep -q '^not ok' "${results[@]}"
