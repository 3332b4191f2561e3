// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy-on-write around: where writes to pages that fork shares come one page
 * after the other, copy the pages of an aligned block in one fault.
 *
 * The page table says whether they do: if the pages directly before, or directly
 * after, the faulting one are writable, they have been copied since fork, as a
 * rule. Nothing is remembered, so nothing is to be configured beside mTHP's
 * sizes, which also say how large a block is.
 *
 * The largest block of an enabled size that is shared as a whole becomes one
 * folio. If there is none, the shared pages of the smallest are copied to base
 * pages. A page whose state is in any way special is left to its own fault, and
 * no allocation reclaims: the ordinary path does, for the faulting page.
 */
#include <linux/mm.h>
#include <linux/delayacct.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/huge_mm.h>
#include <linux/hugetlb.h>	/* for flush_tlb_range() of x86 */
#include <linux/kmsan.h>
#include <linux/memcontrol.h>
#include <linux/mempolicy.h>
#include <linux/minmax.h>
#include <linux/mmu_notifier.h>
#include <linux/rmap.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/userfaultfd_k.h>
#include <linux/vmstat.h>

#include "internal.h"
#include "swap.h"

/* So many pages in a row must be private already. */
#define COW_AROUND_RUN		3

/*
 * One fault copies no more than 128 KiB, or 4 pages, whatever sizes are enabled:
 * then x86 still flushes page by page.
 */
#define COW_AROUND_ORDER_MAX	ilog2(MAX(SZ_128K, 4 * PAGE_SIZE) / PAGE_SIZE)
#define COW_AROUND_ORDERS	(BIT(COW_AROUND_ORDER_MAX + 1) - 1)

#define GFP_COW_AROUND							\
	((GFP_HIGHUSER_MOVABLE | __GFP_NOMEMALLOC | __GFP_NORETRY |	\
	  __GFP_NOWARN) & ~__GFP_RECLAIM)

/**
 * struct cow_span - an aligned block of pages
 * @start: its address
 * @order: of its size
 * @fault: number of the page that was written to
 * @shared: how many pages are to be copied, the faulting one included
 * @pages: for each page that is to be copied, itself, once it is allocated its
 *	copy, and its entry when it was looked at
 */
struct cow_span {
	unsigned long start;
	unsigned int order;
	unsigned int fault;
	unsigned int shared;
	struct {
		struct page *old;
		struct page *new;
		pte_t pte;
	} pages[];
};

static unsigned int cow_span_nr(const struct cow_span *span)
{
	return 1U << span->order;
}

static pte_t *cow_span_ptep(struct vm_fault *vmf, const struct cow_span *span, unsigned int i)
{
	return vmf->pte - span->fault + i;
}

/* Whether the pages directly before, or after, the faulting one are private already. */
static bool cow_beside_run(struct vm_fault *vmf)
{
	const unsigned long run = COW_AROUND_RUN * PAGE_SIZE;
	unsigned long index = pte_index(vmf->address);
	int i;

	for (i = 1; index >= COW_AROUND_RUN; i++) {
		pte_t pte = ptep_get(vmf->pte - i);

		if (!pte_present(pte) || !pte_write(pte))
			break;
		if (i == COW_AROUND_RUN)
			return vmf->address - vmf->vma->vm_start >= run;
	}
	for (i = 1; index + COW_AROUND_RUN < PTRS_PER_PTE; i++) {
		pte_t pte = ptep_get(vmf->pte + i);

		if (!pte_present(pte) || !pte_write(pte))
			break;
		if (i == COW_AROUND_RUN)
			return vmf->vma->vm_end - vmf->address > run;
	}
	return false;
}

/* The orders that a block may be of. */
static unsigned long cow_span_orders(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long orders;

	if (!vma_is_anonymous(vma) || !(vma->vm_flags & VM_WRITE))
		return 0;
	/* Whoever watches first writes must see each. */
	if (userfaultfd_armed(vma) || vma_soft_dirty_enabled(vma))
		return 0;
	orders = thp_vma_allowable_orders(vma, vma->vm_flags, TVA_IN_PF | TVA_ENFORCE_SYSFS,
					  COW_AROUND_ORDERS);
	return thp_vma_suitable_orders(vma, vmf->address, orders);
}

/*
 * Whether anybody has a reference on @folio beside the mappings and the fault.
 * I/O without a pin (FOLL_GET) may still write to it: then it must stay where it
 * is. A reference of the caches before the LRU is none; mappings come and go
 * meanwhile, so that all must agree.
 */
static bool cow_in_use(const struct vm_fault *vmf, struct folio *folio)
{
	int mapped = folio_mapcount(folio);
	int references = folio_ref_count(folio) - !folio_test_lru(folio);

	if (page_folio(vmf->page) == folio)
		references--;
	return references != mapped || folio_mapcount(folio) != mapped;
}

/* Whether a write to the page that @pte maps would copy it, and nothing else. */
static bool cow_copyable(const struct vm_fault *vmf, unsigned long addr, pte_t pte)
{
	struct folio *folio;
	struct page *page;

	if (!pte_present(pte) || pte_write(pte) || pte_protnone(pte) || pte_uffd_wp(pte))
		return false;
	page = vm_normal_page(vmf->vma, addr, pte);
	if (!page || is_zone_device_page(page))
		return false;
	folio = page_folio(page);
	if (!folio_test_anon(folio) || folio_test_ksm(folio) || PageAnonExclusive(page))
		return false;
	/* Nobody else has it any more: its own fault takes it over as it is. */
	if (!folio_likely_mapped_shared(folio))
		return false;
	/* MADV_FREE: a copy could not be given up any more. */
	if (folio_test_swapcache(folio) || !folio_test_swapbacked(folio) || PageHWPoison(page))
		return false;
	return !folio_maybe_dma_pinned(folio) && !cow_in_use(vmf, folio);
}

/* Whether all pages of the block of @order in @span are to be copied. */
static bool cow_span_whole(const struct cow_span *span, unsigned int order)
{
	unsigned int i, first = ALIGN_DOWN(span->fault, 1U << order);

	for (i = first; i < first + (1U << order); i++)
		if (!span->pages[i].old)
			return false;
	return true;
}

/* Narrow @span to the largest of @orders that is whole; or, if none is, to the smallest. */
static void cow_span_narrow(struct cow_span *span, unsigned long orders)
{
	unsigned int i, first, order = span->order;

	while (!cow_span_whole(span, order) && (orders & (BIT(order) - 1)))
		order = next_order(&orders, order);
	first = ALIGN_DOWN(span->fault, 1U << order);
	memmove(span->pages, span->pages + first, sizeof(span->pages[0]) << order);
	span->start += first * PAGE_SIZE;
	span->fault -= first;
	span->order = order;
	span->shared = 0;
	for (i = 0; i < cow_span_nr(span); i++)
		span->shared += !!span->pages[i].old;
}

/* Find the pages to copy, with the page table lock held. NULL: no more than the one. */
static struct cow_span *cow_span_find(struct vm_fault *vmf, unsigned long orders)
{
	unsigned int i, order = highest_order(orders);
	struct cow_span *span;

	span = kzalloc(struct_size(span, pages, 1U << order), GFP_NOWAIT | __GFP_NOWARN);
	if (!span)
		return NULL;
	span->order = order;
	span->start = ALIGN_DOWN(vmf->address, PAGE_SIZE << order);
	span->fault = (vmf->address - span->start) >> PAGE_SHIFT;
	for (i = 0; i < cow_span_nr(span); i++) {
		pte_t pte = ptep_get(cow_span_ptep(vmf, span, i));

		if (i == span->fault)
			pte = vmf->orig_pte;
		else if (!cow_copyable(vmf, span->start + i * PAGE_SIZE, pte))
			continue;
		span->pages[i].old = pte_page(pte);
		span->pages[i].pte = pte;
	}
	cow_span_narrow(span, orders);
	if (span->shared == 1) {
		kfree(span);
		return NULL;
	}
	/*
	 * The fault has its own reference. With these nobody else re-uses the
	 * pages, that is, makes them exclusive, before they are put.
	 */
	for (i = 0; i < cow_span_nr(span); i++)
		if (i != span->fault && span->pages[i].old)
			folio_get(page_folio(span->pages[i].old));
	return span;
}

static bool cow_span_is_folio(const struct cow_span *span)
{
	return folio_test_large(page_folio(span->pages[span->fault].new));
}

/* Give up the copies. */
static void cow_span_drop(struct cow_span *span)
{
	unsigned int i;

	for (i = 0; i < cow_span_nr(span); i++) {
		struct page *page = span->pages[i].new;

		/* A folio's reference is that of its first page. */
		if (page && !PageTail(page))
			put_page(page);
		span->pages[i].new = NULL;
	}
}

/* A folio for the whole block. */
static bool cow_span_alloc_folio(struct vm_fault *vmf, struct cow_span *span)
{
	struct vm_area_struct *vma = vmf->vma;
	gfp_t gfp = vma_thp_gfp_mask(vma) & ~__GFP_DIRECT_RECLAIM;
	struct folio *folio;
	unsigned int i;

	if (span->shared < cow_span_nr(span))
		return false;
	folio = vma_alloc_folio(gfp, span->order, vma, span->start, true);
	if (!folio) {
		count_mthp_stat(span->order, MTHP_STAT_ANON_FAULT_FALLBACK);
		return false;
	}
	if (mem_cgroup_charge(folio, vma->vm_mm, gfp)) {
		count_mthp_stat(span->order, MTHP_STAT_ANON_FAULT_FALLBACK);
		count_mthp_stat(span->order, MTHP_STAT_ANON_FAULT_FALLBACK_CHARGE);
		folio_put(folio);
		return false;
	}
	folio_throttle_swaprate(folio, gfp);
	for (i = 0; i < cow_span_nr(span); i++)
		span->pages[i].new = folio_page(folio, i);
	return true;
}

static bool cow_span_alloc_page(struct vm_fault *vmf, struct cow_span *span, unsigned int i)
{
	struct vm_area_struct *vma = vmf->vma;
	struct folio *folio;

	folio = vma_alloc_folio(GFP_COW_AROUND, 0, vma, span->start + i * PAGE_SIZE, false);
	if (!folio)
		return false;
	if (mem_cgroup_charge(folio, vma->vm_mm, GFP_COW_AROUND)) {
		folio_put(folio);
		return false;
	}
	span->pages[i].new = &folio->page;
	return true;
}

/* Base pages, as many as there are. False: not even one beside the faulting page's. */
static bool cow_span_alloc_pages(struct vm_fault *vmf, struct cow_span *span)
{
	unsigned int i, nr = 0;

	if (!cow_span_alloc_page(vmf, span, span->fault))
		return false;
	folio_throttle_swaprate(page_folio(span->pages[span->fault].new), GFP_KERNEL);
	for (i = 0; i < cow_span_nr(span); i++) {
		if (!span->pages[i].old || i == span->fault)
			continue;
		if (!cow_span_alloc_page(vmf, span, i))
			break;
		nr++;
	}
	return nr;
}

/* Fill the copies. False: a page cannot be read, so each is left to its own fault. */
static bool cow_span_copy(struct vm_fault *vmf, struct cow_span *span)
{
	unsigned int i;

	for (i = 0; i < cow_span_nr(span); i++) {
		struct page *from = span->pages[i].old;
		struct page *to = span->pages[i].new;

		if (!to)
			continue;
		if (copy_mc_user_highpage(to, from, span->start + i * PAGE_SIZE, vmf->vma))
			return false;
		kmsan_copy_page_meta(to, from);
		if (!cow_span_is_folio(span))
			__folio_mark_uptodate(page_folio(to));
	}
	if (cow_span_is_folio(span))
		__folio_mark_uptodate(page_folio(span->pages[0].new));
	return true;
}

/* Whether the entry that was @old is still the same. That it was read meanwhile is no change. */
static bool cow_same(pte_t pte, pte_t old)
{
	return pte_present(pte) && pte_same(pte_mkold(pte), pte_mkold(old));
}

/*
 * The lock was dropped for the copies. Give up those of pages that were zapped,
 * migrated, copied by their own fault, ... meanwhile. False: give up all.
 */
static bool cow_span_unchanged(struct vm_fault *vmf, struct cow_span *span)
{
	unsigned int i;

	for (i = 0; i < cow_span_nr(span); i++) {
		pte_t pte;

		if (!span->pages[i].new || i == span->fault)
			continue;
		pte = ptep_get(cow_span_ptep(vmf, span, i));
		if (cow_same(pte, span->pages[i].pte) && !PageAnonExclusive(span->pages[i].old))
			continue;
		if (cow_span_is_folio(span))
			return false;
		put_page(span->pages[i].new);
		span->pages[i].new = NULL;
	}
	return true;
}

static void cow_span_set_folio(struct vm_fault *vmf, struct cow_span *span)
{
	struct folio *folio = page_folio(span->pages[0].new);
	struct vm_area_struct *vma = vmf->vma;
	pte_t entry, *ptep = cow_span_ptep(vmf, span, 0);
	unsigned int nr = cow_span_nr(span);

	folio_ref_add(folio, nr - 1);
	folio_add_new_anon_rmap(folio, vma, span->start, RMAP_EXCLUSIVE);
	folio_add_lru_vma(folio, vma);
	entry = pte_sw_mkyoung(mk_pte(&folio->page, vma->vm_page_prot));
	entry = maybe_mkwrite(pte_mkdirty(entry), vma);
	set_ptes(vma->vm_mm, span->start, ptep, entry, nr);
	update_mmu_cache_range(vmf, vma, span->start, ptep, nr);
	count_mthp_stat(span->order, MTHP_STAT_ANON_FAULT_ALLOC);
}

static void cow_span_set_pages(struct vm_fault *vmf, struct cow_span *span)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned int i;

	for (i = 0; i < cow_span_nr(span); i++) {
		unsigned long addr = span->start + i * PAGE_SIZE;
		pte_t entry, *ptep = cow_span_ptep(vmf, span, i);
		struct page *page = span->pages[i].new;

		if (!page)
			continue;
		folio_add_new_anon_rmap(page_folio(page), vma, addr, RMAP_EXCLUSIVE);
		folio_add_lru_vma(page_folio(page), vma);
		entry = pte_sw_mkyoung(mk_pte(page, vma->vm_page_prot));
		set_pte_at(vma->vm_mm, addr, ptep, maybe_mkwrite(pte_mkdirty(entry), vma));
		update_mmu_cache_range(vmf, vma, addr, ptep, 1);
	}
}

/* How many pages from number @i on are replaced and follow each other in one folio. */
static unsigned int cow_span_run(const struct cow_span *span, unsigned int i)
{
	struct page *old = span->pages[i].old;
	unsigned int run = 1;

	while (i + run < cow_span_nr(span) && span->pages[i + run].new &&
	       span->pages[i + run].old == old + run &&
	       page_folio(old + run) == page_folio(old))
		run++;
	return run;
}

/* Put the copies in the place of the pages. Called with the page table lock held. */
static void cow_span_replace(struct vm_fault *vmf, struct cow_span *span)
{
	unsigned int i, run, nr = 0, first = span->fault, last = span->fault;
	struct vm_area_struct *vma = vmf->vma;

	for (i = 0; i < cow_span_nr(span); i++) {
		unsigned long addr = span->start + i * PAGE_SIZE;

		if (!span->pages[i].new)
			continue;
		flush_cache_page(vma, addr, page_to_pfn(span->pages[i].old));
		ptep_get_and_clear(vma->vm_mm, addr, cow_span_ptep(vmf, span, i));
		first = min(first, i);
		last = max(last, i);
		nr++;
	}
	/*
	 * No CPU may read an old page through its TLB while another writes to
	 * the copy, and nobody may re-use an old page while a TLB still has it:
	 * so flush between clearing and setting, before the old rmap goes (see
	 * wp_page_copy()).
	 */
	flush_tlb_range(vma, span->start + first * PAGE_SIZE,
			span->start + (last + 1) * PAGE_SIZE);
	if (cow_span_is_folio(span))
		cow_span_set_folio(vmf, span);
	else
		cow_span_set_pages(vmf, span);
	for (i = 0; i < cow_span_nr(span); i += run) {
		struct page *old = span->pages[i].old;

		run = 1;
		if (!span->pages[i].new)
			continue;
		run = cow_span_run(span, i);
		folio_remove_rmap_ptes(page_folio(old), old, run, vma);
	}
	if (nr > 1) {
		count_vm_event(COW_AROUND);
		count_vm_events(COW_AROUND_PAGES, nr - 1);
	}
}

/* Put the references of the span, and those of the entries that are replaced. */
static void cow_span_free(struct cow_span *span, bool keep)
{
	unsigned int i;

	for (i = 0; i < cow_span_nr(span); i++) {
		struct folio *folio;

		if (!span->pages[i].old || (keep && i == span->fault))
			continue;
		folio = page_folio(span->pages[i].old);
		/* Of the others none was in the swap cache. */
		if (span->pages[i].new && i == span->fault)
			free_swap_cache(folio);
		folio_put_refs(folio, span->pages[i].new ? 2 : 1);
	}
	kfree(span);
}

/*
 * Copy the block. Called without the lock. False: the faulting page is to be
 * copied alone.
 */
static bool cow_span_do(struct vm_fault *vmf, struct cow_span *span)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mmu_notifier_range range;
	bool done = true, replaced = false;

	if ((!cow_span_alloc_folio(vmf, span) && !cow_span_alloc_pages(vmf, span)) ||
	    !cow_span_copy(vmf, span)) {
		cow_span_drop(span);
		return false;
	}
	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vma->vm_mm, span->start,
				span->start + (PAGE_SIZE << span->order));
	mmu_notifier_invalidate_range_start(&range);
	vmf->pte = pte_offset_map_lock(vma->vm_mm, vmf->pmd, vmf->address, &vmf->ptl);
	if (!vmf->pte || !cow_same(ptep_get(vmf->pte), vmf->orig_pte)) {
		/* Somebody else solved the fault, or it will be taken again. */
		if (vmf->pte)
			update_mmu_tlb(vma, vmf->address, vmf->pte);
	} else if (cow_span_unchanged(vmf, span)) {
		cow_span_replace(vmf, span);
		replaced = true;
	} else {
		done = false;
	}
	if (vmf->pte)
		pte_unmap_unlock(vmf->pte, vmf->ptl);
	mmu_notifier_invalidate_range_end(&range);
	if (!replaced)
		cow_span_drop(span);
	return done;
}

static noinline bool cow_around_run(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct cow_span *span;
	unsigned long orders;
	bool done;

	if (vmf->flags & (FAULT_FLAG_UNSHARE | FAULT_FLAG_REMOTE))
		return false;
	orders = cow_span_orders(vmf);
	if (!orders || folio_test_ksm(page_folio(vmf->page)))
		return false;
	span = cow_span_find(vmf, orders);
	if (!span)
		return false;
	pte_unmap_unlock(vmf->pte, vmf->ptl);

	delayacct_wpcopy_start();
	done = cow_span_do(vmf, span);
	delayacct_wpcopy_end();
	cow_span_free(span, !done);
	if (done)
		return true;

	/* Back to where we were, if that is still there. */
	vmf->pte = pte_offset_map_lock(vma->vm_mm, vmf->pmd, vmf->address, &vmf->ptl);
	if (vmf->pte && pte_same(ptep_get(vmf->pte), vmf->orig_pte))
		return false;
	if (vmf->pte) {
		update_mmu_tlb(vma, vmf->address, vmf->pte);
		pte_unmap_unlock(vmf->pte, vmf->ptl);
	}
	folio_put(page_folio(vmf->page));
	return true;
}

/**
 * cow_around - copy the shared pages of a span, if writes come in a row
 * @vmf: a write fault that has to copy @vmf->page, an anonymous page
 *
 * Called with the page table lock held and a reference on the page's folio.
 *
 * Return: true if the fault is done; the lock and the reference are gone then.
 * False if the caller is to copy the page alone: it has both still.
 */
bool cow_around(struct vm_fault *vmf)
{
	unsigned long orders = READ_ONCE(huge_anon_orders_always) |
			       READ_ONCE(huge_anon_orders_madvise) |
			       READ_ONCE(huge_anon_orders_inherit);

	/* A lone write must not pay for this: what is cheap comes first. */
	return (orders & COW_AROUND_ORDERS) && cow_beside_run(vmf) && cow_around_run(vmf);
}
