// SPDX-License-Identifier: GPL-2.0-only
/*
 * Forks, exits, execs and page faults, as seen at the kernel's own tracepoints.
 *
 * Raw tracepoints only: they need neither BTF nor tracefs, and cost least. Nothing here reads a
 * kernel structure by an offset that was compiled in; the one offset that is used (a new task's
 * pid) is learned by learn.bpf.c on the running kernel. Which programs are loaded is the mode: a
 * program that is not attached costs nothing.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "record.h"

#define CLONE_VM 0x00000100
#define CLONE_THREAD 0x00010000

/* Of `tgid` in task_struct; 0 where it was not learned. */
const volatile __u32 tgid_offset;
/* The caller that allocates per-CPU memory for a new mm, before its page tables are copied; where
 * that is the anchor. */
const volatile __u64 fork_site;
/* Every process, or only those in `watched`. */
const volatile __u32 every_process;
/* Records of one CPU's ring in `faults`: a power of two. */
const volatile __u32 ring_slots = 1;

/* The processes that are watched and their faults. Children join when they are made; user space
 * takes out those that ended, once it has read their counts. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u64[COWLAB_COUNTS]);
} watched SEC(".maps");

struct begun {
	__u64 fork_ns;
	__u64 lock_ns; /* when it last asked for a lock, where locks are the anchor */
};

/* When each thread that is in a fork began. Least recently used: a fork that failed, or an exec,
 * leaves an entry that nobody takes. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct begun);
} begun SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/*
 * Faults that are told one by one: a ring for each CPU, which only it writes and one reader reads,
 * so that telling one takes no lock and no call. Sizes are set before they are made: one record
 * where faults are not told.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cowlab_fault);
} faults SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cowlab_ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COWLAB_LOSSES);
	__type(key, __u32);
	__type(value, __u64);
} losses SEC(".maps");

/* System calls of all that is watched, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COWLAB_CALLS);
	__type(key, __u32);
	__type(value, __u64);
} calls SEC(".maps");

static const __u64 no_counts[COWLAB_COUNTS];

static __always_inline void lost(__u32 what)
{
	__u64 *count = bpf_map_lookup_elem(&losses, &what);

	if (count)
		*count += 1;
}

static __always_inline int is_watched(__u32 tgid)
{
	return every_process || bpf_map_lookup_elem(&watched, &tgid);
}

static __always_inline void add_process(__u32 tgid)
{
	/* Not over what is there: a pid's counts only grow. */
	if (bpf_map_update_elem(&watched, &tgid, no_counts, BPF_NOEXIST) == -7 /* E2BIG */)
		lost(COWLAB_LOST_PROCESSES);
}

static __always_inline struct cowlab_event *new_event(__u32 kind, __u64 id)
{
	struct cowlab_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		lost(COWLAB_LOST_EVENTS);
		return 0;
	}
	event->time_ns = bpf_ktime_get_ns();
	event->begin_ns = 0;
	event->clone_flags = 0;
	event->kind = kind;
	event->tgid = id >> 32;
	event->tid = (__u32)id;
	event->child_tgid = 0;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	return event;
}

/* One lookup for what is not watched; the counts of this CPU for what is. */
static __always_inline __u64 *counts_of(__u32 tgid)
{
	__u64 *counts = bpf_map_lookup_elem(&watched, &tgid);

	if (counts || !every_process)
		return counts;
	add_process(tgid);
	return bpf_map_lookup_elem(&watched, &tgid);
}

static __always_inline void count(__u64 *counts, __u64 error_code)
{
	counts[COWLAB_FAULTS] += 1;
	if (error_code == COWLAB_WRITE_PRESENT)
		counts[COWLAB_WRITES_PRESENT] += 1;
	else if (error_code == COWLAB_WRITE_ABSENT)
		counts[COWLAB_WRITES_ABSENT] += 1;
}

#include "copies.h"

/* percpu_alloc_percpu(call_site, …): the last thing before dup_mmap() that can be seen. */
SEC("raw_tp/percpu_alloc_percpu")
int fork_begins(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct begun now = {};
	__u32 tid = (__u32)id;

	if (ctx->args[0] != fork_site || !is_watched(id >> 32))
		return 0;
	now.fork_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&begun, &tid, &now, BPF_ANY);
	return 0;
}

/* mmap_lock_start_locking: dup_mmap() begins with asking for the parent's mmap_lock, and then for
 * the child's; nothing on the way to the fork's end asks for another. */
SEC("raw_tp/mmap_lock_start_locking")
int asks_for_lock(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct begun now = {}, *before;
	__u32 tid = (__u32)id;

	if (!is_watched(id >> 32))
		return 0;
	before = bpf_map_lookup_elem(&begun, &tid);
	if (before)
		now.fork_ns = before->lock_ns;
	now.lock_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&begun, &tid, &now, BPF_ANY);
	return 0;
}

/* task_newtask(task, clone_flags): the new task is whole, and not yet woken. */
SEC("raw_tp/task_newtask")
int fork_ends(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), flags = ctx->args[1];
	struct cowlab_event *event;
	__u32 tid = (__u32)id, child = 0;
	struct begun *begin;

	if (!is_watched(id >> 32))
		return 0;
	if (flags & CLONE_THREAD) {
		/* task_struct has the thread's number before its process's. */
		if (tgid_offset &&
		    !bpf_probe_read_kernel(&child, sizeof(child),
					   (void *)(ctx->args[0] + tgid_offset - sizeof(child))))
			new_stack(tid, child);
		return 0;
	}
	if (tgid_offset)
		bpf_probe_read_kernel(&child, sizeof(child), (void *)(ctx->args[0] + tgid_offset));
	if (child && !every_process)
		add_process(child);
	if (child)
		inherit_stack(tid, child);
	event = new_event(COWLAB_FORK, id);
	if (!event)
		return 0;
	event->child_tgid = child;
	event->clone_flags = flags;
	/* Memory that is shared is not copied. */
	if (!(flags & CLONE_VM)) {
		begin = bpf_map_lookup_elem(&begun, &tid);
		if (begin)
			event->begin_ns = begin->fork_ns;
		bpf_map_delete_elem(&begun, &tid);
	}
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* The first thread's end, once a process: others may go on, or take its place by an exec. Whoever
 * reads this looks. */
SEC("raw_tp/sched_process_exit")
int exits(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct cowlab_event *event;

	forget_thread((__u32)id);
	if ((__u32)id != id >> 32 || !is_watched(id >> 32))
		return 0;
	event = new_event(COWLAB_EXIT, id);
	if (event)
		bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int execs(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct cowlab_event *event;

	if (!is_watched(id >> 32))
		return 0;
	event = new_event(COWLAB_EXEC, id);
	if (event)
		bpf_ringbuf_submit(event, 0);
	return 0;
}

/* signal_deliver(signal, siginfo, action): an action begins with its handler, and a siginfo has the
 * address of a bad access where user space finds it. */
SEC("raw_tp/signal_deliver")
int is_killed(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), handler = 1;
	struct cowlab_event *event;

	if (!is_watched(id >> 32))
		return 0;
	bpf_probe_read_kernel(&handler, sizeof(handler), (void *)ctx->args[2]);
	if (handler)
		return 0;
	event = new_event(COWLAB_KILLED, id);
	if (!event)
		return 0;
	event->clone_flags = ctx->args[0];
	if (ctx->args[0] == COWLAB_SIGSEGV || ctx->args[0] == COWLAB_SIGBUS)
		bpf_probe_read_kernel(&event->begin_ns, sizeof(event->begin_ns),
				      (void *)(ctx->args[1] + 16));
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* sys_enter(regs, number): every call of the machine passes here, so it is attached for moments. */
SEC("raw_tp/sys_enter")
int count_calls(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 number = ctx->args[1];
	__u64 *count;

	if (!is_watched(bpf_get_current_pid_tgid() >> 32))
		return 0;
	count = bpf_map_lookup_elem(&calls, &number);
	if (count)
		*count += 1;
	return 0;
}

/* page_fault_user(address, regs, error_code), counted by process. */
SEC("raw_tp/page_fault_user")
int count_faults(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 *counts = counts_of(bpf_get_current_pid_tgid() >> 32);

	if (counts)
		count(counts, ctx->args[2]);
	return 0;
}

/*
 * Every fault by itself. Nobody is woken: the reader looks often enough, or it is counted here.
 * Interrupts are off where the kernel tells a fault, so only one that cannot be switched off could
 * come between, and none of those writes to user memory.
 */
static __always_inline void tell_fault(struct bpf_raw_tracepoint_args *ctx, __u64 id)
{
	__u32 cpu = bpf_get_smp_processor_id(), slot;
	struct cowlab_ring *ring = bpf_map_lookup_elem(&rings, &cpu);
	struct cowlab_fault *fault;
	__u64 written;

	if (!ring) {
		lost(COWLAB_LOST_FAULTS);
		return;
	}
	written = ring->written;
	slot = cpu * ring_slots + (written & (ring_slots - 1));
	fault = bpf_map_lookup_elem(&faults, &slot);
	if (!fault || written - *(volatile __u64 *)&ring->taken >= ring_slots) {
		lost(COWLAB_LOST_FAULTS);
		return;
	}
	fault->time_ns = bpf_ktime_get_ns();
	fault->address = ctx->args[0];
	fault->tgid = id >> 32;
	fault->tid = (__u32)id;
	fault->error_code = ctx->args[2];
	fault->unused = 0;
	/* After the record: x86-64, whose error codes these are, shows stores in their order. */
	__asm__ volatile("" : : : "memory");
	*(volatile __u64 *)&ring->written = written + 1;
}

SEC("raw_tp/page_fault_user")
int every_fault(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u64 *counts = counts_of(id >> 32);

	if (!counts)
		return 0;
	count(counts, ctx->args[2]);
	tell_fault(ctx, id);
	return 0;
}

/* page_fault_kernel(address, regs, error_code): what the kernel writes for a process at its own
 * addresses, which are those of the lower half. Not counted: the counts are of user faults. */
SEC("raw_tp/page_fault_kernel")
int every_kernel_fault(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	if (ctx->args[2] & COWLAB_WRITE && (__s64)ctx->args[0] >= 0 &&
	    bpf_map_lookup_elem(&watched, &(__u32){ id >> 32 }))
		tell_fault(ctx, id);
	return 0;
}

/* bpf_probe_read_kernel() is for programs under the GPL. */
char _license[] SEC("license") = "GPL";
