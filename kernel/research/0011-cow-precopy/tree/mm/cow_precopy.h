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

/*
 * How many neighbours one batch may take when @copied pages were copied since
 * the process, or its parent, forked: one for each @ramp of them, so that a
 * process that writes a handful of pages and ends wastes none, and one that
 * writes on comes to @depth in a few faults. A @depth of one needs no ramp.
 */
static inline unsigned int cow_ramp(unsigned int depth, long copied, unsigned int ramp)
{
	if (!ramp || depth == 1)
		return depth;
	/* Faults beside a fork are counted in an order of their own. */
	return min(max(copied, 0L) / ramp, (long)depth);
}

bool cow_memory_ample(struct vm_area_struct *vma, unsigned int pages);
bool cow_precopy_range(struct vm_fault *vmf, unsigned long start, unsigned long end);

#endif /* _MM_COW_PRECOPY_H */
