/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A log-linear histogram of times: COW_HIST_SUB buckets for each power of two,
 * so that a bucket is at most 1/16 of its value wide.
 */
#ifndef _MM_COW_HISTOGRAM_H
#define _MM_COW_HISTOGRAM_H

#include <linux/bitops.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define COW_HIST_SUB_BITS	4
#define COW_HIST_SUB		(1U << COW_HIST_SUB_BITS)
/* Values have up to this many bits (34 seconds in ns); above is the last bucket. */
#define COW_HIST_BITS		35
#define COW_HIST_BUCKETS	((COW_HIST_BITS - COW_HIST_SUB_BITS + 1) * COW_HIST_SUB)

static inline unsigned int cow_hist_bucket(u64 value)
{
	unsigned int shift;

	if (value < COW_HIST_SUB)
		return value;
	if (value >> COW_HIST_BITS)
		return COW_HIST_BUCKETS - 1;
	shift = fls64(value) - 1 - COW_HIST_SUB_BITS;
	return (shift + 1) * COW_HIST_SUB + ((value >> shift) & (COW_HIST_SUB - 1));
}

/* The lowest value of a bucket. */
static inline u64 cow_hist_low(unsigned int bucket)
{
	if (bucket < COW_HIST_SUB)
		return bucket;
	return (u64)(COW_HIST_SUB + bucket % COW_HIST_SUB) << (bucket / COW_HIST_SUB - 1);
}

/*
 * The value below which @permille of @total values lie: the middle of the
 * bucket that holds it. @buckets must hold @total values, at least one.
 */
static inline u64 cow_hist_permille(const u64 *buckets, u64 total, unsigned int permille)
{
	u64 rank = max_t(u64, 1, div_u64(total * permille + 999, 1000));
	unsigned int i;

	for (i = 0; i < COW_HIST_BUCKETS - 1; i++) {
		if (rank <= buckets[i])
			break;
		rank -= buckets[i];
	}
	return (cow_hist_low(i) + cow_hist_low(i + 1) - 1) / 2;
}

#endif /* _MM_COW_HISTOGRAM_H */
