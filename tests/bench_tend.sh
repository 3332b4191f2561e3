#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench tend: each policy's snapshots were taken and served under load, a tended server's memory is in
# huge pages before the first, and report reads the run again. No times are compared: they are those of a loaded machine.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ -d /sys/kernel/mm/transparent_hugepage ]] || skip "needs transparent huge pages"
command -v redis-server >/dev/null || skip "needs redis-server: scripts/install redis"
mkdir tmp
export TMPDIR=$PWD/tmp

refuses 2 'invalid value' bench tend --tending unheard-of
refuses 2 'is not in 0.001..1' bench tend --load 1.5
nothing_kept runs

passes --json bench tend --size-bytes 48MiB --load 0.2 --snapshots 2 --snapshot-every-s 4 \
	--rounds 1 --tending untended,tended --set ping=true --profile "$REPOSITORY/tests/fixtures/profile.json"
json 'pick({metric: "fork_ns"}) | distinct("policy") | same(["untended", "tended"])' \
	'values("fork_ns") + values("latency_ns") | all(. > 0)' \
	'values("tending_cpu_ns"; {policy: "tended"}) | all(. > 0)' \
	'values("tending_cpu_ns"; {policy: "untended"}) == []' \
	'pick({metric: "latency_ns", part: "tending"}) | distinct("policy") - ["tended"] == []' \
	'one("predicted_fork_ns"; {policy: "tended"}) < one("predicted_fork_ns"; {policy: "untended"}) / 2'
folder=$(only_run runs)
passes report "$folder"
says out 'untended'
[[ -z $(ls -A tmp) ]] || fail "expected nothing in TMPDIR, saw: $(ls -AR tmp)"
