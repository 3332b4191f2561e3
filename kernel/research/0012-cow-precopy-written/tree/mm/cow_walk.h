/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What fork looks at in the page tables that it copies, for mm/memory.c.
 */
#ifndef _MM_COW_WALK_H
#define _MM_COW_WALK_H

#include <linux/jump_label.h>
#include <linux/mm.h>

/**
 * struct cow_walk - a fork's way through a page table
 * @vma: the mapping that is copied
 * @end: address after the last entry that is copied
 * @looked_to: up to where entries have been looked at: fork may begin again in
 *	the middle
 * @written: pages that were copied ahead, and written since
 * @wasted: and those that were not
 * @look: whether entries are to be looked at
 */
struct cow_walk {
	struct vm_area_struct *vma;
	unsigned long end;
	unsigned long looked_to;
	unsigned int written;
	unsigned int wasted;
	bool look;
};

#ifdef CONFIG_COW_PRECOPY
DECLARE_STATIC_KEY_FALSE(cow_precopy_tracking);

void __cow_walk_begin(struct cow_walk *walk, struct vm_area_struct *vma, unsigned long addr,
		      unsigned long end);
void __cow_walk_entries(struct cow_walk *walk, pte_t *pte, unsigned long addr);
void __cow_walk_end(struct cow_walk *walk);

/*
 * A fork copies the entries of [@addr, @end), in one page table. What fork does
 * with a page is some 130 instructions, so its loop is left alone: the entries
 * are looked at before it, and only if something was copied ahead.
 */
static inline void cow_walk_begin(struct cow_walk *walk, struct vm_area_struct *vma,
				  unsigned long addr, unsigned long end)
{
	walk->look = false;
	if (static_branch_unlikely(&cow_precopy_tracking))
		__cow_walk_begin(walk, vma, addr, end);
}

/* The entries from @addr and @pte on are about to be copied, and locked. */
static inline void cow_walk_entries(struct cow_walk *walk, pte_t *pte, unsigned long addr)
{
	if (static_branch_unlikely(&cow_precopy_tracking) && walk->look)
		__cow_walk_entries(walk, pte, addr);
}

/* They were copied. */
static inline void cow_walk_end(struct cow_walk *walk)
{
	if (static_branch_unlikely(&cow_precopy_tracking) && walk->look)
		__cow_walk_end(walk);
}
#else
static inline void cow_walk_begin(struct cow_walk *walk, struct vm_area_struct *vma,
				  unsigned long addr, unsigned long end)
{
}

static inline void cow_walk_entries(struct cow_walk *walk, pte_t *pte, unsigned long addr)
{
}

static inline void cow_walk_end(struct cow_walk *walk)
{
}
#endif /* CONFIG_COW_PRECOPY */

#endif /* _MM_COW_WALK_H */
