#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# trace report: counts of a program that is known, damaged traces, and what it refuses.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

make -s -C "$REPOSITORY/casper/libcasper" BUILD="$PWD/lib" "$PWD/lib/libcasper.a" >&2
cc -O1 -g -D_GNU_SOURCE -finstrument-functions -I"$REPOSITORY/casper/libcasper/include" -o program \
	"$REPOSITORY/casper/tests/programs/longjmp.c" lib/libcasper.a -pthread
passes trace record --output t.casper --when-full wait -- ./program

# report EXPRESSION...: each is true of the document; f has the functions by name.
report() {
	python3 - "$@" <<'END' || fail "$called: see above"
import json, sys
s = json.load(open("out"))["summary"]
f = {function["name"]: function for function in s["functions"]}
t = {(row["name"], row["pid"]): row for row in s["types"]}
for expression in sys.argv[1:]:
    assert eval(expression), expression
END
}

passes --json trace report t.casper --by begin.odd --between begin,end \
	--between inner=begin,end --total turn=begin,begin
report "s['missing']['sentences'] == []" \
	"f['jumper']['calls'] == 11000" "f['jumper']['left_by_longjmp'] == 11 * 334" \
	"f['jumper']['returned'] == 11 * 666" "f['leaf']['returned'] == 11000" \
	"f['rec']['calls'] == 66000" "f['rec']['recursive'] == 55000" \
	"f['rec']['inclusive_raw_ns'] < f['rec']['total_raw_ns']" \
	"f['work']['calls'] == 11" "f['main']['returned'] == 1" \
	"all(x['still_open'] == x['cut_by_loss'] == 0 for x in f.values())" \
	"f['rec']['file'].endswith('longjmp.c') and f['rec']['line'] > 40" \
	"{v['value']: v['events'] for v in s['field']['values']} == {'0': 5500, '1': 5500}" \
	"[p['times']['count'] for p in s['pairs']] == [11000, 11000, 11 * 999]" \
	"t['begin', None]['events'] == t['end', None]['events'] == 11000" \
	"sum(c['calls'] for c in s['calls'] if c['function'] == 'leaf') == 11000" \
	"s['overhead_subtracted']['finstrument_functions']"

passes --json trace report t.casper --by process
report "len({row['pid'] for row in s['types']}) == 11"

passes trace report t.casper --function 'work' --output page.html --limit 3
says out 'Miscellaneous'
says out 'Yes. Nothing was dropped'
grep -q 'events-over-time' page.html || fail "no plot in the page"

# Damage is said first, and costs no more than it must.
python3 - <<'END'
b = bytearray(open("t.casper", "rb").read())
b[len(b) // 2] ^= 1
open("flipped.casper", "wb").write(b)
open("cut.casper", "wb").write(b[:len(b) // 2 + 100])
open("magic.casper", "wb").write(b"X" + b[1:])
open("header.casper", "wb").write(b[:300] + b"X" + b[301:])
open("newer.casper", "wb").write(b[:12] + b"\x09\0\0\0" + b[16:])
open("order.casper", "wb").write(b[:8] + b[8:12][::-1] + b[12:])
open("short.casper", "wb").write(b[:4000])
open("empty.casper", "wb")
END
passes --json trace report flipped.casper
report "s['missing']['missing_chunks'] == 1" "0 < s['missing']['missing_events'] < 5000" \
	"f['rec']['calls'] > 60000"
passes trace report cut.casper
says out 'ends within a chunk'
refuses 1 'magic.casper is not a CASPER trace' trace report magic.casper
refuses 1 'header of header.casper.*damaged' trace report header.casper
refuses 1 'newer.casper has version 9' trace report newer.casper
refuses 1 'order.casper.*byte order' trace report order.casper
refuses 1 'short.casper was cut' trace report short.casper
refuses 1 'empty.casper is empty' trace report empty.casper
refuses 1 'not a plain file' trace report /dev/null
refuses 1 'nowhere.casper' trace report nowhere.casper

refuses 2 "no event type 'middle'; it has: begin, end" trace report t.casper --between begin,middle
refuses 2 "no field 'colour'; it has: number, odd" trace report t.casper --by begin.colour
refuses 2 'process, thread or TYPE.FIELD' trace report t.casper --by nothing
refuses 2 'A,B' trace report t.casper --between begin
refuses 2 '--across needs' trace report t.casper --across
