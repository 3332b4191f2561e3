// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The same event as casper.c's, by LTTng-UST. The provider is in the program, as LTTng's manual has
 * it for the least cost.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_provider.h"

#include "batches.h"

static void events(uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		lttng_ust_tracepoint(casper, sample, (uint32_t)i, i, n);
}

int main(int argc, char **argv)
{
	return run(argc, argv, events);
}
