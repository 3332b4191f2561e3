// SPDX-License-Identifier: GPL-2.0-only
/*
 * CASPER: casrecord() and what it needs.
 *
 * After Barkley and Schimmel 1988, "Overview of CASPER Architecture": an event
 * is stamped with the time and copied into a circular buffer; a daemon (here
 * cowlab, by way of /dev/casper) stores what is in the buffers.
 *
 * Every task that records has a buffer of its own, and so has every CPU for
 * each context that can interrupt a task: softirq, hard interrupt, NMI. A
 * buffer therefore has one writer, which nothing of its own kind interrupts,
 * and needs neither locks nor atomic operations. Preemption is off while a
 * record is written, so that synchronize_rcu() waits for all writers.
 */
#include <linux/export.h>
#include <linux/irq_work.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>

#include "internal.h"

DEFINE_STATIC_KEY_FALSE(casper_recording);
EXPORT_SYMBOL_GPL(casper_recording);

struct casper_core __rcu *casper_current;

static unsigned int context_level(void)
{
	if (in_nmi())
		return CASPER_LEVEL_NMI;
	if (in_hardirq())
		return CASPER_LEVEL_HARDIRQ;
	if (in_serving_softirq())
		return CASPER_LEVEL_SOFTIRQ;
	return CASPER_LEVEL_TASK;
}

/* Counted in shared memory: nothing depends on it but the reader's account. */
static void count_shared(__u64 *counter)
{
	atomic64_inc((atomic64_t *)counter);
}

/*
 * The number of a task's process in this session, kept by the leader of its
 * threads: session above, process below.
 */
static u32 process_of(struct casper_core *core, struct task_struct *tsk)
{
	struct task_struct *leader = tsk->group_leader;
	u64 old = READ_ONCE(leader->casper_process);
	u32 process;

	if (is_idle_task(tsk))
		return 1;
	if (old >> 32 == (u32)core->number)
		return (u32)old;
	process = atomic_inc_return((atomic_t *)&core->shared->next_process);
	if (!try_cmpxchg64(&leader->casper_process, &old,
			   (u64)(u32)core->number << 32 | process))
		/* Another thread was faster; that number stays unused. */
		return (u32)READ_ONCE(leader->casper_process);
	casper_meta_task(core, tsk, process);
	return process;
}

static void open_subbuf(struct casper_core *core, struct casper_writer *w,
			u64 start, u64 now)
{
	struct casper_subbuf *subbuf =
		(void *)(w->ring + (start & (core->buffer_bytes - 1)));

	/* Who reads while this overwrites learns first that it does. */
	WRITE_ONCE(w->shared->reserve, start);
	smp_mb();
	subbuf->base_ticks = now;
	subbuf->first_event = w->events;
	subbuf->process = w->process;
	subbuf->pid = w->pid;
	w->base_ticks = now;
	w->subbuf = start;
	w->position = start + sizeof(*subbuf);
	smp_store_release(&w->shared->head, w->position);
}

/* Make an unused buffer the caller's. */
static struct casper_writer *claim(struct casper_core *core)
{
	u32 ready = READ_ONCE(core->ready);
	u32 first, i;

	if (!ready)
		return NULL;
	first = (u32)atomic_inc_return(&core->rotor);
	for (i = 0; i < ready; i++) {
		struct casper_writer *w = &core->writers[(first + i) % ready];
		int state = atomic_read(&w->state);

		if (state == CASPER_WRITER_CLAIMED ||
		    smp_load_acquire(&w->shared->state) != CASPER_BUFFER_FREE)
			continue;
		if (atomic_try_cmpxchg(&w->state, &state,
				       CASPER_WRITER_CLAIMED))
			return w;
	}
	return NULL;
}

static void begin_stream(struct casper_core *core, struct casper_writer *w,
			 unsigned int level, u32 process, u32 pid, u32 tid)
{
	struct casper_buffer *shared = w->shared;

	w->events = 0;
	w->dropped = 0;
	w->noted_dropped = 0;
	w->process = process;
	w->pid = pid;
	w->tid = tid;
	w->noted_cpu = -1;
	w->busy = 0;
	shared->process = process;
	shared->pid = pid;
	shared->tid = tid;
	shared->level = level;
	shared->pid_namespace = 0;
	shared->dropped = 0;
	shared->tail = 0;
	open_subbuf(core, w, 0, casper_ticks(core));
	WRITE_ONCE(shared->state, CASPER_BUFFER_CLAIMED);
	/* Not 0: all of the above can be read. */
	smp_store_release(&shared->stream,
			  atomic_inc_return((atomic_t *)&core->shared->next_stream));
}

static struct casper_writer *task_writer(struct casper_core *core)
{
	struct task_struct *tsk = current;
	struct casper_writer *w;

	if (likely(tsk->casper_session == core->number))
		return &core->writers[tsk->casper_buffer];
	w = claim(core);
	if (!w)
		return NULL;
	begin_stream(core, w, CASPER_LEVEL_TASK, process_of(core, tsk),
		     task_tgid_nr(tsk), task_pid_nr(tsk));
	casper_meta_thread(core, w->process, w->tid, tsk->comm);
	tsk->casper_buffer = w - core->writers;
	/* An interrupt's event is not the task's: the order does not matter. */
	tsk->casper_session = core->number;
	return w;
}

/* A CPU's interrupts are threads of the kernel: 0x80000000 | level << 24 | CPU. */
static struct casper_writer *interrupt_writer(struct casper_core *core,
					      unsigned int level)
{
	static const char *const names[] = { "", "softirq", "irq", "nmi" };
	u32 *slot = &(*this_cpu_ptr(core->interrupts))[level];
	struct casper_writer *w;
	char name[16] = "";
	u32 tid;

	if (likely(*slot))
		return &core->writers[*slot - 1];
	w = claim(core);
	if (!w)
		return NULL;
	tid = 0x80000000 | level << 24 | smp_processor_id();
	begin_stream(core, w, level, 1, 0, tid);
	snprintf(name, sizeof(name), "%s/%u", names[level], smp_processor_id());
	casper_meta_thread(core, 1, tid, name);
	*slot = w - core->writers + 1;
	return w;
}

/* Go on to the next sub-buffer. False: the buffer is full. */
static bool next_subbuf(struct casper_core *core, struct casper_writer *w,
			u64 now)
{
	u64 start = w->subbuf + core->subbuf_bytes;

	if (core->mode == CASPER_MODE_DROP) {
		u64 tail = smp_load_acquire(&w->shared->tail);

		if (start + core->subbuf_bytes - tail > core->buffer_bytes)
			return false;
	}
	if (READ_ONCE(core->shared->sleeping))
		irq_work_queue(&core->wake);
	open_subbuf(core, w, start, now);
	return true;
}

static char *place(struct casper_core *core, struct casper_writer *w)
{
	return w->ring + (w->position & (core->buffer_bytes - 1));
}

/* Room in the sub-buffer, or the beginning of the next. */
static bool make_room(struct casper_core *core, struct casper_writer *w,
		      size_t room)
{
	u64 left = w->subbuf + core->subbuf_bytes - w->position;

	/* After a drop nothing is stored until there is a new sub-buffer. */
	if (likely(room <= left && w->dropped == w->noted_dropped))
		return true;
	if (left >= 8)
		*(u64 *)place(core, w) = 0;
	return next_subbuf(core, w, casper_ticks(core));
}

/* There is room. */
static bool append(struct casper_core *core, struct casper_writer *w,
		   const void *event, size_t size)
{
	char *to = place(core, w);
	u64 delta;

	memcpy(to + 8, event, size);
	/* After the copy: reading the clock covers the wait for its stores. */
	delta = casper_ticks(core) - w->base_ticks;
	/* Longer than a record can say, or a clock that went backwards. */
	if (unlikely(delta >> 48)) {
		*(u64 *)to = 0;
		if (!next_subbuf(core, w, casper_ticks(core)))
			return false;
		to = place(core, w);
		memcpy(to + 8, event, size);
		delta = 0;
	}
	*(u64 *)to = CASPER_RECORD_WORD(delta, size);
	w->position += casper_room(size);
	return true;
}

/* What a reader must know before the next event. */
static bool put_notes(struct casper_core *core, struct casper_writer *w)
{
	int cpu = smp_processor_id();

	if (w->dropped != w->noted_dropped) {
		struct casper_lost lost = { .event_type = CASPER_LOST,
					    .dropped = w->dropped };

		if (!make_room(core, w, casper_room(sizeof(lost))))
			return false;
		w->noted_dropped = w->dropped;
		if (!append(core, w, &lost, sizeof(lost)))
			return false;
	}
	if (w->noted_cpu != cpu) {
		struct casper_cpu note = { .event_type = CASPER_CPU,
					   .cpu = cpu };

		if (!make_room(core, w, casper_room(sizeof(note))) ||
		    !append(core, w, &note, sizeof(note)))
			return false;
		w->noted_cpu = cpu;
	}
	return true;
}

/* 0: stored, 1: nobody records it, else a negative error number. */
static int put(struct casper_core *core, const void *event, size_t size)
{
	unsigned int level = context_level();
	struct casper_writer *w;
	int result = 0;

	if (level == CASPER_LEVEL_TASK && current->tgid == READ_ONCE(core->reader))
		return 1;
	w = level == CASPER_LEVEL_TASK ? task_writer(core) :
					 interrupt_writer(core, level);
	/* Busy: an exception in the middle of a record, and its handler's event. */
	if (unlikely(!w || w->busy)) {
		count_shared(&core->shared->no_buffer_events);
		return -ENOBUFS;
	}
	w->busy = 1;
	barrier();
	if (unlikely(w->dropped != w->noted_dropped ||
		     w->noted_cpu != smp_processor_id()) &&
	    !put_notes(core, w))
		goto full;
	if (unlikely(!make_room(core, w, casper_room(size)) ||
		     !append(core, w, event, size)))
		goto full;
	w->events++;
	smp_store_release(&w->shared->head, w->position);
	goto out;
full:
	w->dropped++;
	WRITE_ONCE(w->shared->dropped, w->dropped);
	result = -ENOBUFS;
out:
	barrier();
	w->busy = 0;
	return result;
}

static bool is_recorded(const struct casper_core *core, u16 type)
{
	return READ_ONCE(core->shared->filter[type >> 3]) >> (type & 7) & 1;
}

static struct casper_core *core_get(void)
{
	struct casper_core *core;

	preempt_disable_notrace();
	core = rcu_dereference_sched(casper_current);
	if (unlikely(!core))
		preempt_enable_notrace();
	return core;
}

static void core_put(void)
{
	preempt_enable_notrace();
}

int __casrecord(const void *event, size_t size)
{
	struct casper_core *core;
	int result = 0;
	u16 type;

	if (size < sizeof(type) || size > CASPER_EVENT_MAX)
		return -EINVAL;
	memcpy(&type, event, sizeof(type));
	if (type >= CASPER_TYPE_RESERVED)
		return -EINVAL;
	core = core_get();
	if (!core)
		return 0;
	if (is_recorded(core, type))
		result = min(put(core, event, size), 0);
	core_put();
	return result;
}
EXPORT_SYMBOL_GPL(__casrecord);

unsigned int casper_function_enter(const struct casper_unit *unit,
				   unsigned int index, void *frame,
				   void *call_site)
{
	unsigned int function = unit->base + index;
	struct casper_core *core = core_get();
	bool stored = false;

	if (!core)
		return 0;
	if (is_recorded(core, CASPER_ENTER)) {
		struct casper_enter enter = {
			.event_type = CASPER_ENTER,
			.function = function,
		};

		if (core->addresses) {
			enter.frame_high = (u64)frame >> 32;
			enter.frame_low = (u64)frame;
			enter.call_site = (u64)call_site;
		}
		stored = !put(core, &enter, sizeof(enter));
	}
	core_put();
	/* A beginning that was not stored gets no end: the nesting stays right. */
	return stored ? function : 0;
}

void casper_function_exit(unsigned int function)
{
	struct casper_exit exit = { .event_type = CASPER_EXIT,
				    .function = function };
	struct casper_core *core = core_get();

	if (!core)
		return;
	put(core, &exit, sizeof(exit));
	core_put();
}

/* A new task: what it was copied from is another's. */
void casper_task_init(struct task_struct *tsk)
{
	tsk->casper_session = 0;
	tsk->casper_process = 0;
}

/* A task's buffer is the reader's from here on. */
void __casper_task_end(struct task_struct *tsk)
{
	struct casper_core *core = core_get();

	if (!core)
		return;
	if (tsk->casper_session == core->number) {
		struct casper_writer *w = &core->writers[tsk->casper_buffer];

		tsk->casper_session = 0;
		smp_store_release(&w->shared->state, CASPER_BUFFER_CLOSED);
		atomic_set_release(&w->state, CASPER_WRITER_CLOSED);
	}
	tsk->casper_process = 0;
	core_put();
}

int casper_start(struct casper_core *core)
{
	rcu_assign_pointer(casper_current, core);
	static_branch_inc(&casper_recording);
	return 0;
}

/* When it returns, nobody writes into the session's memory. */
void casper_stop(struct casper_core *core)
{
	static_branch_dec(&casper_recording);
	RCU_INIT_POINTER(casper_current, NULL);
	synchronize_rcu();
	irq_work_sync(&core->wake);
}
