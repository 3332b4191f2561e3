#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The kernels' own tests (tests/kernel), quick, on the patched kernel, and in make test-kernel-long on the plain one; and the
# selftests of the step that most of the kernel's memory management meets, and of the candidate.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

export COWLAB_KERNEL=$REPOSITORY/kernel
run kernel test --tests "$REPOSITORY/tests/kernel" --quick --variant "${COWLAB_TEST_LONG:+plain,}patched"
[[ $status == 0 ]] || cat out err
is_status 0
# passed VARIANT: how many tests did; a skip is no pass.
passed() {
	grep -E "^ok [0-9]+ $1 " out | grep -cv ' # SKIP' || true # 1 where it counts 0, which is judged below
}
# On the plain kernel: alloc_failures, cow_random and swap_pressure; the others are about the series.
for expected in ${COWLAB_TEST_LONG:+plain=3} patched=11; do
	variant=${expected%=*}
	[[ $(passed "$variant") -ge ${expected#*=} ]] ||
		fail "expected ${expected#*=} tests or more to pass on the $variant kernel, saw: $(<out)"
done
# What every test there is about is in the patched kernel.
if grep -E '^ok [0-9]+ patched .* # SKIP' out >skipped; then
	fail "expected no skip on the patched kernel, saw: $(<skipped)"
fi
for test in cow_defer cow_around; do
	run kernel test --variant patched --filter mm/$test
	[[ $status == 0 ]] || cat out err
	is_status 0
	grep -Eq '^# patched: [1-9][0-9]+ cases passed, 0 failed, 0 skipped$' out || fail "expected $test to pass, saw: $(<out)"
done
