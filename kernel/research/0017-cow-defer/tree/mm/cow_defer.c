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
 * - by the child, from some milliseconds after the fork on, whenever it returns to user mode.
 *
 * A child that executes or exits before copies nothing: the marks are removed, and
 * the parent's pages are writable as they were, without a fault.
 *
 * Nothing is ever shared: a page table belongs to one address space, and the counts
 * of pages, RSS and page tables are those of the page tables that are there. So
 * reclaim, migration and KSM's merging may change the parent's entries at any time: they
 * only change where a page is, and what is copied later is what is there then.
 *
 * An address space is one side of one fork at most: the next fork of either copies
 * first what the one before has left.
 *
 * What fork itself does is in mm/cow_defer_fork.c. Documentation/mm/cow_defer.rst has who
 * copies when, and the locks.
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pgalloc.h>
#include <linux/rmap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/task_work.h>

#include "cow.h"
#include "cow_defer.h"
#include "internal.h"

/* The child copies ahead for about this long, and not again before the next jiffy. */
#define COW_DEFER_BURST_US	500

/* Where there was no memory, it tries again after this. */
#define COW_DEFER_RETRY		HZ

struct cow_defer *cow_defer_get(struct mm_struct *mm)
{
	struct cow_defer *defer;

	guard(rcu)();
	defer = rcu_dereference(mm->cow_defer);
	return defer && refcount_inc_not_zero(&defer->users) ? defer : NULL;
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
	mem_cgroup_put(defer->memcg);
	kfree(defer);
	cow_defer_dead();
}

void cow_defer_put(struct cow_defer *defer)
{
	if (refcount_dec_and_test(&defer->users))
		queue_rcu_work(system_unbound_wq, &defer->free);
}

/* Nothing of it is pending, or to be had, for whose @side it is. */
static void cow_defer_leave(struct cow_defer *defer, struct mm_struct **side)
{
	lockdep_assert_held(&defer->lock);
	if (!*side)
		return;
	rcu_assign_pointer((*side)->cow_defer, NULL);
	WRITE_ONCE(*side, NULL);
	/* Somebody who came for a page table has one, too. */
	cow_defer_put(defer);
}

void cow_defer_end_if_done(struct cow_defer *defer)
{
	if (defer->pending)
		return;
	cow_defer_leave(defer, &defer->parent);
	cow_defer_leave(defer, &defer->child);
	/* Nothing is left to copy ahead. */
	if (cancel_delayed_work(&defer->ask))
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
	WRITE_ONCE(defer->pending, defer->pending - 1);
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

/* Memory for a copy of a page of @mm that is pinned. */
struct folio *cow_defer_folio_alloc(struct mm_struct *mm)
{
	struct folio *folio = folio_alloc(COW_DEFER_GFP, 0);

	if (folio && mem_cgroup_charge(folio, mm, COW_DEFER_GFP)) {
		folio_put(folio);
		return NULL;
	}
	return folio;
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

/*
 * A page table for the child. Not under the lock: for memory, one may wait for the end of whoever
 * waits for the lock.
 */
static pgtable_t cow_defer_alloc(struct cow_defer *defer, enum cow_count who)
{
	/* For nobody but the child is a process killed, or memory waited for. */
	gfp_t gfp = GFP_PGTABLE_USER |
		    (who == COW_DEFER_BY_CHILD ? 0 : __GFP_NORETRY | __GFP_NOWARN);
	struct mem_cgroup *before = set_active_memcg(defer->memcg);
	pgtable_t table;

	table = __pte_alloc_one(&init_mm, gfp);
	if (!table && who == COW_DEFER_BY_PARENT) {
		/* The parent is not to suffer from the limit, either. */
		set_active_memcg(root_mem_cgroup);
		table = __pte_alloc_one(&init_mm, GFP_PGTABLE_USER);
	}
	set_active_memcg(before);
	return table;
}

/*
 * Copy page table number @index of @block, which is at @addr, into @table, and take that. If it
 * @must be, failing to is final. The lock is held.
 */
static int cow_defer_copy_locked(struct cow_defer *defer, struct cow_defer_block *block,
				 unsigned int index, unsigned long addr, pgtable_t *table,
				 bool must)
{
	struct vm_area_struct src_vma, dst_vma;
	unsigned long start, end;
	int err = -ENOMEM;

	cow_defer_range(xa_load(&defer->cuts, addr >> PMD_SHIFT), addr, &start, &end);
	cow_defer_vma_init(&src_vma, defer->parent, start, end);
	cow_defer_vma_init(&dst_vma, defer->child, start, end);
	if (*table) {
		/* From here on a part of it may be there. */
		must = true;
		pmd_install(defer->child, block->child + index, table);
		err = copy_pte_range(&dst_vma, &src_vma, block->child + index,
				     block->parent + index, start, end);
	}
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
	pgtable_t table;
	int err = 0;

	if (!test_bit_acquire(index, block->pending))
		return 0;
	table = cow_defer_alloc(defer, who);
	mutex_lock(&defer->lock);
	if (test_bit(index, block->pending)) {
		err = defer->lost ? -EFAULT :
		      cow_defer_copy_locked(defer, block, index, addr, &table, must);
		if (!err)
			cow_count(who, 1);
	}
	mutex_unlock(&defer->lock);
	if (table)
		pte_free(&init_mm, table);
	return err;
}

static unsigned int cow_defer_next(const struct cow_defer_block *block, unsigned int index)
{
	/* If without the lock, what is found must be looked at again under it. */
	return data_race(find_next_bit(block->pending, PTRS_PER_PMD, index));
}

#define for_each_pending_from(index, block)						\
	for (; ((index) = cow_defer_next(block, index)) < PTRS_PER_PMD; (index)++)

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

		for_each_pending_from(index, block) {
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

/* All of @mm's, and wait for whoever copied the last. Gives the reference back. */
int cow_defer_copy_all(struct cow_defer *defer, struct mm_struct *mm)
{
	int err = cow_defer_copy_range(defer, mm, 0, ULONG_MAX);

	cow_defer_settled(defer);
	return err;
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

/* The child drops what it has of [@start, @end); of what remains in part, all is copied first. */
static void cow_defer_drop(struct cow_defer *defer, unsigned long start, unsigned long end)
{
	struct cow_defer_block *block;
	unsigned long key;

	xa_for_each_range(&defer->blocks, key, block, start >> PUD_SHIFT,
			  (end - 1) >> PUD_SHIFT) {
		unsigned int index = 0;

		mutex_lock(&defer->lock);
		for_each_pending_from(index, block) {
			unsigned long addr = cow_defer_addr(key, index), from, to;

			cow_defer_range(xa_load(&defer->cuts, addr >> PMD_SHIFT), addr, &from, &to);
			if (to <= start || from >= end)
				continue;
			if (start <= from && to <= end) {
				cow_defer_done(defer, block, index);
				cow_count(COW_DEFER_DROPPED, 1);
				continue;
			}
			mutex_unlock(&defer->lock);
			cow_defer_copy(defer, block, index, addr, true, COW_DEFER_BY_CHILD);
			mutex_lock(&defer->lock);
		}
		mutex_unlock(&defer->lock);
		cond_resched();
	}
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
	if (READ_ONCE(defer->child) != mm) {
		cow_defer_copy_all(defer, mm);
		return;
	}
	cow_defer_drop(defer, 0, ULONG_MAX);
	/* Fork may have failed early. */
	cow_defer_settled(defer);
}

/* Ask the child again in @delay jiffies, or give the reference back if nothing is left for it. */
static void cow_defer_ask_in(struct cow_defer *defer, unsigned long delay)
{
	bool left;

	mutex_lock(&defer->lock);
	left = defer->pending && defer->child && !defer->lost;
	/* Under the lock, nobody can cancel what is not queued yet. */
	if (left)
		queue_delayed_work(system_wq, &defer->ask, delay);
	mutex_unlock(&defer->lock);
	if (!left)
		cow_defer_put(defer);
}

/* The child copies ahead, in its own time: its cgroup, CPUs and memory policy hold. */
static void cow_defer_ahead(struct callback_head *ahead)
{
	struct cow_defer *defer = container_of(ahead, struct cow_defer, ahead);
	ktime_t end = ktime_add_us(ktime_get(), COW_DEFER_BURST_US);
	struct cow_defer_block *block;
	unsigned long key;
	unsigned int index;
	int err = 0;

	/* It may execute something else by now. */
	if (current->mm != READ_ONCE(defer->child))
		goto out;
	xa_for_each(&defer->blocks, key, block) {
		index = 0;
		for_each_pending_from(index, block) {
			err = cow_defer_copy(defer, block, index, cow_defer_addr(key, index),
					     false, COW_DEFER_AHEAD);
			if (err || ktime_after(ktime_get(), end))
				goto out;
		}
	}
out:
	cow_defer_ask_in(defer, err ? COW_DEFER_RETRY : 1);
}

/*
 * Ask the child to copy ahead when it next returns to user mode. One that sleeps is not woken:
 * system calls would fail with EINTR.
 */
static void cow_defer_ask(struct work_struct *work)
{
	struct cow_defer *defer = container_of(to_delayed_work(work), struct cow_defer, ask);
	struct task_struct *task;
	bool asked = false;

	mutex_lock(&defer->lock);
	rcu_read_lock();
	task = defer->child ? rcu_dereference(defer->child->owner) : NULL;
	/* Fork forgets the work of a task that it has not yet finished. */
	if (task && READ_ONCE(task->__state) != TASK_NEW)
		asked = !task_work_add(task, &defer->ahead, TWA_RESUME);
	rcu_read_unlock();
	mutex_unlock(&defer->lock);
	if (!asked)
		cow_defer_ask_in(defer, COW_DEFER_RETRY);
}

/* A record of the fork of @parent; NULL if there is no memory. */
struct cow_defer *cow_defer_new(struct mm_struct *child, struct mm_struct *parent)
{
	struct cow_defer *defer = kzalloc(sizeof(*defer), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);

	if (!defer)
		return NULL;
	mutex_init(&defer->lock);
	refcount_set(&defer->users, 2);
	defer->parent = parent;
	defer->child = child;
	defer->memcg = get_mem_cgroup_from_mm(parent);
	xa_init(&defer->blocks);
	xa_init(&defer->cuts);
	INIT_DELAYED_WORK(&defer->ask, cow_defer_ask);
	init_task_work(&defer->ahead, cow_defer_ahead);
	INIT_RCU_WORK(&defer->free, cow_defer_free);
	return defer;
}
