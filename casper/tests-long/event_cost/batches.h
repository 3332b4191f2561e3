/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the programs of ../event-cost share: batches of events, each timed as a whole.
 *
 * A lap of the tracer's buffer first, so that no page is touched for the first time while the clock
 * runs. Prints the shortest batch and the median one in ns an event, and how many events were made
 * in all.
 */
#ifndef BATCHES_H
#define BATCHES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* What a tracer that instruments every function must leave alone. */
#define UNTRACED __attribute__((no_instrument_function))
#define BATCH 8000
#define BUFFER_BYTES (1 << 20)
#define LAP (BUFFER_BYTES / 16) /* no tracer's record is smaller */

UNTRACED static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

UNTRACED static int by_time(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* `work` makes that many events. The argument is how many batches there are. */
UNTRACED static int run(int argc, char **argv, void (*work)(uint64_t))
{
	uint64_t batches = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
	uint64_t *ns = calloc(batches, sizeof(*ns));

	if (!batches || !ns)
		return 2;
	work(LAP);
	for (uint64_t i = 0; i < batches; i++) {
		uint64_t began = now_ns();

		work(BATCH);
		ns[i] = now_ns() - began;
	}
	qsort(ns, batches, sizeof(*ns), by_time);
	printf("%.3f %.3f %llu\n", (double)ns[0] / BATCH, (double)ns[batches / 2] / BATCH,
	       (unsigned long long)(LAP + batches * BATCH));
	free(ns);
	return 0;
}

#endif
