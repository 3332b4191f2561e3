#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The kernels' own tests (tests/kernel), quick, on the patched kernel (the plain one: make test-kernel-long), and the
# selftests of the step that most of the kernel's memory management meets, and of the candidate.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

export COWLAB_KERNEL=$REPOSITORY/kernel
run kernel test --tests "$REPOSITORY/tests/kernel" --quick --variant patched
[[ $status == 0 ]] || cat out err
is_status 0
# A skip is no pass.
passed=$(grep -E '^ok [0-9]+ patched ' out | grep -cv ' # SKIP' || true) # 1 where it counts 0, which is judged below
[[ $passed -ge 11 ]] || fail "expected 11 tests or more to pass, saw: $(<out)"
# What every test there is about is in the patched kernel.
if grep -E '^ok [0-9]+ patched .* # SKIP' out >skipped; then
	fail "expected no skip on the patched kernel, saw: $(<skipped)"
fi
for test in cow_defer cow_around; do
	run kernel selftests --variant patched --policy defer --filter $test
	[[ $status == 0 ]] || cat out err
	is_status 0
	grep -Eq '^patched defer +[1-9][0-9]+ +0 +0$' out || fail "expected $test to pass, saw: $(<out)"
done
