/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Run an SQL script on a database in memory, then on one in a file, and print every row. */
#include <stdio.h>
#include <stdlib.h>

#include "sqlite3.h"

static int print(void *unused, int count, char **values, char **names)
{
	int i;

	(void)unused;
	for (i = 0; i < count; i++)
		printf("%s=%s%c", names[i], values[i] ? values[i] : "NULL",
		       i + 1 < count ? '|' : '\n');
	return 0;
}

static char *whole(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);

	if (!file || !text || !fread(text, 1, (1 << 20) - 1, file))
		exit(2);
	fclose(file);
	return text;
}

int main(int argc, char **argv)
{
	const char *names[2] = { ":memory:", NULL };
	char *text, *message;
	sqlite3 *db;
	int i;

	if (argc != 3)
		return 2;
	text = whole(argv[1]);
	names[1] = argv[2];
	for (i = 0; i < 2; i++) {
		message = NULL;
		if (sqlite3_open(names[i], &db) != SQLITE_OK)
			return 1;
		if (sqlite3_exec(db, text, print, NULL, &message) != SQLITE_OK) {
			fprintf(stderr, "%s\n", message);
			return 1;
		}
		/* Errors are results too. */
		sqlite3_exec(db, "SELECT nothing FROM nowhere", print, NULL, &message);
		printf("%s\n", message);
		sqlite3_free(message);
		sqlite3_exec(db, "INSERT INTO item(id) VALUES (1)", print, NULL, &message);
		printf("%s\n", message);
		sqlite3_free(message);
		sqlite3_close(db);
	}
	free(text);
	return 0;
}
