#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# watch and footprint of a process with 10,000 mappings, and of one with 2,000 children.
# beside: it looks at programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

${CC:-cc} -O2 -Wall -Wextra -static -o many "$REPOSITORY/tests/lib/many.c"
many=
# After a test that passed it has gone.
trap '[[ -z $many ]] || kill -9 "$many" 2>/dev/null || true' EXIT

# start MAPPINGS CHILDREN: $many is the process, once it has them.
start() {
	rm -f ready
	./many "$@" >ready 2>many.err &
	many=$!
	for _ in {1..600}; do
		[[ ! -s ready ]] || return 0
		kill -0 "$many" 2>/dev/null || break
		sleep 0.1
	done
	if grep -q 'temporarily unavailable' many.err; then
		skip "no right to $2 processes (ulimit -u, or pids.max of a control group)"
	fi
	fail "expected $1 mappings and $2 children, saw $(cat many.err)"
}

# look MAPPINGS CHILDREN: all children are seen, and nothing is lost.
look() {
	start "$@"
	passes --json watch "$many" --interval-s 1.5 --refreshes 3
	tail -n 1 out >last
	mv last out
	json children="$2" 'd.summary.processes[0].children_alive - $children | . == 0 or . == 1' \
		'd.summary.own | .lost_events == 0 and .lost_processes == 0'
	# Two forks, so that the frames of the first child's copies are free when the second is looked at.
	passes --json footprint "$many" --forks 2
	json written="$(($1 / 3 * 2))" \
		'values("cow_pages"; {writer: "parent", mapping: "anonymous", region: null}) |
			any($written <= . and . <= $written + 40)'
	kill -9 "$many"
	wait "$many" 2>/dev/null || true # its status is the signal's
}

look 10000 0
look 200 2000
