#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Make a data set of simulated hosts from real runs: simulate.py INTO HOSTS RUN...

Each host gets a copy of one of the runs, twice, a day apart, with every time in it multiplied by what the host's
instance type, kernel and self, and the day, make of it. What is in the data is known, so that queries can be checked:
kernel sim-7.3 copies pages 20% cheaper and forks 10% dearer than sim-6.12; sim-6.12.1 is sim-6.12 under another
name; hosts vary by 4%, days by 2%, single values by 2%; one host in 200, named drifts-..., is 30% slower on the second
day, and one, named slow-..., is 60% slower on both. Hosts, kernels and types have names that nobody takes for measured ones. Needs duckdb (PyPI)."""

import json
import math
import multiprocessing
import os
import random
import sys

import duckdb

TYPES = {"sim-small": (5, 1.35), "sim-large": (4, 1.0), "sim-metal": (1, 0.62)}
KERNELS = {"sim-6.12": (5, 1.0, 1.0), "sim-6.12.1": (2, 1.0, 1.0), "sim-7.3": (3, 0.8, 1.1)}
COLUMNS = {"environment": "UINTEGER", "bench": "VARCHAR", "params": "MAP(VARCHAR, VARCHAR)", "metric": "VARCHAR",
           "unit": "VARCHAR", "value": "DOUBLE", "rep": "UINTEGER", "start_unix_ns": "BIGINT", "histogram": "VARCHAR"}
DAY_NS = 86_400_000_000_000
# A rate falls where a time rises; counts stay as they are.
SIMULATED = """
    SELECT environment, bench, params, metric, unit,
           CASE WHEN unit LIKE 'ns%' THEN value * {times} WHEN unit = 'bytes_per_s' THEN value / {times} ELSE value END
           * CASE WHEN metric LIKE 'cow_%' THEN {copies} WHEN metric = 'fork_ns' OR metric LIKE 'pte_%' THEN {forks} ELSE 1 END
           * CASE WHEN unit LIKE 'ns%' OR unit = 'bytes_per_s' THEN 1 + 0.07 * (random() - 0.5) ELSE 1 END AS value,
           rep, start_unix_ns + {after_ns} AS start_unix_ns, histogram
    FROM run{number}"""


def plan(hosts, runs):
    """What each run is to be."""
    chance = random.Random(1988)
    by_weight = lambda table: chance.choices(list(table), [row[0] for row in table.values()])[0]
    scatter = lambda share: math.exp(chance.gauss(0, share))
    for host in range(hosts):
        instance_type, kernel = by_weight(TYPES), by_weight(KERNELS)
        kind = {7: "drifts", 11: "slow"}.get(host % 200, "sim")
        name = f"{kind}-{host:05}"
        own = TYPES[instance_type][1] * scatter(0.04)
        _, copies, forks = KERNELS[kernel]
        for day in (0, 1):
            yield {"name": name, "kernel": kernel, "number": host % runs, "seed": (2 * host + day) / (2 * hosts),
                   "folder": f"instance_type={instance_type}/host={name}/kernel={kernel}/simulated-{day}",
                   "times": own * scatter(0.02) * {"slow": 1.6, "drifts": 1.3 if day else 1.0}.get(kind, 1.0),
                   "copies": copies, "forks": forks, "after_ns": day * DAY_NS}


def write(into, runs, planned):
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    infos = []
    for number, run in enumerate(runs):
        connection.execute(f"CREATE TABLE run{number} AS FROM read_ndjson('{run}/samples.ndjson.gz', columns = {COLUMNS})")
        with open(f"{run}/run.json", encoding="utf-8") as file:
            infos.append(json.load(file))
    for of in planned:
        folder = f"{into}/{of['folder']}"
        os.makedirs(folder)
        connection.execute(f"SELECT setseed({of['seed']})")
        connection.execute(f"COPY ({SIMULATED.format(**of)}) TO '{folder}/samples.ndjson.gz' (FORMAT json)")
        info = infos[of["number"]]
        info["environments"][0].update(host=of["name"], kernel=of["kernel"])
        info["command"] = ["simulated"]
        with open(f"{folder}/run.json", "w", encoding="utf-8") as file:
            json.dump(info, file)


if __name__ == "__main__":
    if len(sys.argv) < 4 or not sys.argv[2].isdecimal():
        sys.exit(__doc__)
    into, runs = sys.argv[1], sys.argv[3:]
    planned = list(plan(int(sys.argv[2]), len(runs)))
    cpus = os.cpu_count()
    parts = [(into, runs, planned[part::cpus]) for part in range(cpus)]
    with multiprocessing.Pool(cpus) as pool:
        pool.starmap(write, parts)
