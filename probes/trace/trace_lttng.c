// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * trace_lttng: the same event as trace_casper, by LTTng-UST. The provider is in the program, as
 * LTTng's manual has it for the least cost.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "trace_lttng_provider.h"

#include "trace.h"

static void events(int thread, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		lttng_ust_tracepoint(cowlab, sample, (uint32_t)thread, i, n);
}

int main(int argc, char **argv)
{
	struct trace_plan plan;

	probe_name = "trace_lttng";
	trace_options(&plan, argc, argv);
	trace_run(&plan, events);
	row("recording_programs", lttng_ust_tracepoint_enabled(cowlab, sample) != 0);
	row_end();
	return 0;
}
