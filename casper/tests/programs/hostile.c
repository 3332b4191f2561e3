/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * hostile HOW: records 1000 events, then writes what it should not into its session's memory.
 * HOW: "forget" that any process entered; "stop" the recording, and wait for what comes of it.
 */
#include <casper.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cowlab/record.h>

int main(int argc, char **argv)
{
	struct {
		casper_event_type event_type;
		uint16_t number;
	} event = { .event_type = 0x20 };
	const char *path = getenv("CASPER_SESSION");
	int fd = path ? open(path, O_RDWR) : -1;
	struct casper_session *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (argc != 2 || s == MAP_FAILED)
		return 2;
	for (; event.number < 1000; event.number++)
		casrecord(&event, sizeof(event));
	if (!strcmp(argv[1], "forget")) {
		s->next_process = 0;
	} else {
		s->on = CASPER_PAUSED;
		usleep(500000);
	}
	return 0;
}
