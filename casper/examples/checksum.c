/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Panel 2 of Barkley and Schimmel 1988 as a program of today: checksum() records an event for each
 * request, with the process and the size of the data. The paper's event has no end; a second type
 * marks it here, so that `casper-trace report --between checksum,checked` shows how long they took.
 *
 *	cc -o checksum examples/checksum.c -lcasper
 *	casper-trace record -- ./checksum FILE...
 *	casper-trace report trace.casper --by checksum.size
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <casper.h>

#define CHECKSUM 0x10 /* as in the paper */
#define CHECKED 0x11

/* A number of CASPER's type where the paper has a char. */
struct event_record {
	casper_event_type event_type; /* the type of event that occurred */
	int16_t pid;		      /* process id responsible for event */
	int32_t size;		      /* size of data for event */
};

static const struct casper_field_info fields[] = {
	CASPER_FIELD(struct event_record, pid, ""),
	CASPER_FIELD(struct event_record, size, "bytes"),
};

static const struct casper_type_info types[] = {
	{ "checksum", fields, 2, sizeof(struct event_record), CHECKSUM },
	{ "checked", fields, 2, sizeof(struct event_record), CHECKED },
};

/* CRC-16/ARC, bit by bit as one did then. */
static int crc(const unsigned char *data, int size)
{
	unsigned int sum = 0;

	for (int i = 0; i < size; i++) {
		sum ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			sum = sum & 1 ? sum >> 1 ^ 0xa001 : sum >> 1;
	}
	return (int)sum;
}

/*
 * Find the checksum for the size bytes of the data. If it is different from sum, return -1 to
 * indicate an error; otherwise, return 0.
 */
static int checksum(const unsigned char *data, int size, int sum)
{
	struct event_record rec;
	int crcsum;

	rec.event_type = CHECKSUM; /* event is a CHECKSUM */
	rec.pid = (int16_t)getpid();
	rec.size = size;	      /* record size of checksum request */
	casrecord(&rec, sizeof(rec)); /* call CASPER to timestamp and save record */

	crcsum = crc(data, size);

	rec.event_type = CHECKED;
	casrecord(&rec, sizeof(rec));
	return sum == crcsum ? 0 : -1;
}

int main(int argc, char **argv)
{
	static unsigned char block[4096];

	for (unsigned int i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		int error = casper_register(&types[i]);

		if (error)
			fprintf(stderr, "%s: %s\n", types[i].name, strerror(-error));
	}
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "rb");
		size_t size;

		if (!file) {
			perror(argv[i]);
			return 1;
		}
		while ((size = fread(block, 1, sizeof(block), file)) > 0) {
			int sum = crc(block, (int)size);

			if (checksum(block, (int)size, sum))
				abort();
		}
		fclose(file);
	}
	return 0;
}
