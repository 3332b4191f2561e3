/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fork without copying page tables: what mm/memory.c's copying has to know of it.
 */
#ifndef _MM_COW_DEFER_H
#define _MM_COW_DEFER_H

#include <linux/cow_defer.h>
#include <linux/mm.h>

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

#ifdef CONFIG_COW_DEFER
void cow_defer_adopt(struct vm_area_struct *vma, struct page *page, pte_t pte,
		     unsigned long addr);
#else
static inline void cow_defer_adopt(struct vm_area_struct *vma, struct page *page, pte_t pte,
				   unsigned long addr)
{
}
#endif

#endif /* _MM_COW_DEFER_H */
