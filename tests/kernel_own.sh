#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The kernels' own tests (tests/kernel), quick, on the plain kernel and on the patched one.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

run kernel test --kernel-dir "$REPOSITORY/kernel" --tests "$REPOSITORY/tests/kernel" \
	--quick --variant plain,patched
[[ $status == 0 ]] || cat out err
is_status 0
for variant in plain patched; do
	[[ $(grep -cE "^ok [0-9]+ $variant " out) -ge 5 ]] ||
		fail "expected five tests or more on the $variant kernel, saw: $(<out)"
done
