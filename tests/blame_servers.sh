#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# blame on programs as Debian builds them, without frame pointers and stripped: stacks are whole, to
# where the program begins, and what is known of their code is found.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ $(id -u) == 0 ]] || skip "blame needs root, or CAP_BPF and CAP_PERFMON"
cp -r "$REPOSITORY/examples/footprints" programs
cp "$REPOSITORY/tests/blame/work.js" programs
"${CC:-cc}" -O2 -shared -fPIC -o programs/marks.so programs/marks.c
cd programs
# A prefix of PATH: the distribution's own programs.
PATH=/usr/bin:/bin:$PATH
lacking=()

# whole PROGRAM CAUSE COMMAND...: of the stacks of PROGRAM's copies 95% are whole, and one has the cause.
whole() {
	local program=$1 cause=$2
	shift 2
	passes --json blame --every 1 --output ../runs -- "$@"
	json program="$program" cause="$cause" \
		'def of($metric): values($metric; {program: $program, writer: "child"}) +
				values($metric; {program: $program, writer: "parent"}) | add;
			of("told_stacks") > 100 and of("whole_stacks") / of("told_stacks") >= 0.95' \
		'$cause == "-" or any(d.summary.places[]; .program == $program and .cause == $cause)'
	jq -r --arg program "$program" '[.samples[] | select(.params.program == $program and
		.params.writer != "own")] | "\($program): \(map(select(.metric == "whole_stacks") | .value) |
		add) of \(map(select(.metric == "told_stacks") | .value) | add) stacks are whole"' out
}

whole python3 cpython-collector python3 prefork.py
whole perl perl-upgrades perl zygote.pl
if command -v redis-server >/dev/null; then
	whole redis-server redis-updates python3 redis_save.py
else
	lacking+=(redis-server)
fi
if compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
	# Sessions are forked in the handler of a signal.
	whole postgres glibc-malloc ./postgres.sh true
else
	lacking+=(postgres)
fi
if command -v node >/dev/null; then
	whole node - env FOOTPRINT_MARKS=hold LD_PRELOAD="$PWD/marks.so" node work.js
else
	lacking+=(node)
fi
[[ ${#lacking[@]} == 0 ]] || skip "not here: ${lacking[*]}; the others passed"
