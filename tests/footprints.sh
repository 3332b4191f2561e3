#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# tests-long/footprints: two of the real programs, and what it says of one that fails; the planner's own tests.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

programs=$REPOSITORY/examples/footprints
footprints() { "$REPOSITORY/tests-long/footprints" --cowlab "$COWLAB" "$@"; }

# Refused before anything runs.
! footprints vi >said 2>&1 || fail 'a program that the list does not have'
says said 'has no program vi: it has emacs-hanoi'

# A program that fails is told.
cat >failing.toml <<'END'
[[program]]
name = "broken"
command = ["sh", "-c", "exit 3"]
program = "sh"
span = "run"
methods = ["exclusive"]
END
! footprints --programs failing.toml >said 2>&1 || fail 'a program that fails'
says said '^broken: not available'

# The first method that can be had of several.
sed 's/"exclusive"/"no-such|exclusive"/; s/exit 3/(:)/; s/"run"/"fork-to-exit"/; s/broken/works/' failing.toml >works.toml
footprints --programs works.toml >said || fail "$(<said)"
says said '^[|] works .*[|] exclusive, [a-z]* [|]$'

# The shell is always there: its subshells write little of what they share. SQLite's child holds what it writes.
footprints shell sqlite-rows >said || fail "$(<said)"
awk -F' *[|] *' '{ gsub(",", "") }
	$2 == "shell" { shell = $3 >= 100 && $7 > 0 && $7 < $4 }
	$2 == "sqlite-rows" { sqlite = $15 ~ /parent$/ && $7 > 1000 && $8 > 1000 && $8 < 1000000 }
	END { exit !(shell && sqlite) }' said || fail "$(<said)"

if command -v sbcl >/dev/null; then
	sbcl --script "$programs/planner/test.lisp" >plans || fail "the planner: $(<plans)"
	says plans 'ok slippers, 4 . 4: a plan'
fi
