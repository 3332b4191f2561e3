# SPDX-License-Identifier: Apache-2.0 OR MIT
"""rule_metrics.py RULES < SCRAPE: fail if the rules name a metric that neither a real scrape has nor they themselves
record. A metric without a value at the moment is declared all the same."""

import re
import sys

rules = open(sys.argv[1], encoding="utf-8").read()
rules = re.sub(r"#.*", "", rules)
recorded = set(re.findall(r"record: *(\S+)", rules))
declared = dict(re.findall(r"^# TYPE (\S+) (\S+)$", sys.stdin.read(), re.M))
known = set(declared)
for name, kind in declared.items():
    if kind == "histogram":
        known |= {name + end for end in ("_bucket", "_sum", "_count")}
named = set()
for expression in re.findall(r"expr: *(\|\n(?: {10,}.*\n)+|.*)", rules):
    named |= set(re.findall(r"\b(?:\w+:)?cowlab_[\w:]+", expression))
unknown = sorted(named - known - recorded)
if not named or unknown:
    sys.exit(f"rules name what no scrape has: {', '.join(unknown) or 'nothing at all'}")
print(f"{len(named)} metrics named, all known")
