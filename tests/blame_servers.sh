#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# blame on programs as Debian builds them, without frame pointers and stripped: stacks are whole, to
# where the program begins, and what is known of their code is found.
# beside: it looks at programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ $(id -u) == 0 ]] || skip "blame needs root, or CAP_BPF and CAP_PERFMON"
only_here_are_servers
cp -r "$REPOSITORY/examples/footprints" programs
cp "$REPOSITORY/tests/blame/work.js" programs
"${CC:-cc}" -O2 -shared -fPIC -o programs/marks.so programs/marks.c
cd programs
# A prefix of PATH: the distribution's own programs.
PATH=/usr/bin:/bin:$PATH
lacking=()
servers=$REPOSITORY/examples/servers

# is_whole PROGRAM [LEAST]
is_whole() {
	jq -e --arg program "$1" --argjson least "${2:-0.95}" '
		def of($metric): [.samples[] | select(.metric == $metric and .params.program == $program and
			.params.writer != "own").value] | add // 0;
		of("whole_stacks") >= $least * of("told_stacks")' out >/dev/null
}

# whole PROGRAM CAUSE [LEAST]: of the stacks of PROGRAM's copies 95% are whole, and one has the cause.
whole() {
	jq -r --arg program "$1" '[.samples[] | select(.params.program == $program and
		.params.writer != "own")] | "\($program): \(map(select(.metric == "whole_stacks") | .value) |
		add) of \(map(select(.metric == "told_stacks") | .value) | add) stacks are whole"' out
	json program="$1" cause="$2" least="${3:-0.95}" \
		'def of($metric): values($metric; {program: $program, writer: "child"}) +
				values($metric; {program: $program, writer: "parent"}) | add;
			of("told_stacks") > 50 and of("whole_stacks") / of("told_stacks") >= $least' \
		'$cause == "-" or any(d.summary.places[]; .program == $program and .cause == $cause)'
}

# served SERVER PROGRAM CAUSE [LEAST]: the same of a server of examples/servers under its load. The upper end of a deep
# stack is read from its process: where other tests keep cowlab from doing so before that ends, it has a second try.
served() {
	called="examples/servers/run $1"
	for _ in 1 2; do
		status=0
		"$servers/run" "$1" --seconds 3 --json --output ../runs >out 2>err </dev/null || status=$?
		((status == 0)) && ! is_whole "$2" "${4:-}" || break
		sleep 5
	done
	if grep -q 'is not here: apt install' err; then
		lacking+=("$1")
		return
	fi
	no_panic
	is_status 0
	whole "${@:2}"
}

passes --json blame --every 1 --output ../runs -- python3 prefork.py
whole python3 cpython-collector
passes --json blame --every 1 --output ../runs -- perl zygote.pl
whole perl perl-upgrades
served gunicorn gunicorn cpython-references
served puma puma ruby-append
[[ " ${lacking[*]} " == *" puma "* ]] || json 'any(d.summary.places[]; .cause == "ruby-objects" or .cause == "ruby-collector")'
# Sessions are forked in the handler of a signal.
served postgres postgres glibc-malloc
served redis redis-server redis-updates
if [[ " ${lacking[*]} " != *" redis "* ]]; then
	# The parent copies, not its workers: that is what is compared.
	runs=(../runs/*)
	passes compare "${runs[-1]}" "${runs[-1]}"
	says out '[0-9] MiB copied in '
fi
# Its workers are executed, and what they copy until then is all: some 80 pages. On a busy machine they are
# looked at too late for their stacks.
served node node - 0
if [[ " ${lacking[*]} " != *" node "* ]]; then
	json 'd.summary.copied_bytes < 2097152'
	passes --json blame --every 1 --output ../runs -- env FOOTPRINT_MARKS=hold LD_PRELOAD="$PWD/marks.so" node work.js
	whole node -
fi

# What is killed leaves nothing behind.
if [[ " ${lacking[*]} " != *" gunicorn "* ]]; then
	ours() { our_processes | xargs -I {} cat /proc/{}/comm; }
	has_load() { [[ $(ours) == *wrk* ]]; }
	leftovers() { ours | grep -E 'gunicorn|wrk|cowlab'; compgen -G "$PWD/cowlab-servers-*"; }
	TMPDIR=$PWD "$servers/run" gunicorn --seconds 60 --output ../runs >killed 2>&1 &
	wait_for 10 has_load
	kill -KILL $!
	wait_for 5 none leftovers
fi
[[ ${#lacking[@]} == 0 ]] || skip "not here: ${lacking[*]}; the others passed"
