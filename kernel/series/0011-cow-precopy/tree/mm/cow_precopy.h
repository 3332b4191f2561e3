/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _MM_COW_PRECOPY_H
#define _MM_COW_PRECOPY_H

#include <linux/minmax.h>
#include <linux/mm_types.h>
#include <linux/pgtable.h>

/*
 * How many of the @depth pages after the one at @addr may be looked at: those
 * in the same mapping, which ends at @vma_end, and in the same page table.
 */
static inline unsigned int cow_window(unsigned long addr, unsigned long vma_end,
				      unsigned int depth)
{
	unsigned long mapped = ((vma_end - addr) >> PAGE_SHIFT) - 1;
	unsigned long entries = PTRS_PER_PTE - 1 - pte_index(addr);

	return min3((unsigned long)depth, mapped, entries);
}

bool cow_precopy_range(struct vm_fault *vmf, unsigned long start, unsigned long end);

#endif /* _MM_COW_PRECOPY_H */
