/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How often each time was seen, in buckets as an HDR histogram of three digits has them: 1024 to
 * each power of two, so exact below 2048 ns; the last one has all the rest.
 */
#ifndef COWLAB_TIMES_H
#define COWLAB_TIMES_H

#include "probe.h"

#define TIMES_SUB_BITS 10
#define TIMES_POWERS 26
#define TIMES_BUCKETS ((TIMES_POWERS + 1) << TIMES_SUB_BITS)

struct times {
	uint64_t *buckets;
};

/* Before any clock starts. */
static inline void times_make(struct times *times)
{
	times->buckets = map_records(TIMES_BUCKETS * sizeof(*times->buckets));
}

static inline size_t times_bucket(uint64_t ns)
{
	int shift = 63 - __builtin_clzll(ns | 1) - TIMES_SUB_BITS;

	if (shift <= 0)
		return ns;
	if (shift >= TIMES_POWERS)
		return TIMES_BUCKETS - 1;
	return ((size_t)shift << TIMES_SUB_BITS) + (ns >> shift);
}

/* The least time that falls into a bucket. */
static inline uint64_t times_least(size_t bucket)
{
	uint64_t shift = bucket >> TIMES_SUB_BITS, sub = bucket & ((1 << TIMES_SUB_BITS) - 1);

	return shift <= 1 ? bucket : (sub + (1 << TIMES_SUB_BITS)) << (shift - 1);
}

static inline void times_add(struct times *times, uint64_t ns)
{
	times->buckets[times_bucket(ns)]++;
}

/* Two rows: the times that were seen, and how often each. */
static inline void times_print(const struct times *times, const char *values, const char *counts)
{
	static uint64_t low[TIMES_BUCKETS], often[TIMES_BUCKETS];
	size_t used = 0;

	for (size_t i = 0; i < TIMES_BUCKETS; i++) {
		if (!times->buckets[i])
			continue;
		low[used] = times_least(i);
		often[used++] = times->buckets[i];
	}
	row_of_child(0, values, low, used);
	row_of_child(0, counts, often, used);
}

#endif
