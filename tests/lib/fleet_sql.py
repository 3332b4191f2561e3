#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Run a folder's fleet.sql by an engine, in the folder that holds fleet/: fleet_sql.py duckdb|packed|spark
EXAMPLES

Prints a JSON object: the rows of each query, the seconds that each took, and those until the first. `packed` is DuckDB
with pack.sql."""

import json
import re
import sys
import time

engine, examples = sys.argv[1:]


def statements(name):
    """What stands between semicolons, without comments: there is none within a string."""
    with open(f"{examples}/{name}", encoding="utf-8") as file:
        text = re.sub(r"--.*", "", file.read())
    return [statement for statement in text.split(";") if statement.strip()]


if engine != "spark":
    import duckdb

    connection = duckdb.connect()
    run = lambda statement: connection.execute(statement).fetchall()
else:
    from pyspark.sql import SparkSession

    session = (SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
               .config("spark.sql.session.timeZone", "UTC").config("spark.driver.memory", "6g")
               .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate())
    session.sparkContext.setLogLevel("ERROR")
    run = lambda statement: [list(row) for row in session.sql(statement).collect()]

begun = time.monotonic()
for name in {"packed": ["duckdb.sql", "pack.sql"]}.get(engine, [f"{engine}.sql"]):
    for statement in statements(name):
        run(statement)
opened = round(time.monotonic() - begun, 2)
rows, seconds = [], []
for statement in statements("fleet.sql"):
    begun = time.monotonic()
    answer = run(statement)
    if not statement.lstrip().startswith(("SELECT", "WITH")):
        continue
    rows.append(answer)
    seconds.append(round(time.monotonic() - begun, 2))
print(json.dumps({"rows": rows, "seconds": seconds, "opened": opened}, default=float))
