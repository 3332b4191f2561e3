#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# trace report: counts of a program that is known, damaged traces, and what it refuses.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"
COWLAB=$CASPER_TRACE

make -s -C "$REPOSITORY/casper/libcasper" BUILD="$PWD/lib" "$PWD/lib/libcasper.a" >&2
cc -O1 -g -D_GNU_SOURCE -finstrument-functions -I"$REPOSITORY/casper/libcasper/include" -o program \
	"$REPOSITORY/casper/tests/programs/longjmp.c" lib/libcasper.a -pthread
passes record --output t.casper --when-full wait -- ./program

# report EXPRESSION...: each is true of the document; `s` is the whole, `f` the functions by name.
names='def s: d; def f: s.functions | map({key: .name, value: .}) | from_entries;'
report() {
	json "${@/#/$names }"
}

passes --json report t.casper --by begin.odd --between begin,end \
	--between inner=begin,end --total turn=begin,begin
report 's.missing.sentences == []' \
	'f.jumper | .calls == 11000 and .left_by_longjmp == 11 * 334 and .returned == 11 * 666' \
	'f.leaf.returned == 11000' \
	'f.rec | .calls == 66000 and .recursive == 55000 and .inclusive_raw_ns < .total_raw_ns' \
	'f.work.calls == 11' 'f.main.returned == 1' \
	'f | all(.[]; .still_open == 0 and .cut_by_loss == 0)' \
	'f.rec | (.file | endswith("longjmp.c")) and .line > 40' \
	's.field.values | map([.value, .events]) | sort == [["0", 5500], ["1", 5500]]' \
	's.pairs | map(.times.count) == [11000, 11000, 11 * 999]' \
	'all("begin", "end"; . as $name | s.types | map(select(.name == $name and .pid == null)) |
		length == 1 and .[0].events == 11000)' \
	's.calls | map(select(.function == "leaf").calls) | add == 11000' \
	's.overhead_subtracted.finstrument_functions'

passes --json report t.casper --by process
report 's.types | map(.pid) | unique | length == 11'

passes report t.casper --function 'work' --output page.html --limit 3
says out 'Miscellaneous'
says out 'Yes. Nothing was dropped'
grep -q 'How long calls took' page.html || fail "no plot in the page"

# Damage is said first, and costs no more than it must.
python3 "$REPOSITORY/casper/tests/lib/damaged_traces.py" t.casper
passes --json report flipped.casper
report 's.missing.missing_chunks == 1' 's.missing.missing_events | 0 < . and . < 5000' \
	'f.rec.calls > 60000'
passes report cut.casper
says out 'ends within a chunk'
refuses 1 'magic.casper is not a CASPER trace' report magic.casper
refuses 1 'header of header.casper.*damaged' report header.casper
refuses 1 'newer.casper has version 9' report newer.casper
refuses 1 'order.casper.*byte order' report order.casper
refuses 1 'short.casper was cut' report short.casper
refuses 1 'empty.casper is empty' report empty.casper
refuses 1 'not a plain file' report /dev/null
refuses 1 'nowhere.casper' report nowhere.casper

refuses 2 "no event type 'middle'; it has: begin, end" report t.casper --between begin,middle
refuses 2 "no field 'colour'; it has: number, odd" report t.casper --by begin.colour
refuses 2 'process, thread or TYPE.FIELD' report t.casper --by nothing
refuses 2 'A,B' report t.casper --between begin
