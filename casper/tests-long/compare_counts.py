# SPDX-License-Identifier: Apache-2.0 OR MIT
"""compare_counts.py NAME INSERT.json REPORT.json CALLGRIND [NAME...]: are all calls counted?

REPORT.json is what `casper-trace report --json` says of the instrumented program, CALLGRIND is
callgrind's output of the same run without compressed names. A function is known by its file's
name and its own. The last names are functions whose name a macro makes, which insert lists under the
macro's name. Names that a file defines in several branches of #if are added up.
"""

import collections
import json
import os
import re
import sys

name, found_path, report_path, callgrind_path, *made_by_macros = sys.argv[1:]
summary = json.load(open(found_path))
traced = json.load(open(report_path))
lost = {k: n for k, n in traced["missing"].items() if k.endswith(("_events", "_meta")) and n
        and k != "read_events"}
ours = collections.Counter({(os.path.basename(report["file"]), function["name"]): 0
                            for report in summary["files"] for function in report["functions"]
                            if "left_alone" not in function})
ends = 0
for function in traced["functions"]:
    ours[os.path.basename(function["file"]), function["name"]] += function["calls"]
    ends += function["returned"]
begins = sum(ours.values())

theirs = collections.Counter()
file = callee_file = None
for line in open(callgrind_path):
    if line.startswith(("fl=", "fi=", "fe=")):
        # fi and fe: code of another file within the function; calls without a file of their own
        # are in the function's.
        if line.startswith("fl="):
            file = line[3:].strip()
    elif line.startswith(("cfi=", "cfl=")):
        callee_file = line[4:].strip()
    elif line.startswith("cfn="):
        callee = re.sub(r"'\d+$", "", line[4:].strip())
    elif line.startswith("calls="):
        key = os.path.basename(callee_file or file), callee
        theirs[key] += int(line[6:].split()[0])
        callee_file = None

called = sum(1 for count in ours.values() if count)
wrong = [(key, count, theirs[key]) for key, count in ours.items() if count != theirs[key]]
print(f"{name}: {summary['functions_found']} functions found, "
      f"{summary['functions_instrumented']} instrumented, "
      f"{summary['functions_left_alone']} left alone")
reasons = collections.Counter(
    function["left_alone"] for report in summary["files"] for function in report["functions"]
    if "left_alone" in function)
for reason, count in reasons.items():
    print(f"    {count} left alone: {reason}")
# Functions that ran and that insert knows nothing of.
known = {(os.path.basename(report["file"]), function["name"])
         for report in summary["files"] for function in report["functions"]}
files = {file for file, _ in known}
unknown = [key for key in theirs if key[0] in files and key not in known
           and key[1] not in made_by_macros
           and not re.match(r"casper_|.*_(begin|finish)$", key[1])]
print(f"    {called} called, {begins} calls, {ends} returns, events missing: {lost or 'none'}; "
      f"{len(wrong)} counts differ from callgrind's; {len(unknown)} functions ran unknown to insert")
for (file, function), count, other in wrong[:20]:
    print(f"    {file}:{function}: {count}, callgrind {other}")
for file, function in unknown[:20]:
    print(f"    {file}:{function}: ran, and was not found")
sys.exit(bool(wrong or unknown or lost))
