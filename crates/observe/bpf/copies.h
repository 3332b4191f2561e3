/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Which code copies pages. A write fault on a page that is there is a copy if a page is allocated
 * while it is handled; else the page was nobody else's any more, and was taken as it was. So the
 * fault leaves a mark, and the allocation that follows it tells the copy, with the registers that
 * the program had and its stack.
 */
#ifndef COWLAB_OBSERVE_COPIES_H
#define COWLAB_OBSERVE_COPIES_H

/* The kernel's name for pages that it may move: all that belong to programs. */
#define MIGRATE_MOVABLE 1
/* Of x86-64's error codes. */
#define PRESENT 1
#define FROM_USER 4
/* The code segment of 32-bit programs (arch/x86/include/asm/segment.h). */
#define USER32_CS 0x23

#define PAGE_BYTES 4096

/* x86-64's. No other architecture has the tracepoints whose programs read it. */
struct pt_regs {
	__u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	__u64 orig_rax, rip, cs, eflags, rsp, ss;
};

/* What tells one stay in the kernel from another: of the registers of user mode, as the kernel
 * keeps them, those from `orig_rax` on. */
struct stay {
	__u64 orig_rax;
	__u64 rip;
	__u64 cs;
	__u64 eflags;
	__u64 rsp;
};

/* A write fault that is being handled. */
struct mark {
	__u64 address; /* 0: none is */
	const struct pt_regs *user;
	struct stay stay;
	__u64 is_kernels;
};

/* By thread, for as long as it lives. A fault that copied nothing leaves its mark until the next.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct mark);
} marks SEC(".maps");

/* Where the stack of a thread begins, as user space says: of a process's first thread by
 * proc_pid_stat(5), field 28. Least recently used: threads end unseen. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} copies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cowlab_sampling);
} sampling SEC(".maps");

static __always_inline void inherit_stack(__u32 parent, __u32 child)
{
	__u64 *start = bpf_map_lookup_elem(&stacks, &parent);

	if (start)
		bpf_map_update_elem(&stacks, &child, start, BPF_ANY);
}

/* The system calls that make threads, and where clone3's argument has the stack: its beginning and
 * its length. */
#define SYS_CLONE 56
#define SYS_CLONE3 435
#define CLONE3_STACK 40

/* A new thread's, as the call says that makes it. Where the caller's registers of user mode are on
 * its stack in the kernel is known since its first write fault. */
static __always_inline void new_stack(__u32 tid, __u32 child)
{
	struct mark *mark = bpf_map_lookup_elem(&marks, &tid);
	__u64 range[2], start;
	struct pt_regs user;

	if (!mark || bpf_probe_read_kernel(&user, sizeof(user), mark->user))
		return;
	start = user.rsi;
	if (user.orig_rax == SYS_CLONE3) {
		if (bpf_probe_read_user(range, sizeof(range), (void *)user.rdi + CLONE3_STACK))
			return;
		start = range[0] + range[1];
	} else if (user.orig_rax != SYS_CLONE) {
		return;
	}
	bpf_map_update_elem(&stacks, &child, &start, BPF_ANY);
}

static const struct mark no_mark;

static __always_inline int read_stay(struct stay *stay, const struct pt_regs *user)
{
	return bpf_probe_read_kernel(stay, sizeof(*stay), &user->orig_rax);
}

static __always_inline void leave_mark(__u64 address, const struct pt_regs *user, __u64 is_kernels)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct mark *mark = bpf_map_lookup_elem(&marks, &tid);

	if (!mark) {
		bpf_map_update_elem(&marks, &tid, &no_mark, BPF_NOEXIST);
		mark = bpf_map_lookup_elem(&marks, &tid);
	}
	if (!mark) {
		lost(COWLAB_LOST_COPIES);
		return;
	}
	mark->address = read_stay(&mark->stay, user) ? 0 : address;
	mark->user = user;
	mark->is_kernels = is_kernels;
}

static __always_inline void drop_mark(void)
{
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct mark *mark = bpf_map_lookup_elem(&marks, &tid);

	if (mark)
		mark->address = 0;
}

/* A thread ends. */
static __always_inline void forget_thread(__u32 tid)
{
	bpf_map_delete_elem(&marks, &tid);
	bpf_map_delete_elem(&stacks, &tid);
}

/* page_fault_user(address, regs, error_code) */
SEC("raw_tp/page_fault_user")
int mark_fault(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 *counts = counts_of(bpf_get_current_pid_tgid() >> 32);

	if (!counts)
		return 0;
	count(counts, ctx->args[2]);
	if (ctx->args[2] == COWLAB_WRITE_PRESENT)
		leave_mark(ctx->args[0], (const struct pt_regs *)ctx->args[1], 0);
	else
		drop_mark();
	return 0;
}

/* page_fault_kernel(address, regs, error_code): a system call writes to the program's memory. */
SEC("raw_tp/page_fault_kernel")
int mark_kernel_fault(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 *counts;

	if ((__s64)ctx->args[0] < 0)
		return 0;
	counts = counts_of(bpf_get_current_pid_tgid() >> 32);
	if (!counts)
		return 0;
	if ((ctx->args[2] & (PRESENT | COWLAB_WRITE | FROM_USER)) != (PRESENT | COWLAB_WRITE)) {
		drop_mark();
		return 0;
	}
	counts[COWLAB_WRITES_PRESENT] += 1;
	leave_mark(ctx->args[0],
		   (const struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf()), 1);
	return 0;
}

/* How much of the stack there is to take: to where it begins, or some of what is above `sp`, but
 * not beyond a page that is not there. */
static __always_inline __u32 stack_bytes(__u32 tid, __u64 sp)
{
	__u64 *start = bpf_map_lookup_elem(&stacks, &tid), end = sp, most = COWLAB_STACK_PROBED;
	__u8 byte;

	if (start && *start > sp)
		most = *start - sp <= COWLAB_STACK_MOST ? *start - sp : COWLAB_STACK_MOST;
	for (int page = 0; page < COWLAB_STACK_MOST / PAGE_BYTES && end - sp < most; page++) {
		if (bpf_probe_read_user(&byte, sizeof(byte), (const void *)end))
			break;
		end = (end & ~(__u64)(PAGE_BYTES - 1)) + PAGE_BYTES;
	}
	return end - sp < most ? end - sp : most;
}

/* The verifier has to see the bound itself, which the compiler knows already. */
#define BOUND(bytes, most)                                                                         \
	do {                                                                                       \
		__asm__ volatile("" : "+r"(bytes));                                                \
		if ((bytes) > (most))                                                              \
			(bytes) = (most);                                                          \
	} while (0)

/* Nobody is woken: the reader looks often enough, or it is counted. */
#define TELL(room)                                                                                 \
	do {                                                                                       \
		struct cowlab_copy *to = bpf_ringbuf_reserve(&copies, sizeof(*to) + (room), 0);    \
		if (!to) {                                                                         \
			lost(COWLAB_LOST_COPIES);                                                  \
			return;                                                                    \
		}                                                                                  \
		*to = *copy;                                                                       \
		BOUND(bytes, (__u64)(room));                                                       \
		if (!bpf_probe_read_user(to + 1, bytes, (const void *)copy->sp))                   \
			to->stack_bytes = bytes;                                                   \
		bpf_ringbuf_submit(to, BPF_RB_NO_WAKEUP);                                          \
	} while (0)

/* With the end of the stack, where the outermost frames are: Ruby's threads have a megabyte in
 * between of which most was never touched. 0: the end is not there. */
#define TELL_ENDS(room)                                                                            \
	do {                                                                                       \
		struct cowlab_copy *to = bpf_ringbuf_reserve(                                      \
			&copies, sizeof(*to) + COWLAB_STACK_UPPER + (room), 0);                    \
		if (!to) {                                                                         \
			lost(COWLAB_LOST_COPIES);                                                  \
			return 1;                                                                  \
		}                                                                                  \
		*to = *copy;                                                                       \
		bpf_probe_read_user(to + 1, PAGE_BYTES, (const void *)copy->upper);                \
		if (bpf_probe_read_user((void *)(to + 1) + PAGE_BYTES, PAGE_BYTES,                 \
					(const void *)copy->upper + PAGE_BYTES)) {                 \
			bpf_ringbuf_discard(to, BPF_RB_NO_WAKEUP);                                 \
			return 0;                                                                  \
		}                                                                                  \
		BOUND(bytes, (__u64)(room));                                                       \
		if (!bpf_probe_read_user((void *)(to + 1) + COWLAB_STACK_UPPER, bytes,             \
					 (const void *)copy->sp))                                  \
			to->stack_bytes = bytes;                                                   \
		bpf_ringbuf_submit(to, BPF_RB_NO_WAKEUP);                                          \
		return 1;                                                                          \
	} while (0)

static __always_inline int tell_ends(struct cowlab_copy *copy, __u64 bytes)
{
	__u64 *start = bpf_map_lookup_elem(&stacks, &copy->tid);

	if (!start || *start <= copy->sp + bytes)
		return 0;
	/* Whole pages, of which the first one may not be there: it is zeros then. */
	copy->upper = ((*start - 1) & ~(__u64)(PAGE_BYTES - 1)) + PAGE_BYTES - COWLAB_STACK_UPPER;
	if (bytes <= COWLAB_STACK_LEAST)
		TELL_ENDS(COWLAB_STACK_LEAST);
	if (bytes <= 16 * COWLAB_STACK_LEAST)
		TELL_ENDS(16 * COWLAB_STACK_LEAST);
	TELL_ENDS(COWLAB_STACK_MOST);
}

static __always_inline void tell_copy(struct cowlab_copy *copy)
{
	__u64 bytes = stack_bytes(copy->tid, copy->sp);

	if (tell_ends(copy, bytes))
		return;
	copy->upper = 0;
	if (bytes <= COWLAB_STACK_LEAST)
		TELL(COWLAB_STACK_LEAST);
	else if (bytes <= 2 * COWLAB_STACK_LEAST)
		TELL(2 * COWLAB_STACK_LEAST);
	else if (bytes <= 4 * COWLAB_STACK_LEAST)
		TELL(4 * COWLAB_STACK_LEAST);
	else if (bytes <= 8 * COWLAB_STACK_LEAST)
		TELL(8 * COWLAB_STACK_LEAST);
	else if (bytes <= 16 * COWLAB_STACK_LEAST)
		TELL(16 * COWLAB_STACK_LEAST);
	else
		TELL(COWLAB_STACK_MOST);
}

/* mm_page_alloc(page, order, gfp_flags, migratetype) */
SEC("raw_tp/mm_page_alloc")
int tell_allocation(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), began_ns, *counts;
	__u32 tid = (__u32)id, zero = 0, gfp = ctx->args[2];
	struct cowlab_copy copy = { .tgid = id >> 32, .tid = tid };
	struct cowlab_sampling *settings;
	struct mark *mark;
	struct stay stay;

	if (ctx->args[1] != 0 || (__u32)ctx->args[3] != MIGRATE_MOVABLE)
		return 0;
	mark = bpf_map_lookup_elem(&marks, &tid);
	if (!mark || !mark->address)
		return 0;
	settings = bpf_map_lookup_elem(&sampling, &zero);
	if (!settings)
		return 0;
	if (tid == settings->learner)
		settings->copy_gfp = gfp;
	/* What is allocated for anything else has other flags: a page of zeros, of a file. */
	if (settings->copy_gfp && settings->copy_gfp != gfp)
		return 0;
	copy.address = mark->address;
	mark->address = 0;
	/* Another stay in the kernel: the fault ended without a copy. */
	if (read_stay(&stay, mark->user) || stay.rip != mark->stay.rip ||
	    stay.rsp != mark->stay.rsp || stay.orig_rax != mark->stay.orig_rax)
		return 0;
	counts = counts_of(copy.tgid);
	if (!counts || tid == settings->learner)
		return 0;
	counts[COWLAB_COPIES] += 1;
	copy.every = settings->every;
	if (!copy.every || (copy.every > 1 && bpf_get_prandom_u32() % copy.every != 0))
		return 0;
	began_ns = bpf_ktime_get_ns();
	copy.time_ns = began_ns;
	copy.ip = stay.rip;
	copy.sp = stay.rsp;
	bpf_probe_read_kernel(&copy.fp, sizeof(copy.fp), &mark->user->rbp);
	copy.syscall = mark->is_kernels ? (__s32)stay.orig_rax : -1;
	copy.is_32_bit = stay.cs == USER32_CS;
	tell_copy(&copy);
	if (settings->doubling && ++settings->told >= settings->doubling) {
		settings->told = 0;
		if (settings->every < COWLAB_EVERY_MOST)
			settings->every *= 2;
	}
	counts[COWLAB_TELLING_NS] += bpf_ktime_get_ns() - began_ns;
	return 0;
}

#endif
