/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What record_page_faults.c recorded: page faults by process, and how many of them hit the page
 * after the one before, where a kernel that prepares the next page would have been right.
 * page_faults TRACE. Link with -lcasperread.
 */
#include <casper_read.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	static struct {
		uint64_t pid, faults, next, page;
	} of[4096];
	struct casper_trace *trace = casper_open(argc > 1 ? argv[1] : "trace.casper");
	struct casper_record record;
	uint64_t pid, address;

	while (casper_next(trace, &record) > 0) {
		size_t i = 0;

		if (!record.type_name || strcmp(record.type_name, "page-fault") ||
		    casper_unsigned(trace, "pid", &pid) ||
		    casper_unsigned(trace, "address", &address))
			continue;
		while (i < 4095 && of[i].faults && of[i].pid != pid)
			i++;
		of[i].next += of[i].faults && address / 4096 == of[i].page + 1;
		of[i].pid = pid;
		of[i].page = address / 4096;
		of[i].faults++;
	}
	for (size_t i = 0; i < 4096 && of[i].faults; i++)
		printf("%" PRIu64 ": %" PRIu64 " faults, %" PRIu64 " on the next page\n", of[i].pid,
		       of[i].faults, of[i].next);
	if (casper_error(trace))
		return fprintf(stderr, "%s\n", casper_error(trace)), 1;
	casper_close(trace);
	return 0;
}
