// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pre-copy: when a write fault copies a page that fork left shared, copy the
 * pages that follow it as well, in the guess that they are written next.
 *
 * The faulting page and its neighbours are one batch: one scan under the page
 * table lock that the fault holds already, one bulk allocation, the copies
 * without a lock, and then, under one hold of the lock, every entry that is
 * still what it was is cleared, the range is flushed once, and the new entries
 * are set. What cannot be had cheaply is not guessed: a neighbour whose state
 * is in any way special is left to its own fault, and an allocation for a guess
 * never reclaims.
 *
 * The entry of a pre-copied neighbour is writable, clean and old, so that
 * reclaim finds unused guesses first. The folio is dirty nevertheless: an
 * anonymous page that is clean in both counts as one that MADV_FREE may give up
 * without looking whether it is shared, so after the next fork one process
 * could free what the other still needs.
 */
#include <linux/bitmap.h>
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

/* No guess waits, wakes kswapd, dips into reserves or complains. */
#define GFP_COW_GUESS							\
	((GFP_HIGHUSER_MOVABLE | __GFP_NOMEMALLOC | __GFP_NORETRY |	\
	  __GFP_NOWARN) & ~__GFP_RECLAIM)

DEFINE_STATIC_KEY_FALSE(cow_precopy_on);

static int sysctl_cow_precopy;
static unsigned int sysctl_cow_precopy_pages = 1;
static unsigned int cow_precopy_pages_max = PTRS_PER_PTE;

/**
 * struct cow_batch - the pages that one fault copies
 * @wanted: offsets in pages from the faulting page, which is bit 0
 * @nr: number of pages
 * @old: entry of each page when it was looked at
 * @new: its copy; NULL once the page has been given up
 */
struct cow_batch {
	DECLARE_BITMAP(wanted, PTRS_PER_PTE);
	unsigned int nr;
	pte_t *old;
	struct page **new;
	pte_t old_on_stack[COW_BATCH_ON_STACK];
	struct page *new_on_stack[COW_BATCH_ON_STACK];
};

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
 * May the page that @pte maps at @addr be copied before it is written to?
 * COW_PRECOPY_SUCCESS, or the counter of the reason why not.
 */
static enum cow_count cow_judge(struct vm_area_struct *vma, unsigned long addr, pte_t pte)
{
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
	if (PageHWPoison(page))
		return COW_REFUSED_SPECIAL;
	if (folio_maybe_dma_pinned(folio))
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

/* Mark the neighbours that may be copied; return their number. */
static unsigned int cow_scan(struct vm_fault *vmf, unsigned int room, unsigned long *wanted)
{
	unsigned int offset, nr = 0;

	for (offset = 1; offset <= room; offset++) {
		unsigned long addr = vmf->address + offset * PAGE_SIZE;
		enum cow_count verdict = cow_judge(vmf->vma, addr, ptep_get(vmf->pte + offset));

		if (verdict == COW_PRECOPY_SUCCESS) {
			__set_bit(offset, wanted);
			nr++;
		} else {
			cow_count(verdict, 1);
		}
	}
	return nr;
}

/* Room for the bookkeeping of @batch->nr pages. */
static bool cow_batch_alloc(struct cow_batch *batch)
{
	if (batch->nr <= COW_BATCH_ON_STACK) {
		memset(batch->new_on_stack, 0, sizeof(batch->new_on_stack));
		batch->old = batch->old_on_stack;
		batch->new = batch->new_on_stack;
		return true;
	}
	/* Two arrays of words; the allocator fills only the empty elements. */
	batch->new = kcalloc(batch->nr, sizeof(*batch->new) + sizeof(*batch->old),
			     GFP_NOWAIT | __GFP_NOWARN);
	batch->old = (pte_t *)(batch->new + batch->nr);
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
}

static bool cow_has_mempolicy(struct vm_area_struct *vma)
{
#ifdef CONFIG_NUMA
	return vma->vm_policy || current->mempolicy;
#else
	return false;
#endif
}

/* Allocate the pages of the batch; return how many there are, in order. */
static unsigned int cow_alloc_pages(struct vm_fault *vmf, struct cow_batch *batch)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long offset;
	unsigned int i = 0;

	if (!cow_has_mempolicy(vma)) {
		cow_count(COW_BATCH_ALLOCATIONS, 1);
		return alloc_pages_bulk_array(GFP_COW_GUESS, batch->nr, batch->new);
	}
	/* A policy chooses the node by address. */
	for_each_set_bit(offset, batch->wanted, PTRS_PER_PTE) {
		struct folio *folio = vma_alloc_folio(GFP_COW_GUESS, 0, vma,
						      vmf->address + offset * PAGE_SIZE,
						      false);

		if (!folio)
			break;
		cow_count(COW_BATCH_ALLOCATIONS, 1);
		batch->new[i++] = &folio->page;
	}
	return i;
}

/*
 * Keep the first @nr pages only. The references of the others are given back,
 * and what was allocated for them.
 */
static void cow_batch_truncate(struct cow_batch *batch, unsigned int nr)
{
	unsigned long offset;
	unsigned int i = 0;

	for_each_set_bit(offset, batch->wanted, PTRS_PER_PTE) {
		if (i >= nr) {
			if (batch->new[i])
				folio_put(page_folio(batch->new[i]));
			/* The reference on the faulting page is the caller's. */
			if (i)
				folio_put(page_folio(pte_page(batch->old[i])));
			__clear_bit(offset, batch->wanted);
		}
		i++;
	}
	batch->nr = nr;
}

/* Give up page number @i; its old page is put with the others at the end. */
static void cow_batch_drop(struct cow_batch *batch, unsigned int i, enum cow_count why)
{
	folio_put(page_folio(batch->new[i]));
	batch->new[i] = NULL;
	cow_count(why, 1);
}

/* Allocate, charge and fill the copies. False: not even the faulting page. */
static bool cow_copy(struct vm_fault *vmf, struct cow_batch *batch, u64 *copy_ns)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned int nr = 0, charged, i = 0;
	unsigned long offset;

	if (cow_memcg_has_room(vma->vm_mm, batch->nr))
		nr = cow_alloc_pages(vmf, batch);
	for (charged = 0; charged < nr; charged++)
		if (mem_cgroup_charge(page_folio(batch->new[charged]), vma->vm_mm,
				      GFP_COW_GUESS))
			break;
	if (charged < batch->nr) {
		cow_count(COW_REFUSED_NOMEM, batch->nr - max(charged, 1U));
		cow_batch_truncate(batch, charged);
		if (!charged)
			return false;
	}

	for_each_set_bit(offset, batch->wanted, PTRS_PER_PTE) {
		struct page *from = pte_page(batch->old[i]);
		struct page *to = batch->new[i];
		u64 start = offset ? 0 : cow_clock();

		if (copy_mc_user_highpage(to, from, vmf->address + offset * PAGE_SIZE, vma)) {
			if (!offset) {
				/* Let the ordinary path meet the poison. */
				cow_batch_truncate(batch, 0);
				return false;
			}
			cow_batch_drop(batch, i, COW_REFUSED_SPECIAL);
		} else {
			kmsan_copy_page_meta(to, from);
			__folio_mark_uptodate(page_folio(to));
		}
		if (!offset)
			*copy_ns = cow_since(start);
		i++;
	}
	return true;
}

/*
 * Replace the entries of the batch by those of the copies. Called with the page
 * table lock held and the faulting page's entry unchanged. Returns the number
 * of neighbours that were replaced.
 */
static unsigned int cow_replace(struct vm_fault *vmf, struct cow_batch *batch,
				unsigned long end)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm;
	unsigned int i = 0, neighbours = 0;
	unsigned long offset;

	for_each_set_bit(offset, batch->wanted, PTRS_PER_PTE) {
		unsigned long addr = vmf->address + offset * PAGE_SIZE;
		pte_t *pte = vmf->pte + offset;

		if (batch->new[i]) {
			/* The lock was dropped: zapped, migrated, copied, ... */
			if (!pte_same(ptep_get(pte), batch->old[i])) {
				cow_batch_drop(batch, i, COW_REFUSED_RACED);
			} else {
				flush_cache_page(vma, addr, pte_pfn(batch->old[i]));
				ptep_get_and_clear(mm, addr, pte);
			}
		}
		i++;
	}
	/*
	 * No CPU may read an old page through its TLB while another writes to
	 * the copy, and nobody may re-use an old page while a TLB still has it:
	 * so flush between clearing and setting, before the old rmap goes (see
	 * wp_page_copy()).
	 */
	flush_tlb_range(vma, vmf->address, end);

	i = 0;
	for_each_set_bit(offset, batch->wanted, PTRS_PER_PTE) {
		unsigned long addr = vmf->address + offset * PAGE_SIZE;
		struct page *page = batch->new[i];
		struct folio *old, *folio;
		pte_t entry;

		if (!page) {
			i++;
			continue;
		}
		folio = page_folio(page);
		entry = mk_pte(page, vma->vm_page_prot);
		if (offset) {
			/* Clean, old and as soft-dirty as it was. */
			if (pte_soft_dirty(batch->old[i]))
				entry = pte_mksoft_dirty(entry);
			entry = pte_mkold(pte_mkwrite(entry, vma));
			folio_set_dirty(folio);
			neighbours++;
		} else {
			entry = pte_sw_mkyoung(entry);
			entry = pte_mkwrite(pte_mkdirty(entry), vma);
		}
		folio_add_new_anon_rmap(folio, vma, addr, RMAP_EXCLUSIVE);
		folio_add_lru_vma(folio, vma);
		set_pte_at(mm, addr, vmf->pte + offset, entry);
		update_mmu_cache_range(vmf, vma, addr, vmf->pte + offset, 1);
		old = page_folio(pte_page(batch->old[i]));
		folio_remove_rmap_pte(old, pte_page(batch->old[i]), vma);
		i++;
	}
	return neighbours;
}

/* Put the old pages: the reference of the batch, and that of a replaced entry. */
static void cow_put_old(struct cow_batch *batch)
{
	unsigned int refs[PAGEVEC_SIZE];
	struct folio_batch folios;
	unsigned int i;

	/* Only the faulting page may be in the swap cache. */
	if (batch->new[0])
		free_swap_cache(page_folio(pte_page(batch->old[0])));
	folio_batch_init(&folios);
	for (i = 0; i < batch->nr; i++) {
		refs[folio_batch_count(&folios)] = batch->new[i] ? 2 : 1;
		if (!folio_batch_add(&folios, page_folio(pte_page(batch->old[i])))) {
			folios_put_refs(&folios, refs);
			folio_batch_init(&folios);
		}
	}
	if (folio_batch_count(&folios))
		folios_put_refs(&folios, refs);
}

/* Copy what @batch wants. Called without the lock; true if the fault is done. */
static bool cow_precopy_batch(struct vm_fault *vmf, struct cow_batch *batch)
{
	struct vm_area_struct *vma = vmf->vma;
	bool unchanged, sampled = false;
	struct mmu_notifier_range range;
	unsigned int neighbours = 0, i;
	unsigned long end;
	u64 copy_ns = 0;

	if (!cow_copy(vmf, batch, &copy_ns))
		return false;

	end = vmf->address + (find_last_bit(batch->wanted, PTRS_PER_PTE) + 1) * PAGE_SIZE;
	mmu_notifier_range_init(&range, MMU_NOTIFY_CLEAR, 0, vma->vm_mm, vmf->address, end);
	mmu_notifier_invalidate_range_start(&range);

	vmf->pte = pte_offset_map_lock(vma->vm_mm, vmf->pmd, vmf->address, &vmf->ptl);
	unchanged = vmf->pte && pte_same(ptep_get(vmf->pte), vmf->orig_pte);
	if (unchanged) {
		neighbours = cow_replace(vmf, batch, end);
		cow_count(COW_PRECOPY_SUCCESS, neighbours);
		atomic_long_add(neighbours, &vma->vm_mm->cow_stats.precopied);
		cow_count(COW_BATCHES, 1);
		sampled = cow_account_fault(vmf, copy_ns);
	} else if (vmf->pte) {
		update_mmu_tlb(vma, vmf->address, vmf->pte);
	}
	if (vmf->pte)
		pte_unmap_unlock(vmf->pte, vmf->ptl);
	mmu_notifier_invalidate_range_end(&range);

	if (!unchanged) {
		/* Somebody else solved the fault, or it will be taken again. */
		folio_put(page_folio(batch->new[0]));
		batch->new[0] = NULL;
		for (i = 1; i < batch->nr; i++)
			if (batch->new[i])
				cow_batch_drop(batch, i, COW_REFUSED_RACED);
	}
	cow_put_old(batch);
	if (sampled)
		trace_precopy(vmf->address, batch->nr - 1, neighbours);
	return true;
}

/**
 * __cow_precopy - copy the faulting page together with pages that follow it
 * @vmf: a fault that has to copy @vmf->page
 *
 * Called with the page table lock held and a reference on the page's folio.
 *
 * Return: true if the fault is done; the lock and the reference are gone then.
 * False if the caller is to copy the page alone: it has both still.
 */
bool __cow_precopy(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct cow_batch batch;
	unsigned long offset;
	unsigned int room, i;
	struct folio *folio;
	bool done;

	if (vmf->flags & (FAULT_FLAG_UNSHARE | FAULT_FLAG_REMOTE))
		return false;
	if (!vmf->page || !cow_vma_guessable(vma))
		return false;
	folio = page_folio(vmf->page);
	if (!folio_test_anon(folio) || folio_test_ksm(folio))
		return false;
	room = cow_window(vmf->address, vma->vm_end, READ_ONCE(sysctl_cow_precopy_pages));
	if (!room)
		return false;

	bitmap_zero(batch.wanted, PTRS_PER_PTE);
	batch.nr = cow_scan(vmf, room, batch.wanted);
	cow_count(COW_PRECOPY_ATTEMPTS, room);
	if (!batch.nr)
		return false;
	__set_bit(0, batch.wanted);
	batch.nr++;
	if (!cow_batch_alloc(&batch)) {
		cow_count(COW_REFUSED_NOMEM, batch.nr - 1);
		return false;
	}
	i = 0;
	for_each_set_bit(offset, batch.wanted, PTRS_PER_PTE) {
		batch.old[i] = offset ? ptep_get(vmf->pte + offset) : vmf->orig_pte;
		if (offset)
			folio_get(page_folio(pte_page(batch.old[i])));
		i++;
	}
	pte_unmap_unlock(vmf->pte, vmf->ptl);

	delayacct_wpcopy_start();
	done = cow_precopy_batch(vmf, &batch);
	delayacct_wpcopy_end();
	cow_batch_free(&batch);
	if (done)
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
	folio_put(folio);
	return true;
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
	sysctl_cow_precopy = policy;
	if (policy)
		static_branch_enable(&cow_precopy_on);
	else
		static_branch_disable(&cow_precopy_on);
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
};

static int __init cow_precopy_init(void)
{
	register_sysctl_init("vm", cow_precopy_sysctls);
	return 0;
}
fs_initcall(cow_precopy_init);
