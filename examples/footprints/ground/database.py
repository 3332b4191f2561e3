# SPDX-License-Identifier: Apache-2.0 OR MIT
# python3 database.py RUNS: an SQLite database in memory, 250,000 rows; 4,000 rows, at random by their key,
# are updated in one transaction, RUNS times, each between two marks (../marks.c).
import os
import random
import sqlite3
import sys

draw = random.Random(1988)
database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total INTEGER)")
rows = ((i, f"customer {i * 7919 % 100_003}" * 4, i) for i in range(250_000))
database.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
database.commit()
for run in range(int(sys.argv[1])):
    keys = [(run, draw.randrange(250_000)) for _ in range(4_000)]
    os.kill(os.getpid(), 40)
    database.executemany("UPDATE orders SET total = ? WHERE id = ?", keys)
    database.commit()
    os.kill(os.getpid(), 41)
