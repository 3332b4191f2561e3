# SPDX-License-Identifier: Apache-2.0 OR MIT
"""check_json.py FILE EXPRESSION...: whether each expression holds for the document in FILE.

Names in an expression:
  d              the document
  rows           its samples
  pick(**wanted) samples whose field or parameter is as wanted (metric='real_ns', writer='child')
  values(**…)    their values
  one(**…)       the value of the only one
  each(*params)  {the parameters' values: {metric: value}} of the last repetition
A comma-separated pair (expression, shown) prints the second where the first fails.
"""

import json
import math
import sys


def main():
    path, expressions = sys.argv[1], sys.argv[2:]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        d = json.loads(text)  # Fails on anything before or after the document.
    except ValueError as error:
        sys.exit(f"expected one JSON document and nothing else: {error}; saw: {text[:500]!r}")
    rows = d.get("samples", []) if isinstance(d, dict) else []

    def pick(**wanted):
        def field(row, name):
            return row[name] if name in row else row["params"].get(name)

        return [r for r in rows if all(field(r, n) == v for n, v in wanted.items())]

    def values(**wanted):
        return [r["value"] for r in pick(**wanted)]

    def one(**wanted):
        found = values(**wanted)
        if len(found) != 1:
            raise LookupError(f"{len(found)} samples, not one, for {wanted}")
        return found[0]

    def each(*names):
        cells = {}
        for row in rows:
            key = tuple(row["params"].get(name) for name in names)
            cells.setdefault(key, {})[row["metric"]] = row["value"]
        return cells

    known = dict(d=d, rows=rows, pick=pick, values=values, one=one, each=each, math=math)
    failed = False
    for expression in (" ".join(e.split()) for e in expressions):
        try:
            result = eval(expression, known)  # The tests' own text.
        except Exception as error:  # noqa: BLE001
            result = (False, f"{type(error).__name__}: {error}")
        held, shown = result if isinstance(result, tuple) else (result, "")
        if not held:
            failed = True
            print(f"expected: {expression}; saw: {shown}")
            if not shown:
                print(f"  of {len(rows)} samples, such as {rows[:2]}")
    sys.exit(failed)


main()
