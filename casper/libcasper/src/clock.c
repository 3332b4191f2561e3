/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <time.h>

#include "internal.h"

uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t ticks_of(uint32_t clock)
{
	return clock == CASPER_CLOCK_CYCLES ? cycles() : monotonic_ns();
}
