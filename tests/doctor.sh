#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# doctor: what this machine can measure.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# at_most N: lines on standard output.
at_most() {
	[[ $(wc -l <out) -le $1 ]] || fail "$called: expected at most $1 lines, saw $(wc -l <out): $(cat out)"
}

# An answer of one screen; each thing that was looked at on demand.
passes doctor
at_most 25
says out 'huge pages from outside'
says out '--tables lists each'
passes doctor --tables
says out 'TLB flush of'
passes --json doctor
json page="$(getconf PAGESIZE)" 'd.format == 1 and rows == [] and (d | has("run") | not)' \
	'd.summary.capabilities | length > 5' \
	'd.summary.capabilities | all(.available or (.needs | . != null and . != ""))' \
	'(d.missing | map(.metric)) == (d.summary.capabilities | map(select(.available | not) | .name))' \
	'd.missing | all(.reason != "")' \
	'd.summary.facts.page_size_bytes == $page'
[[ ! -s err ]] || fail "$called: expected nothing on standard error, saw: $(seen)"

# A process is not its business.
refuses 2 'doctor looks at the machine alone: `cowlab explain 1 --quick`' doctor 1
