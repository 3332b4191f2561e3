/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The word that is kept of a region, and its arithmetic. Nothing here touches a
 * page table, so KUnit can test it.
 */
#ifndef _MM_COW_REGION_H
#define _MM_COW_REGION_H

#include <linux/align.h>
#include <linux/minmax.h>
#include <linux/pgtable.h>
#include <linux/types.h>

/* Regions have 8 to 2048 pages: counts fit 12 bits. */
#define COW_REGION_KB_MIN	32U
#define COW_REGION_KB_MAX	8192U
#define COW_REGION_COUNT_MAX	4095U
/* A coverage that no region has: nothing is copied ahead. */
#define COW_THRESHOLD_NEVER	101U

/**
 * union cow_region - what is known of a region
 * @word: all of it, so that it can be changed by compare and exchange
 * @faults: copy-on-write faults of this epoch, re-uses included, and pages that
 *	were copied ahead and have been found written
 * @covered: the same of the last epoch
 * @pages: pages that were mapped at the fork that ended the last epoch
 * @epoch: the epoch that the region is in; 0 before its first fork
 * @tried: a bit for each page table of the region: copied ahead in this epoch
 */
union cow_region {
	u64 word;
	struct {
		u64 faults:12;
		u64 covered:12;
		u64 pages:12;
		u64 epoch:16;
		u64 tried:4;
	};
};

static inline unsigned int cow_region_sum(unsigned int a, unsigned int b)
{
	return min(a + b, COW_REGION_COUNT_MAX);
}

static inline unsigned int cow_region_rest(unsigned int a, unsigned int b)
{
	return a - min(a, b);
}

/*
 * A fork has walked over some of the region's pages, @pages of them mapped, and
 * @written of them copied ahead and written since. A region may be walked in
 * parts, since mappings and page tables cut it: the first part ends the epoch,
 * the others add to what that epoch had.
 */
static inline union cow_region cow_region_walked(union cow_region region, unsigned int epoch,
						 unsigned int pages, unsigned int written)
{
	if (region.epoch != epoch) {
		region.epoch = epoch;
		region.covered = 0;
		region.pages = 0;
		region.tried = 0;
	}
	region.covered = cow_region_sum(region.covered, region.faults + written);
	region.pages = cow_region_sum(region.pages, pages);
	region.faults = 0;
	return region;
}

/*
 * The share of the mapped pages that were written in the last epoch. Pages that
 * were written and unmapped since count as covered, so it could be above 100.
 */
static inline unsigned int cow_region_coverage_pct(union cow_region region)
{
	if (!region.pages)
		return 0;
	return min(100U * (unsigned int)region.covered / (unsigned int)region.pages, 100U);
}

static inline bool cow_region_reaches(union cow_region region, unsigned int threshold_pct)
{
	unsigned int covered = min_t(unsigned int, region.covered, region.pages);

	return covered && covered * 100 >= threshold_pct * (unsigned int)region.pages;
}

/* The part of the counts that @part of @pages pages have, rounded. */
static inline union cow_region cow_region_share(union cow_region region, unsigned int part,
						unsigned int pages)
{
	region.faults = (region.faults * part + pages / 2) / pages;
	region.covered = (region.covered * part + pages / 2) / pages;
	region.pages = (region.pages * part + pages / 2) / pages;
	return region;
}

static inline union cow_region cow_region_less(union cow_region region, union cow_region part)
{
	region.faults = cow_region_rest(region.faults, part.faults);
	region.covered = cow_region_rest(region.covered, part.covered);
	region.pages = cow_region_rest(region.pages, part.pages);
	return region;
}

static inline union cow_region cow_region_plus(union cow_region region, union cow_region part)
{
	region.faults = cow_region_sum(region.faults, part.faults);
	region.covered = cow_region_sum(region.covered, part.covered);
	region.pages = cow_region_sum(region.pages, part.pages);
	/* What was never walked is as far as what has been. */
	if (!region.epoch) {
		region.epoch = part.epoch;
		region.tried = part.tried;
	}
	return region;
}

/* As much of a region of 2^@shift bytes as one page table has, in bytes. */
static inline unsigned long cow_region_part(unsigned int shift)
{
	return min(1UL << shift, PMD_SIZE);
}

/* The piece of @size bytes around @addr that one fault copies, as far as the mapping goes. */
static inline void cow_region_window(unsigned long addr, unsigned long size,
				     unsigned long vma_start, unsigned long vma_end,
				     unsigned long *start, unsigned long *end)
{
	*start = max(ALIGN_DOWN(addr, size), vma_start);
	/* The last region of the address space ends at 0. */
	*end = min(ALIGN_DOWN(addr, size) + size - 1, vma_end - 1) + 1;
}

/* Which bit of @tried stands for the page table of @addr. */
static inline unsigned int cow_region_table(unsigned long addr, unsigned int shift)
{
	return (addr & ((1UL << shift) - 1)) / PMD_SIZE;
}

/*
 * The threshold of a process after an epoch in which @written of the pages that
 * were copied ahead were written and @wasted were not: up while more than
 * @waste_pct of them are wasted, back down to @floor when half of that are, or
 * when there is nothing to judge by.
 */
static inline unsigned int cow_threshold_next(unsigned int now, unsigned int floor,
					      unsigned long written, unsigned long wasted,
					      unsigned int waste_pct)
{
	unsigned long all = written + wasted;

	if (all && wasted * 100 > all * waste_pct)
		return min(max(now, floor) + 5, COW_THRESHOLD_NEVER);
	if (!all || wasted * 200 <= all * waste_pct)
		return now > floor + 5 ? now - 5 : floor;
	return max(now, floor);
}

/*
 * In how many epochs in a row a page must have been written to be copied ahead,
 * by the same rule: from @floor to @most, and one more if that wastes too much
 * as well, when nothing is copied for an epoch.
 */
static inline unsigned int cow_history_next(unsigned int now, unsigned int floor,
					    unsigned int most, unsigned long written,
					    unsigned long wasted, unsigned int waste_pct)
{
	unsigned long all = written + wasted;

	if (all && wasted * 100 > all * waste_pct)
		return min(max(now, floor), most) + 1;
	if (!all || wasted * 200 <= all * waste_pct)
		return now > floor ? now - 1 : floor;
	return max(now, floor);
}

#endif /* _MM_COW_REGION_H */
