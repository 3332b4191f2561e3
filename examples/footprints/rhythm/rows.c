// SPDX-License-Identifier: Apache-2.0 OR MIT
/* 180,000 rows of 1,000 bytes in SQLite's memory, of which 10 change each millisecond. */
#define _DEFAULT_SOURCE
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sqlite3 *db;

static void run(const char *sql)
{
	char *error = NULL;

	if (sqlite3_exec(db, sql, NULL, NULL, &error)) {
		fprintf(stderr, "%s\n", error);
		exit(1);
	}
}

int main(void)
{
	if (sqlite3_open(":memory:", &db))
		return 1;
	run("CREATE TABLE rows(id INTEGER PRIMARY KEY, body BLOB);"
	    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 180000)"
	    "INSERT INTO rows SELECT i, randomblob(1000) FROM n");
	for (;;) {
		run("BEGIN");
		for (int i = 0; i < 10; i++)
			run("UPDATE rows SET body = randomblob(1000)"
			    " WHERE id = 1 + abs(random() % 180000)");
		run("COMMIT");
		usleep(1000);
	}
}
