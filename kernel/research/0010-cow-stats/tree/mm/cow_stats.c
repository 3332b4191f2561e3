// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/cow_stats, /proc/PID/cow_stats, vm.cow_stats: what copy-on-write costs.
 *
 * Writers only add to words of their own CPU. A reader sums the CPUs. A reset
 * does not touch what the CPUs write: it remembers the sums, and later reads
 * subtract them. Only the two maxima are stored into from outside.
 */
#include <linux/capability.h>
#include <linux/cow_stats.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/sched/mm.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysctl.h>

#include "cow.h"
#include "cow_histogram.h"

#define CREATE_TRACE_POINTS
#include <trace/events/cow.h>

/* What is timed of a fault. */
enum cow_time {
	COW_TIME_COPY,
	COW_TIME_FAULT,
	NR_COW_TIMES,
};

struct cow_times {
	u64 max_ns[NR_COW_TIMES];
	u64 buckets[NR_COW_TIMES][COW_HIST_BUCKETS];
};

struct cow_sums {
	u64 counts[NR_COW_COUNTS];
	struct cow_times times;
};

/* One holder is vm.cow_stats. */
DEFINE_STATIC_KEY_FALSE(cow_counting);
DEFINE_STATIC_KEY_FALSE(cow_timing);
DEFINE_PER_CPU(u64 [NR_COW_COUNTS], cow_counts);

/* Allocated when timing is first switched on, and kept. */
static struct cow_times __percpu *cow_times;
static DEFINE_PER_CPU(unsigned int, cow_until_sample);
static unsigned int sysctl_cow_sample_interval = 100;

/* What vm.cow_stats can be. */
enum {
	COW_STATS_OFF,
	COW_STATS_COUNTS,
	COW_STATS_TIMES,
};

static int sysctl_cow_stats;

/* Guards cow_baseline and switching. */
static DEFINE_MUTEX(cow_lock);
/* The sums at the last reset. */
static struct cow_sums *cow_baseline;

/* The page table lock is held, which need not keep others from this CPU (PREEMPT_RT). */
static void cow_account_time(enum cow_time which, u64 ns)
{
	this_cpu_inc(cow_times->buckets[which][cow_hist_bucket(ns)]);
	if (ns > this_cpu_read(cow_times->max_ns[which]))
		this_cpu_write(cow_times->max_ns[which], ns);
}

static bool cow_sampled(void)
{
	unsigned int interval = READ_ONCE(sysctl_cow_sample_interval);

	if (!trace_cow_fault_enabled() || !interval)
		return false;
	if (this_cpu_inc_return(cow_until_sample) < interval)
		return false;
	this_cpu_write(cow_until_sample, 0);
	return true;
}

/**
 * cow_report_fault - time a counted fault, and trace it if it is a sample
 * @vmf: the fault
 * @copy_ns: the time of the copy, 0 if it was not timed
 */
void cow_report_fault(struct vm_fault *vmf, u64 copy_ns)
{
	u64 fault_ns = cow_since(vmf->cow_start_ns);

	/* Timing may have been switched on in the middle of this fault. */
	if (fault_ns && copy_ns) {
		cow_count(COW_TIMED_FAULTS, 1);
		cow_count(COW_COPY_NS, copy_ns);
		cow_count(COW_FAULT_NS, fault_ns);
		cow_account_time(COW_TIME_COPY, copy_ns);
		cow_account_time(COW_TIME_FAULT, fault_ns);
	}
	if (cow_sampled())
		trace_cow_fault(vmf->address, copy_ns, fault_ns);
}

static void cow_sum(struct cow_sums *sums)
{
	int cpu, which, i;

	memset(sums, 0, sizeof(*sums));
	for_each_possible_cpu(cpu) {
		for (which = 0; which < NR_COW_COUNTS; which++)
			sums->counts[which] += per_cpu(cow_counts[which], cpu);
		if (!cow_times)
			continue;
		for (which = 0; which < NR_COW_TIMES; which++) {
			struct cow_times *times = per_cpu_ptr(cow_times, cpu);

			sums->times.max_ns[which] = max(sums->times.max_ns[which],
							times->max_ns[which]);
			for (i = 0; i < COW_HIST_BUCKETS; i++)
				sums->times.buckets[which][i] += times->buckets[which][i];
		}
	}
}

/* What was counted since the last reset. */
static void cow_sum_since_reset(struct cow_sums *sums)
{
	int which, i;

	lockdep_assert_held(&cow_lock);
	cow_sum(sums);
	for (which = 0; which < NR_COW_COUNTS; which++)
		sums->counts[which] -= cow_baseline->counts[which];
	for (which = 0; which < NR_COW_TIMES; which++)
		for (i = 0; i < COW_HIST_BUCKETS; i++)
			sums->times.buckets[which][i] -=
				cow_baseline->times.buckets[which][i];
}

static void cow_reset(void)
{
	int cpu;

	guard(mutex)(&cow_lock);
	if (cow_times)
		for_each_possible_cpu(cpu)
			memset(per_cpu_ptr(cow_times, cpu)->max_ns, 0,
			       sizeof(per_cpu_ptr(cow_times, cpu)->max_ns));
	cow_sum(cow_baseline);
}

static int cow_stats_switch(int to)
{
	guard(mutex)(&cow_lock);
	if (to == COW_STATS_TIMES && !cow_times) {
		cow_times = alloc_percpu(struct cow_times);
		if (!cow_times)
			return -ENOMEM;
	}
	if (to && !sysctl_cow_stats)
		static_branch_inc(&cow_counting);
	if (to == COW_STATS_TIMES)
		static_branch_enable(&cow_timing);
	else
		static_branch_disable(&cow_timing);
	if (!to && sysctl_cow_stats)
		static_branch_dec(&cow_counting);
	sysctl_cow_stats = to;
	return 0;
}

static void cow_show_times(struct seq_file *m, const char *name, u64 total_ns,
			   u64 max_ns, const u64 *buckets)
{
	static const unsigned int percentiles[] = { 50, 90, 95, 99 };
	u64 values = 0;
	int i;

	for (i = 0; i < COW_HIST_BUCKETS; i++)
		values += buckets[i];
	if (!values)
		return;
	seq_printf(m, "%s_total_ns: %llu\n", name, total_ns);
	seq_printf(m, "%s_max_ns: %llu\n", name, max_ns);
	seq_printf(m, "%s_avg_ns: %llu\n", name, div64_u64(total_ns, values));
	for (i = 0; i < ARRAY_SIZE(percentiles); i++)
		seq_printf(m, "%s_p%u_ns: %llu\n", name, percentiles[i],
			   min(max_ns, cow_hist_permille(buckets, values,
							 percentiles[i] * 10)));
}

static int cow_stats_show(struct seq_file *m, void *v)
{
	struct cow_sums *sums __free(kfree) = kmalloc(sizeof(*sums), GFP_KERNEL);
	const u64 *counts;
	u64 copies;

	if (!sums)
		return -ENOMEM;
	counts = sums->counts;
	guard(mutex)(&cow_lock);
	cow_sum_since_reset(sums);
	copies = counts[COW_FAULTS] + counts[COW_UNSHARES];
	seq_printf(m, "faults: %llu total_ns: %llu max_ns: %llu\n", counts[COW_FAULTS],
		   counts[COW_COPY_NS], sums->times.max_ns[COW_TIME_COPY]);
	seq_printf(m, "unshares: %llu\n", counts[COW_UNSHARES]);
	/*
	 * Each takes the page table lock to look at the entry, allocates a
	 * page, and replaces the entry under the lock with one flush.
	 */
	seq_printf(m, "flushes: %llu\n", copies);
	seq_printf(m, "ptl_holds: %llu\n", 2 * copies);
	seq_printf(m, "allocations: %llu\n", copies);
	seq_printf(m, "timed_faults: %llu\n", counts[COW_TIMED_FAULTS]);
	cow_show_times(m, "copy", counts[COW_COPY_NS], sums->times.max_ns[COW_TIME_COPY],
		       sums->times.buckets[COW_TIME_COPY]);
	cow_show_times(m, "fault", counts[COW_FAULT_NS], sums->times.max_ns[COW_TIME_FAULT],
		       sums->times.buckets[COW_TIME_FAULT]);
	return 0;
}

static int cow_stats_open(struct inode *inode, struct file *file)
{
	return single_open(file, cow_stats_show, NULL);
}

/* Whatever is written: everything is zero again, and faults are timed. It is everybody's. */
static ssize_t cow_stats_write(struct file *file, const char __user *buffer,
			       size_t count, loff_t *pos)
{
	int err;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	err = cow_stats_switch(COW_STATS_TIMES);
	if (err)
		return err;
	cow_reset();
	return count;
}

static const struct proc_ops cow_stats_proc_ops = {
	.proc_open	= cow_stats_open,
	.proc_read	= seq_read,
	.proc_lseek	= seq_lseek,
	.proc_release	= single_release,
	.proc_write	= cow_stats_write,
};

int proc_pid_cow_stats(struct seq_file *m, struct pid_namespace *ns,
		       struct pid *pid, struct task_struct *task)
{
	struct mm_struct *mm = mm_access(task, PTRACE_MODE_READ_FSCREDS);

	/* Kernel threads have no address space. */
	if (IS_ERR_OR_NULL(mm))
		return PTR_ERR(mm);
	seq_printf(m, "faults: %ld\n", atomic_long_read(&mm->cow_stats.faults));
	mmput(mm);
	return 0;
}

static int cow_stats_handler(const struct ctl_table *table, int write,
			     void *buffer, size_t *length, loff_t *pos)
{
	int to = sysctl_cow_stats;
	struct ctl_table copy = *table;
	int err;

	copy.data = &to;
	err = proc_dointvec_minmax(&copy, write, buffer, length, pos);
	if (err || !write)
		return err;
	return cow_stats_switch(to);
}

static struct ctl_table cow_stats_sysctls[] = {
	{
		.procname	= "cow_stats",
		.data		= &sysctl_cow_stats,
		.maxlen		= sizeof(sysctl_cow_stats),
		.mode		= 0644,
		.proc_handler	= cow_stats_handler,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_TWO,
	},
	{
		.procname	= "cow_sample_interval",
		.data		= &sysctl_cow_sample_interval,
		.maxlen		= sizeof(sysctl_cow_sample_interval),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_INT_MAX,
	},
};

static int __init cow_stats_init(void)
{
	cow_baseline = kzalloc(sizeof(*cow_baseline), GFP_KERNEL);
	if (!cow_baseline)
		return -ENOMEM;
	register_sysctl_init("vm", cow_stats_sysctls);
	if (!proc_create("cow_stats", 0644, NULL, &cow_stats_proc_ops))
		return -ENOMEM;
	return 0;
}
fs_initcall(cow_stats_init);
