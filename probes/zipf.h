/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Numbers after Zipf's law: of COUNT ranks, rank r (from 1) with a weight of
 * r^-ALPHA; 0 is uniform. Exact, by Walker's alias table as Vose builds it:
 * sampling takes two random numbers and two loads and no arithmetic on
 * fractions, which an emulated CPU does slowly. The table is made and used
 * before any clock starts, and given back.
 */
#ifndef COWLAB_ZIPF_H
#define COWLAB_ZIPF_H

#include "probe.h"

#include <math.h>

struct zipf {
	uint64_t count;
	struct zipf_slot {
		uint32_t own;	/* of 2^32: how often the slot's own rank is taken */
		uint32_t other; /* the rank that has the rest */
	} * slots;
};

static inline void *zipf_map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail(1, "cannot map %zu bytes for Zipf's table: %s", bytes, strerror(errno));
	return p;
}

static inline void zipf_make(struct zipf *z, uint64_t count, double alpha)
{
	double *weight = zipf_map(count * sizeof(*weight));
	uint32_t *work = zipf_map(count * sizeof(*work));
	uint64_t light = 0, heavy = count;
	double sum = 0;

	z->count = count;
	z->slots = zipf_map(count * sizeof(*z->slots));
	/* From the lightest, so that the sum loses nothing. */
	for (uint64_t r = count; r > 0; r--)
		sum += weight[r - 1] = pow((double)r, -alpha);
	/* The mean is 1 now; the light ranks fill work from its start, the others from its end. */
	for (uint64_t r = 0; r < count; r++) {
		weight[r] *= (double)count / sum;
		work[weight[r] < 1 ? light++ : --heavy] = (uint32_t)r;
	}
	/* A light rank's slot is filled up by a heavy one, which may be light then. */
	while (light > 0 && heavy < count) {
		uint32_t less = work[--light], more = work[heavy];

		z->slots[less] =
			(struct zipf_slot){ (uint32_t)(weight[less] * 4294967295.0), more };
		weight[more] -= 1 - weight[less];
		if (weight[more] < 1) {
			heavy++;
			work[light++] = more;
		}
	}
	/* What is left is 1 but for rounding. */
	while (light > 0) {
		light--;
		z->slots[work[light]] = (struct zipf_slot){ UINT32_MAX, work[light] };
	}
	for (; heavy < count; heavy++)
		z->slots[work[heavy]] = (struct zipf_slot){ UINT32_MAX, work[heavy] };
	munmap(weight, count * sizeof(*weight));
	munmap(work, count * sizeof(*work));
}

/* A rank, from 0. */
static inline uint32_t zipf_next(const struct zipf *z, uint64_t *state)
{
	uint32_t rank = (uint32_t)random_below(state, z->count);

	return (uint32_t)(next_random(state) >> 32) <= z->slots[rank].own ? rank
									  : z->slots[rank].other;
}

static inline void zipf_free(struct zipf *z)
{
	munmap(z->slots, z->count * sizeof(*z->slots));
}

#endif
