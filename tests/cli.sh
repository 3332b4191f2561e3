#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The command line as a whole: help, version, completions, man pages, wrong usage, closed outputs.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

verbs=(study report doctor calibrate bench predict compare insert completions)
benches=(fork-sweep fork-table cow-faults cow-check cross-check)

passes --version
says out '^cowlab [0-9]+\.[0-9]+\.[0-9]+$'
passes --help
for verb in "${verbs[@]}"; do
	says out "^  $verb +[A-Z]"
done
for verb in "${verbs[@]}"; do
	for flag in --help -h; do
		passes "$verb" $flag
		says out "Usage: cowlab $verb"
		says out '--json'
	done
done
for bench in "${benches[@]}"; do
	passes bench "$bench" --help
	says out "Usage: cowlab bench $bench"
done
passes bench fork-sweep --help
# Flags are documented where they are taken; hidden ones are for the tests.
for flag in --forks --heap-bytes --write-fraction --method --writer --page-size-bytes --threads \
	--rounds --set work_us; do
	says out "$flag"
done
passes bench cow-check --help
! grep -q -- '--broken' out || fail "--broken is not hidden"

for shell in bash zsh fish; do
	passes completions "$shell"
	says out 'fork-sweep'
done
bash -n <("$COWLAB" completions bash) || fail "bash cannot read its completions"
refuses 2 'possible values' completions tcsh

passes man --output pages
for verb in "${verbs[@]}" "${benches[@]/#/bench-}"; do
	[[ -s pages/cowlab-$verb.1 ]] || fail "expected a man page of $verb, saw: $(ls pages)"
	grep -q '^\.TH' "pages/cowlab-$verb.1" || fail "cowlab-$verb.1 is no man page"
done
[[ -s pages/cowlab.1 ]] || fail "expected cowlab.1, saw: $(ls pages)"
echo text >file
refuses 1 'file/pages' man --output file/pages

# Wrong usage: status 2, and what is known.
refuses 2 'Usage' # no verb
refuses 2 "unrecognized subcommand 'spoon'" spoon
refuses 2 "unrecognized subcommand 'spoon'" bench spoon
refuses 2 "unexpected argument '--spoon'" doctor --spoon
refuses 2 '--seed' --seed minus doctor
refuses 2 'cannot be used with' study --quick --full

# A reader that goes away is not an error of cowlab's, and an output that is full is one.
for verb in doctor --help 'completions bash' '--json doctor'; do
	called="cowlab $verb"
	# shellcheck disable=SC2086 # Several words on purpose.
	"$COWLAB" $verb 2>err | true
	status=${PIPESTATUS[0]}
	: >out
	no_panic
	[[ $status == 0 || $status == 141 ]] || fail "$called | true: saw: $(seen)"
done
"$COWLAB" --json doctor 2>err | head -n 1 >out
says out '^\{$'
called='cowlab doctor >/dev/full'
status=0
"$COWLAB" doctor >/dev/full 2>err || status=$?
no_panic
is_status 1
says err 'standard output.*No space left on device|No space left on device.*standard output'

# Where messages go may be full or gone as well: the exit status still tells.
called='cowlab predict 2>/dev/full'
status=0
"$COWLAB" predict --profile nowhere --size-bytes 20KiB >out 2>/dev/full || status=$?
: >err
is_status 1
called='cowlab predict 2>&-'
status=0
"$COWLAB" predict --profile nowhere --size-bytes 20KiB >out 2>&- || status=$?
is_status 1
