/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Measurement of copy-on-write faults: what mm/memory.c calls.
 *
 * Counting and reading clocks stand behind static branches (vm.cow_stats).
 */
#ifndef _MM_COW_H
#define _MM_COW_H

#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/sched/clock.h>
#include <linux/tracepoint-defs.h>

#ifdef CONFIG_COW_STATS

/* What is counted. */
enum cow_count {
	COW_FAULTS,		/* write faults that copied a page */
	COW_UNSHARES,		/* pages copied for a pin that will only read */
	COW_TIMED_FAULTS,	/* of COW_FAULTS, those that were timed */
	COW_COPY_NS,		/* time in the copy of the faulting page */
	COW_FAULT_NS,		/* handler's entry to the new entry being set */
	NR_COW_COUNTS,
};

DECLARE_STATIC_KEY_FALSE(cow_counting);
DECLARE_STATIC_KEY_FALSE(cow_timing);
DECLARE_PER_CPU(u64 [NR_COW_COUNTS], cow_counts);

static inline void cow_count(enum cow_count which, u64 value)
{
	this_cpu_add(cow_counts[which], value);
}

/* The time in ns, or 0 while nothing is timed. */
static inline u64 cow_clock(void)
{
	return static_branch_unlikely(&cow_timing) ? local_clock() : 0;
}

/* Time since cow_clock() returned @start; 0 if either reading is missing. */
static inline u64 cow_since(u64 start)
{
	u64 now;

	if (!static_branch_unlikely(&cow_timing) || !start)
		return 0;
	now = local_clock();
	/* The clock of another CPU may be behind: at least a nanosecond. */
	return now > start ? now - start : 1;
}

DECLARE_TRACEPOINT(cow_fault);

void cow_report_fault(struct vm_fault *vmf, u64 copy_ns);

/**
 * cow_account_fault - count a fault that copied the page it was for
 * @vmf: the fault; the new page table entry has just been set
 * @copy_ns: the time of the copy, 0 if it was not timed
 *
 * Called with the page table lock held, so that preemption is off.
 */
static inline void cow_account_fault(struct vm_fault *vmf, u64 copy_ns)
{
	if (!static_branch_unlikely(&cow_counting))
		return;
	if (unlikely(vmf->flags & FAULT_FLAG_UNSHARE)) {
		cow_count(COW_UNSHARES, 1);
		return;
	}
	cow_count(COW_FAULTS, 1);
	atomic_long_inc(&vmf->vma->vm_mm->cow_stats.faults);
	if (static_branch_unlikely(&cow_timing) || tracepoint_enabled(cow_fault))
		cow_report_fault(vmf, copy_ns);
}
#else
static inline u64 cow_clock(void)
{
	return 0;
}

static inline u64 cow_since(u64 start)
{
	return 0;
}

static inline void cow_account_fault(struct vm_fault *vmf, u64 copy_ns)
{
}
#endif /* CONFIG_COW_STATS */

#endif /* _MM_COW_H */
