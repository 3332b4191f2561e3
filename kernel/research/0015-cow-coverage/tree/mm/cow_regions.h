/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copy-on-write by regions: what mm/memory.c and mm/cow_*.c call.
 */
#ifndef _MM_COW_REGIONS_H
#define _MM_COW_REGIONS_H

#include <linux/cow_regions.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "cow_region.h"

/* How many epochs are remembered of each page. */
#define COW_HISTORY_MAX		3

/**
 * struct cow_table - which pages of a page table were written
 * @rcu: faults look at it without the lock that munmap holds
 * @written: a bit for each page: in the last epoch, and in those before
 * @since: the epoch that began when this was made
 */
struct cow_table {
	struct rcu_head rcu;
	unsigned long written[COW_HISTORY_MAX][BITS_TO_LONGS(PTRS_PER_PTE)];
	u16 since;
};

#define COW_BLOCK_BITS		6
#define COW_BLOCK_REGIONS	(1UL << COW_BLOCK_BITS)
#define COW_BLOCKS_AT_HAND	8

/**
 * struct cow_block - regions that follow each other
 * @rcu: as of cow_table
 * @key: index of the first, without its low bits
 * @words: union cow_region of each
 */
struct cow_block {
	struct rcu_head rcu;
	unsigned long key;
	u64 words[COW_BLOCK_REGIONS];
};

/**
 * struct cow_regions - the regions of an address space
 * @blocks: struct cow_block, by its key; only where pages were mapped at a fork
 * @at_hand: some of them, by the low bits of the key: each fault looks for one.
 *	Set with the mappings locked for writing, so that none outlives its block
 * @tables: struct cow_table, by page table; only while vm.cow_history is set
 * @destroy: faults look at regions without the lock that fork and munmap hold
 * @shift: log2 of the bytes of a region
 * @epoch: the epoch that the last fork began; never 0
 * @short_epoch: the epoch that the last fork ended was so short that it is added
 *	to the one before
 * @began: when the epoch began, in jiffies
 * @lasted: how long those before lasted, short ones left out
 * @era: of cow_regions_era
 * @threshold_pct: from which coverage on a region is copied ahead
 * @history: in how many epochs a page must have been written for that
 * @written: of cow_mm_stats, at the last fork
 * @wasted: the same
 */
struct cow_regions {
	struct xarray blocks;
	struct cow_block *at_hand[COW_BLOCKS_AT_HAND];
	struct xarray tables;
	struct rcu_work destroy;
	unsigned int shift;
	u16 epoch;
	bool short_epoch;
	unsigned long began;
	unsigned long lasted;
	unsigned int era;
	unsigned int threshold_pct;
	unsigned int history;
	unsigned long written;
	unsigned long wasted;
};

#ifdef CONFIG_COW_COVERAGE
extern unsigned int cow_regions_era;
extern unsigned int sysctl_cow_region_kb;
extern unsigned int sysctl_cow_gate_forks;
extern unsigned int sysctl_cow_gate_kb;
extern unsigned int sysctl_cow_history;

void cow_regions_switch(bool on);

static inline bool cow_regions_enabled(void)
{
	return static_branch_unlikely(&cow_regions_on);
}

/* Whether regions of @mm are counted; most processes never fork so often. */
static inline bool cow_regions_counted(const struct mm_struct *mm)
{
	return cow_regions_enabled() && rcu_access_pointer(mm->cow_regions.regions);
}
#else
static inline void cow_regions_switch(bool on)
{
}

static inline bool cow_regions_enabled(void)
{
	return false;
}

static inline bool cow_regions_counted(const struct mm_struct *mm)
{
	return false;
}
#endif /* CONFIG_COW_COVERAGE */

struct cow_walk;

void cow_region_walk_begin(struct cow_walk *walk, unsigned long addr, unsigned long end);
void cow_region_walk_pages(struct cow_walk *walk, unsigned long addr, unsigned int nr);
void cow_region_walk_end(struct cow_walk *walk);
void __cow_region_count(struct mm_struct *mm, unsigned long addr);
u64 *cow_region_find(struct cow_regions *regions, unsigned long addr);
bool cow_pages_written(struct cow_regions *regions, unsigned long addr, unsigned int history,
		       unsigned long *pages);

/* mm/cow_coverage.c */
void cow_regions_tune(struct mm_struct *mm, struct cow_regions *regions);
bool cow_mm_by_regions(const struct mm_struct *mm);

#endif /* _MM_COW_REGIONS_H */
