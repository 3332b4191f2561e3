#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench fork-table: every method, touched and untouched; the rate is iterations by time.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

rate="all(math.isclose(c['rate_per_s'] * c['elapsed_ns'] / 1e9, int(key[3]), rel_tol=1e-6)
	for key, c in each('method', 'touched', 'size_bytes', 'iterations').items()), rows"

passes --json bench fork-table --iterations 50 --rounds 2
json "$rate" \
	"{r['params']['method'] for r in rows}
	 == {'fork', 'vfork', 'posix-spawn', 'fork+exec', 'vfork+exec'}" \
	"{r['params']['touched'] for r in rows} == {'true', 'false'}" \
	"{r['params']['size_bytes'] for r in rows} == {'1782579', '2831155', '12268339'}" \
	"len(pick(metric='elapsed_ns')) == 5 * 2 * 3 * 2, len(pick(metric='elapsed_ns'))" \
	"{'elapsed_ns', 'cpu_ns', 'rate_per_s'} <= {r['metric'] for r in rows}" \
	"all(c['cpu_with_children_ns'] >= c['cpu_ns'] >= 0
	     for c in each('method', 'touched', 'size_bytes').values())" \
	"all(r['unit'] == 'per_s' for r in pick(metric='rate_per_s')), pick(metric='rate_per_s')[0]"

passes --json bench fork-table --iterations 7 --rounds 1 --method vfork --size-bytes 1MiB,2MiB --touched true
json "$rate" "len(pick(metric='elapsed_ns', touched='true', iterations='7', method='vfork')) == 2" \
	"len(pick(metric='elapsed_ns')) == 2"

refuses 2 "'clone-vm-vfork' is not measured here: choose one of fork, vfork, posix-spawn, fork\+exec" bench fork-table --method clone-vm-vfork
refuses 2 '--iterations' bench fork-table --iterations 0
no_probes_left
