// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fork without copying page tables: they are copied when either side needs them.
 *
 * For each page table of anonymous memory that one mapping fills, fork makes the
 * parent's entry of it, in the level above (PMD), read-only and marks it, and leaves
 * the child's empty. The entries of the page table are not touched. It is copied as
 * fork would have, and the mark removed,
 *
 * - before the parent changes what a page of it contains: by a write, a pin or an
 *   unmapping;
 * - before the child touches it;
 * - before anybody reads it who should see what fork has done, or changes it in a
 *   way that the child must not see: mprotect, mremap, collapse, procfs;
 * - by a worker, some milliseconds after the fork.
 *
 * A child that executes or exits before copies nothing: the marks are removed, and
 * the parent's pages are writable as they were, without a fault.
 *
 * Nothing is ever shared: a page table belongs to one address space, and the counts
 * of pages, RSS and page tables are those of the page tables that are there. So
 * reclaim, migration and KSM's merging may change the parent's entries at any time: they only
 * change where a page is, and what is copied later is what is there then.
 *
 * An address space is one side of one fork at most: the next fork of either copies
 * first what the one before has left.
 *
 * Documentation/mm/cow_defer.rst has who copies when, and the locks.
 */
#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <uapi/linux/prctl.h>

#include <asm/pgalloc.h>

#include "cow.h"
#include "cow_defer.h"
#include "internal.h"

DEFINE_STATIC_KEY_FALSE(cow_defer_on);

/* What vm.cow_defer can be. */
enum {
	COW_DEFER_OFF,
	COW_DEFER_OPTED_IN,	/* processes that ask for it by prctl */
	COW_DEFER_ALL,		/* all that do not refuse it */
};

/* Copying less of a page table than this is cheaper than deferring it. */
#define COW_DEFER_CUT_MIN	SZ_256K

/* The worker copies for about this long, then sleeps for as long. */
#define COW_DEFER_BURST_US	100

/* Where there was no memory, it comes again after this. */
#define COW_DEFER_RETRY		HZ

static int sysctl_cow_defer;
static unsigned int sysctl_cow_defer_delay_ms = 5;
static unsigned int cow_defer_delay_max_ms = 10000;
static unsigned int sysctl_cow_defer_min_kb;

/* Guards the switching. */
static DEFINE_MUTEX(cow_defer_switch);
/* Forks of which something may be left. */
static atomic_t cow_defer_live = ATOMIC_INIT(0);
static DECLARE_WAIT_QUEUE_HEAD(cow_defer_none_live);

/**
 * struct cow_defer_block - the deferred page tables of one table of the level above
 * @parent: that table, of the parent's
 * @child: and the child's
 * @pending: which of their entries are deferred; cleared under cow_defer.lock. Neither table
 *	is freed while any is.
 */
struct cow_defer_block {
	pmd_t *parent;
	pmd_t *child;
	DECLARE_BITMAP(pending, PTRS_PER_PMD);
};

/**
 * struct cow_defer - what a fork has not copied yet
 * @lock: guards all that follows, once fork is done
 * @users: both address spaces and the worker
 * @pending: number of deferred page tables
 * @lost: of them, there are some that could not be copied
 * @parent: NULL once it has ended or forked again
 * @child: the same
 * @blocks: by address
 * @cuts: of page tables that the mapping does not fill, the entries that are to be copied
 * @key: of @block, the last in @blocks that fork has used
 * @work: the worker's
 * @free: what frees it, where it may sleep
 */
struct cow_defer {
	struct mutex lock; /* of all that follows */
	refcount_t users;
	unsigned int pending;
	bool lost;
	struct mm_struct *parent;
	struct mm_struct *child;
	struct xarray blocks;
	struct xarray cuts;
	unsigned long key;
	struct cow_defer_block *block;
	struct delayed_work work;
	struct rcu_work free;
};

static struct cow_defer *cow_defer_get(struct mm_struct *mm)
{
	struct cow_defer *defer;

	guard(rcu)();
	defer = rcu_dereference(mm->cow_defer);
	return defer && refcount_inc_not_zero(&defer->users) ? defer : NULL;
}

static void cow_defer_dead(void)
{
	if (atomic_dec_and_test(&cow_defer_live))
		wake_up_all(&cow_defer_none_live);
}

static void cow_defer_free(struct work_struct *work)
{
	struct cow_defer *defer = container_of(to_rcu_work(work), struct cow_defer, free);
	struct cow_defer_block *block;
	unsigned long key;

	xa_for_each(&defer->blocks, key, block)
		kfree(block);
	xa_destroy(&defer->blocks);
	xa_destroy(&defer->cuts);
	kfree(defer);
	cow_defer_dead();
}

static void cow_defer_put(struct cow_defer *defer)
{
	if (refcount_dec_and_test(&defer->users))
		queue_rcu_work(system_unbound_wq, &defer->free);
}

/* The part of the page table at @addr that fork is to copy. */
static void cow_defer_range(struct cow_defer *defer, unsigned long addr, unsigned long *start,
			    unsigned long *end)
{
	void *cut = xa_load(&defer->cuts, addr >> PMD_SHIFT);

	*start = addr & PMD_MASK;
	*end = *start + PMD_SIZE;
	if (cut) {
		*end = *start + (xa_to_value(cut) >> 16) * PAGE_SIZE;
		*start += (xa_to_value(cut) & 0xffff) * PAGE_SIZE;
	}
}

/* Nothing of it is pending, or to be had, for whose @side it is. */
static void cow_defer_leave(struct cow_defer *defer, struct mm_struct **side)
{
	lockdep_assert_held(&defer->lock);
	if (!*side)
		return;
	rcu_assign_pointer((*side)->cow_defer, NULL);
	*side = NULL;
	/* Somebody who came for a page table has one, too. */
	cow_defer_put(defer);
}

static void cow_defer_end_if_done(struct cow_defer *defer)
{
	if (defer->pending)
		return;
	cow_defer_leave(defer, &defer->parent);
	cow_defer_leave(defer, &defer->child);
	/* Nothing is left for the worker. */
	if (cancel_delayed_work(&defer->work))
		cow_defer_put(defer);
}

/*
 * The caller has found nothing pending. A CPU that has just cleared the last bit may still hold
 * the lock, and be about to take the record from both address spaces: wait for it.
 */
static void cow_defer_settled(struct cow_defer *defer)
{
	mutex_lock(&defer->lock);
	cow_defer_end_if_done(defer);
	mutex_unlock(&defer->lock);
	cow_defer_put(defer);
}

/* Page table number @index of @block needs no more copying. */
static void cow_defer_done(struct cow_defer *defer, struct cow_defer_block *block,
			   unsigned int index)
{
	/* If it was copied: whoever sees the mark gone sees the entries write-protected. */
	smp_wmb();
	if (!defer->lost)
		pmd_clear_deferred(block->parent + index);
	/* Whoever sees the bit gone sees the child's entries. */
	smp_mb__before_atomic();
	clear_bit(index, block->pending);
	defer->pending--;
	cow_defer_end_if_done(defer);
}

/*
 * A page table could not be copied, and what it will contain from now on is not what the
 * child is to see. The parent goes on; the child dies as soon as it needs any of what is
 * pending.
 */
static void cow_defer_lose(struct cow_defer *defer)
{
	struct cow_defer_block *block;
	unsigned long key;
	unsigned int index;

	xa_for_each(&defer->blocks, key, block)
		for_each_set_bit(index, block->pending, PTRS_PER_PMD)
			pmd_clear_deferred(block->parent + index);
	defer->lost = true;
	cow_count(COW_DEFER_LOST, defer->pending);
	cow_defer_leave(defer, &defer->parent);
}

/* What stands for a mapping: neither side's are locked. */
static void cow_defer_vma_init(struct vm_area_struct *vma, struct mm_struct *mm,
			       unsigned long start, unsigned long end)
{
	vma_init(vma, mm);
	vma->vm_start = start;
	vma->vm_end = end;
	vm_flags_init(vma, VM_READ | VM_MAYREAD | VM_MAYWRITE);
}

/**
 * cow_defer_adopt - make a mapping's stand-in fit for a page that is copied
 * @vma: the stand-in of the child's mapping
 * @page: a page of the parent that may be pinned
 * @pte: its entry
 * @addr: its address
 *
 * The child's mapping is in all that the parent's is in: the page that it gets may be found
 * where the parent's is. It is read-only: the first write finds it exclusive.
 */
void cow_defer_adopt(struct vm_area_struct *vma, struct page *page, pte_t pte,
		     unsigned long addr)
{
	struct folio *folio = page_folio(page);

	vma->anon_vma = folio_anon_vma(folio);
	vma->vm_pgoff = folio->index + folio_page_idx(folio, page) -
			((addr - vma->vm_start) >> PAGE_SHIFT);
	vma->vm_page_prot = pte_pgprot(pte_wrprotect(pte));
}

/* Copy page table number @index of @block, which is at @addr. The lock is held. */
static int cow_defer_copy_locked(struct cow_defer *defer, struct cow_defer_block *block,
				 unsigned int index, unsigned long addr, bool must)
{
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(defer->child), *before;
	struct vm_area_struct src_vma, dst_vma;
	unsigned long start, end;
	int err;

	cow_defer_range(defer, addr, &start, &end);
	cow_defer_vma_init(&src_vma, defer->parent, start, end);
	cow_defer_vma_init(&dst_vma, defer->child, start, end);
	before = set_active_memcg(memcg);
	err = pte_alloc(defer->child, block->child + index);
	if (err && must) {
		/* The parent is not to suffer from the child's limit. */
		set_active_memcg(root_mem_cgroup);
		err = pte_alloc(defer->child, block->child + index);
	}
	if (!err) {
		must = true;
		err = copy_pte_range(&dst_vma, &src_vma, block->child + index,
				     block->parent + index, start, end);
	}
	set_active_memcg(before);
	mem_cgroup_put(memcg);
	if (!err)
		cow_defer_done(defer, block, index);
	else if (must)
		cow_defer_lose(defer);
	return err ? -ENOMEM : 0;
}

/* The same, if it is still to be copied. */
static int cow_defer_copy(struct cow_defer *defer, struct cow_defer_block *block,
			  unsigned int index, unsigned long addr, bool must,
			  enum cow_count who)
{
	int err = 0;

	mutex_lock(&defer->lock);
	if (test_bit(index, block->pending)) {
		err = defer->lost ? -EFAULT :
		      cow_defer_copy_locked(defer, block, index, addr, must);
		if (!err)
			cow_count(who, 1);
	}
	mutex_unlock(&defer->lock);
	return err;
}

/* First address of page table number @index of the block with @key. */
static unsigned long cow_defer_addr(unsigned long key, unsigned int index)
{
	return (key << PUD_SHIFT) + ((unsigned long)index << PMD_SHIFT);
}

/* Copy all of [@start, @end) that is pending. */
static int cow_defer_copy_range(struct cow_defer *defer, struct mm_struct *mm,
				unsigned long start, unsigned long end)
{
	bool is_child = READ_ONCE(defer->child) == mm;
	enum cow_count who = is_child ? COW_DEFER_BY_CHILD : COW_DEFER_BY_PARENT;
	struct cow_defer_block *block;
	unsigned long key;
	int err = 0;

	if (!READ_ONCE(defer->pending))
		return 0;
	xa_for_each_range(&defer->blocks, key, block, start >> PUD_SHIFT,
			  (end - 1) >> PUD_SHIFT) {
		unsigned int index = key == start >> PUD_SHIFT ? pmd_index(start) : 0;

		for_each_set_bit_from(index, block->pending, PTRS_PER_PMD) {
			unsigned long addr = cow_defer_addr(key, index);

			if (addr >= end)
				break;
			err = cow_defer_copy(defer, block, index, addr, !is_child, who);
			/* For the parent it is settled by this, too. */
			if (err && is_child)
				return err;
			cond_resched();
		}
	}
	return 0;
}

int __cow_defer_sync(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	struct cow_defer *defer;
	int err;

	/* Reclaim changes only where pages are, and can wait for nobody. */
	if (current->flags & PF_MEMALLOC)
		return 0;
	defer = cow_defer_get(mm);
	if (!defer)
		return 0;
	err = cow_defer_copy_range(defer, mm, start, end);
	cow_defer_put(defer);
	return err;
}

/* Whether a touch of @addr has to wait for a copy. Most faults come by here: no lock, no count. */
static bool cow_defer_waits(struct mm_struct *mm, unsigned long addr, bool changes)
{
	struct cow_defer_block *block;
	struct cow_defer *defer;

	guard(rcu)();
	defer = rcu_dereference(mm->cow_defer);
	/* Reading the parent's pages harms nobody. */
	if (!defer || (!changes && READ_ONCE(defer->child) != mm))
		return false;
	block = xa_load(&defer->blocks, addr >> PUD_SHIFT);
	return block && test_bit_acquire(pmd_index(addr), block->pending);
}

int __cow_defer_touch(struct mm_struct *mm, unsigned long addr, bool changes)
{
	struct cow_defer *defer;
	int err;

	if (!cow_defer_waits(mm, addr, changes))
		return 0;
	defer = cow_defer_get(mm);
	if (!defer)
		return 0;
	err = cow_defer_copy_range(defer, mm, addr, addr + 1);
	cow_defer_put(defer);
	/* What the child would see is not what it had: it must not go on. */
	if (err == -EFAULT && mm == current->mm)
		send_sig(SIGKILL, current, 1);
	return err;
}

/* The child drops what it has of [@start, @end); page tables that are cut are copied first. */
static void cow_defer_drop(struct cow_defer *defer, unsigned long start, unsigned long end)
{
	struct cow_defer_block *block;
	unsigned long key;

	mutex_lock(&defer->lock);
	xa_for_each_range(&defer->blocks, key, block, start >> PUD_SHIFT,
			  (end - 1) >> PUD_SHIFT) {
		unsigned int index;

		for_each_set_bit(index, block->pending, PTRS_PER_PMD) {
			unsigned long from, to;

			cow_defer_range(defer, cow_defer_addr(key, index), &from, &to);
			if (to <= start || from >= end)
				continue;
			if (start <= from && to <= end) {
				cow_defer_done(defer, block, index);
				cow_count(COW_DEFER_DROPPED, 1);
			} else if (!defer->lost &&
				   !cow_defer_copy_locked(defer, block, index, from, true)) {
				cow_count(COW_DEFER_BY_CHILD, 1);
			}
		}
	}
	mutex_unlock(&defer->lock);
}

void __cow_defer_unmap(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	struct cow_defer *defer = cow_defer_get(mm);

	if (!defer)
		return;
	if (READ_ONCE(defer->child) == mm)
		cow_defer_drop(defer, start, end);
	else
		cow_defer_copy_range(defer, mm, start, end);
	cow_defer_put(defer);
}

void __cow_defer_exit(struct mm_struct *mm)
{
	struct cow_defer *defer = cow_defer_get(mm);

	if (!defer)
		return;
	if (READ_ONCE(defer->child) == mm)
		cow_defer_drop(defer, 0, ULONG_MAX);
	else
		cow_defer_copy_range(defer, mm, 0, ULONG_MAX);
	/* Fork may have failed early. */
	cow_defer_settled(defer);
}

/* What fork had not yet copied, while nobody else needed it. */
static void cow_defer_work(struct work_struct *work)
{
	struct cow_defer *defer = container_of(to_delayed_work(work), struct cow_defer, work);
	ktime_t pause = ktime_add_us(ktime_get(), COW_DEFER_BURST_US);
	struct cow_defer_block *block;
	unsigned long key;
	unsigned int index;
	bool again;
	int err;

	xa_for_each(&defer->blocks, key, block) {
		for_each_set_bit(index, block->pending, PTRS_PER_PMD) {
			err = cow_defer_copy(defer, block, index, cow_defer_addr(key, index),
					     false, COW_DEFER_BY_WORKER);
			if (err)
				goto out;
			if (ktime_before(ktime_get(), pause))
				continue;
			fsleep(COW_DEFER_BURST_US);
			pause = ktime_add_us(ktime_get(), COW_DEFER_BURST_US);
		}
	}
	cow_defer_put(defer);
	return;
out:
	/* There may be memory later. Under the lock, nobody can cancel what is not queued yet. */
	mutex_lock(&defer->lock);
	again = err == -ENOMEM && defer->pending;
	if (again)
		queue_delayed_work(system_unbound_wq, &defer->work, COW_DEFER_RETRY);
	mutex_unlock(&defer->lock);
	if (!again)
		cow_defer_put(defer);
}

/* Whether a fork of @mm is to leave page tables for later. */
static bool cow_defer_wanted(struct mm_struct *mm)
{
	int policy = READ_ONCE(sysctl_cow_defer);
	unsigned int mode = READ_ONCE(mm->cow_defer_mode);

	if (policy == COW_DEFER_OFF || mode == PR_COW_DEFER_NEVER)
		return false;
	if (policy == COW_DEFER_OPTED_IN && mode != PR_COW_DEFER_ALWAYS)
		return false;
	/* Secondary page tables would let others write. */
	if (mm_has_notifiers(mm))
		return false;
	/* Its fork must see which pages were written. */
	if (IS_ENABLED(CONFIG_COW_COVERAGE) && cow_mm_policy(mm) == COW_POLICY_COVERAGE)
		return false;
	return get_mm_counter(mm, MM_ANONPAGES) >=
	       READ_ONCE(sysctl_cow_defer_min_kb) >> (PAGE_SHIFT - 10);
}

int __cow_defer_fork(struct mm_struct *child, struct mm_struct *parent)
{
	struct cow_defer *defer = cow_defer_get(parent);
	int err;

	if (defer) {
		err = cow_defer_copy_range(defer, parent, 0, ULONG_MAX);
		cow_defer_settled(defer);
		if (err)
			return -ENOMEM;
	}
	atomic_inc(&cow_defer_live);
	/* Before the policy is read: see cow_defer_handler(). */
	smp_mb__after_atomic();
	if (!cow_defer_wanted(parent))
		goto not;
	defer = kzalloc(sizeof(*defer), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!defer)
		goto not;
	mutex_init(&defer->lock);
	refcount_set(&defer->users, 2);
	defer->parent = parent;
	defer->child = child;
	xa_init(&defer->blocks);
	xa_init(&defer->cuts);
	INIT_DELAYED_WORK(&defer->work, cow_defer_work);
	INIT_RCU_WORK(&defer->free, cow_defer_free);
	rcu_assign_pointer(child->cow_defer, defer);
	rcu_assign_pointer(parent->cow_defer, defer);
	return 0;
not:
	cow_defer_dead();
	return 0;
}

void __cow_defer_forked(struct mm_struct *child, struct mm_struct *parent)
{
	struct cow_defer *defer = cow_defer_get(child);

	/* khugepaged knows the child already, and may have been here. */
	if (!defer)
		return;
	mutex_lock(&defer->lock);
	if (defer->pending) {
		cow_count(COW_DEFER_FORKS, 1);
		cow_count(COW_DEFER_TABLES, defer->pending);
		refcount_inc(&defer->users);
		queue_delayed_work(system_unbound_wq, &defer->work,
				   msecs_to_jiffies(READ_ONCE(sysctl_cow_defer_delay_ms)));
	} else {
		cow_defer_end_if_done(defer);
	}
	mutex_unlock(&defer->lock);
	cow_defer_put(defer);
}

/* Whether copying the page tables of @vma can wait. */
static bool cow_defer_vma_fits(struct vm_area_struct *vma)
{
	const vm_flags_t never = VM_SHARED | VM_MAYSHARE | VM_SPECIAL | VM_HUGETLB |
				 VM_LOCKED_MASK | VM_MERGEABLE | VM_GROWSDOWN | VM_GROWSUP |
				 VM_SHADOW_STACK | VM_DROPPABLE | __VM_UFFD_FLAGS;

	return vma_is_anonymous(vma) && vma->anon_vma && vma->vm_flags & VM_MAYWRITE &&
	       !(vma->vm_flags & never);
}

static struct cow_defer_block *cow_defer_block(struct cow_defer *defer, unsigned long addr,
					       pmd_t *dst_pmd, pmd_t *src_pmd)
{
	unsigned long key = addr >> PUD_SHIFT;
	struct cow_defer_block *block;

	if (defer->block && defer->key == key)
		return defer->block;
	block = xa_load(&defer->blocks, key);
	if (!block) {
		block = kzalloc(sizeof(*block), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
		if (!block)
			return NULL;
		block->parent = src_pmd - pmd_index(addr);
		block->child = dst_pmd - pmd_index(addr);
		if (xa_is_err(xa_store(&defer->blocks, key, block,
				       GFP_KERNEL_ACCOUNT | __GFP_NOWARN))) {
			kfree(block);
			return NULL;
		}
	}
	defer->key = key;
	defer->block = block;
	return block;
}

/*
 * Whether [@addr, @end) is all that mappings of @mm have of its page table, and worth it; note
 * which part that is.
 */
static bool cow_defer_cut(struct cow_defer *defer, struct mm_struct *mm, unsigned long addr,
			  unsigned long end)
{
	unsigned long start = addr & PMD_MASK;
	unsigned long cut = (addr - start) >> PAGE_SHIFT | (end - start) >> PAGE_SHIFT << 16;

	if (end - addr < COW_DEFER_CUT_MIN)
		return false;
	if (addr > start && find_vma_intersection(mm, start, addr))
		return false;
	if (end < start + PMD_SIZE && find_vma_intersection(mm, end, start + PMD_SIZE))
		return false;
	return !xa_is_err(xa_store(&defer->cuts, addr >> PMD_SHIFT, xa_mk_value(cut),
				   GFP_KERNEL_ACCOUNT | __GFP_NOWARN));
}

/*
 * Whether a device may write to a page of [@addr, @end): the child is to have it as it is now.
 * Nobody can pin one meanwhile: see folio_needs_cow_for_dma().
 */
static bool cow_defer_pinned(struct mm_struct *mm, pmd_t *pmd, unsigned long addr,
			     unsigned long end)
{
	pte_t *pte, *first;
	spinlock_t *ptl;

	if (!test_bit(MMF_HAS_PINNED, &mm->flags))
		return false;
	first = pte_offset_map_lock(mm, pmd, addr, &ptl);
	if (!first)
		return true;
	for (pte = first; addr < end; pte++, addr += PAGE_SIZE) {
		pte_t entry = ptep_get(pte);

		if (pte_present(entry) && !pte_special(entry) &&
		    folio_maybe_dma_pinned(page_folio(pte_page(entry))))
			break;
	}
	pte_unmap_unlock(first, ptl);
	return addr < end;
}

bool __cow_defer_table(struct vm_area_struct *dst_vma, struct vm_area_struct *src_vma,
		       pmd_t *dst_pmd, pmd_t *src_pmd, unsigned long addr, unsigned long end)
{
	struct cow_defer *defer = rcu_dereference_protected(dst_vma->vm_mm->cow_defer, true);
	struct cow_defer_block *block;

	if (!cow_defer_vma_fits(src_vma) ||
	    cow_defer_pinned(src_vma->vm_mm, src_pmd, addr, end))
		return false;
	if (end - addr != PMD_SIZE && !cow_defer_cut(defer, src_vma->vm_mm, addr, end))
		return false;
	block = cow_defer_block(defer, addr, dst_pmd, src_pmd);
	if (!block)
		return false;
	pmd_set_deferred(src_pmd);
	__set_bit(pmd_index(addr), block->pending);
	defer->pending++;
	return true;
}

/* Page tables of @mm's fork, or of the fork that made it, that are still to be copied. */
unsigned long cow_defer_pending(struct mm_struct *mm)
{
	struct cow_defer *defer;

	guard(rcu)();
	defer = rcu_dereference(mm->cow_defer);
	return defer ? READ_ONCE(defer->pending) : 0;
}

/**
 * cow_defer_set - PR_SET_COW_DEFER
 * @mode: PR_COW_DEFER_DEFAULT, _NEVER or _ALWAYS
 *
 * Return: 0; -EINVAL; -EPERM if vm.cow_defer forbids it.
 */
int cow_defer_set(unsigned long mode)
{
	if (mode > PR_COW_DEFER_ALWAYS)
		return -EINVAL;
	if (mode == PR_COW_DEFER_ALWAYS && READ_ONCE(sysctl_cow_defer) == COW_DEFER_OFF)
		return -EPERM;
	WRITE_ONCE(current->mm->cow_defer_mode, mode);
	return 0;
}

static int cow_defer_handler(const struct ctl_table *table, int write, void *buffer,
			     size_t *length, loff_t *pos)
{
	int policy, err;
	const struct ctl_table copy = {
		.data = &policy, .maxlen = sizeof(policy), .mode = table->mode,
		.extra1 = SYSCTL_ZERO, .extra2 = SYSCTL_TWO,
	};

	guard(mutex)(&cow_defer_switch);
	policy = sysctl_cow_defer;
	err = proc_dointvec_minmax(&copy, write, buffer, length, pos);
	if (err || !write)
		return err;
	if (policy)
		static_branch_enable(&cow_defer_on);
	WRITE_ONCE(sysctl_cow_defer, policy);
	if (policy)
		return 0;
	/* A fork is counted before it reads the policy: whichever saw the old one is waited for. */
	smp_mb();
	err = wait_event_killable(cow_defer_none_live, !atomic_read(&cow_defer_live));
	if (!err)
		static_branch_disable(&cow_defer_on);
	return err;
}

static struct ctl_table cow_defer_sysctls[] = {
	{
		.procname	= "cow_defer",
		.data		= &sysctl_cow_defer,
		.maxlen		= sizeof(sysctl_cow_defer),
		.mode		= 0644,
		.proc_handler	= cow_defer_handler,
	},
	{
		.procname	= "cow_defer_delay_ms",
		.data		= &sysctl_cow_defer_delay_ms,
		.maxlen		= sizeof(sysctl_cow_defer_delay_ms),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &cow_defer_delay_max_ms,
	},
	{
		.procname	= "cow_defer_min_kb",
		.data		= &sysctl_cow_defer_min_kb,
		.maxlen		= sizeof(sysctl_cow_defer_min_kb),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
};

static int __init cow_defer_init(void)
{
	register_sysctl_init("vm", cow_defer_sysctls);
	return 0;
}
fs_initcall(cow_defer_init);
