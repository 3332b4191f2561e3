# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What decode_perfetto.py found in t.perfetto is what the report counts."""

import json
exported, decoded = json.load(open("exported.json")), json.load(open("decoded.json"))
functions = {f["name"]: f for f in json.load(open("reported.json"))["functions"]}
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
assert sum(s["count"] for s in slices.values()) == exported["calls"]
# What the program does 200 times, by its source.
expected = {"recursive": 200 * (4 + 3 + 2) + 5, "jumps": 200 * 4, "catches": 200, "in_thread": 1,
            "ends": 2, "main": 1}
assert {n: s["count"] for n, s in slices.items()} == expected, slices
assert slices["jumps"]["returned"] == 0 and slices["ends"]["returned"] == 0, slices
[(name, instant)] = decoded["instants"].items()
assert (name, instant["count"], exported["events"]) == ('a "hit", here', 400, 400), decoded["instants"]
first = instant["first"]
assert first.pop("where") > 1 << 20
assert first == {"small": -1, "count": 0, "ratio": 0.0, "text": 'a,"b"\nc', "list": [0, -2, 3]}, first
assert len(decoded["threads"]) == 3 and len(decoded["processes"]) == 2, decoded
assert all(p["name"].endswith("/program") for p in decoded["processes"]), decoded["processes"]
assert len({(t["pid"], t["tid"]) for t in decoded["threads"]}) == 3
