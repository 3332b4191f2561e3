/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Page faults by the file whose code they hit: page_faults TRACE. Link with -lcasperread. */
#include <casper_read.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	static struct {
		char file[256];
		unsigned long faults;
	} table[1024];
	struct casper_trace *trace = casper_open(argc > 1 ? argv[1] : "trace.casper");
	struct casper_record record;
	uint64_t address;

	while (casper_next(trace, &record) > 0) {
		if (!record.type_name || strcmp(record.type_name, "page-fault") ||
		    casper_unsigned(trace, "address", &address))
			continue;
		const char *file = casper_module(trace, address);
		size_t i = 0;
		file = file ? file : "(no file)";
		while (i < 1023 && table[i].faults && strncmp(table[i].file, file, 255))
			i++;
		snprintf(table[i].file, sizeof(table[i].file), "%s", file);
		table[i].faults++;
	}
	for (size_t i = 0; i < 1024 && table[i].faults; i++)
		printf("%lu %s\n", table[i].faults, table[i].file);
	if (casper_error(trace))
		return fprintf(stderr, "%s\n", casper_error(trace)), 1;
	casper_close(trace);
	return 0;
}
