#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench fork-table: every method, touched and untouched; the rate is iterations by time.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

rate='cells(["method", "touched", "size_bytes", "iterations"]) | all(
	.rate_per_s * .elapsed_ns / 1e9 / (.params.iterations | tonumber) - 1 | fabs < 1e-6)'

passes --json bench fork-table --iterations 50 --rounds 2
json "$rate" \
	'rows | distinct("method") | same(["fork", "vfork", "posix-spawn", "fork+exec", "vfork+exec"])' \
	'rows | distinct("touched") == ["false", "true"]' \
	'rows | distinct("size_bytes") | same(["1782579", "2831155", "12268339"])' \
	'values("elapsed_ns") | length == 5 * 2 * 3 * 2' \
	'rows | distinct("metric") | includes(["elapsed_ns", "cpu_ns", "rate_per_s"])' \
	'cells(["method", "touched", "size_bytes"]) | all(.cpu_with_children_ns >= .cpu_ns and .cpu_ns >= 0)' \
	'pick({metric: "rate_per_s"}) | all(.unit == "per_s")'

passes --json bench fork-table --iterations 7 --rounds 1 --method vfork --size-bytes 1MiB,2MiB --touched true
json "$rate" \
	'values("elapsed_ns"; {touched: "true", iterations: "7", method: "vfork"}) | length == 2' \
	'values("elapsed_ns") | length == 2'

refuses 2 "'clone-vm-vfork' is not measured here: choose one of fork, vfork, posix-spawn, fork\+exec" bench fork-table --method clone-vm-vfork
refuses 2 '--iterations' bench fork-table --iterations 0
no_probes_left
