// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * The least that a time-stamped event can cost: read the time-stamp counter, store it with two more
 * words (24 bytes) into a ring, and advance. No type, no check whether anybody records, nothing
 * that a reader of the ring could rely on.
 */
#include "batches.h"

struct floor_event {
	uint64_t ticks, first, second;
};

/* With room for one more event beyond its end, so that none must be split. */
static char ring[BUFFER_BYTES + sizeof(struct floor_event)];

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

static void events(uint64_t n)
{
	static uint64_t position;
	uint64_t at = position;

	for (uint64_t i = 0; i < n; i++) {
		struct floor_event *event =
			(struct floor_event *)(ring + (at & (BUFFER_BYTES - 1)));

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
	return run(argc, argv, events);
}
