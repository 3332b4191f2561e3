// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * trace_floor: the least that a time-stamped event can cost.
 *
 * Read the time-stamp counter, store it with two more words (24 bytes) into a ring of this
 * thread's own, and advance. No type, no check whether anybody records, nothing that a reader of
 * the ring could rely on.
 */
#include "trace.h"

struct floor_event {
	uint64_t ticks, first, second;
};

static char *rings[TRACE_THREADS_MAX];
static uint64_t ring_mask;

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t value;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#else
	return now_ns();
#endif
}

static void events(int thread, uint64_t n)
{
	/* The ring has room for one more event beyond its end, so that none must be split. */
	static __thread uint64_t position;
	char *ring = rings[thread];
	uint64_t at = position;

	for (uint64_t i = 0; i < n; i++) {
		struct floor_event *event = (struct floor_event *)(ring + (at & ring_mask));

		event->ticks = ticks();
		event->first = i;
		event->second = at;
		at += sizeof(*event);
		/* Each event is stored, also where the next would overwrite it. */
		__asm__ volatile("" : : : "memory");
	}
	position = at;
}

int main(int argc, char **argv)
{
	struct trace_plan plan;

	probe_name = "trace_floor";
	trace_options(&plan, argc, argv);
	ring_mask = plan.buffer_bytes - 1;
	for (int i = 0; i < plan.threads; i++)
		rings[i] = map_records(plan.buffer_bytes + sizeof(struct floor_event));
	trace_run(&plan, events);
	row_end();
	return 0;
}
