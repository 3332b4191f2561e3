/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fork without copying page tables: what is left of a fork, and what mm/memory.c's
 * copying has to know of it. See mm/cow_defer.c.
 */
#ifndef _MM_COW_DEFER_H
#define _MM_COW_DEFER_H

#include <linux/bitmap.h>
#include <linux/cow_defer.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

/**
 * struct cow_defer_block - the deferred page tables of one table of the level above
 * @parent: that table, of the parent's
 * @child: and the child's
 * @pending: which of their entries are deferred; cleared under cow_defer.lock. Neither table
 *	is freed while any is.
 */
struct cow_defer_block {
	pmd_t *parent;
	pmd_t *child;
	DECLARE_BITMAP(pending, PTRS_PER_PMD);
};

/**
 * struct cow_defer - what a fork has not copied yet
 * @lock: guards all that follows, once fork is done
 * @users: both address spaces, and @ask or @ahead
 * @pending: number of deferred page tables
 * @lost: of them, there are some that could not be copied
 * @parent: NULL once it has ended or forked again
 * @child: the same
 * @memcg: that of the parent when it forked, which pays for the child's page tables
 * @blocks: by address
 * @cuts: of page tables that the mapping does not fill, the entries that are to be copied
 * @key: of @block, the last in @blocks that fork has used
 * @block: see @key
 * @ask: asks the child to copy ahead
 * @ahead: the child's, to do so
 * @free: what frees it, where it may sleep
 */
struct cow_defer {
	struct mutex lock; /* of all that follows */
	refcount_t users;
	unsigned int pending;
	bool lost;
	struct mm_struct *parent;
	struct mm_struct *child;
	struct mem_cgroup *memcg;
	struct xarray blocks;
	struct xarray cuts;
	unsigned long key;
	struct cow_defer_block *block;
	struct delayed_work ask;
	struct callback_head ahead;
	struct rcu_work free;
};

/* First address of page table number @index of the block with @key. */
static inline unsigned long cow_defer_addr(unsigned long key, unsigned int index)
{
	return (key << PUD_SHIFT) + ((unsigned long)index << PMD_SHIFT);
}

/* The part [@addr, @end) of one page table, as cow_defer.cuts keeps it: first and last + 1. */
static inline void *cow_defer_cut(unsigned long addr, unsigned long end)
{
	unsigned long start = addr & PMD_MASK;

	return xa_mk_value((addr - start) >> PAGE_SHIFT | (end - start) >> PAGE_SHIFT << 16);
}

/* The part of the page table at @addr that fork is to copy; @cut: NULL, or what is kept of it. */
static inline void cow_defer_range(void *cut, unsigned long addr, unsigned long *start,
				   unsigned long *end)
{
	*start = addr & PMD_MASK;
	*end = *start + PMD_SIZE;
	if (cut) {
		*end = *start + (xa_to_value(cut) >> 16) * PAGE_SIZE;
		*start += (xa_to_value(cut) & 0xffff) * PAGE_SIZE;
	}
}

int copy_pte_range(struct vm_area_struct *dst_vma, struct vm_area_struct *src_vma,
		   pmd_t *dst_pmd, pmd_t *src_pmd, unsigned long addr, unsigned long end);

/*
 * Whether @vma only stands for one while a deferred page table is copied: neither side's
 * mappings are locked then, and may have been split or merged.
 */
static inline bool cow_defer_vma(const struct vm_area_struct *vma)
{
	return IS_ENABLED(CONFIG_COW_DEFER) && !vma->anon_vma && !vma->vm_file;
}

/* For what is allocated under cow_defer.lock: that no process is killed for it, or waited for. */
#define COW_DEFER_GFP	(GFP_HIGHUSER_MOVABLE | __GFP_NORETRY | __GFP_NOWARN)

#ifdef CONFIG_COW_DEFER
struct folio *cow_defer_folio_alloc(struct mm_struct *mm);
void cow_defer_adopt(struct vm_area_struct *vma, struct page *page, pte_t pte,
		     unsigned long addr);
#else
static inline struct folio *cow_defer_folio_alloc(struct mm_struct *mm)
{
	return NULL;
}

static inline void cow_defer_adopt(struct vm_area_struct *vma, struct page *page, pte_t pte,
				   unsigned long addr)
{
}
#endif

/* mm/cow_defer.c to mm/cow_defer_fork.c */
struct cow_defer *cow_defer_new(struct mm_struct *child, struct mm_struct *parent);
struct cow_defer *cow_defer_get(struct mm_struct *mm);
void cow_defer_put(struct cow_defer *defer);
void cow_defer_end_if_done(struct cow_defer *defer);
int cow_defer_copy_all(struct cow_defer *defer, struct mm_struct *mm);
struct cow_defer_block *cow_defer_block(struct cow_defer *defer, unsigned long addr,
					pmd_t *dst_pmd, pmd_t *src_pmd);

/* The other way: a record was freed. */
void cow_defer_dead(void);

#endif /* _MM_COW_DEFER_H */
