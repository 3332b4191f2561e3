/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_COW_STATS_H
#define _LINUX_COW_STATS_H

#include <linux/atomic.h>

struct mm_struct;
struct pid;
struct pid_namespace;
struct seq_file;
struct task_struct;

#ifdef CONFIG_COW_STATS

/**
 * struct cow_mm_stats - copy-on-write of one address space since fork or exec
 * @faults: write faults that copied a page
 */
struct cow_mm_stats {
	atomic_long_t faults;
};

static inline void cow_mm_stats_init(struct cow_mm_stats *stats)
{
	atomic_long_set(&stats->faults, 0);
}

int proc_pid_cow_stats(struct seq_file *m, struct pid_namespace *ns,
		       struct pid *pid, struct task_struct *task);

#endif /* CONFIG_COW_STATS */
#endif /* _LINUX_COW_STATS_H */
