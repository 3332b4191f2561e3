#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench footprints: a few of the real programs, small; the planner's own tests.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

programs=$REPOSITORY/examples/footprints
list=$programs/programs.toml

# Refused before anything runs.
refuses 1 'no program vi: it has|has no program vi: it has' bench footprints --programs "$list" vi
refuses 1 'cannot read the list.*--programs' bench footprints --programs nowhere.toml
echo 'format = 1' >empty.toml
refuses 1 'no list of programs' bench footprints --programs empty.toml
nothing_kept runs

# A program that fails is told, and nothing is kept of it.
cat >failing.toml <<'END'
format = 1
[[program]]
name = "broken"
what = "nothing"
command = ["sh", "-c", "exit 3"]
program = "sh"
span = "run"
methods = ["exclusive"]
END
refuses 1 'no program could be looked at: broken' bench footprints --programs failing.toml
nothing_kept runs

# The first method that can be had of several.
sed 's/"exclusive"/"no-such|exclusive"/; s/exit 3/(:)/; s/"run"/"fork-to-exit"/; s/broken/works/' failing.toml >works.toml
passes --json bench footprints --programs works.toml
json 'rows | distinct("method") == ["exclusive"]'
rm -r runs

# The shell is always there: its subshells write little of what they share.
passes --json bench footprints --programs "$list" shell
json 'rows | distinct("name") == ["shell"]' \
	'values("spans"; {mapping: "all"}) | any(. >= 100)' \
	'pick({mapping: "all"}) | all(.params.command | startswith("cowlab footprint --method exclusive -- sh"))'
says "$(only_run runs)/report.html" 'What real programs write'
rm -r runs

# Between a fork and the end of its child the writer's CPU time is seen, and a prediction says what follows.
passes --json bench footprints --programs "$list" sqlite-rows
json 'one("writer_cpu_ns"; {writer: "parent", mapping: "all"}) / one("cow_pages"; {writer: "parent", mapping: "all"}) |
	1000 < . and . < 1000000'
rm -r runs

if command -v sbcl >/dev/null; then
	sbcl --script "$programs/planner/test.lisp" >plans || fail "the planner: $(<plans)"
	says plans 'ok slippers, 4 . 4: a plan'
fi
