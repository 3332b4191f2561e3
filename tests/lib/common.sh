# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
#
# What the end-to-end tests share. An assertion prints what was expected and what was seen, and
# ends the test. Each test is started in an empty directory: `out` and `err` in it are what the
# last cowlab printed.

: "${COWLAB:?is the program under test}" "${REPOSITORY:?is the folder with tests/lib}"
# A mark in the environment of everything that this test starts: other people's processes that
# have the same names are not ours to judge.
COWLAB_TEST_MARK=$$-$(date +%s%N)
export COWLAB_TEST_MARK
status=0
called=

fail() {
	echo "FAILED (line ${BASH_LINENO[-2]} of $0): $*"
	exit 1
}

# skip REASON: not a pass; the runner shows the reason.
skip() {
	echo "$*"
	exit 77
}

# Print what the last cowlab printed, shortened, for a message.
seen() {
	printf 'exit status %s; standard output (%s bytes): %s; standard error: %s\n' \
		"$status" "$(wc -c <out)" "$(head -c 600 out)" "$(head -c 2000 err)"
}

# run ARGUMENT...: cowlab's output into `out` and `err`, its exit status into $status. Whatever
# happens, it must not panic.
run() {
	status=0
	"$COWLAB" "$@" >out 2>err </dev/null || status=$?
	called="cowlab $*"
	no_panic
	[[ ${1:-} != --json || $status != 0 ]] || summary_is_documented "${@:2}"
}

# docs/metrics.md has each key of the summary of that verb: the longest name of a verb that it begins with.
summary_is_documented() {
	[[ $COWLAB != "${CASPER_TRACE:-}" ]] || return 0
	# Without a verb.
	(($#)) || set -- cowlab
	local words=" $* " rows='' verb key
	case $words in
	*' --help '* | *' watch '*) return ;;
	*' tend '*) [[ $words == *' --dry-run '* ]] || return 0; words=' tend --dry-run ' ;;
	esac
	for verb in "$1 ${2:-}" "$1"; do
		rows=$(grep "^| .*\`${verb% }\`.* |" "$REPOSITORY/docs/metrics.md") && break
	done
	[[ $words != ' tend --dry-run ' ]] || rows=$(grep '^| `tend --dry-run`' "$REPOSITORY/docs/metrics.md")
	while read -r key; do
		[[ $rows == *"| \`$key\` |"* ]] ||
			fail "$called: 'summary' has '$key', of which docs/metrics.md says nothing"
	done < <(jq -r '.summary | if type == "array" then .[] else . end | keys[]' out | sort -u)
}

no_panic() {
	if grep -q 'panicked at' err || [[ $status == 101 ]]; then
		fail "$called: expected no panic, saw: $(seen)"
	fi
}

# is_status N
is_status() {
	[[ $status == "$1" ]] || fail "$called: expected exit status $1, saw: $(seen)"
}

# says FILE PATTERN: the file (out, err) has a line that matches the extended expression.
says() {
	grep -qE -- "$2" "$1" || fail "$called: expected '$2' in $1, saw: $(seen)"
}

# refuses STATUS PATTERN ARGUMENT...: cowlab ends with STATUS, one message that matches, and
# nothing on standard output.
refuses() {
	local wanted=$1 pattern=$2
	shift 2
	run "$@"
	is_status "$wanted"
	says err "$pattern"
	[[ ! -s out ]] || fail "$called: expected nothing on standard output, saw: $(seen)"
}

# passes ARGUMENT...: cowlab ends with 0.
passes() {
	run "$@"
	is_status 0
}

# holds FILE [NAME=VALUE...] EXPRESSION...: each is true of the JSON documents in the file; tests/lib/check.jq
# has what they call. An expression finds VALUE as $NAME.
holds() {
	local file=$1 given=() item failed=
	shift
	for item; do
		if [[ $item =~ ^([a-z_]+)=(-?[0-9.]+(e[+-]?[0-9]+)?)$ ]]; then
			given+=(--argjson "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")
		elif [[ $item =~ ^([a-z_]+)=([^=].*)$ ]]; then
			given+=(--arg "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")
		elif ! jq -en --slurpfile documents "$file" "${given[@]}" \
			"$(<"$REPOSITORY/tests/lib/check.jq") $item" >said 2>&1; then
			echo "expected: $item; saw: $(tail -n 1 said)"
			failed=yes
		fi
	done
	[[ -z $failed ]] || fail "$called: see above, of $file: $(head -c 1500 "$file")"
}

# json [NAME=VALUE...] EXPRESSION...: each is true of `out`, which is one document and nothing else.
json() {
	holds out '$documents | length == 1' "$@"
}

# The only run folder in DIRECTORY.
only_run() {
	local runs=("$1"/*/)
	[[ ${#runs[@]} == 1 && -d ${runs[0]} ]] || fail "expected one run in $1, saw: $(ls -A "$1")"
	echo "${runs[0]%/}"
}

# nothing_kept DIRECTORY: nothing is left of a run that failed.
nothing_kept() {
	[[ ! -d $1 || -z $(ls -A "$1") ]] || fail "expected nothing in $1, saw: $(ls -AR "$1")"
}

# wait_for LIMIT_S COMMAND...: the command succeeds, now or within so many seconds of looks 0.1 s apart.
wait_for() {
	local limit_s=$1 tries said
	shift
	for ((tries = 0; tries < limit_s * 10; tries++)); do
		! said=$("$@" 2>&1) || return 0
		sleep 0.1
	done
	fail "expected within $limit_s s: $*; saw: $said; $(tail -n 5 out err 2>&1)"
}

# becomes PID PROGRAM: what a shell starts is that shell until it executes the program.
becomes() {
	wait_for 10 grep -qxF -- "$2" "/proc/$1/comm"
}

# none COMMAND...: it prints nothing; some COMMAND...: it prints something.
none() {
	! some "$@"
}
some() {
	local said
	said=$("$@") || :
	echo "$said"
	[[ -n $said ]]
}

# as_nobody: from here on cowlab is run without rights, by ${as[@]}, from the folder $place, which the caller removes.
as_nobody() {
	place=$(mktemp -d)
	as=(setpriv --reuid 65534 --regid 65534 --clear-groups --)
	cp "$COWLAB" "$place/cowlab"
	printf '#!/bin/bash\nexec %s %q "$@"\n' "${as[*]}" "$place/cowlab" >"$place/nobody"
	chmod -R 755 "$place"
	COWLAB=$place/nobody
}

# The pids of what this test has started.
our_processes() {
	grep -lzxF "COWLAB_TEST_MARK=$COWLAB_TEST_MARK" /proc/[0-9]*/environ 2>/dev/null | tr -dc '0-9\n'
}

# Its QEMUs.
our_guests() {
	local pid
	while read -r pid; do
		[[ $(readlink "/proc/$pid/exe") != *qemu-system* ]] || echo "$pid"
	done < <(our_processes)
}

# Processes of this test that run a probe, or cowlab itself: "PID NAME" lines. Probes are executed
# from memory.
our_probes() {
	local pid exe
	while read -r pid; do
		exe=$(readlink "/proc/$pid/exe") || continue
		[[ $exe != /memfd:* && $exe != "$(readlink -f "$COWLAB")" ]] || echo "$pid ${exe##*[:/]}"
	done < <(our_processes)
}

# The pages' commands find redis-server by its name: one test at a time may run servers. Waits for the other.
only_here_are_servers() {
	exec 8>"$REPOSITORY/target/servers.lock"
	flock --timeout 200 8 || fail "another test's servers still hold $REPOSITORY/target/servers.lock"
}

# probe_seen PATTERN: a probe runs whose name matches, within 30 s.
probe_seen() {
	wait_for 30 probe_runs "$1"
}
probe_runs() {
	# No "| grep -q" here: it ends early, and the pipe's status is then SIGPIPE's.
	[[ "$(our_probes) " =~ " "($1)" " ]]
}

# no_probes_left: within 2 s, none of them runs.
no_probes_left() {
	wait_for 2 none our_probes
}
