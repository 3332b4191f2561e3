# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The tables of t.csv and t.parquet, read by others, are what the report counts."""

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
