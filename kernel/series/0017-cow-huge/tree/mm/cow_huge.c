// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copying into huge pages (vm.cow_huge): where most pages of a page table are
 * written again after each fork, the worker copies all of them into one.
 *
 * Fork copies one entry for a huge page. The first write to it splits it, and
 * from then on each of its pages has faults and an entry of its own, at the next
 * fork as well. If most of them will be written, a huge page costs little memory
 * that they would not, and saves the rest of the faults and the next fork's work.
 * It is made as khugepaged makes its own, between two forks and never by a fault,
 * which would stand still while 2 MiB are copied. What is shared is copied before
 * anything is locked (collapse_guess()): the program stands still for the rest.
 *
 * A huge page does not tell which of its pages were written. What was known of
 * them is taken to be so for some epochs (struct cow_table); then they are copied
 * one by one once more.
 */
#include <linux/khugepaged.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/rmap.h>
#include <linux/sysctl.h>

#include "cow.h"
#include "cow_precopy.h"
#include "cow_regions.h"
#include "internal.h"

static unsigned int sysctl_cow_huge;

/*
 * How many pages of the page table at @addr are shared with a child. 0 unless its pages are
 * all there, on one node (which is set), nobody else's, and one was written since the fork.
 */
static unsigned int cow_huge_shared(struct vm_area_struct *vma, unsigned long addr, int *node)
{
	unsigned int i, absent = 0, shared = 0, written = 0;
	pmd_t *pmd = mm_find_pmd(vma->vm_mm, addr);
	spinlock_t *ptl;
	pte_t *pte;

	*node = NUMA_NO_NODE;
	pte = pmd ? pte_offset_map_lock(vma->vm_mm, pmd, addr, &ptl) : NULL;
	if (!pte)
		return 0;
	for (i = 0; i < PTRS_PER_PTE; i++, addr += PAGE_SIZE) {
		pte_t entry = ptep_get(pte + i);
		struct page *page;

		switch (cow_judge(vma, addr, entry)) {
		case COW_PRECOPY_SUCCESS:
			shared++;
			break;
		case COW_REFUSED_NONE:
			absent++;
			continue;
		case COW_REFUSED_WRITABLE:
			written++;
			break;
		case COW_REFUSED_EXCLUSIVE:
			break;
		default:
			goto out;
		}
		page = vm_normal_page(vma, addr, entry);
		/*
		 * Copied ahead in pieces, and it is not known yet whether for nothing; or
		 * given up (MADV_FREE).
		 */
		if (!page || PagePrecopied(page) || !folio_test_swapbacked(page_folio(page)))
			goto out;
		if (*node == NUMA_NO_NODE)
			*node = page_to_nid(page);
		/* A policy wants them so. */
		if (page_to_nid(page) != *node)
			goto out;
	}
out:
	pte_unmap_unlock(pte, ptl);
	return i == PTRS_PER_PTE && absent <= COLLAPSE_GUESS_ABSENT && written ? shared : 0;
}

/**
 * cow_huge_wanted - whether pages are to be copied into a huge one
 * @vma: their mapping; the mappings are locked for reading
 * @addr: address of the first
 * @pages: those of its page table that are likely to be written, by their indices
 * @threshold_pct: how many of them that must be
 *
 * Return: how many are shared with a child still, or 0.
 */
unsigned int cow_huge_wanted(struct vm_area_struct *vma, unsigned long addr,
			     const unsigned long *pages, unsigned int threshold_pct)
{
	unsigned int likely = bitmap_weight(pages, PTRS_PER_PTE), shared;
	int node;

	if (!READ_ONCE(sysctl_cow_huge) || !IS_ALIGNED(addr, PMD_SIZE) ||
	    vma->vm_end - addr < PMD_SIZE)
		return 0;
	if (!likely || likely * 100 < threshold_pct * PTRS_PER_PTE)
		return 0;
	/* A policy may want them on several nodes, and all of a huge page is dirty or none. */
	if (!vma_is_anonymous(vma) || !cow_vma_guessable(vma) || vma_policy(vma) ||
	    vma_soft_dirty_enabled(vma) ||
	    !thp_vma_allowable_order(vma, vma->vm_flags, TVA_ENFORCE_SYSFS, PMD_ORDER))
		return 0;
	shared = cow_huge_shared(vma, addr, &node);
	if (shared < PTRS_PER_PTE / 2 || !cow_copies_affordable(vma, node, PTRS_PER_PTE))
		return 0;
	return shared;
}

/**
 * cow_huge_copy - copy them
 * @vma: their mapping; the mappings are locked for reading, and not any more afterwards
 * @addr: address of the first
 * @shared: how many of them are shared
 *
 * Return: whether they are in one huge page now. They cannot be where a page was copied a
 * moment ago and waits in a list of its CPU's own (lru_add_drain()), among other reasons.
 */
bool cow_huge_copy(struct vm_area_struct *vma, unsigned long addr, unsigned int shared)
{
	struct mm_struct *mm = vma->vm_mm;

	if (!collapse_guess(vma, addr)) {
		cow_count(COW_AHEAD_HUGE_FAILED, 1);
		return false;
	}
	cow_count(COW_AHEAD_HUGE, 1);
	atomic_long_add(shared, &mm->cow_stats.huge);
	return true;
}

static struct ctl_table cow_huge_sysctls[] = {
	{
		.procname	= "cow_huge",
		.data		= &sysctl_cow_huge,
		.maxlen		= sizeof(sysctl_cow_huge),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

static int __init cow_huge_init(void)
{
	register_sysctl_init("vm", cow_huge_sysctls);
	return 0;
}
fs_initcall(cow_huge_init);
