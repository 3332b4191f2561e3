// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Events of libcasper, three integers in 24 bytes, as a developer records them. */
#include <casper.h>

#include "batches.h"

struct sample_event {
	casper_event_type type;
	uint32_t first;
	uint64_t second, third;
};

#define SAMPLE_EVENT 1

static const struct casper_field_info fields[] = {
	CASPER_FIELD(struct sample_event, first, ""),
	CASPER_FIELD(struct sample_event, second, ""),
	CASPER_FIELD(struct sample_event, third, ""),
};

static const struct casper_type_info sample_type = {
	"sample", fields, 3, sizeof(struct sample_event), SAMPLE_EVENT,
};

static void events(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct sample_event event = {
			.type = SAMPLE_EVENT, .first = (uint32_t)i, .second = i, .third = n
		};

		casrecord(&event, sizeof(event));
	}
}

int main(int argc, char **argv)
{
	if (casper_register(&sample_type) || casper_status())
		return 1;
	return run(argc, argv, events);
}
