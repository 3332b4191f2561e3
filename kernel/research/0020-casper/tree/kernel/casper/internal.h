/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What CASPER's parts share.
 *
 * The memory of a session is mapped by the process that reads it, and that
 * process may write anything there at any time. What decides about addresses
 * is therefore kept in the structures below and never read back from shared
 * memory; what is read back (a buffer's tail, whether it was given back, the
 * filter of types) can only cost events.
 */
#ifndef _KERNEL_CASPER_INTERNAL_H
#define _KERNEL_CASPER_INTERNAL_H

#include <linux/atomic.h>
#include <linux/casper.h>
#include <linux/irq_work.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <uapi/linux/casper.h>

/* The contexts that can interrupt each other, each with buffers of its own. */
enum {
	CASPER_LEVEL_TASK,
	CASPER_LEVEL_SOFTIRQ,
	CASPER_LEVEL_HARDIRQ,
	CASPER_LEVEL_NMI,
	CASPER_LEVELS,
};

enum casper_writer_state {
	CASPER_WRITER_FREE,
	CASPER_WRITER_CLAIMED,
	/* Its owner is gone; free once the reader says so. */
	CASPER_WRITER_CLOSED,
};

/* The private side of a buffer. Written by one context at a time. */
struct casper_writer {
	u64 position;		/* of the next record, since the claim */
	u64 subbuf;		/* position of the sub-buffer */
	u64 base_ticks;
	u64 events;
	u64 dropped;
	u64 noted_dropped;	/* as the last CASPER_LOST said */
	struct casper_buffer *shared;
	char *ring;
	u32 process;
	u32 pid;
	u32 tid;
	int cpu;
	int noted_cpu;		/* as the last CASPER_CPU said */
	u32 busy;
	atomic_t state;
} ____cacheline_aligned_in_smp;

struct casper_core {
	u64 number;		/* tells it from every other since boot */
	u32 mode;
	u32 clock;
	u32 buffer_count;
	u32 buffer_bytes;
	u32 subbuf_bytes;
	u32 ready;		/* buffers below this number have memory */
	u64 meta_offset;
	u64 meta_bytes;
	u64 buffers_offset;
	u64 buffer_stride;
	u64 session_bytes;

	struct casper_session *shared;	/* and the metadata behind it */
	struct casper_writer *writers;
	atomic_t rotor;			/* where the search for a buffer begins */
	atomic64_t meta_end;
	/* By CPU and level; buffer number + 1. */
	u32 __percpu (*interrupts)[CASPER_LEVELS];
	bool on;
	bool selective;			/* not all functions are recorded */
	bool addresses;			/* the reader may know the kernel's */
	/* Process whose tasks are not recorded: reading would make more to read. */
	pid_t reader;

	struct irq_work wake;
	wait_queue_head_t waiters;
	atomic_t woken;
};

/* core.c */
extern struct casper_core __rcu *casper_current;

int casper_start(struct casper_core *core);
void casper_stop(struct casper_core *core);

/* session.c */
struct casper_core *casper_core_create(struct casper_setup *setup,
				       bool addresses);
void casper_core_destroy(struct casper_core *core);
int casper_core_provide(struct casper_core *core, u32 buffers);
int casper_core_select(struct casper_core *core, struct casper_select *select);
int casper_core_turn(struct casper_core *core, bool on);
void *casper_core_address(struct casper_core *core, u64 offset);

/* meta.c */
void casper_meta_task(struct casper_core *core, struct task_struct *tsk,
		      u32 process);
void casper_meta_thread(struct casper_core *core, u32 process, u32 tid,
			const char *name);
void casper_meta_kernel(struct casper_core *core);
u32 casper_functions_end(void);
void casper_functions_set(bool selected);
u32 casper_functions_select(const char *pattern, bool selected);

static inline u64 casper_ticks(const struct casper_core *core)
{
	return core->clock == CASPER_CLOCK_CYCLES ? get_cycles() :
						    ktime_get_mono_fast_ns();
}

/* Of a record with an event of this size. */
static inline size_t casper_room(size_t size)
{
	return 8 + ALIGN(size, 8);
}

#endif
