# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In how many of the figures that a slowdown touches did compare find it?"""

import collections
import json
import sys

# What the probes time themselves; counts, CPU times and times from outside are not slowed down
# by the same factor.
TOUCHED = {
    "fork-sweep": {"real_ns", "fork_ns", "write_ns", "cycle_ns"},
    "fork-table": {"elapsed_ns", "rate_per_s"},
    "cow-faults": {"elapsed_ns", "fault_ns"},
    "calibrate-cycle": {"fork_ns", "write_ns", "rest_ns", "cycle_ns"},
    "predict-check": {"elapsed_ns"},
}
CALIBRATE_UNTOUCHED = {"page_table_bytes_per_page", "cold_touch_ns_per_page"}


def is_touched(figure):
    params, metric = figure["params"], figure["metric"]
    if figure["bench"] == "calibrate":
        return metric not in CALIBRATE_UNTOUCHED
    if metric not in TOUCHED.get(figure["bench"], ()):
        return False
    # Nothing is written: what is timed is the clock. Overlapping children are not slowed in turn.
    if metric == "write_ns" and float(params.get("write_fraction", 1)) == 0:
        return False
    if params.get("heap_bytes") == "0" and metric == "write_ns":
        return False
    return params.get("reap", "each") == "each"


summary = json.load(open(sys.argv[1]))["summary"]
found, missed, few = collections.Counter(), collections.defaultdict(list), 0
for figure in filter(is_touched, summary["figures"]):
    key = (figure["bench"], figure["metric"])
    if figure["verdict"] == "too-few":
        few += 1
    elif figure["verdict"] == "different":
        found[key] += 1
    else:
        missed[key].append(figure)
for key in sorted(set(found) | set(missed)):
    total = found[key] + len(missed[key])
    print(f"{key[0]:16} {key[1]:28} {found[key]:4} of {total}")
    for figure in missed[key]:
        ratio = figure["ratio"]
        params = {k: v for k, v in figure["params"].items() if k not in ("pinned", "populated")}
        if ratio["value"] is None:
            print(f"    has figures of 0 or less {params}")
            continue
        print(f"    {ratio['value']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f}) {params}")
found_count, missed_count = sum(found.values()), sum(map(len, missed.values()))
print(f"found {found_count} of {found_count + missed_count} figures; "
      f"{few} have too few repetitions to tell")
# Some scatter by more than 10%, and machines drift (docs/decisions/0006): most must be found.
sys.exit(0 if found_count > missed_count else 1)
