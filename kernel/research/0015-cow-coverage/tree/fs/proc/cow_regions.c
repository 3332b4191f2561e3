// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/PID/cow_regions: the regions that copy-on-write is counted in, one a
 * line, with the permissions of /proc/PID/pagemap.
 */
#include <linux/cow_regions.h>
#include <linux/mm.h>
#include <linux/pagewalk.h>
#include <linux/proc_fs.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>

#include "internal.h"

/**
 * struct cow_regions_file - an open file
 * @mm: the address space, not pinned
 * @region: the region to be shown
 * @next: where the one after it may begin
 */
struct cow_regions_file {
	struct mm_struct *mm;
	struct cow_region_info region;
	unsigned long next;
};

struct cow_copies {
	unsigned long precopied;
	unsigned long dirty;
};

static int cow_copies_pmd(pmd_t *pmd, unsigned long addr, unsigned long end,
			  struct mm_walk *walk)
{
	struct cow_copies *copies = walk->private;
	pte_t *first, *pte;
	spinlock_t *ptl;

	first = pte_offset_map_lock(walk->mm, pmd, addr, &ptl);
	/* A huge page, which nobody copied ahead, or nothing. */
	if (!first)
		return 0;
	for (pte = first; addr < end; addr += PAGE_SIZE, pte++) {
		pte_t entry = ptep_get(pte);
		struct page *page;

		if (!pte_present(entry))
			continue;
		page = vm_normal_page(walk->vma, addr, entry);
		if (!page || !PagePrecopied(page))
			continue;
		copies->precopied++;
		copies->dirty += pte_dirty(entry);
	}
	pte_unmap_unlock(first, ptl);
	cond_resched();
	return 0;
}

static const struct mm_walk_ops cow_copies_ops = {
	.pmd_entry	= cow_copies_pmd,
	.walk_lock	= PGWALK_RDLOCK,
};

/* Positions are addresses, in pages. */
static void *cow_regions_find(struct cow_regions_file *file, loff_t *pos)
{
	file->next = (unsigned long)*pos << PAGE_SHIFT;
	if (!cow_region_next(file->mm, &file->next, &file->region))
		return NULL;
	*pos = file->region.start >> PAGE_SHIFT;
	return file;
}

static void *cow_regions_start(struct seq_file *m, loff_t *pos)
{
	struct cow_regions_file *file = m->private;

	if (!mmget_not_zero(file->mm))
		return NULL;
	if (mmap_read_lock_killable(file->mm)) {
		mmput(file->mm);
		return ERR_PTR(-EINTR);
	}
	if (cow_regions_find(file, pos))
		return file;
	mmap_read_unlock(file->mm);
	mmput(file->mm);
	return NULL;
}

static void cow_regions_stop(struct seq_file *m, void *v)
{
	struct cow_regions_file *file = m->private;

	if (IS_ERR_OR_NULL(v))
		return;
	mmap_read_unlock(file->mm);
	mmput(file->mm);
}

static void *cow_regions_next(struct seq_file *m, void *v, loff_t *pos)
{
	struct cow_regions_file *file = m->private;

	*pos = file->next >> PAGE_SHIFT;
	if (cow_regions_find(file, pos))
		return file;
	/* stop() gets NULL, and cannot tell this from a start that failed. */
	mmap_read_unlock(file->mm);
	mmput(file->mm);
	return NULL;
}

static int cow_regions_show(struct seq_file *m, void *v)
{
	struct cow_regions_file *file = v;
	const struct cow_region_info *region = &file->region;
	struct cow_copies copies = {};

	walk_page_range(file->mm, region->start, region->end, &cow_copies_ops, &copies);
	seq_printf(m, "%lx-%lx pages: %u covered: %u coverage_pct: %u faults: %u copied: %u precopied: %lu dirty: %lu\n",
		   region->start, region->end, region->pages, region->covered,
		   region->coverage_pct, region->faults, region->tried, copies.precopied,
		   copies.dirty);
	return 0;
}

static const struct seq_operations cow_regions_ops = {
	.start	= cow_regions_start,
	.next	= cow_regions_next,
	.stop	= cow_regions_stop,
	.show	= cow_regions_show,
};

static int cow_regions_open(struct inode *inode, struct file *file)
{
	struct mm_struct *mm = proc_mem_open(inode, PTRACE_MODE_READ);
	struct cow_regions_file *own;

	if (IS_ERR_OR_NULL(mm))
		return mm ? PTR_ERR(mm) : -ESRCH;
	own = __seq_open_private(file, &cow_regions_ops, sizeof(*own));
	if (!own) {
		mmdrop(mm);
		return -ENOMEM;
	}
	own->mm = mm;
	return 0;
}

static int cow_regions_release(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;
	struct cow_regions_file *own = m->private;

	mmdrop(own->mm);
	return seq_release_private(inode, file);
}

const struct file_operations proc_cow_regions_operations = {
	.open		= cow_regions_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= cow_regions_release,
};
