# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What trace.json.gz says, read as trace_processor reads the Trace Event Format, is what the report counts."""

import collections
import gzip
import json

exported = json.load(open("exported.json"))
functions = {f["name"]: f for f in json.load(open("reported.json"))["functions"]}
trace = json.load(gzip.open("trace.json.gz", "rt"))
assert trace["otherData"]["began_unix_ns"] > 1.7e18 and trace["otherData"]["began_monotonic_ns"] > 0
processes, tracks, instants = {}, collections.defaultdict(list), collections.defaultdict(list)
for number, event in enumerate(trace["traceEvents"]):
    if event["ph"] == "M":
        kind = {"process_name": processes, "thread_name": {}}[event["name"]]
        kind[event["pid"]] = event["args"]["name"]
        continue
    assert event["ph"] in "BEi" and event["pid"] in processes, event
    tracks[event["pid"], event["tid"]].append((event["ts"], number, event))

slices = collections.defaultdict(lambda: {"count": 0, "returned": 0, "returned_ns": 0})
for track, events in tracks.items():
    stack = []
    # By time, and in the file's order where times are the same.
    for time, _, event in sorted(events, key=lambda of: of[:2]):
        if event["ph"] == "B":
            stack.append((time, event["name"]))
            assert event["args"]["file"].endswith("program.c") and event["args"]["line"] > 0, event
        elif event["ph"] == "i":
            instants[event["name"]].append(event["args"])
        else:
            began, name = stack.pop()
            slices[name]["count"] += 1
            if "args" not in event:
                slices[name]["returned"] += 1
                slices[name]["returned_ns"] += round((time - began) * 1000)
            else:
                assert event["args"].keys() == {"ended"}, event
    assert not stack, f"track {track}: {len(stack)} slices do not end"

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
[(name, all_of_it)] = instants.items()
assert (name, len(all_of_it), exported["events"]) == ('a "hit", here', 400, 400), instants
first = all_of_it[0]
assert int(first.pop("where"), 16) > 1 << 20
assert first == {"small": -1, "count": 0, "ratio": 0.0, "text": 'a,"b"\nc', "list": [0, -2, 3]}, first
assert len(tracks) == 3 and len(processes) == 2, (tracks.keys(), processes)
assert all(program.endswith("/program") for program in processes.values()), processes
