#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The command line of casper-trace, and that the table of event-cost counts right.
# beside: it measures nothing
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"
COWLAB=$CASPER_TRACE

passes --version
says out '^casper-trace [0-9]+\.[0-9]+\.[0-9]+$'
passes man --output pages
for verb in record report export insert; do
	passes $verb --help
	says out "^Usage: casper-trace $verb"
	refuses 2 "'--spoon'" $verb --spoon
	man --warnings --encoding=UTF-8 --local-file pages/casper-trace-$verb.1 >shown 2>warnings
	[[ -s shown && ! -s warnings ]] || fail "casper-trace-$verb.1: $(cat warnings)"
done
for shell in bash zsh fish; do
	passes completions $shell
	says out 'insert'
done
refuses 2 'is not a size' record --buffer-bytes spoon -- true
refuses 1 'cannot write man pages' man --output /dev/null/pages

# It fails if the recording does not have all events that were made.
"$REPOSITORY/casper/tests-long/event-cost" --rounds 1 --batches 2 --json >out 2>err || fail "event-cost: $(cat err)"
jq -e 'length >= 12 and all(.[]; .shortest_ns <= .median_ns + 0.01)' out >/dev/null || fail "event-cost: $(cat out)"
jq -e '.["CASPER, an event, shared, nobody records"].shortest_ns < .["CASPER, an event, shared"].shortest_ns' out >/dev/null ||
	fail "expected an event that nobody records to be cheaper: $(cat out)"
