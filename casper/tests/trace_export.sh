#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# trace export: what others decode from it is what the report counts.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# Decoders that this project did not write, kept for the next run.
venv=$REPOSITORY/target/venv-trace
if [[ ! -e $venv/ready ]]; then
	python3 -m venv "$venv" && "$venv/bin/pip" -q install perfetto protobuf duckdb >&2 ||
		skip "the decoders (PyPI: perfetto, protobuf, duckdb) cannot be installed"
	touch "$venv/ready"
fi

# A program with recursion, a longjmp, threads, a fork, events, and functions that never return.
make -s -C "$REPOSITORY/casper/libcasper" BUILD="$PWD/lib" "$PWD/lib/libcasper.a" >&2
cc -O1 -g -D_GNU_SOURCE -finstrument-functions -I"$REPOSITORY/casper/libcasper/include" -o program \
	"$REPOSITORY/casper/tests/programs/program.c" lib/libcasper.a -pthread
passes trace record --output t.casper -- ./program 200

passes --json trace export t.casper -o t.perfetto
cp out exported.json
passes --json trace report t.casper
cp out reported.json
"$venv/bin/python" "$REPOSITORY/casper/tests/lib/decode_perfetto.py" t.perfetto >decoded.json
"$venv/bin/python" - <<'END' || fail "see above"
import json
exported, decoded = json.load(open("exported.json")), json.load(open("decoded.json"))
functions = {f["name"]: f for f in json.load(open("reported.json"))["summary"]["functions"]}
assert decoded["problems"] == [], decoded["problems"]
slices = decoded["slices"]
assert slices.keys() == functions.keys(), (slices.keys(), functions.keys())
for name, function in functions.items():
    slice_ = slices[name]
    assert slice_["count"] == function["calls"], (name, slice_, function)
    assert slice_["returned"] == function["returned"], (name, slice_, function)
    # A begin and an end are each cut to a whole ns.
    allowed = slice_["returned"] + 1
    assert abs(slice_["returned_ns"] - function["total_raw_ns"]) <= allowed, (name, slice_, function)
assert sum(s["count"] for s in slices.values()) == exported["summary"]["calls"]
# What the program does 200 times, by its source.
expected = {"recursive": 200 * (4 + 3 + 2) + 5, "jumps": 200 * 4, "catches": 200, "in_thread": 1,
            "ends": 2, "main": 1}
assert {n: s["count"] for n, s in slices.items()} == expected, slices
assert slices["jumps"]["returned"] == 0 and slices["ends"]["returned"] == 0, slices
[(name, instant)] = decoded["instants"].items()
assert (name, instant["count"], exported["summary"]["events"]) == ('a "hit", here', 400, 400), decoded["instants"]
first = instant["first"]
assert first.pop("where") > 1 << 20
assert first == {"small": -1, "count": 0, "ratio": 0.0, "text": 'a,"b"\nc', "list": [0, -2, 3]}, first
assert len(decoded["threads"]) == 3 and len(decoded["processes"]) == 2, decoded
assert all(p["name"].endswith("/program") for p in decoded["processes"]), decoded["processes"]
assert len({(t["pid"], t["tid"]) for t in decoded["threads"]}) == 3
END

# The same as tables, read by Python's csv and by DuckDB.
passes trace export t.casper --format csv -o t.csv
passes trace export t.casper --format parquet -o t.parquet
"$venv/bin/python" - <<'END' || fail "see above"
import csv, json, glob, duckdb
functions = {f["name"]: f for f in json.load(open("reported.json"))["summary"]["functions"]}
calls = list(csv.DictReader(open("t.csv/calls.csv", newline="")))
[events] = [list(csv.DictReader(open(f, newline=""))) for f in glob.glob("t.csv/event.*.csv")]
for name, function in functions.items():
    of = [row for row in calls if row["function"] == name]
    assert len(of) == function["calls"], (name, len(of), function)
    returned = [int(row["duration_ns"]) for row in of if row["ended"] == "returned"]
    assert len(returned) == function["returned"], name
    assert abs(sum(returned) - function["total_raw_ns"]) <= len(returned) + 1, name
assert len(calls) == sum(f["calls"] for f in functions.values())
assert {row["text"] for row in events} == {'a,"b"\nc'} and len(events) == 400
assert {row["type"] for row in events} == {'a "hit", here'}
rows = duckdb.sql("""SELECT function, count(*), count(*) FILTER (ended = 'returned'),
                            coalesce(sum(duration_ns) FILTER (ended = 'returned'), 0)
                     FROM 't.parquet/calls.parquet' GROUP BY 1""").fetchall()
assert {row[0]: row[1] for row in rows} == {n: f["calls"] for n, f in functions.items()}, rows
for name, _, count, ns in rows:
    of = [int(r["duration_ns"]) for r in calls if r["function"] == name and r["ended"] == "returned"]
    assert (count, ns) == (len(of), sum(of)), name
[found] = duckdb.sql("""SELECT count(*), min(small), max(count), sum(ratio), any_value(list[2]),
                               count(DISTINCT tid), any_value(text)
                        FROM 't.parquet/event.*.parquet'""").fetchall()
assert found == (400, -1, 199, 2 * sum(range(200)) / 2, -2, 2, 'a,"b"\nc'), found
END

# Only its owner may read it, and nothing is replaced.
for file in t.perfetto t.csv/calls.csv t.parquet/calls.parquet; do
	[[ $(stat -c %a "$file") == 600 ]] || fail "expected mode 600, saw: $(ls -l "$file")"
done
for format in perfetto csv parquet; do
	refuses 1 "t.$format exists: give another -o" trace export t.casper --format $format -o t.$format
done

# Nothing is left of what failed: no trace, a damaged one, no folder, a full disk.
echo nonsense >nonsense
refuses 1 'nonsense is not a CASPER trace' trace export nonsense -o none
refuses 1 'cannot read nowhere' trace export nowhere -o none
refuses 1 'cannot write the export no/such/folder' trace export t.casper -o no/such/folder
refuses 2 'out' trace export t.casper
[[ ! -e none ]] || fail "expected nothing, saw: $(ls -A)"
if [[ $(id -u) == 0 ]] && unshare -m true 2>/dev/null; then
	mkdir disk
	cat >full_disk <<'END'
mount -t tmpfs -o size=16k none disk
for format in perfetto csv parquet; do
	status=0
	"$COWLAB" trace export t.casper --format $format -o disk/export 2>>err || status=$?
	echo "$format: $status, left: $(ls -A disk)"
done
END
	: >err
	unshare -m bash full_disk >out
	[[ $(cat out) == "perfetto: 1, left: 
csv: 1, left: 
parquet: 1, left: " ]] || fail "a full disk: expected errors and nothing left, saw: $(cat out err)"
	[[ $(grep -c 'No space left' err) == 3 ]] || fail "a full disk: expected that to be said, saw: $(cat err)"
else
	echo "a full disk was not tried: mounting one needs root"
fi
[[ -z $(find . -name '.unfinished-*') ]] || fail "left: $(find . -name '.unfinished-*')"
