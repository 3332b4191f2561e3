/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copy-on-write by regions: what mm/memory.c and mm/cow_*.c call.
 */
#ifndef _MM_COW_REGIONS_H
#define _MM_COW_REGIONS_H

#include <linux/cow_regions.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/xarray.h>

#include "cow_region.h"

/* How many epochs are remembered of each page. */
#define COW_HISTORY_MAX		2

/**
 * struct cow_table - which pages of a page table were written
 * @written: a bit for each page: in the last epoch, and in the one before
 * @since: the epoch that began when this was made
 */
struct cow_table {
	unsigned long written[COW_HISTORY_MAX][BITS_TO_LONGS(PTRS_PER_PTE)];
	u16 since;
};

#define COW_BLOCK_BITS		6
#define COW_BLOCK_REGIONS	(1UL << COW_BLOCK_BITS)
#define COW_BLOCKS_AT_HAND	8

/**
 * struct cow_block - regions that follow each other
 * @key: index of the first, without its low bits
 * @words: union cow_region of each
 */
struct cow_block {
	unsigned long key;
	u64 words[COW_BLOCK_REGIONS];
};

/**
 * struct cow_regions - the regions of an address space
 * @blocks: struct cow_block, by its key; only where pages were mapped at a fork
 * @at_hand: some of them, by the low bits of the key: each fault looks for one.
 *	Set with the mappings locked for writing, so that none outlives its block
 * @tables: struct cow_table, by page table; only while vm.cow_history is set
 * @rcu: faults look at regions without the lock that fork and munmap hold
 * @shift: log2 of the bytes of a region
 * @epoch: the epoch that the last fork began; never 0
 * @threshold_pct: from which coverage on a region is copied ahead
 * @written: of cow_mm_stats, at the last fork
 * @wasted: the same
 */
struct cow_regions {
	struct xarray blocks;
	struct cow_block *at_hand[COW_BLOCKS_AT_HAND];
	struct xarray tables;
	struct rcu_head rcu;
	unsigned int shift;
	u16 epoch;
	unsigned int threshold_pct;
	unsigned long written;
	unsigned long wasted;
};

/**
 * struct cow_walk - a fork's way through a page table
 * @vma: the mapping that is copied
 * @words: the block of its regions; NULL if they are not tracked
 * @written_pages: bits of the pages that were written, by page table entry; NULL
 *	if nobody asks
 * @start: first address of the region it is in
 * @epoch: the epoch that begins
 * @shift: log2 of the bytes of a region
 * @pages: mapped pages of the region so far
 * @written: pages of the region that were copied ahead, and written since
 * @all_written: the same of the page table
 * @all_wasted: its pages that were copied ahead for nothing
 * @by_page: whether the page table has several regions
 * @look: whether entries are to be looked at
 * @look_at_all: those that are not writable as well
 * @looked_to: up to where that has been done: fork may begin again in the middle
 */
struct cow_walk {
	struct vm_area_struct *vma;
	u64 *words;
	unsigned long *written_pages;
	unsigned long start;
	unsigned int epoch;
	unsigned int shift;
	unsigned int pages;
	unsigned int written;
	unsigned int all_written;
	unsigned int all_wasted;
	bool by_page;
	bool look;
	bool look_at_all;
	unsigned long looked_to;
};

#ifdef CONFIG_COW_COVERAGE
extern unsigned int sysctl_cow_region_kb;
extern unsigned int sysctl_cow_gate_forks;
extern unsigned int sysctl_cow_history;

static inline bool cow_regions_enabled(void)
{
	return static_branch_unlikely(&cow_regions_on);
}
#else
static inline bool cow_regions_enabled(void)
{
	return false;
}
#endif /* CONFIG_COW_COVERAGE */

void cow_region_walk_begin(struct cow_walk *walk, unsigned long addr, unsigned long end);
void cow_region_walk_pages(struct cow_walk *walk, unsigned long addr, unsigned int nr);
void cow_region_walk_end(struct cow_walk *walk, unsigned long end);
void __cow_region_count(struct mm_struct *mm, unsigned long addr);
u64 *cow_region_find(struct cow_regions *regions, unsigned long addr);
bool cow_pages_written(struct cow_regions *regions, unsigned long addr, unsigned int history,
		       unsigned long *pages);

/* mm/cow_coverage.c */
void cow_regions_tune(struct mm_struct *mm, struct cow_regions *regions);
bool cow_mm_by_regions(const struct mm_struct *mm);

/* The pages of @rss were copied. Of one region, if it has all of the page table. */
static inline void cow_walk_rss(struct cow_walk *walk, const int *rss)
{
	if (cow_regions_enabled() && walk->words && !walk->by_page)
		walk->pages += rss[MM_FILEPAGES] + rss[MM_ANONPAGES] + rss[MM_SHMEMPAGES];
}

/* A huge page was copied. */
static inline void cow_walk_huge(struct cow_walk *walk, unsigned long addr)
{
	if (cow_regions_enabled() && walk->words)
		cow_region_walk_pages(walk, addr, PTRS_PER_PTE);
}

#endif /* _MM_COW_REGIONS_H */
