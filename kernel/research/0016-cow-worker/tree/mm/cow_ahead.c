// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copying before the faults: a worker on another CPU copies the pages that were
 * written in the last epoch, once faults have copied some of them again.
 *
 * It takes nothing from the program but the time of the page table lock and of
 * one TLB flush for each batch, so that what follows a fork is no slower than
 * without it; faults that come before the worker copy their own page. Each batch
 * is a step of its own: the process may unmap, fork and end between two.
 *
 * An idle CPU is what makes it pay: on the program's own it would be a detour, and
 * on another's somebody would pay for it. So a CPU is chosen, and not left to the
 * scheduler, to which the program's seems as good as any.
 */
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/isolation.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "cow.h"
#include "cow_precopy.h"
#include "cow_regions.h"

/* It is one fault in so many that looks for an idle CPU. */
#define COW_AHEAD_FAULTS	16

/*
 * Nothing is copied ahead before so much of what was written in the last epoch has been written
 * again: the first writes after a fork are slow enough, and a child may be gone soon.
 */
#define COW_AHEAD_AFTER		8

/*
 * Copied under one hold of the lock and one flush: each interrupts the program, and faults of the
 * same page table wait for the lock.
 */
#define COW_AHEAD_BATCH		min(SZ_512K, PMD_SIZE)

/* Of how many pages it is asked whether anybody else still has them: a child may write a few. */
#define COW_AHEAD_PAGES		256

static struct workqueue_struct *cow_workqueue;
static unsigned int sysctl_cow_worker = 1;

/**
 * struct cow_ahead_work - one epoch's copies of an address space
 * @mm: the address space; referenced, but not kept from ending
 * @epoch: in which they are of use
 * @next: address from which on pages are still to be copied
 * @seen: lately
 */
struct cow_ahead_work {
	struct work_struct work;
	struct mm_struct *mm;
	unsigned int epoch;
	unsigned long next;
	struct cow_ahead_seen seen;
};

/*
 * Set @pages to those of the first page table from @*addr on of which something
 * is remembered, and @*addr to its first address if that is higher.
 */
static bool cow_ahead_table(struct cow_regions *regions, unsigned long *addr,
			    unsigned long *pages)
{
	unsigned long key = *addr >> PMD_SHIFT;
	bool found;

	rcu_read_lock();
	found = xa_find(&regions->tables, &key, ULONG_MAX >> PMD_SHIFT, XA_PRESENT);
	if (found) {
		*addr = max(*addr, key << PMD_SHIFT);
		found = cow_pages_written(regions, *addr, cow_history(regions), pages);
	}
	rcu_read_unlock();
	return found;
}

/* Whether the child has gone, or has copies of its own: there is nothing left to copy. */
static bool cow_ahead_alone(struct cow_ahead_work *ahead)
{
	struct cow_ahead_seen seen = ahead->seen;

	if (seen.pages < COW_AHEAD_PAGES)
		return false;
	ahead->seen = (struct cow_ahead_seen) {};
	return seen.exclusive > seen.pages / 2;
}

/*
 * Copy a batch: what one mapping has of an aligned piece of COW_AHEAD_BATCH bytes. False if
 * that was the last. The mappings are locked for reading.
 */
static bool cow_ahead_batch(struct cow_ahead_work *ahead)
{
	struct mm_struct *mm = ahead->mm;
	struct cow_regions *regions = rcu_dereference_protected(mm->cow_regions.regions,
								rwsem_is_locked(&mm->mmap_lock));
	DECLARE_BITMAP(pages, PTRS_PER_PTE);
	unsigned long start = ahead->next, end;
	struct vm_area_struct *vma;

	/* Another fork has a worker of its own. */
	if (!regions || regions->epoch != ahead->epoch || !cow_mm_by_regions(mm))
		return false;
	if (!cow_ahead_table(regions, &start, pages))
		return false;
	vma = find_vma(mm, start);
	if (!vma)
		return false;
	end = min(vma->vm_end, ALIGN_DOWN(start, COW_AHEAD_BATCH) + COW_AHEAD_BATCH);
	start = max(start, vma->vm_start);
	if (start < end && !cow_precopy_ahead(vma, start, end, pages, &ahead->seen))
		return false;
	if (cow_ahead_alone(ahead))
		return false;
	/* The next mapping begins in another piece, or the last ends with the address space. */
	ahead->next = end;
	return end;
}

/* An idle CPU, of this node if there is one; nr_cpu_ids if none is for us. */
static unsigned int cow_idle_cpu(void)
{
	unsigned int cpu, far = nr_cpu_ids;

	for_each_cpu_wrap(cpu, cpu_online_mask, raw_smp_processor_id() + 1) {
		if (!idle_cpu(cpu) || cpu_is_isolated(cpu))
			continue;
		if (cpu_to_node(cpu) == numa_node_id())
			return cpu;
		if (far == nr_cpu_ids)
			far = cpu;
	}
	return far;
}

static void cow_ahead_work(struct work_struct *work);

/* Go on on @cpu: as other work, since what is queued by itself stays where it is. */
static bool cow_ahead_move(struct cow_ahead_work *ahead, unsigned int cpu)
{
	struct cow_ahead_work *moved = kmemdup(ahead, sizeof(*ahead), GFP_KERNEL);

	if (!moved)
		return false;
	INIT_WORK(&moved->work, cow_ahead_work);
	queue_work_on(cpu, cow_workqueue, &moved->work);
	kfree(ahead);
	return true;
}

static void cow_ahead_work(struct work_struct *work)
{
	struct cow_ahead_work *ahead = container_of(work, struct cow_ahead_work, work);
	struct mm_struct *mm = ahead->mm;
	bool more = true;

	while (more && mmget_not_zero(mm)) {
		unsigned int cpu;

		mmap_read_lock(mm);
		more = cow_ahead_batch(ahead);
		mmap_read_unlock(mm);
		/* If that was the last user, it is not for us to unmap all. */
		mmput_async(mm);
		/* Somebody else wants this CPU. */
		cpu = more && need_resched() ? cow_idle_cpu() : nr_cpu_ids;
		if (cpu < nr_cpu_ids && cow_ahead_move(ahead, cpu))
			return;
		cond_resched();
	}
	mmdrop(mm);
	kfree(ahead);
}

/* Pages of @mm that were copied since it last forked; below 0 for a moment when it does. */
static long cow_ahead_changed(const struct mm_struct *mm)
{
	return cow_mm_copied(&mm->cow_stats) - atomic_long_read(&mm->cow_stats.at_fork);
}

/* A fork ends an epoch, and another will begin. The mappings are locked for writing. */
void cow_ahead_epoch(struct mm_struct *mm, struct cow_regions *regions)
{
	long changed = max(cow_ahead_changed(mm), 0L);

	/* What is remembered of the epoch before a short one is not forgotten at once either. */
	if (regions->short_epoch)
		changed = max(changed, regions->changed / 2);
	WRITE_ONCE(regions->changed, changed);
	cow_mm_stats_fork(&mm->cow_stats);
}

/**
 * cow_ahead - have a worker copy what was written before
 * @mm: an address space with a copy-on-write fault
 * @regions: its regions; in an RCU section
 * @history: in how many epochs pages must have been written
 *
 * Return: whether the fault need not copy more than its page: a worker does, or it is
 * too early. Most of the first writes after a fork are faults, and if each copied some
 * pages more the program would stand still for as long as that takes. Later ones copy
 * a piece each while no CPU is idle.
 */
bool cow_ahead(struct mm_struct *mm, struct cow_regions *regions, unsigned int history)
{
	unsigned int epoch = READ_ONCE(regions->epoch), before = READ_ONCE(regions->ahead);
	long begin = READ_ONCE(regions->changed) / COW_AHEAD_AFTER;
	long changed = cow_ahead_changed(mm);
	struct cow_ahead_work *ahead;
	unsigned int cpu;

	if (!READ_ONCE(sysctl_cow_worker) || history > COW_HISTORY_MAX)
		return false;
	if (before == epoch || changed < begin)
		return true;
	/* All CPUs are seldom busy for long: some later fault may find one idle. */
	if (atomic_long_read(&mm->cow_stats.faults) % COW_AHEAD_FAULTS)
		return changed < begin + COW_AHEAD_FAULTS;
	cpu = cow_idle_cpu();
	if (cpu >= nr_cpu_ids)
		return false;
	if (cmpxchg(&regions->ahead, before, epoch) != before)
		return true;
	ahead = kzalloc(sizeof(*ahead), __GFP_NOWARN);
	if (!ahead) {
		WRITE_ONCE(regions->ahead, before);
		return false;
	}
	INIT_WORK(&ahead->work, cow_ahead_work);
	ahead->mm = mm;
	ahead->epoch = epoch;
	mmgrab(mm);
	queue_work_on(cpu, cow_workqueue, &ahead->work);
	return true;
}

static struct ctl_table cow_ahead_sysctls[] = {
	{
		.procname	= "cow_worker",
		.data		= &sysctl_cow_worker,
		.maxlen		= sizeof(sysctl_cow_worker),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

static int __init cow_ahead_init(void)
{
	cow_workqueue = alloc_workqueue("cow_ahead", WQ_CPU_INTENSIVE | WQ_FREEZABLE, 0);
	if (!cow_workqueue)
		return -ENOMEM;
	register_sysctl_init("vm", cow_ahead_sysctls);
	return 0;
}
fs_initcall(cow_ahead_init);
