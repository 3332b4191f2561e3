/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ticks [EVENTS [STATUS [PAUSE_US]]]: records that many events, with a pause after each hundred; or
 * one each ms until it is ended.
 */
#include <casper.h>
#include <stdlib.h>
#include <unistd.h>

struct tick {
	casper_event_type event_type;
	uint16_t unused;
	uint32_t number;
};

static const struct casper_field_info fields[] = { CASPER_FIELD(struct tick, number, "") };
static const struct casper_type_info tick = { "tick", fields, 1, sizeof(struct tick), 0x20 };
static const struct casper_type_info tock = { "tock", fields, 1, sizeof(struct tick), 0x21 };

int main(int argc, char **argv)
{
	struct tick event = { .event_type = 0x20 };

	casper_register(&tick);
	casper_register(&tock);
	for (int i = 0; argc < 2 || i < atoi(argv[1]); i++) {
		event.event_type = 0x20 + i % 2;
		event.number = i;
		casrecord(&event, sizeof(event));
		if (argc < 2)
			usleep(1000);
		else if (argc > 3 && i % 100 == 99)
			usleep(atoi(argv[3]));
	}
	return argc > 2 ? atoi(argv[2]) : 0;
}
