// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy-on-write around: where a process writes the pages that it shares since
 * fork in order, one fault copies an aligned block of a large folio to a new one.
 *
 * The page table tells: the block's first (last) page is written to, all of the
 * block is still shared, and the pages before (after) it are dirty. The rest of
 * the block is mapped clean, so it is no such evidence until it is written, too.
 * Nothing is remembered. mTHP's sizes say which blocks there are.
 */
#include <linux/mm.h>
#include <linux/delayacct.h>
#include <linux/highmem.h>
#include <linux/huge_mm.h>
#include <linux/hugetlb.h>	/* for flush_tlb_range() of x86 */
#include <linux/kmsan.h>
#include <linux/memcontrol.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/swap.h>
#include <linux/userfaultfd_k.h>

#include "internal.h"

/* Number of adjacent dirty pages that show writes in order. */
#define COW_AROUND_RUN		3

/**
 * struct wp_block - what one fault copies
 * @start: address of the first page
 * @page: that page, of a large folio that has the others, too
 * @fault: number of the page that is written to
 * @order: order of the block
 */
struct wp_block {
	unsigned long start;
	struct page *page;
	unsigned int fault;
	unsigned int order;
};

static unsigned int wp_block_nr(const struct wp_block *block)
{
	return 1U << block->order;
}

/* Whether the pages before the first of a block, or after the last, are written. */
static bool wp_run_beside(struct vm_fault *vmf)
{
	int step = (vmf->address >> PAGE_SHIFT) & 1 ? 1 : -1;
	struct vm_area_struct *vma = vmf->vma;
	unsigned long addr = vmf->address;
	pte_t *ptep = vmf->pte;
	int i;

	for (i = 0; i < COW_AROUND_RUN; i++) {
		pte_t pte;

		addr += step * PAGE_SIZE;
		if (addr < vma->vm_start || addr >= vma->vm_end ||
		    (addr ^ vmf->address) & PMD_MASK)
			return false;
		ptep += step;
		pte = ptep_get(ptep);
		if (!pte_present(pte) || !pte_write(pte) || !pte_dirty(pte))
			return false;
	}
	return true;
}

/*
 * Whether all of @block is mapped, and shared. The fault's reference on the folio
 * keeps others from taking over any of its pages, and from splitting it.
 */
static bool wp_block_shared(pte_t *ptep, const struct wp_block *block)
{
	unsigned int i;

	for (i = 0; i < wp_block_nr(block); i++) {
		pte_t pte = ptep_get(ptep + i);

		if (!pte_present(pte) || pte_write(pte) || pte_protnone(pte) ||
		    pte_pfn(pte) != page_to_pfn(block->page) + i ||
		    PageAnonExclusive(block->page + i))
			return false;
	}
	return true;
}

/* The largest block of @orders that can be copied; false if there is none. */
static bool wp_block_find(struct vm_fault *vmf, struct wp_block *block,
			  unsigned long orders)
{
	struct folio *folio = page_folio(vmf->page);
	struct vm_area_struct *vma = vmf->vma;
	unsigned long idx = folio_page_idx(folio, vmf->page);

	/* MADV_FREE: a copy could not be given up any more. */
	if (!(vma->vm_flags & VM_WRITE) || !folio_test_swapbacked(folio) ||
	    folio_is_zone_device(folio))
		return false;
	/* Both are to see the first write to each page. */
	if (userfaultfd_armed(vma) || vma_soft_dirty_enabled(vma))
		return false;
	orders = thp_vma_allowable_orders(vma, vma->vm_flags, TVA_IN_PF | TVA_ENFORCE_SYSFS,
					  orders);
	orders = thp_vma_suitable_orders(vma, vmf->address, orders);
	while (orders) {
		block->order = highest_order(orders);
		block->start = ALIGN_DOWN(vmf->address, PAGE_SIZE << block->order);
		block->fault = (vmf->address - block->start) >> PAGE_SHIFT;
		block->page = vmf->page - block->fault;
		if (idx >= block->fault &&
		    idx - block->fault + wp_block_nr(block) <= folio_nr_pages(folio) &&
		    wp_block_shared(vmf->pte - block->fault, block))
			return true;
		orders &= ~BIT(block->order);
	}
	return false;
}

/* A copy of @block; NULL if there is no memory without direct reclaim, or if reading fails. */
static struct folio *wp_block_copy(struct vm_area_struct *vma, const struct wp_block *block)
{
	gfp_t gfp = vma_thp_gfp_mask(vma) & ~__GFP_DIRECT_RECLAIM;
	struct folio *new = vma_alloc_folio(gfp, block->order, vma, block->start, true);
	unsigned int i;

	if (!new)
		goto fallback;
	if (mem_cgroup_charge(new, vma->vm_mm, gfp))
		goto put;
	folio_throttle_swaprate(new, gfp);
	for (i = 0; i < wp_block_nr(block); i++) {
		struct page *from = block->page + i, *to = folio_page(new, i);

		if (copy_mc_user_highpage(to, from, block->start + i * PAGE_SIZE, vma))
			goto put;
		kmsan_copy_page_meta(to, from);
	}
	__folio_mark_uptodate(new);
	/* Its entries need not be: see wp_block_replace(). */
	folio_set_dirty(new);
	return new;
put:
	folio_put(new);
fallback:
	count_mthp_stat(block->order, MTHP_STAT_ANON_COW_FALLBACK);
	return NULL;
}

/* Map @new in the place of @block. Called with the page table lock held. */
static void wp_block_replace(struct vm_fault *vmf, const struct wp_block *block,
			     struct folio *new)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned int nr = wp_block_nr(block);
	unsigned long end = block->start + nr * PAGE_SIZE;
	pte_t entry, *ptep = vmf->pte - block->fault;

	flush_cache_range(vma, block->start, end);
	/* Clear, flush, set, and only then drop the old rmap: see wp_page_copy(). */
	get_and_clear_full_ptes(vma->vm_mm, block->start, ptep, nr, 0);
	flush_tlb_range(vma, block->start, end);
	folio_ref_add(new, nr - 1);
	folio_add_new_anon_rmap(new, vma, block->start, RMAP_EXCLUSIVE);
	folio_add_lru_vma(new, vma);
	entry = pte_sw_mkyoung(mk_pte(&new->page, vma->vm_page_prot));
	/* Without hardware that sets the bit, each first write would fault. */
	if (!arch_has_hw_pte_dirty())
		entry = pte_mkdirty(entry);
	set_ptes(vma->vm_mm, block->start, ptep, maybe_mkwrite(entry, vma), nr);
	update_mmu_cache_range(vmf, vma, block->start, ptep, nr);
	folio_remove_rmap_ptes(page_folio(block->page), block->page, nr, vma);
	count_mthp_stat(block->order, MTHP_STAT_ANON_COW_ALLOC);
}

/* Map @new unless the block has changed. Called without the lock, returns without it. */
static bool wp_block_install(struct vm_fault *vmf, const struct wp_block *block,
			     struct folio *new)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mmu_notifier_range range;
	bool same;

	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vma->vm_mm, block->start,
				block->start + (PAGE_SIZE << block->order));
	mmu_notifier_invalidate_range_start(&range);
	vmf->pte = pte_offset_map_lock(vma->vm_mm, vmf->pmd, vmf->address, &vmf->ptl);
	same = vmf->pte && wp_block_shared(vmf->pte - block->fault, block);
	if (same)
		wp_block_replace(vmf, block, new);
	if (vmf->pte)
		pte_unmap_unlock(vmf->pte, vmf->ptl);
	mmu_notifier_invalidate_range_end(&range);
	return same;
}

/* @orders: those of the blocks whose first or last page is the faulting one; see cow_around() */
bool __cow_around(struct vm_fault *vmf, unsigned long orders)
{
	struct folio *new, *old = page_folio(vmf->page);
	struct vm_area_struct *vma = vmf->vma;
	struct wp_block block;

	if (!wp_run_beside(vmf) || !wp_block_find(vmf, &block, orders))
		return false;
	pte_unmap_unlock(vmf->pte, vmf->ptl);
	delayacct_wpcopy_start();
	new = wp_block_copy(vma, &block);
	if (new && wp_block_install(vmf, &block, new)) {
		free_swap_cache(old);
		folio_put_refs(old, wp_block_nr(&block));
	} else {
		if (new)
			folio_put(new);
		vmf->pte = pte_offset_map_lock(vma->vm_mm, vmf->pmd, vmf->address, &vmf->ptl);
		if (vmf->pte && pte_same(ptep_get(vmf->pte), vmf->orig_pte)) {
			delayacct_wpcopy_end();
			return false;
		}
		/* Somebody else has solved the fault, or it will be taken again. */
		if (vmf->pte) {
			update_mmu_tlb(vma, vmf->address, vmf->pte);
			pte_unmap_unlock(vmf->pte, vmf->ptl);
		}
	}
	delayacct_wpcopy_end();
	folio_put(old);
	return true;
}
