// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * trace_casper: events of libcasper, three integers in 24 bytes, as a developer records them.
 *
 * Outside of a session nobody records, and the same program measures what casrecord costs then:
 * one load and one branch.
 */
#include "casper.h"
#include "trace.h"

struct sample_event {
	casper_event_type type;
	uint32_t first;
	uint64_t second, third;
};

#define SAMPLE_EVENT 1

static const struct casper_field_info sample_fields[] = {
	CASPER_FIELD(struct sample_event, first, ""),
	CASPER_FIELD(struct sample_event, second, ""),
	CASPER_FIELD(struct sample_event, third, ""),
};

static const struct casper_type_info sample_type = {
	"sample", sample_fields, 3, sizeof(struct sample_event), SAMPLE_EVENT,
};

static void events(int thread, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		struct sample_event event = {
			.type = SAMPLE_EVENT, .first = (uint32_t)thread, .second = i, .third = n
		};

		casrecord(&event, sizeof(event));
	}
}

int main(int argc, char **argv)
{
	struct trace_plan plan;
	int error;

	probe_name = "trace_casper";
	trace_options(&plan, argc, argv);
	error = casper_register(&sample_type);
	if (error)
		fail(1, "casper_register: %s", strerror(-error));
	error = casper_status();
	if (error)
		fail(1, "libcasper does not record: %s", strerror(error < 0 ? -error : error));
	trace_run(&plan, events);
	/* Which of the two was measured, recording or not, is for the caller to check. */
	row("recording_programs", *casper_on != 0);
	row_end();
	return 0;
}
