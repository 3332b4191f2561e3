// SPDX-License-Identifier: GPL-2.0-only
/*
 * Coverage-based copy-on-write (vm.cow_precopy=2): what was written between the
 * last two forks is copied in pieces by the faults after the next one or, without
 * a history, each region of which most was written, whole. After Ha and Kim, "CCoW: Optimizing Copy-on-Write Considering
 * the Spatial Locality in Workloads", Electronics 11(3), 2022.
 *
 * Here is the choice: what the settings, the process itself, its own record of
 * wasted copies and the free memory say. mm/cow_regions.c counts, and
 * mm/cow_precopy.c copies.
 */
#include <linux/init.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/sysctl.h>

#include <trace/events/cow.h>

#include "cow.h"
#include "cow_precopy.h"
#include "cow_regions.h"

#define COW_BATCH_KB_MIN	16U
#define COW_BATCH_KB_MAX	2048U

static unsigned int sysctl_cow_batch_kb = 128;
static unsigned int sysctl_cow_threshold_pct = 80;
static unsigned int sysctl_cow_waste_pct = 10;

/**
 * cow_mm_policy - what is copied at a copy-on-write fault
 * @mm: the address space
 *
 * Return: a value of vm.cow_precopy, but for COW_POLICY_OPTED_IN.
 */
int cow_mm_policy(const struct mm_struct *mm)
{
	unsigned int mode = READ_ONCE(mm->cow_regions.control) & COW_CONTROL_MODE;
	int policy = cow_precopy_sysctl();

	if (mode == PR_COW_PRECOPY_OFF)
		return COW_POLICY_OFF;
	if (policy != COW_POLICY_OPTED_IN)
		return policy;
	return mode == PR_COW_PRECOPY_ON ? COW_POLICY_COVERAGE : COW_POLICY_OFF;
}

/* Whether regions of @mm may be copied ahead: its faults need not look if not. */
bool cow_coverage_known(const struct mm_struct *mm)
{
	return cow_regions_counted(mm) || !READ_ONCE(sysctl_cow_threshold_pct);
}

/* Whether the policy of @mm copies by regions. */
bool cow_mm_by_regions(const struct mm_struct *mm)
{
	return cow_mm_policy(mm) == COW_POLICY_COVERAGE;
}

/**
 * cow_precopy_set - PR_SET_COW_PRECOPY
 * @mode: PR_COW_PRECOPY_DEFAULT, _OFF or _ON
 * @flags: PR_COW_PRECOPY_INHERIT or 0
 *
 * Return: 0; -EINVAL; -EPERM if vm.cow_precopy forbids it.
 */
int cow_precopy_set(unsigned long mode, unsigned long flags)
{
	if (mode > PR_COW_PRECOPY_ON || flags & ~PR_COW_PRECOPY_INHERIT)
		return -EINVAL;
	if (mode == PR_COW_PRECOPY_ON && cow_precopy_sysctl() == COW_POLICY_OFF)
		return -EPERM;
	WRITE_ONCE(current->mm->cow_regions.control,
		   mode | (flags ? COW_CONTROL_INHERIT : 0));
	return 0;
}

/* PR_GET_COW_PRECOPY: the mode, and PR_COW_PRECOPY_INHERIT shifted by 8. */
int cow_precopy_get(void)
{
	return READ_ONCE(current->mm->cow_regions.control);
}

/*
 * An epoch has ended: ask more of what a process copies ahead if it wastes copies,
 * or less again. Of the epoch before, that is: what became of the last one's
 * copies is about to be looked at. A short one had no time to write to them.
 */
void cow_regions_tune(struct mm_struct *mm, struct cow_regions *regions)
{
	unsigned long written = atomic_long_read(&mm->cow_stats.written);
	unsigned long wasted = atomic_long_read(&mm->cow_stats.wasted);
	unsigned int waste_pct = READ_ONCE(sysctl_cow_waste_pct), now;

	if (regions->short_epoch)
		goto out;
	now = cow_threshold_next(regions->threshold_pct, READ_ONCE(sysctl_cow_threshold_pct),
				 written - regions->written, wasted - regions->wasted,
				 waste_pct);
	WRITE_ONCE(regions->threshold_pct, now);
	now = cow_history_next(regions->history, READ_ONCE(sysctl_cow_history),
			       COW_HISTORY_MAX, written - regions->written,
			       wasted - regions->wasted, waste_pct);
	WRITE_ONCE(regions->history, now);
out:
	regions->written = written;
	regions->wasted = wasted;
}

/* From which coverage on regions of a process are copied ahead; @regions may be NULL. */
static unsigned int cow_threshold(const struct cow_regions *regions)
{
	unsigned int set = READ_ONCE(sysctl_cow_threshold_pct);

	/* 0 means all, whatever comes of it. */
	if (!set || !regions || READ_ONCE(sysctl_cow_waste_pct) >= 100)
		return set;
	return max(set, READ_ONCE(regions->threshold_pct));
}

/*
 * In how many epochs a page of the process must have been written to be copied
 * ahead; 0: that is not asked.
 */
static unsigned int cow_history(const struct cow_regions *regions)
{
	unsigned int set = READ_ONCE(sysctl_cow_history);

	if (!set || !regions || READ_ONCE(sysctl_cow_waste_pct) >= 100)
		return set;
	return max(set, READ_ONCE(regions->history));
}

/* The guess that one fault may make. */
struct cow_guess {
	struct cow_regions *regions;
	u64 *word;		/* of the region; NULL if nothing is known of it */
	union cow_region region;
	unsigned int shift;
	unsigned int table;	/* the bit of its page table in @tried */
	unsigned int pages;	/* that would be copied, at most */
	unsigned long start;
	unsigned long end;
};

/* Whether the region of @addr has the coverage; with @history it need not have. */
static bool cow_guess_covered(struct mm_struct *mm, unsigned long addr, struct cow_guess *guess,
			      unsigned int history)
{
	unsigned int threshold = cow_threshold(guess->regions);

	guess->word = guess->regions ? cow_region_find(guess->regions, addr) : NULL;
	if (!guess->word) {
		guess->region.word = 0;
		return !threshold &&
		       READ_ONCE(mm->cow_regions.forks) >= READ_ONCE(sysctl_cow_gate_forks);
	}
	guess->region.word = READ_ONCE(*guess->word);
	if (history || !threshold || cow_region_reaches(guess->region, threshold))
		return true;
	cow_count(COW_REGIONS_BELOW, 1);
	return false;
}

/* Set what of the region would be copied. False if all of it has been, in this epoch. */
static bool cow_guess_window(struct vm_fault *vmf, struct cow_guess *guess)
{
	unsigned long part, size;

	guess->shift = guess->regions ? guess->regions->shift :
					ilog2(READ_ONCE(sysctl_cow_region_kb)) + 10;
	guess->table = BIT(cow_region_table(vmf->address, guess->shift));
	part = cow_region_part(guess->shift);
	size = min(part, (unsigned long)READ_ONCE(sysctl_cow_batch_kb) << 10);
	if (size == part && guess->region.tried & guess->table)
		return false;
	cow_region_window(vmf->address, size, vmf->vma->vm_start, vmf->vma->vm_end,
			  &guess->start, &guess->end);
	guess->pages = (guess->end - guess->start) >> PAGE_SHIFT;
	return true;
}

/* How many pages, beside the faulting one, are likely to be written again: @only has them. */
static unsigned int cow_guess_again(struct vm_fault *vmf, const struct cow_guess *guess,
				    unsigned int history, unsigned long *only)
{
	DECLARE_BITMAP(window, PTRS_PER_PTE);

	if (!guess->regions || !cow_pages_written(guess->regions, vmf->address, history, only))
		return 0;
	__clear_bit(pte_index(vmf->address), only);
	bitmap_zero(window, PTRS_PER_PTE);
	bitmap_set(window, pte_index(guess->start), (guess->end - guess->start) >> PAGE_SHIFT);
	return bitmap_weight_and(only, window, PTRS_PER_PTE);
}

/* Whether there is memory for it. */
static bool cow_guess_affordable(struct vm_area_struct *vma, const struct cow_guess *guess)
{
	if (!cow_memory_ample(vma, guess->pages)) {
		cow_count(COW_REGIONS_SCARCE, 1);
		return false;
	}
	if (!cow_memcg_has_room(vma->vm_mm, guess->pages)) {
		cow_count(COW_REGIONS_MEMCG_FULL, 1);
		return false;
	}
	return true;
}

/* The guess is made: said once an epoch for each page table of the region. */
static void cow_guess_made(struct vm_fault *vmf, const struct cow_guess *guess)
{
	union cow_region old = guess->region, new;

	cow_count(COW_REGIONS_COPIED, 1);
	if (!guess->word || old.tried & guess->table)
		return;
	do {
		new = old;
		new.tried |= guess->table;
	} while (!try_cmpxchg(guess->word, &old.word, new.word));
	trace_cow_region_precopy(vmf->address, 1UL << guess->shift, new.covered, new.pages);
}

/* Copy the region of the faulting page, if it is worth it; see cow_precopy_pages(). */
bool cow_coverage_precopy(struct vm_fault *vmf)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	DECLARE_BITMAP(only, PTRS_PER_PTE);
	struct cow_guess guess;
	unsigned int history;
	bool chosen;

	rcu_read_lock();
	guess.regions = rcu_dereference(mm->cow_regions.regions);
	/* munmap and mremap did not follow what was known before the policy was off. */
	if (guess.regions && guess.regions->era != READ_ONCE(cow_regions_era))
		guess.regions = NULL;
	history = cow_history(guess.regions);
	chosen = cow_guess_covered(mm, vmf->address, &guess, history) &&
		 cow_guess_window(vmf, &guess);
	if (chosen && history) {
		guess.pages = cow_guess_again(vmf, &guess, history, only);
		chosen = guess.pages;
	}
	chosen = chosen && cow_guess_affordable(vmf->vma, &guess);
	if (chosen)
		cow_guess_made(vmf, &guess);
	rcu_read_unlock();
	return chosen && cow_precopy_pages(vmf, guess.start, guess.end, history ? only : NULL);
}

/* The threshold of @mm, for /proc/PID/cow_stats; 0 regions: that of the sysctl. */
unsigned int cow_mm_threshold_pct(struct mm_struct *mm)
{
	unsigned int threshold;

	rcu_read_lock();
	threshold = cow_threshold(rcu_dereference(mm->cow_regions.regions));
	rcu_read_unlock();
	return threshold;
}

/* In how many epochs its pages must have been written, for the same. */
unsigned int cow_mm_history(struct mm_struct *mm)
{
	unsigned int history;

	rcu_read_lock();
	history = cow_history(rcu_dereference(mm->cow_regions.regions));
	rcu_read_unlock();
	return history;
}

/* A power of two of KiB, from extra1 to extra2. */
static int cow_kb_handler(const struct ctl_table *table, int write, void *buffer,
			  size_t *length, loff_t *pos)
{
	unsigned int *value = table->data, kb = READ_ONCE(*value);
	struct ctl_table copy = *table;
	int err;

	copy.data = &kb;
	err = proc_douintvec_minmax(&copy, write, buffer, length, pos);
	if (err || !write)
		return err;
	if (!is_power_of_2(kb))
		return -EINVAL;
	WRITE_ONCE(*value, kb);
	return 0;
}

static unsigned int cow_region_kb_min = COW_REGION_KB_MIN;
static unsigned int cow_region_kb_max = COW_REGION_KB_MAX;
static unsigned int cow_history_max = COW_HISTORY_MAX;
static unsigned int cow_batch_kb_min = COW_BATCH_KB_MIN;
static unsigned int cow_batch_kb_max = COW_BATCH_KB_MAX;

static struct ctl_table cow_coverage_sysctls[] = {
	{
		.procname	= "cow_region_kb",
		.data		= &sysctl_cow_region_kb,
		.maxlen		= sizeof(sysctl_cow_region_kb),
		.mode		= 0644,
		.proc_handler	= cow_kb_handler,
		.extra1		= &cow_region_kb_min,
		.extra2		= &cow_region_kb_max,
	},
	{
		.procname	= "cow_batch_kb",
		.data		= &sysctl_cow_batch_kb,
		.maxlen		= sizeof(sysctl_cow_batch_kb),
		.mode		= 0644,
		.proc_handler	= cow_kb_handler,
		.extra1		= &cow_batch_kb_min,
		.extra2		= &cow_batch_kb_max,
	},
	{
		.procname	= "cow_threshold_pct",
		.data		= &sysctl_cow_threshold_pct,
		.maxlen		= sizeof(sysctl_cow_threshold_pct),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE_HUNDRED,
	},
	{
		.procname	= "cow_waste_pct",
		.data		= &sysctl_cow_waste_pct,
		.maxlen		= sizeof(sysctl_cow_waste_pct),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE_HUNDRED,
	},
	{
		.procname	= "cow_history",
		.data		= &sysctl_cow_history,
		.maxlen		= sizeof(sysctl_cow_history),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &cow_history_max,
	},
	{
		.procname	= "cow_gate_kb",
		.data		= &sysctl_cow_gate_kb,
		.maxlen		= sizeof(sysctl_cow_gate_kb),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
	{
		.procname	= "cow_gate_forks",
		.data		= &sysctl_cow_gate_forks,
		.maxlen		= sizeof(sysctl_cow_gate_forks),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_INT_MAX,
	},
};

static int __init cow_coverage_init(void)
{
	register_sysctl_init("vm", cow_coverage_sysctls);
	return 0;
}
fs_initcall(cow_coverage_init);
