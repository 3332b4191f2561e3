#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tend keeps its share of a CPU: to look at hundreds of children takes no more than it may.
#
# alone: times and shares of a CPU are compared.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ -d /sys/kernel/mm/transparent_hugepage ]] || skip "needs transparent huge pages"
[[ $(id -u) == 0 ]] || skip "needs root"

# shellcheck source=tests/tend/target.sh
. "$REPOSITORY/tests/tend/target.sh"

# Hundreds of children and steady forks: looking at them takes no more of a CPU than it may, once what it
# took to start is paid for: seconds as a rule, and more than 20 have been seen.
target 32
tell crowd crowded
SECONDS=0
"$COWLAB" tend "$target" --set cpu_share=0.01 --duration-s 120 >out 2>err </dev/null &
tend=$!
started+=("$tend")
wait_for 110 grep -q 'share its memory' out
sleep 5
# utime and stime of proc_pid_stat(5), in ticks.
used=$(awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hz }' "/proc/$tend/stat")
awk -v used="$used" -v time="$SECONDS" 'BEGIN { exit used > 0.4 + 0.01 * time }' ||
	fail "looking for $SECONDS s took $used s of CPU time: $(cat out err)"
kill "$tend"
status=0
wait "$tend" || status=$?
called="tend of hundreds of children"
is_status 0
# The last of the 300 had ended, or not yet, when it first looked.
says out '(299|300) that it forked before share its memory'
hears alone
tell release released
ends
