/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copy-on-write by regions of the address space: what fork, munmap, mremap,
 * procfs and prctl call. See mm/cow_regions.c.
 */
#ifndef _LINUX_COW_REGIONS_H
#define _LINUX_COW_REGIONS_H

#include <linux/jump_label.h>
#include <linux/rcupdate.h>
#include <linux/types.h>
#include <uapi/linux/prctl.h>

struct cow_regions;
struct mm_struct;
struct vm_area_struct;

#ifdef CONFIG_COW_COVERAGE

/* Of cow_mm_regions.control. */
#define COW_CONTROL_MODE	0xffU
#define COW_CONTROL_INHERIT	(PR_COW_PRECOPY_INHERIT << 8)

/**
 * struct cow_mm_regions - what an address space knows of its regions
 * @regions: counts of each region; NULL before vm.cow_gate_forks forks
 * @forks: forks since fork or exec
 * @control: what PR_SET_COW_PRECOPY asked for, and whether it is inherited
 */
struct cow_mm_regions {
	struct cow_regions __rcu *regions;
	unsigned int forks;
	unsigned int control;
};

/**
 * struct cow_region_info - one region, for /proc/PID/cow_regions
 * @start: first address
 * @end: address after it
 * @pages: pages that were mapped when the last epoch ended
 * @covered: of those, the pages that were written in the last epoch
 * @coverage_pct: the same as a share
 * @faults: copy-on-write faults of this epoch, copies and re-uses
 * @tried: whether pages of it were to be copied ahead in this epoch
 */
struct cow_region_info {
	unsigned long start;
	unsigned long end;
	unsigned int pages;
	unsigned int covered;
	unsigned int coverage_pct;
	unsigned int faults;
	bool tried;
};

DECLARE_STATIC_KEY_FALSE(cow_regions_on);

void cow_mm_regions_init(struct cow_mm_regions *own, const struct cow_mm_regions *from);
void __cow_regions_free(struct cow_mm_regions *own);
void __cow_regions_fork(struct mm_struct *mm);
void __cow_regions_unmap(struct mm_struct *mm, unsigned long start, unsigned long end);
void __cow_regions_move(struct mm_struct *mm, unsigned long from, unsigned long to,
			unsigned long length);
bool cow_region_next(struct mm_struct *mm, unsigned long *addr, struct cow_region_info *info);
int cow_precopy_set(unsigned long mode, unsigned long flags);
int cow_precopy_get(void);

/* @mm is about to be copied by fork: an epoch ends. Its lock is held for writing. */
static inline void cow_regions_fork(struct mm_struct *mm)
{
	if (static_branch_unlikely(&cow_regions_on))
		__cow_regions_fork(mm);
}

/* [@start, @end) was unmapped. */
static inline void cow_regions_unmap(struct mm_struct *mm, unsigned long start,
				     unsigned long end)
{
	if (static_branch_unlikely(&cow_regions_on))
		__cow_regions_unmap(mm, start, end);
}

/* Pages were moved by mremap. */
static inline void cow_regions_move(struct mm_struct *mm, unsigned long from,
				    unsigned long to, unsigned long length)
{
	if (static_branch_unlikely(&cow_regions_on))
		__cow_regions_move(mm, from, to, length);
}

static inline void cow_regions_free(struct cow_mm_regions *own)
{
	/* They outlive the policy. */
	if (unlikely(rcu_access_pointer(own->regions)))
		__cow_regions_free(own);
}
#else
static inline void cow_regions_fork(struct mm_struct *mm)
{
}

static inline void cow_regions_unmap(struct mm_struct *mm, unsigned long start,
				     unsigned long end)
{
}

static inline void cow_regions_move(struct mm_struct *mm, unsigned long from,
				    unsigned long to, unsigned long length)
{
}
#endif /* CONFIG_COW_COVERAGE */

#endif /* _LINUX_COW_REGIONS_H */
