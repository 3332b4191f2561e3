// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fork without copying page tables: which page tables a fork leaves for later, and the
 * sysctls and prctl that ask for it. Copying them is in mm/cow_defer.c.
 */
#include <linux/atomic.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <linux/workqueue.h>
#include <uapi/linux/prctl.h>

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

static int sysctl_cow_defer;
static unsigned int sysctl_cow_defer_delay_ms = 5;
static unsigned int cow_defer_delay_max_ms = 10000;
static unsigned int sysctl_cow_defer_min_kb;

/* Guards the switching. */
static DEFINE_MUTEX(cow_defer_switch);
/* Forks of which something may be left. */
static atomic_t cow_defer_live = ATOMIC_INIT(0);

/* Switched off, and nothing is left of the forks before that. */
static void cow_defer_none_live(struct work_struct *work)
{
	guard(mutex)(&cow_defer_switch);
	if (!sysctl_cow_defer && !atomic_read(&cow_defer_live))
		static_branch_disable(&cow_defer_on);
}
static DECLARE_WORK(cow_defer_none_live_work, cow_defer_none_live);

void cow_defer_dead(void)
{
	if (atomic_dec_and_test(&cow_defer_live) && !READ_ONCE(sysctl_cow_defer))
		schedule_work(&cow_defer_none_live_work);
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
		err = cow_defer_copy_all(defer, parent);
		if (err)
			return -ENOMEM;
	}
	atomic_inc(&cow_defer_live);
	/* Before the policy is read: see cow_defer_handler(). */
	smp_mb__after_atomic();
	if (!cow_defer_wanted(parent))
		goto not;
	defer = cow_defer_new(child, parent);
	if (!defer)
		goto not;
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
		queue_delayed_work(system_wq, &defer->ask,
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

/* The block of the page table at @addr, made if need be; NULL if there is no memory. */
struct cow_defer_block *cow_defer_block(struct cow_defer *defer, unsigned long addr,
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
static bool cow_defer_alone(struct cow_defer *defer, struct mm_struct *mm, unsigned long addr,
			    unsigned long end)
{
	unsigned long table = addr & PMD_MASK;

	if (end - addr < COW_DEFER_CUT_MIN)
		return false;
	if (addr > table && find_vma_intersection(mm, table, addr))
		return false;
	if (end < table + PMD_SIZE && find_vma_intersection(mm, end, table + PMD_SIZE))
		return false;
	return !xa_is_err(xa_store(&defer->cuts, addr >> PMD_SHIFT, cow_defer_cut(addr, end),
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
	if (end - addr != PMD_SIZE && !cow_defer_alone(defer, src_vma->vm_mm, addr, end))
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

	policy = READ_ONCE(sysctl_cow_defer);
	err = proc_dointvec_minmax(&copy, write, buffer, length, pos);
	if (err || !write)
		return err;
	guard(mutex)(&cow_defer_switch);
	if (policy)
		static_branch_enable(&cow_defer_on);
	WRITE_ONCE(sysctl_cow_defer, policy);
	/* A fork is counted before it reads the policy: whichever saw the old one is counted. */
	smp_mb();
	if (!policy && !atomic_read(&cow_defer_live))
		schedule_work(&cow_defer_none_live_work);
	return 0;
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
