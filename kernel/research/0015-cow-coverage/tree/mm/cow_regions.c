// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy-on-write faults by regions of the address space.
 *
 * How much of a region was written between two forks tells how much of it will
 * be written after the next one. So each region has a word of counts: the
 * faults since the last fork, and what it had in the epoch before. A page that
 * fork left shared faults at most once an epoch, whether it is copied or, since
 * the other process has gone, re-used: counting faults counts pages. A page that
 * was copied ahead does not fault; its dirty bit tells, and fork and unmap look
 * at that anyway.
 *
 * Words are found by address, so growing, splitting and merging mappings is
 * none of their business. They come in blocks, which only fork allocates, for
 * what is mapped then: nothing else can be shared by it. munmap gives them back,
 * mremap moves the counts.
 *
 * Words change by compare and exchange, since a region of more than a page table
 * has more than one lock. Blocks come under the lock of the mappings for writing,
 * and go under it for reading at least (munmap), so that everybody else looks at
 * them in RCU sections.
 */
#include <linux/cow_regions.h>
#include <linux/jiffies.h>
#include <linux/kcsan-checks.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#include <trace/events/cow.h>

#include "cow.h"
#include "cow_regions.h"
#include "cow_walk.h"

DEFINE_STATIC_KEY_FALSE(cow_regions_on);
/* How often they were switched on: what is known of before is out of date. */
unsigned int cow_regions_era;

unsigned int sysctl_cow_region_kb = 2048;
unsigned int sysctl_cow_gate_forks = 1;
unsigned int sysctl_cow_gate_kb = 4096;
unsigned int sysctl_cow_history = 1;

/* vm.cow_precopy asks for regions, or no longer. Its lock is held. */
void cow_regions_switch(bool on)
{
	if (on == static_key_enabled(&cow_regions_on))
		return;
	if (on) {
		WRITE_ONCE(cow_regions_era, cow_regions_era + 1);
		static_branch_enable(&cow_regions_on);
	} else {
		static_branch_disable(&cow_regions_on);
	}
}

static struct cow_regions *cow_regions_locked(struct mm_struct *mm)
{
	return rcu_dereference_protected(mm->cow_regions.regions,
					 rwsem_is_locked(&mm->mmap_lock));
}

/* The block with @key, or NULL. In an RCU section, or with the mappings locked for writing. */
static struct cow_block *cow_block_find(struct cow_regions *regions, unsigned long key)
{
	struct cow_block *block = READ_ONCE(regions->at_hand[key % COW_BLOCKS_AT_HAND]);

	return block && block->key == key ? block : xa_load(&regions->blocks, key);
}

/* The word of the region of @addr, or NULL. In an RCU section, or locked for writing. */
u64 *cow_region_find(struct cow_regions *regions, unsigned long addr)
{
	unsigned long index = addr >> regions->shift;
	struct cow_block *block = cow_block_find(regions, index >> COW_BLOCK_BITS);

	return block ? &block->words[index % COW_BLOCK_REGIONS] : NULL;
}

static union cow_region cow_region_read(const u64 *word)
{
	return (union cow_region){ .word = READ_ONCE(*word) };
}

/*
 * The words of the block of region @index, made if it is not there. The mappings
 * are locked for writing. May sleep.
 */
static u64 *cow_block_get(struct cow_regions *regions, unsigned long index)
{
	unsigned long key = index >> COW_BLOCK_BITS;
	struct cow_block *block = cow_block_find(regions, key);

	if (!block) {
		block = kzalloc(sizeof(*block), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
		if (!block)
			return NULL;
		block->key = key;
		if (xa_err(xa_store(&regions->blocks, key, block,
				    GFP_KERNEL_ACCOUNT | __GFP_NOWARN))) {
			kfree(block);
			return NULL;
		}
	}
	/* Faults must see the key of a block before the block. */
	smp_store_release(&regions->at_hand[key % COW_BLOCKS_AT_HAND], block);
	return block->words;
}

static void cow_block_free(struct cow_regions *regions, struct cow_block *block)
{
	unsigned long key = block->key;

	if (regions->at_hand[key % COW_BLOCKS_AT_HAND] == block)
		WRITE_ONCE(regions->at_hand[key % COW_BLOCKS_AT_HAND], NULL);
	xa_erase(&regions->blocks, key);
	kfree_rcu(block, rcu);
}

/* What is remembered of the page table of @addr, made if it is not there. May sleep. */
static struct cow_table *cow_table_get(struct cow_regions *regions, unsigned long addr)
{
	unsigned long key = addr >> PMD_SHIFT;
	struct cow_table *table = xa_load(&regions->tables, key);

	if (table)
		return table;
	table = kzalloc(sizeof(*table), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!table)
		return NULL;
	table->since = regions->epoch;
	if (xa_err(xa_store(&regions->tables, key, table, GFP_KERNEL_ACCOUNT | __GFP_NOWARN))) {
		kfree(table);
		return NULL;
	}
	return table;
}

/*
 * A fork walks over the entries of [@addr, @end): what was written in the last
 * epoch is now what was in the one before, unless the epoch was short. Returns
 * the bits that the walk is to set; NULL if it cannot know, since fork made no
 * entry read-only before.
 */
static unsigned long *cow_table_walk(struct cow_regions *regions, unsigned long addr,
				     unsigned long end)
{
	struct cow_table *table = cow_table_get(regions, addr);
	DECLARE_BITMAP(range, PTRS_PER_PTE);
	unsigned int i;

	if (!table)
		return NULL;
	if (regions->short_epoch)
		return table->since == regions->epoch ? NULL : table->written[0];
	bitmap_zero(range, PTRS_PER_PTE);
	bitmap_set(range, pte_index(addr), (end - addr) >> PAGE_SHIFT);
	for (i = COW_HISTORY_MAX - 1; i; i--)
		bitmap_replace(table->written[i], table->written[i], table->written[i - 1],
			       range, PTRS_PER_PTE);
	bitmap_andnot(table->written[0], table->written[0], range, PTRS_PER_PTE);
	return table->since == regions->epoch ? NULL : table->written[0];
}

/*
 * Set @pages to those of the page table of @addr that were written in each of
 * the last @history epochs. False if nothing is known. In an RCU section.
 */
bool cow_pages_written(struct cow_regions *regions, unsigned long addr, unsigned int history,
		       unsigned long *pages)
{
	struct cow_table *table = xa_load(&regions->tables, addr >> PMD_SHIFT);
	unsigned int i;

	if (!table || history > COW_HISTORY_MAX)
		return false;
	/* A fork may be at another mapping's part of the page table. */
	kcsan_disable_current();
	bitmap_copy(pages, table->written[0], PTRS_PER_PTE);
	for (i = 1; i < history; i++)
		bitmap_and(pages, pages, table->written[i], PTRS_PER_PTE);
	kcsan_enable_current();
	return true;
}

/* A page that fork left shared was written to: count it for its region. */
void __cow_region_count(struct mm_struct *mm, unsigned long addr)
{
	struct cow_regions *regions;
	union cow_region old, new;
	u64 *word = NULL;

	rcu_read_lock();
	regions = rcu_dereference(mm->cow_regions.regions);
	if (regions)
		word = cow_region_find(regions, addr);
	if (word) {
		old = cow_region_read(word);
		do {
			new = old;
			new.faults = cow_region_sum(old.faults, 1);
		} while (!try_cmpxchg(word, &old.word, new.word));
	}
	rcu_read_unlock();
}

/* Takes its time: a large address space has many page tables. */
static void cow_regions_destroy(struct cow_regions *regions)
{
	struct cow_block *block;
	struct cow_table *table;
	unsigned long key;

	xa_for_each(&regions->blocks, key, block) {
		kfree(block);
		cond_resched();
	}
	xa_destroy(&regions->blocks);
	xa_for_each(&regions->tables, key, table) {
		kfree(table);
		cond_resched();
	}
	xa_destroy(&regions->tables);
	kfree(regions);
}

static void cow_regions_destroy_work(struct work_struct *work)
{
	cow_regions_destroy(container_of(to_rcu_work(work), struct cow_regions, destroy));
}

void cow_mm_regions_init(struct cow_mm_regions *own, const struct cow_mm_regions *from)
{
	RCU_INIT_POINTER(own->regions, NULL);
	own->forks = 0;
	own->control = from ? READ_ONCE(from->control) : 0;
	if (!(own->control & COW_CONTROL_INHERIT))
		own->control = 0;
}

/* Nobody uses the address space any more, whose mappings are gone. May sleep. */
void __cow_regions_free(struct cow_mm_regions *own)
{
	struct cow_regions *regions = rcu_replace_pointer(own->regions, NULL, true);

	if (regions)
		cow_regions_destroy(regions);
}

static struct cow_regions *cow_regions_new(unsigned int shift)
{
	struct cow_regions *regions = kzalloc(sizeof(*regions), GFP_KERNEL_ACCOUNT);

	if (!regions)
		return NULL;
	xa_init(&regions->blocks);
	xa_init(&regions->tables);
	regions->shift = shift;
	regions->era = READ_ONCE(cow_regions_era);
	return regions;
}

/*
 * A program that forks twice in a row, a snapshot and a helper say, has written
 * next to nothing in between: that must not be all that is remembered. But if
 * short epochs are the rule now, they are the measure.
 */
static void cow_regions_measure(struct cow_regions *regions)
{
	unsigned long now = jiffies, lasted = now - regions->began;

	regions->began = now;
	regions->short_epoch = lasted < regions->lasted / 4;
	regions->lasted = regions->short_epoch ? regions->lasted / 2 : lasted;
}

/* Whether @mm forks often enough, and is large enough, for its regions to be counted. */
static bool cow_regions_worth(struct mm_struct *mm)
{
	unsigned long least = READ_ONCE(sysctl_cow_gate_kb) / (PAGE_SIZE / 1024);

	return mm->cow_regions.forks >= READ_ONCE(sysctl_cow_gate_forks) &&
	       (rcu_access_pointer(mm->cow_regions.regions) ||
		get_mm_counter(mm, MM_ANONPAGES) >= least);
}

/* An epoch ends: fork will walk over the page tables of @mm, whose lock is held for writing. */
void __cow_regions_fork(struct mm_struct *mm)
{
	struct cow_mm_regions *own = &mm->cow_regions;
	struct cow_regions *regions = cow_regions_locked(mm);
	unsigned int shift = ilog2(READ_ONCE(sysctl_cow_region_kb)) + 10;
	bool wanted;

	WRITE_ONCE(own->forks, own->forks + (own->forks < UINT_MAX));
	wanted = cow_mm_by_regions(mm) && cow_regions_worth(mm);
	if (regions && (!wanted || regions->shift != shift ||
			regions->era != READ_ONCE(cow_regions_era))) {
		rcu_assign_pointer(own->regions, NULL);
		INIT_RCU_WORK(&regions->destroy, cow_regions_destroy_work);
		queue_rcu_work(system_unbound_wq, &regions->destroy);
		regions = NULL;
	}
	if (!wanted)
		return;
	if (!regions) {
		regions = cow_regions_new(shift);
		if (!regions)
			return;
		regions->written = atomic_long_read(&mm->cow_stats.written);
		regions->wasted = atomic_long_read(&mm->cow_stats.wasted);
		regions->began = jiffies;
		rcu_assign_pointer(own->regions, regions);
	}
	cow_regions_tune(mm, regions);
	cow_regions_measure(regions);
	regions->epoch++;
	if (!regions->epoch)
		regions->epoch = 1;
}

/* A fork begins to walk over the entries of [@addr, @end). May sleep. */
void cow_region_walk_begin(struct cow_walk *walk, unsigned long addr, unsigned long end)
{
	struct cow_regions *regions = cow_regions_locked(walk->vma->vm_mm);

	if (!regions || !is_cow_mapping(walk->vma->vm_flags))
		return;
	/*
	 * A region is at least a 64th of a page table, so that all of a page
	 * table's are in one block.
	 */
	BUILD_BUG_ON((COW_REGION_KB_MIN << 10) * COW_BLOCK_REGIONS < PMD_SIZE);
	walk->words = cow_block_get(regions, addr >> regions->shift);
	if (READ_ONCE(sysctl_cow_history))
		walk->written_pages = cow_table_walk(regions, addr, end);
	walk->by_page = walk->words && regions->shift < PMD_SHIFT;
	walk->start = ALIGN_DOWN(addr, 1UL << regions->shift);
	walk->epoch = regions->epoch;
	walk->shift = regions->shift;
}

/* The walk leaves a region. */
static void cow_walk_leave(struct cow_walk *walk)
{
	u64 *word = &walk->words[(walk->start >> walk->shift) % COW_BLOCK_REGIONS];
	union cow_region old = cow_region_read(word), new;

	do {
		new = cow_region_walked(old, walk->epoch, walk->pages,
					walk->region_written);
	} while (!try_cmpxchg(word, &old.word, new.word));
	if (new.covered)
		trace_cow_region_epoch(walk->start, 1UL << walk->shift, new.covered, new.pages);
	walk->start += 1UL << walk->shift;
	walk->pages = 0;
	walk->region_written = 0;
}

/* @nr pages from @addr on were copied. */
void cow_region_walk_pages(struct cow_walk *walk, unsigned long addr, unsigned int nr)
{
	for (; nr; nr--, addr += PAGE_SIZE) {
		while (addr - walk->start >= 1UL << walk->shift)
			cow_walk_leave(walk);
		walk->pages++;
	}
}

/* The walk has come to its end. */
void cow_region_walk_end(struct cow_walk *walk)
{
	while (walk->start < walk->end)
		cow_walk_leave(walk);
}

/* Whether the region is gone with [@start, @end), and not only a part of it. */
static bool cow_region_unmapped(struct mm_struct *mm, unsigned long region, unsigned int shift,
				unsigned long start, unsigned long end)
{
	unsigned long last = region + (1UL << shift) - 1;

	return (start <= region && last <= end - 1) ||
	       !find_vma_intersection(mm, region, last == ULONG_MAX ? last : last + 1);
}

/* Forget what was written in [@start, @end). */
static void cow_tables_unmap(struct mm_struct *mm, struct cow_regions *regions,
			     unsigned long start, unsigned long end)
{
	struct cow_table *table;
	unsigned long key, i;

	xa_for_each_range(&regions->tables, key, table, start >> PMD_SHIFT,
			  (end - 1) >> PMD_SHIFT) {
		unsigned long base = key << PMD_SHIFT;
		unsigned long first = max(start, base);
		unsigned long nr = (min(end - 1, base + PMD_SIZE - 1) - first) / PAGE_SIZE + 1;

		if (cow_region_unmapped(mm, base, PMD_SHIFT, start, end)) {
			xa_erase(&regions->tables, key);
			kfree_rcu(table, rcu);
			continue;
		}
		for (i = 0; i < COW_HISTORY_MAX; i++)
			bitmap_clear(table->written[i], pte_index(first), nr);
		cond_resched();
	}
}

/* [@start, @end) was unmapped; the mappings are locked, for reading at least. */
void __cow_regions_unmap(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	struct cow_regions *regions = cow_regions_locked(mm);
	unsigned long first, last, key;
	struct cow_block *block;

	if (!regions)
		return;
	first = start >> regions->shift;
	last = (end - 1) >> regions->shift;
	xa_for_each_range(&regions->blocks, key, block, first >> COW_BLOCK_BITS,
			  last >> COW_BLOCK_BITS) {
		unsigned long base = key << COW_BLOCK_BITS, i;
		bool empty = true;

		for (i = 0; i < COW_BLOCK_REGIONS; i++) {
			if (base + i >= first && base + i <= last &&
			    cow_region_unmapped(mm, (base + i) << regions->shift, regions->shift,
						start, end))
				WRITE_ONCE(block->words[i], 0);
			empty &= !block->words[i];
		}
		if (empty)
			cow_block_free(regions, block);
		cond_resched();
	}
	cow_tables_unmap(mm, regions, start, end);
}

/* Give the counts of @pages pages, @share, to the regions from @addr on: two at most. */
static void cow_regions_give(struct cow_regions *regions, unsigned long addr,
			     unsigned int pages, union cow_region share)
{
	while (pages) {
		unsigned long left = (1UL << regions->shift) - (addr & ((1UL << regions->shift) - 1));
		unsigned int part = min_t(unsigned long, pages, left >> PAGE_SHIFT);
		union cow_region given = cow_region_share(share, part, pages), old, new;
		unsigned long index = addr >> regions->shift;
		u64 *word = cow_block_get(regions, index);

		/* Without the memory for them the counts are lost. */
		if (word) {
			word += index % COW_BLOCK_REGIONS;
			old = cow_region_read(word);
			do {
				new = cow_region_plus(old, given);
			} while (!try_cmpxchg(word, &old.word, new.word));
		}
		share = cow_region_less(share, given);
		pages -= part;
		addr += (unsigned long)part << PAGE_SHIFT;
	}
}

/* Of a region, @part pages were moved to @to: its counts, or their share of them. */
static void cow_region_move(struct cow_regions *regions, u64 *word, unsigned int part,
			    unsigned long to)
{
	unsigned int pages = 1UL << (regions->shift - PAGE_SHIFT);
	union cow_region old = cow_region_read(word), new, share;

	if (!old.word)
		return;
	do {
		share = cow_region_share(old, part, pages);
		new = cow_region_less(old, share);
		if (part == pages)
			new.word = 0;
	} while (!try_cmpxchg(word, &old.word, new.word));
	cow_regions_give(regions, to, part, share);
}

/* Pages were moved, and the counts follow. The mappings are locked for writing. */
void __cow_regions_move(struct mm_struct *mm, unsigned long from, unsigned long to,
			unsigned long length)
{
	struct cow_regions *regions = cow_regions_locked(mm);
	unsigned long first, last, index, key;
	struct cow_block *block;

	if (!regions)
		return;
	first = from >> regions->shift;
	last = (from + length - 1) >> regions->shift;
	xa_for_each_range(&regions->blocks, key, block, first >> COW_BLOCK_BITS,
			  last >> COW_BLOCK_BITS) {
		for (index = max(first, key << COW_BLOCK_BITS);
		     index <= last && index >> COW_BLOCK_BITS == key; index++) {
			unsigned long at = max(from, index << regions->shift);
			unsigned long end = min(from + length, (index + 1) << regions->shift);

			cow_region_move(regions, &block->words[index % COW_BLOCK_REGIONS],
					(end - at) >> PAGE_SHIFT, to + (at - from));
		}
		cond_resched();
	}
}

/*
 * The first region at or after @*addr of which anything is known; @*addr is set
 * to where the next may be. The mappings are locked for reading, which munmap may
 * have as well.
 */
bool cow_region_next(struct mm_struct *mm, unsigned long *addr, struct cow_region_info *info)
{
	struct cow_regions *regions = cow_regions_locked(mm);
	struct cow_block *block;
	unsigned long index, key;

	if (!regions)
		return false;
	guard(rcu)();
	index = *addr >> regions->shift;
	xa_for_each_start(&regions->blocks, key, block, index >> COW_BLOCK_BITS) {
		index = max(index, key << COW_BLOCK_BITS);
		for (; index >> COW_BLOCK_BITS == key; index++) {
			union cow_region region;

			region = cow_region_read(&block->words[index % COW_BLOCK_REGIONS]);
			if (!region.pages && !region.covered && !region.faults)
				continue;
			info->start = index << regions->shift;
			info->end = (index + 1) << regions->shift;
			info->pages = region.pages;
			info->covered = region.covered;
			info->coverage_pct = cow_region_coverage_pct(region);
			info->faults = region.faults;
			info->tried = region.tried;
			*addr = info->end;
			return true;
		}
	}
	return false;
}
