// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks at what cowlab itself does for a moment: it starts a thread, whose pid and tgid it knows,
 * and forks once. From a copy of the thread's task_struct it learns where the tgid is, and from the
 * fork which caller allocates per-CPU memory before the page tables are copied, or that it locks
 * its own memory and the child's last. So neither BTF nor a kernel's version is needed.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "record.h"

#define CLONE_VM 0x00000100
#define CLONE_THREAD 0x00010000

/* Who learns: the tgid of cowlab. */
const volatile __u32 own_tgid;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cowlab_learned);
} learned SEC(".maps");

static __always_inline struct cowlab_learned *mine(void)
{
	__u32 zero = 0;

	if (bpf_get_current_pid_tgid() >> 32 != own_tgid)
		return 0;
	return bpf_map_lookup_elem(&learned, &zero);
}

SEC("raw_tp/percpu_alloc_percpu")
int learn_site(struct bpf_raw_tracepoint_args *ctx)
{
	struct cowlab_learned *what = mine();
	__u32 index;

	if (!what || what->forks)
		return 0;
	index = what->sites;
	if (index < COWLAB_SITES) {
		what->site[index] = ctx->args[0];
		what->sites = index + 1;
	}
	return 0;
}

/* mmap_lock_start_locking(mm, …) */
SEC("raw_tp/mmap_lock_start_locking")
int learn_locks(struct bpf_raw_tracepoint_args *ctx)
{
	struct cowlab_learned *what = mine();

	if (!what || what->forks)
		return 0;
	what->locked[0] = what->locked[1];
	what->locked[1] = ctx->args[0];
	return 0;
}

SEC("raw_tp/task_newtask")
int learn_task(struct bpf_raw_tracepoint_args *ctx)
{
	struct cowlab_learned *what = mine();

	if (!what)
		return 0;
	if (ctx->args[1] & CLONE_THREAD) {
		what->task_failed = bpf_probe_read_kernel(what->task, sizeof(what->task),
							  (void *)ctx->args[0]) != 0;
		what->threads += 1;
	} else if (!(ctx->args[1] & CLONE_VM)) {
		what->forks += 1;
	}
	return 0;
}

char _license[] SEC("license") = "GPL";
