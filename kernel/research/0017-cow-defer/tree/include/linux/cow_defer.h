/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fork without copying page tables: what fork, faults, unmapping and code that reads
 * or changes page tables call. See mm/cow_defer.c.
 */
#ifndef _LINUX_COW_DEFER_H
#define _LINUX_COW_DEFER_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>

#ifdef CONFIG_COW_DEFER

DECLARE_STATIC_KEY_FALSE(cow_defer_on);

int __cow_defer_fork(struct mm_struct *child, struct mm_struct *parent);
void __cow_defer_forked(struct mm_struct *child, struct mm_struct *parent);
void __cow_defer_exit(struct mm_struct *mm);
bool __cow_defer_table(struct vm_area_struct *dst_vma, struct vm_area_struct *src_vma,
		       pmd_t *dst_pmd, pmd_t *src_pmd, unsigned long addr, unsigned long end);
int __cow_defer_touch(struct mm_struct *mm, unsigned long addr, bool changes);
int __cow_defer_sync(struct mm_struct *mm, unsigned long start, unsigned long end);
void __cow_defer_unmap(struct mm_struct *mm, unsigned long start, unsigned long end);
int cow_defer_set(unsigned long mode);
unsigned long cow_defer_pending(struct mm_struct *mm);

/* Whether anything of @mm can be deferred. */
static inline bool cow_deferred(const struct mm_struct *mm)
{
	return static_branch_unlikely(&cow_defer_on) && rcu_access_pointer(mm->cow_defer);
}

/*
 * @parent is about to be copied to @child, both locked for writing: an earlier fork's page
 * tables are copied first. Return: 0, or -ENOMEM.
 */
static inline int cow_defer_fork(struct mm_struct *child, struct mm_struct *parent)
{
	return static_branch_unlikely(&cow_defer_on) ? __cow_defer_fork(child, parent) : 0;
}

/* It was copied, and translations of it flushed. */
static inline void cow_defer_forked(struct mm_struct *child, struct mm_struct *parent)
{
	if (cow_deferred(child))
		__cow_defer_forked(child, parent);
}

/* Nobody uses @mm any more. */
static inline void cow_defer_exit(struct mm_struct *mm)
{
	if (cow_deferred(mm))
		__cow_defer_exit(mm);
}

/* Fork has come to a page table with [@addr, @end). Return: whether it is left for later. */
static inline bool cow_defer_table(struct vm_area_struct *dst_vma,
				   struct vm_area_struct *src_vma, pmd_t *dst_pmd,
				   pmd_t *src_pmd, unsigned long addr, unsigned long end)
{
	return cow_deferred(dst_vma->vm_mm) &&
	       __cow_defer_table(dst_vma, src_vma, dst_pmd, src_pmd, addr, end);
}

/*
 * @mm touches @addr; @changes: what is there may change by it, now or later.
 * Return: 0; to the child also -ENOMEM, or -EFAULT if its page table was lost.
 */
static inline int cow_defer_touch(struct mm_struct *mm, unsigned long addr, bool changes)
{
	return cow_deferred(mm) ? __cow_defer_touch(mm, addr, changes) : 0;
}

/*
 * Somebody wants to see the page tables of [@start, @end) as fork would have left them, or to
 * change more than which page is where. May sleep. Return: as cow_defer_touch().
 */
static inline int cow_defer_sync(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	return cow_deferred(mm) ? __cow_defer_sync(mm, start, end) : 0;
}

/* [@start, @end) is about to be unmapped. */
static inline void cow_defer_unmap(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	if (cow_deferred(mm))
		__cow_defer_unmap(mm, start, end);
}
#else
static inline bool cow_deferred(const struct mm_struct *mm)
{
	return false;
}

static inline unsigned long cow_defer_pending(struct mm_struct *mm)
{
	return 0;
}

static inline int cow_defer_fork(struct mm_struct *child, struct mm_struct *parent)
{
	return 0;
}

static inline void cow_defer_forked(struct mm_struct *child, struct mm_struct *parent)
{
}

static inline void cow_defer_exit(struct mm_struct *mm)
{
}

static inline bool cow_defer_table(struct vm_area_struct *dst_vma,
				   struct vm_area_struct *src_vma, pmd_t *dst_pmd,
				   pmd_t *src_pmd, unsigned long addr, unsigned long end)
{
	return false;
}

static inline int cow_defer_touch(struct mm_struct *mm, unsigned long addr, bool changes)
{
	return 0;
}

static inline int cow_defer_sync(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	return 0;
}

static inline void cow_defer_unmap(struct mm_struct *mm, unsigned long start, unsigned long end)
{
}
#endif /* CONFIG_COW_DEFER */

#endif /* _LINUX_COW_DEFER_H */
