// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pre-copy: when a write fault copies a page that fork left shared, copy the
 * pages that follow it as well, in the guess that they are written next.
 *
 * The faulting page and its neighbours are one batch: one scan under the page
 * table lock that the fault holds already, one bulk allocation (or large folios
 * for aligned runs), the copies without a lock, and then, under one hold of the
 * lock, every entry that is still what it was is cleared, the range is flushed
 * once, and the new entries are set. What cannot be had cheaply is not guessed:
 * a neighbour whose state is in any way special is left to its own fault, and an
 * allocation for a guess never reclaims.
 *
 * The entry of a pre-copied neighbour is writable, clean and old, so that
 * reclaim finds unused guesses first. The folio is dirty nevertheless: an
 * anonymous page that is clean in both counts as one that MADV_FREE may give up
 * without looking whether it is shared, so after the next fork one process
 * could free what the other still needs.
 */
#include <linux/bitmap.h>
#include <linux/cpuset.h>
#include <linux/delayacct.h>
#include <linux/gfp.h>
#include <linux/highmem.h>
#include <linux/hugetlb.h>
#include <linux/init.h>
#include <linux/kmsan.h>
#include <linux/memcontrol.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/mmzone.h>
#include <linux/pagevec.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/sysctl.h>
#include <linux/userfaultfd_k.h>

#include <trace/events/cow.h>

#include "cow.h"
#include "cow_precopy.h"
#include "internal.h"
#include "swap.h"

/* Batches of up to so many pages need no memory for their bookkeeping. */
#define COW_BATCH_ON_STACK	16

/* Orders below are not worth a folio of their own. */
#define COW_ORDER_MIN		2
#define COW_ORDER_MAX		(PMD_ORDER - 1)

/* No guess waits, wakes kswapd, dips into reserves or complains. */
#define GFP_COW_GUESS							\
	((GFP_HIGHUSER_MOVABLE | __GFP_NOMEMALLOC | __GFP_NORETRY |	\
	  __GFP_NOWARN) & ~__GFP_RECLAIM)

DEFINE_STATIC_KEY_FALSE(cow_precopy_on);

static int sysctl_cow_precopy;
static unsigned int sysctl_cow_precopy_pages = 1;
static unsigned int cow_precopy_pages_max = PTRS_PER_PTE;
static unsigned int sysctl_cow_precopy_ramp = 4;
static unsigned int sysctl_cow_precopy_order;
static unsigned int cow_precopy_order_max = COW_ORDER_MAX;

/**
 * struct cow_batch - the pages that one fault copies, all of one page table
 * @nr: number of pages
 * @fault: which of them was written to, counted from 0
 * @index: of each page in the page table, ascending
 * @old: its entry when it was looked at
 * @new: its copy; NULL where there is none (any more). A large folio has all of
 *	its pages here, one after the other.
 */
struct cow_batch {
	unsigned int nr;
	unsigned int fault;
	u16 *index;
	pte_t *old;
	struct page **new;
	u16 index_on_stack[COW_BATCH_ON_STACK];
	pte_t old_on_stack[COW_BATCH_ON_STACK];
	struct page *new_on_stack[COW_BATCH_ON_STACK];
};

/* Address of page number @i of the batch. */
static unsigned long cow_address(struct vm_fault *vmf, const struct cow_batch *batch,
				 unsigned int i)
{
	return (vmf->address & PMD_MASK) + batch->index[i] * PAGE_SIZE;
}

/* The entry at @index; the page table is mapped at the faulting page's. */
static pte_t *cow_entry(struct vm_fault *vmf, unsigned long index)
{
	return vmf->pte - pte_index(vmf->address) + index;
}

/* Whether writes to @vma may be guessed at all. */
static bool cow_vma_guessable(struct vm_area_struct *vma)
{
	/* VM_WRITE is not set when ptrace forces a write. */
	if ((vma->vm_flags & (VM_WRITE | VM_SHARED | VM_MAYSHARE)) != VM_WRITE)
		return false;
	if (vma->vm_flags & (VM_SPECIAL | VM_HUGETLB | VM_SHADOW_STACK | VM_DROPPABLE))
		return false;
	/* A stack is written downwards: what follows is older, and colder. */
	if (vma->vm_flags & (VM_GROWSDOWN | VM_GROWSUP))
		return false;
	/* Whoever listens to faults must see those that would have been. */
	if (userfaultfd_armed(vma))
		return false;
	return vma->anon_vma;
}

/*
 * Whether anybody has a reference on @folio beside the mappings and the fault. I/O without a pin
 * (FOLL_GET) may still write to it: then it must stay the parent's. A reference of the caches before
 * the LRU is none; others' mappings come and go meanwhile, so that all must agree.
 */
static bool cow_in_use(const struct vm_fault *vmf, struct folio *folio)
{
	int mapped = folio_mapcount(folio);
	int references = folio_ref_count(folio) - !folio_test_lru(folio);

	/* The fault's reference on its page, of which @folio may be a part. */
	if (vmf->page && page_folio(vmf->page) == folio)
		references--;
	return references != mapped || folio_mapcount(folio) != mapped;
}

/*
 * May the page that @pte maps at @addr be copied before it is written to?
 * COW_PRECOPY_SUCCESS, or the counter of the reason why not.
 */
static enum cow_count cow_judge(struct vm_fault *vmf, unsigned long addr, pte_t pte)
{
	struct vm_area_struct *vma = vmf->vma;
	struct folio *folio;
	struct page *page;

	if (!pte_present(pte))
		return pte_none(pte) ? COW_REFUSED_NONE : COW_REFUSED_SWAPPED;
	if (pte_write(pte))
		return COW_REFUSED_WRITABLE;
	/* NUMA balancing wants the next access to fault. */
	if (pte_protnone(pte))
		return COW_REFUSED_SPECIAL;
	/* Zero pages, mapped frames and device memory have no normal page. */
	page = vm_normal_page(vma, addr, pte);
	if (!page || is_zone_device_page(page))
		return COW_REFUSED_SPECIAL;
	folio = page_folio(page);
	if (!folio_test_anon(folio))
		return COW_REFUSED_FILE;
	if (PageAnonExclusive(page))
		return COW_REFUSED_EXCLUSIVE;
	if (folio_test_ksm(folio))
		return COW_REFUSED_KSM;
	if (folio_test_swapcache(folio))
		return COW_REFUSED_SWAPPED;
	/* Nobody else has it any more: its own fault takes it over as it is. */
	if (!folio_test_large(folio) && folio_mapcount(folio) == 1)
		return COW_REFUSED_EXCLUSIVE;
	/* MADV_FREE: a copy could not be given up any more. */
	if (!folio_test_swapbacked(folio))
		return COW_REFUSED_SPECIAL;
	if (PageHWPoison(page))
		return COW_REFUSED_SPECIAL;
	if (folio_maybe_dma_pinned(folio) || cow_in_use(vmf, folio))
		return COW_REFUSED_PINNED;
	if (pte_uffd_wp(pte))
		return COW_REFUSED_UFFD;
	/*
	 * A writable entry would hide the first write from soft-dirty, and a
	 * soft-dirty one would report a write that was not.
	 */
	if (vma_soft_dirty_enabled(vma) && !pte_soft_dirty(pte))
		return COW_REFUSED_SOFT_DIRTY;
	return COW_PRECOPY_SUCCESS;
}

/*
 * Set @wanted to the indices of the pages to copy, from @start up to @end, and
 * their number in @batch.
 */
static void cow_scan(struct vm_fault *vmf, struct cow_batch *batch, unsigned long start,
		     unsigned long end, unsigned long *wanted)
{
	unsigned long addr;

	bitmap_zero(wanted, PTRS_PER_PTE);
	batch->nr = 0;
	for (addr = start; addr < end; addr += PAGE_SIZE) {
		unsigned long index = pte_index(addr);

		if (addr == vmf->address) {
			batch->fault = batch->nr;
		} else {
			enum cow_count verdict = cow_judge(vmf, addr,
							   ptep_get(cow_entry(vmf, index)));

			if (verdict != COW_PRECOPY_SUCCESS) {
				cow_count(verdict, 1);
				continue;
			}
		}
		__set_bit(index, wanted);
		batch->nr++;
	}
}

/* Room for the bookkeeping of @batch->nr pages. */
static bool cow_batch_alloc(struct cow_batch *batch)
{
	if (batch->nr <= COW_BATCH_ON_STACK) {
		memset(batch->new_on_stack, 0, sizeof(batch->new_on_stack));
		batch->index = batch->index_on_stack;
		batch->old = batch->old_on_stack;
		batch->new = batch->new_on_stack;
		return true;
	}
	/*
	 * Three arrays; the page allocator fills only the empty elements. The lock is
	 * held, and kswapd is not woken for a guess.
	 */
	batch->new = kcalloc(batch->nr, sizeof(*batch->new) + sizeof(*batch->old) +
			     sizeof(*batch->index), __GFP_NOWARN);
	batch->old = (pte_t *)(batch->new + batch->nr);
	batch->index = (u16 *)(batch->old + batch->nr);
	return batch->new;
}

static void cow_batch_free(struct cow_batch *batch)
{
	if (batch->new != batch->new_on_stack)
		kfree(batch->new);
}

/* A charge for a guess must not start reclaim at memory.high or fail at max. */
static bool cow_memcg_has_room(struct mm_struct *mm, unsigned int nr)
{
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg, *iter;
	bool room = true;

	if (mem_cgroup_disabled())
		return true;
	memcg = get_mem_cgroup_from_mm(mm);
	/* Charges are made in batches, so the counter may run ahead. */
	nr += MEMCG_CHARGE_BATCH;
	for (iter = memcg; iter && !mem_cgroup_is_root(iter); iter = parent_mem_cgroup(iter)) {
		unsigned long limit = min(READ_ONCE(iter->memory.high),
					  READ_ONCE(iter->memory.max));

		if (page_counter_read(&iter->memory) + nr > limit) {
			room = false;
			break;
		}
	}
	mem_cgroup_put(memcg);
	return room;
#else
	return true;
#endif
}

static struct mempolicy *cow_mempolicy(struct vm_area_struct *vma)
{
#ifdef CONFIG_NUMA
	return vma->vm_policy ?: current->mempolicy;
#else
	return NULL;
#endif
}

/* The nodes that @policy binds pages to; NULL: any. */
static nodemask_t *cow_bound_to(struct mempolicy *policy)
{
#ifdef CONFIG_NUMA
	if (policy && policy->mode == MPOL_BIND)
		return &policy->nodes;
#endif
	return NULL;
}

/*
 * Whether the zone that @pages copies come from has so much free memory that they start nobody's
 * reclaim. With a policy that may be any node's.
 */
bool cow_memory_ample(struct vm_area_struct *vma, unsigned int pages)
{
	struct mempolicy *policy = cow_mempolicy(vma);
	gfp_t gfp = current_gfp_context(GFP_COW_GUESS);
	struct zonelist *list = node_zonelist(numa_node_id(), gfp);
	enum zone_type highest = gfp_zone(gfp);
	int node = NUMA_NO_NODE;
	struct zoneref *ref;
	struct zone *zone;

	for_each_zone_zonelist_nodemask(zone, ref, list, highest, cow_bound_to(policy)) {
		/* Of a node, the first. */
		if (zone_to_nid(zone) == node || !cpuset_zone_allowed(zone, gfp | __GFP_HARDWALL))
			continue;
		node = zone_to_nid(zone);
		if (!zone_watermark_ok(zone, 0, high_wmark_pages(zone) + pages, highest, 0))
			return false;
		if (!policy)
			break;
	}
	return node != NUMA_NO_NODE;
}

/* The order of the largest folio that can begin with page number @i, up to @max. */
static unsigned int cow_folio_order(const struct cow_batch *batch, unsigned int i,
				    unsigned int max)
{
	unsigned int order;

	for (order = max; order >= COW_ORDER_MIN; order--) {
		unsigned int more = (1U << order) - 1;

		if (IS_ALIGNED(batch->index[i], more + 1) && i + more < batch->nr &&
		    batch->index[i + more] == batch->index[i] + more)
			return order;
	}
	return 0;
}

static unsigned int cow_folio_order_max(struct vm_area_struct *vma)
{
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	if (!vma_thp_disabled(vma, vma->vm_flags))
		return READ_ONCE(sysctl_cow_precopy_order);
#endif
	return 0;
}

/* Allocate large folios for the aligned runs of the batch. */
static void cow_alloc_folios(struct vm_fault *vmf, struct cow_batch *batch, unsigned int max)
{
	unsigned int i, k, nr, order;

	for (i = 0; i < batch->nr; i += nr) {
		struct folio *folio;

		nr = 1;
		order = cow_folio_order(batch, i, max);
		if (!order)
			continue;
		folio = vma_alloc_folio(GFP_COW_GUESS, order, vmf->vma,
					cow_address(vmf, batch, i), false);
		if (!folio) {
			/* So many contiguous pages are not at hand: fewer, then. */
			max = order - 1;
			continue;
		}
		cow_count(COW_BATCH_ALLOCATIONS, 1);
		nr = 1U << order;
		for (k = 0; k < nr; k++)
			batch->new[i + k] = folio_page(folio, k);
	}
}

/* Allocate the pages of the batch, as many as there are. */
static void cow_alloc_pages(struct vm_fault *vmf, struct cow_batch *batch)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned int i, max = cow_folio_order_max(vma);

	if (max >= COW_ORDER_MIN)
		cow_alloc_folios(vmf, batch, max);
	if (!cow_mempolicy(vma)) {
		/* Fills the elements that are still empty. */
		cow_count(COW_BATCH_ALLOCATIONS, 1);
		alloc_pages_bulk_array(current_gfp_context(GFP_COW_GUESS), batch->nr, batch->new);
		return;
	}
	/* A policy chooses the node by address. */
	for (i = 0; i < batch->nr; i++) {
		struct folio *folio;

		if (batch->new[i])
			continue;
		folio = vma_alloc_folio(GFP_COW_GUESS, 0, vma, cow_address(vmf, batch, i), false);
		if (!folio)
			return;
		cow_count(COW_BATCH_ALLOCATIONS, 1);
		batch->new[i] = &folio->page;
	}
}

/*
 * Give up the copy of page number @i, with those that share its folio. The old
 * pages are put with the others at the end.
 */
static void cow_drop(struct cow_batch *batch, unsigned int i, enum cow_count why)
{
	struct folio *folio = page_folio(batch->new[i]);
	unsigned int k, nr = folio_nr_pages(folio);
	unsigned int first = i - folio_page_idx(folio, batch->new[i]);

	for (k = first; k < first + nr; k++) {
		batch->new[k] = NULL;
		if (k != batch->fault)
			cow_count(why, 1);
	}
	folio_put(folio);
}

static void cow_drop_all(struct cow_batch *batch, enum cow_count why)
{
	unsigned int i;

	for (i = 0; i < batch->nr; i++)
		if (batch->new[i])
			cow_drop(batch, i, why);
}

/* Allocate and charge the copies. False: not even the faulting page. */
static bool cow_get_new(struct vm_fault *vmf, struct cow_batch *batch)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	unsigned int i;
	bool full;

	full = !cow_memcg_has_room(mm, batch->nr);
	if (!full)
		cow_alloc_pages(vmf, batch);
	for (i = 0; i < batch->nr; i++) {
		if (!batch->new[i]) {
			if (i != batch->fault)
				cow_count(COW_REFUSED_NOMEM, 1);
			continue;
		}
		/* Once for a folio. */
		if (folio_page_idx(page_folio(batch->new[i]), batch->new[i]))
			continue;
		full = full || mem_cgroup_charge(page_folio(batch->new[i]), mm, GFP_COW_GUESS);
		if (full) {
			unsigned int nr = folio_nr_pages(page_folio(batch->new[i]));

			/* Those that it counts are not to be counted again. */
			cow_drop(batch, i, COW_REFUSED_NOMEM);
			i += nr - 1;
		}
	}
	return batch->new[batch->fault];
}

/* Fill the copies. False: not even the faulting page's. */
static bool cow_copy(struct vm_fault *vmf, struct cow_batch *batch, u64 *copy_ns)
{
	unsigned int i;

	for (i = 0; i < batch->nr; i++) {
		struct page *from = pte_page(batch->old[i]);
		struct page *to = batch->new[i];
		struct folio *folio;
		u64 start;

		if (!to)
			continue;
		/* Up to 2 MiB are copied. */
		cond_resched();
		start = i == batch->fault ? cow_clock() : 0;
		if (copy_mc_user_highpage(to, from, cow_address(vmf, batch, i), vmf->vma)) {
			/* Poisoned: the ordinary path is to meet it. */
			cow_drop(batch, i, COW_REFUSED_SPECIAL);
			continue;
		}
		kmsan_copy_page_meta(to, from);
		if (i == batch->fault)
			*copy_ns = cow_since(start);
		/* With its last page, a folio is filled. */
		folio = page_folio(to);
		if (folio_page_idx(folio, to) == folio_nr_pages(folio) - 1)
			__folio_mark_uptodate(folio);
	}
	return batch->new[batch->fault];
}

/*
 * The lock was dropped for the copy. Give up what was zapped, migrated, copied
 * by its own fault, ... meanwhile. False: with that, the faulting page's copy.
 */
static bool cow_check_unchanged(struct vm_fault *vmf, struct cow_batch *batch)
{
	unsigned int i;

	for (i = 0; i < batch->nr; i++)
		if (batch->new[i] &&
		    !pte_same(ptep_get(cow_entry(vmf, batch->index[i])), batch->old[i]))
			cow_drop(batch, i, COW_REFUSED_RACED);
	return batch->new[batch->fault];
}

/* A guess is not to be among the youngest, as what a fault asks for is. */
static void cow_add_lru(struct folio *folio, struct vm_area_struct *vma, bool guess)
{
#ifdef CONFIG_LRU_GEN
	bool in_fault = current->in_lru_fault;

	if (guess)
		current->in_lru_fault = false;
	folio_add_lru_vma(folio, vma);
	current->in_lru_fault = in_fault;
#else
	folio_add_lru_vma(folio, vma);
#endif
}

/* Put the new pages where the old ones were, whose entries are cleared. */
static unsigned int cow_set_new(struct vm_fault *vmf, struct cow_batch *batch)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned int i, nr, neighbours = 0;

	for (i = 0; i < batch->nr; i++) {
		unsigned long addr = cow_address(vmf, batch, i);
		pte_t entry, *pte = cow_entry(vmf, batch->index[i]);
		struct page *page = batch->new[i];
		struct folio *folio;

		if (!page)
			continue;
		folio = page_folio(page);
		if (page == &folio->page) {
			nr = folio_nr_pages(folio);
			if (nr > 1)
				folio_ref_add(folio, nr - 1);
			if (nr > 1 || i != batch->fault)
				folio_set_dirty(folio);
			folio_add_new_anon_rmap(folio, vma, addr, RMAP_EXCLUSIVE);
			cow_add_lru(folio, vma, batch->fault < i || batch->fault >= i + nr);
		}
		entry = mk_pte(page, vma->vm_page_prot);
		if (i == batch->fault) {
			entry = pte_sw_mkyoung(entry);
			entry = pte_mkwrite(pte_mkdirty(entry), vma);
		} else {
			/* Clean, old and as soft-dirty as it was. */
			if (pte_soft_dirty(batch->old[i]))
				entry = pte_mksoft_dirty(entry);
			entry = pte_mkold(pte_mkwrite(entry, vma));
			neighbours++;
		}
		set_pte_at(vma->vm_mm, addr, pte, entry);
		update_mmu_cache_range(vmf, vma, addr, pte, 1);
	}
	return neighbours;
}

/* How many pages from number @i on are replaced, and follow each other in @folio. */
static unsigned int cow_old_run(const struct cow_batch *batch, unsigned int i,
				struct folio *folio)
{
	struct page *page = pte_page(batch->old[i]);
	unsigned int run = 1;

	while (i + run < batch->nr && batch->new[i + run] && folio_test_large(folio) &&
	       pte_page(batch->old[i + run]) == page + run &&
	       page_folio(page + run) == folio)
		run++;
	return run;
}

/*
 * Replace the entries of the batch by those of the copies. Called with the page
 * table lock held and all entries unchanged. Returns the number of neighbours.
 */
static unsigned int cow_replace(struct vm_fault *vmf, struct cow_batch *batch)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long start = vmf->address, end = vmf->address + PAGE_SIZE;
	unsigned int i, run, neighbours;

	for (i = 0; i < batch->nr; i++) {
		unsigned long addr = cow_address(vmf, batch, i);

		if (!batch->new[i])
			continue;
		flush_cache_page(vma, addr, pte_pfn(batch->old[i]));
		ptep_get_and_clear(vma->vm_mm, addr, cow_entry(vmf, batch->index[i]));
		start = min(start, addr);
		end = max(end, addr + PAGE_SIZE);
	}
	/*
	 * No CPU may read an old page through its TLB while another writes to
	 * the copy, and nobody may re-use an old page while a TLB still has it:
	 * so flush between clearing and setting, before the old rmap goes (see
	 * wp_page_copy()).
	 */
	flush_tlb_range(vma, start, end);
	neighbours = cow_set_new(vmf, batch);

	for (i = 0; i < batch->nr; i += run) {
		struct page *page = pte_page(batch->old[i]);

		run = 1;
		if (!batch->new[i])
			continue;
		run = cow_old_run(batch, i, page_folio(page));
		folio_remove_rmap_ptes(page_folio(page), page, run, vma);
	}
	return neighbours;
}

/*
 * Put the old pages: the reference of the batch, and that of a replaced entry.
 * The reference on the faulting page is the caller's, who may @keep it.
 */
static void cow_put_old(struct cow_batch *batch, bool keep)
{
	unsigned int refs[PAGEVEC_SIZE];
	struct folio_batch folios;
	unsigned int i;

	/* Only the faulting page may be in the swap cache. */
	if (batch->new[batch->fault])
		free_swap_cache(page_folio(pte_page(batch->old[batch->fault])));
	folio_batch_init(&folios);
	for (i = 0; i < batch->nr; i++) {
		if (i == batch->fault && keep)
			continue;
		refs[folio_batch_count(&folios)] = batch->new[i] ? 2 : 1;
		if (!folio_batch_add(&folios, page_folio(pte_page(batch->old[i])))) {
			folios_put_refs(&folios, refs);
			folio_batch_init(&folios);
		}
	}
	if (folio_batch_count(&folios))
		folios_put_refs(&folios, refs);
}

enum cow_outcome {
	COW_DONE,	/* the new entries are set */
	COW_CHANGED,	/* the faulting page's entry is not what it was */
	COW_IMPOSSIBLE,	/* let the ordinary path copy the faulting page */
};

/* Copy what @batch wants. Called without the lock. */
static enum cow_outcome cow_copy_batch(struct vm_fault *vmf, struct cow_batch *batch)
{
	enum cow_outcome outcome = COW_IMPOSSIBLE;
	struct vm_area_struct *vma = vmf->vma;
	struct mmu_notifier_range range;
	unsigned int neighbours = 0;
	bool sampled = false;
	u64 copy_ns = 0;

	if (!cow_get_new(vmf, batch)) {
		cow_drop_all(batch, COW_REFUSED_NOMEM);
		return COW_IMPOSSIBLE;
	}
	if (!cow_copy(vmf, batch, &copy_ns)) {
		cow_drop_all(batch, COW_REFUSED_SPECIAL);
		return COW_IMPOSSIBLE;
	}

	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vma->vm_mm,
				cow_address(vmf, batch, 0),
				cow_address(vmf, batch, batch->nr - 1) + PAGE_SIZE);
	mmu_notifier_invalidate_range_start(&range);

	vmf->pte = pte_offset_map_lock(vma->vm_mm, vmf->pmd, vmf->address, &vmf->ptl);
	if (!vmf->pte || !pte_same(ptep_get(vmf->pte), vmf->orig_pte)) {
		/* Somebody else solved the fault, or it will be taken again. */
		outcome = COW_CHANGED;
		if (vmf->pte)
			update_mmu_tlb(vma, vmf->address, vmf->pte);
	} else if (cow_check_unchanged(vmf, batch)) {
		outcome = COW_DONE;
		neighbours = cow_replace(vmf, batch);
		cow_count(COW_PRECOPY_SUCCESS, neighbours);
		atomic_long_add(neighbours, &vma->vm_mm->cow_stats.precopied);
		cow_count(COW_BATCHES, 1);
		sampled = cow_account_fault(vmf, copy_ns);
	}
	if (vmf->pte)
		pte_unmap_unlock(vmf->pte, vmf->ptl);
	mmu_notifier_invalidate_range_end(&range);
	if (outcome != COW_DONE)
		cow_drop_all(batch, COW_REFUSED_RACED);
	if (sampled)
		trace_cow_precopy(vmf->address, batch->nr - 1, neighbours);
	return outcome;
}

/**
 * cow_precopy_range - copy the faulting page together with pages around it
 * @vmf: a fault that has to copy @vmf->page
 * @start: address of the first page that may be copied
 * @end: address after the last
 *
 * The range is in the mapping and the page table of the faulting page, which is
 * in it. Called with the page table lock held and a reference on the page's
 * folio.
 *
 * Return: true if the fault is done; the lock and the reference are gone then.
 * False if the caller is to copy the page alone: it has both still.
 */
bool cow_precopy_range(struct vm_fault *vmf, unsigned long start, unsigned long end)
{
	struct vm_area_struct *vma = vmf->vma;
	DECLARE_BITMAP(wanted, PTRS_PER_PTE);
	enum cow_outcome outcome;
	struct cow_batch batch;
	unsigned int i, index;

	cow_scan(vmf, &batch, start, end, wanted);
	cow_count(COW_PRECOPY_ATTEMPTS, ((end - start) >> PAGE_SHIFT) - 1);
	if (batch.nr == 1)
		return false;
	if (!cow_batch_alloc(&batch)) {
		cow_count(COW_REFUSED_NOMEM, batch.nr - 1);
		return false;
	}
	index = pte_index(start);
	for (i = 0; i < batch.nr; i++, index++) {
		index = find_next_bit(wanted, PTRS_PER_PTE, index);
		batch.index[i] = index;
		batch.old[i] = i == batch.fault ? vmf->orig_pte : ptep_get(cow_entry(vmf, index));
		if (i != batch.fault)
			folio_get(page_folio(pte_page(batch.old[i])));
	}
	pte_unmap_unlock(vmf->pte, vmf->ptl);

	delayacct_wpcopy_start();
	outcome = cow_copy_batch(vmf, &batch);
	delayacct_wpcopy_end();
	cow_put_old(&batch, outcome == COW_IMPOSSIBLE);
	cow_batch_free(&batch);
	if (outcome != COW_IMPOSSIBLE)
		return true;

	/* Back to where we were, if that is still there. */
	vmf->pte = pte_offset_map_lock(vma->vm_mm, vmf->pmd, vmf->address, &vmf->ptl);
	cow_count(COW_BATCH_RELOCKS, 1);
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
 * __cow_precopy - copy the pages that follow the faulting one with it
 * @vmf: a fault that has to copy @vmf->page
 *
 * Called, and returns, as cow_precopy_range().
 */
bool __cow_precopy(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct cow_mm_stats *stats = &vma->vm_mm->cow_stats;
	struct folio *folio;
	unsigned int depth;

	if (vmf->flags & (FAULT_FLAG_UNSHARE | FAULT_FLAG_REMOTE))
		return false;
	if (!vmf->page || !cow_vma_guessable(vma))
		return false;
	folio = page_folio(vmf->page);
	if (!folio_test_anon(folio) || folio_test_ksm(folio))
		return false;
	depth = cow_ramp(READ_ONCE(sysctl_cow_precopy_pages),
			 cow_mm_copied(stats) - atomic_long_read(&stats->at_fork),
			 READ_ONCE(sysctl_cow_precopy_ramp));
	depth = cow_window(vmf->address, vma->vm_end, depth);
	if (!depth)
		return false;
	/* Before anything is done that would be for nothing. */
	if (!cow_memory_ample(vma, depth)) {
		cow_count(COW_REFUSED_NOMEM, depth);
		return false;
	}
	return cow_precopy_range(vmf, vmf->address, vmf->address + (depth + 1) * PAGE_SIZE);
}

/* What stands behind vm.cow_precopy. */
static void cow_precopy_switch(bool on)
{
	if (on) {
		/* The ramp goes by what was copied. */
		static_branch_inc(&cow_counting);
		static_branch_enable(&cow_precopy_on);
	} else {
		static_branch_disable(&cow_precopy_on);
		static_branch_dec(&cow_counting);
	}
}

static int cow_precopy_handler(const struct ctl_table *table, int write,
			       void *buffer, size_t *length, loff_t *pos)
{
	static DEFINE_MUTEX(lock);
	struct ctl_table copy = *table;
	int policy, err;

	guard(mutex)(&lock);
	policy = sysctl_cow_precopy;
	copy.data = &policy;
	err = proc_dointvec_minmax(&copy, write, buffer, length, pos);
	if (err || !write)
		return err;
	if (!policy != !sysctl_cow_precopy)
		cow_precopy_switch(policy);
	sysctl_cow_precopy = policy;
	return 0;
}

static struct ctl_table cow_precopy_sysctls[] = {
	{
		.procname	= "cow_precopy",
		.data		= &sysctl_cow_precopy,
		.maxlen		= sizeof(sysctl_cow_precopy),
		.mode		= 0644,
		.proc_handler	= cow_precopy_handler,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
	{
		.procname	= "cow_precopy_pages",
		.data		= &sysctl_cow_precopy_pages,
		.maxlen		= sizeof(sysctl_cow_precopy_pages),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ONE,
		.extra2		= &cow_precopy_pages_max,
	},
	{
		.procname	= "cow_precopy_ramp",
		.data		= &sysctl_cow_precopy_ramp,
		.maxlen		= sizeof(sysctl_cow_precopy_ramp),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE_THOUSAND,
	},
	{
		.procname	= "cow_precopy_order",
		.data		= &sysctl_cow_precopy_order,
		.maxlen		= sizeof(sysctl_cow_precopy_order),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &cow_precopy_order_max,
	},
};

static int __init cow_precopy_init(void)
{
	register_sysctl_init("vm", cow_precopy_sysctls);
	return 0;
}
fs_initcall(cow_precopy_init);
