// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of CASPER: what the buffers have is held against what was
 * recorded, from a task, with preemption off, from a timer's interrupt and
 * from an NMI. They need the session, so nobody may record meanwhile.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>
#ifdef CONFIG_X86_LOCAL_APIC
#include <asm/apic.h>
#include <asm/nmi.h>
#endif

#include "internal.h"

#define EVENT_TYPE 0x7e57

struct test_event {
	casper_event_type event_type;
	u16 unused;
	u32 number;
};

static int record_number(u32 number)
{
	struct test_event event = { .event_type = EVENT_TYPE,
				    .number = number };

	return casrecord(&event, sizeof(event));
}

/* What one buffer has. */
struct found {
	u32 level;
	u64 events;
	u64 lost_notes;
	u64 dropped;
	bool in_order;
};

static struct casper_core *make_core(struct kunit *test, u32 mode,
				     u32 buffer_bytes, u32 buffers)
{
	struct casper_setup setup = {
		.version = CASPER_VERSION,
		.mode = mode,
		.clock = CASPER_CLOCK_MONOTONIC,
		.buffer_count = buffers,
		.buffer_bytes = buffer_bytes,
		.subbuf_bytes = 16384,
		.meta_bytes = 1 << 20,
	};
	struct casper_core *core = casper_core_create(&setup, true);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, core);
	KUNIT_ASSERT_EQ(test, casper_core_provide(core, buffers), 0);
	/* Only the events of these tests, whatever else is instrumented. */
	memset(core->shared->filter, 0, sizeof(core->shared->filter));
	core->shared->filter[EVENT_TYPE >> 3] |= 1 << (EVENT_TYPE & 7);
	KUNIT_ASSERT_TRUE(test, !rcu_access_pointer(casper_current));
	return core;
}

/* Read a buffer as a reader does, from `tail` to `head`. */
static struct found read_buffer(struct kunit *test, struct casper_core *core,
				u32 index)
{
	struct casper_writer *w = &core->writers[index];
	u64 at = w->shared->tail, head = smp_load_acquire(&w->shared->head);
	struct found found = { .level = w->shared->level,
			       .dropped = w->shared->dropped,
			       .in_order = true };
	u64 last_ticks = 0, base = 0;
	s64 last = -1;

	while (at < head) {
		char *place = w->ring + (at & (core->buffer_bytes - 1));
		u64 start = at & ~(u64)(core->subbuf_bytes - 1), word;
		u32 size;
		u16 type;

		if (at == start) {
			base = ((struct casper_subbuf *)place)->base_ticks;
			KUNIT_EXPECT_EQ(test, found.events,
					((struct casper_subbuf *)place)->first_event);
			at += sizeof(struct casper_subbuf);
			continue;
		}
		word = start + core->subbuf_bytes - at < 8 ? 0 : *(u64 *)place;
		size = CASPER_RECORD_SIZE(word);
		if (!size) {
			at = start + core->subbuf_bytes;
			continue;
		}
		found.in_order &= base + CASPER_RECORD_DELTA(word) >= last_ticks;
		last_ticks = base + CASPER_RECORD_DELTA(word);
		memcpy(&type, place + 8, sizeof(type));
		if (type == CASPER_LOST) {
			found.lost_notes++;
		} else if (type == EVENT_TYPE) {
			struct test_event event;

			memcpy(&event, place + 8, sizeof(event));
			found.in_order &= (s64)event.number > last;
			last = event.number;
			found.events++;
		}
		at += casper_room(size);
	}
	return found;
}

static u64 count_level(struct kunit *test, struct casper_core *core, u32 level)
{
	u64 events = 0;
	u32 i;

	for (i = 0; i < core->ready; i++) {
		struct found found;

		if (!core->writers[i].shared->stream)
			continue;
		found = read_buffer(test, core, i);
		KUNIT_EXPECT_TRUE(test, found.in_order);
		if (found.level == level)
			events += found.events;
	}
	return events;
}

static void off_test(struct kunit *test)
{
	struct casper_core *core = make_core(test, CASPER_MODE_DROP, 65536, 4);

	KUNIT_EXPECT_EQ(test, record_number(1), 0);
	KUNIT_EXPECT_EQ(test, core->shared->next_stream, 0);
	casper_core_destroy(core);
}

static void task_test(struct kunit *test)
{
	struct casper_core *core = make_core(test, CASPER_MODE_DROP, 1 << 20, 16);
	u32 i;

	casper_core_turn(core, true);
	for (i = 0; i < 1000; i++)
		KUNIT_EXPECT_EQ(test, record_number(i), 0);
	preempt_disable();
	for (; i < 2000; i++)
		record_number(i);
	preempt_enable();
	casper_core_turn(core, false);
	KUNIT_EXPECT_EQ(test, record_number(i), 0);
	KUNIT_EXPECT_EQ(test, count_level(test, core, CASPER_LEVEL_TASK), 2000);
	KUNIT_EXPECT_EQ(test, core->shared->no_buffer_events, 0);
	casper_core_destroy(core);
}

static void bad_events_test(struct kunit *test)
{
	struct casper_core *core = make_core(test, CASPER_MODE_DROP, 65536, 4);
	u16 reserved = CASPER_ENTER;
	u16 *large = kunit_kzalloc(test, CASPER_EVENT_MAX + 1, GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, large);
	*large = EVENT_TYPE;
	casper_core_turn(core, true);
	KUNIT_EXPECT_EQ(test, casrecord(large, 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, casrecord(large, CASPER_EVENT_MAX + 1), -EINVAL);
	KUNIT_EXPECT_EQ(test, casrecord(&reserved, 2), -EINVAL);
	KUNIT_EXPECT_EQ(test, casrecord(large, CASPER_EVENT_MAX), 0);
	*large = EVENT_TYPE + 1;
	KUNIT_EXPECT_EQ(test, casrecord(large, 8), 0);
	casper_core_turn(core, false);
	KUNIT_EXPECT_EQ(test, count_level(test, core, CASPER_LEVEL_TASK), 1);
	casper_core_destroy(core);
}

/* More than fits: what is stored and what is dropped is all there was. */
static void overflow_test(struct kunit *test)
{
	struct casper_core *core = make_core(test, CASPER_MODE_DROP, 65536, 1);
	struct casper_writer *w = &core->writers[0];
	u64 stored = 0, refused = 0;
	struct found found;
	u32 i;

	casper_core_turn(core, true);
	for (i = 0; i < 20000; i++)
		*(record_number(i) ? &refused : &stored) += 1;
	found = read_buffer(test, core, 0);
	KUNIT_EXPECT_GT(test, refused, 0);
	KUNIT_EXPECT_EQ(test, found.events, stored);
	KUNIT_EXPECT_EQ(test, found.dropped, refused);
	/* The reader takes all of it: room again, and a note of what is missing. */
	smp_store_release(&w->shared->tail, w->shared->head);
	KUNIT_EXPECT_EQ(test, record_number(i), 0);
	casper_core_turn(core, false);
	KUNIT_EXPECT_EQ(test, w->events, stored + 1);
	KUNIT_EXPECT_EQ(test, w->noted_dropped, refused);
	casper_core_destroy(core);
}

static void overwrite_test(struct kunit *test)
{
	struct casper_core *core =
		make_core(test, CASPER_MODE_OVERWRITE, 65536, 1);
	struct casper_writer *w = &core->writers[0];
	u32 i;

	casper_core_turn(core, true);
	for (i = 0; i < 20000; i++)
		KUNIT_EXPECT_EQ(test, record_number(i), 0);
	casper_core_turn(core, false);
	KUNIT_EXPECT_EQ(test, w->events, 20000);
	KUNIT_EXPECT_EQ(test, w->shared->dropped, 0);
	KUNIT_EXPECT_GT(test, w->shared->head, core->buffer_bytes);
	casper_core_destroy(core);
}

/* A reader that writes nonsense into its memory costs events, nothing else. */
static void hostile_reader_test(struct kunit *test)
{
	struct casper_core *core = make_core(test, CASPER_MODE_DROP, 65536, 2);
	u32 i;

	casper_core_turn(core, true);
	record_number(0);
	for (i = 0; i < 2; i++) {
		struct casper_buffer *shared = core->writers[i].shared;

		memset((char *)shared, 0xff, sizeof(*shared));
	}
	core->shared->next_stream = ~0U;
	core->shared->meta_end = ~0ULL;
	for (i = 1; i < 20000; i++)
		record_number(i);
	casper_core_turn(core, false);
	KUNIT_EXPECT_LE(test, core->writers[0].position,
			core->writers[0].subbuf + core->subbuf_bytes);
	casper_core_destroy(core);
}

struct timer_test {
	struct hrtimer timer;
	struct completion done;
	u32 fired;
	bool in_irq;
};

#define TIMER_EVENTS 200

static enum hrtimer_restart timer_fires(struct hrtimer *timer)
{
	struct timer_test *t = container_of(timer, struct timer_test, timer);

	t->in_irq &= !!in_hardirq();
	record_number(t->fired++);
	if (t->fired == TIMER_EVENTS) {
		complete(&t->done);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(timer, ns_to_ktime(200 * NSEC_PER_USEC));
	return HRTIMER_RESTART;
}

/* A timer's interrupt records in the middle of a task's recording. */
static void interrupt_test(struct kunit *test)
{
	struct casper_core *core = make_core(test, CASPER_MODE_DROP, 1 << 20, 16);
	struct timer_test t = { .in_irq = true };
	u64 emitted = 0;

	init_completion(&t.done);
	hrtimer_init_on_stack(&t.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	t.timer.function = timer_fires;
	casper_core_turn(core, true);
	hrtimer_start(&t.timer, ns_to_ktime(200 * NSEC_PER_USEC), HRTIMER_MODE_REL_HARD);
	while (!try_wait_for_completion(&t.done) && emitted < 10000000)
		record_number(emitted++);
	hrtimer_cancel(&t.timer);
	destroy_hrtimer_on_stack(&t.timer);
	casper_core_turn(core, false);
	KUNIT_EXPECT_EQ(test, t.fired, TIMER_EVENTS);
	KUNIT_EXPECT_TRUE(test, t.in_irq);
	KUNIT_EXPECT_EQ(test, count_level(test, core, CASPER_LEVEL_HARDIRQ),
			TIMER_EVENTS);
	KUNIT_EXPECT_EQ(test, count_level(test, core, CASPER_LEVEL_TASK) +
				      READ_ONCE(core->writers[current->casper_buffer]
							.shared->dropped),
			emitted);
	KUNIT_EXPECT_EQ(test, core->shared->no_buffer_events, 0);
	casper_core_destroy(core);
}

#ifdef CONFIG_X86_LOCAL_APIC
#define NMI_EVENTS 50

static atomic_t nmis;

static int nmi_comes(unsigned int type, struct pt_regs *regs)
{
	int number = atomic_inc_return(&nmis);

	if (number > NMI_EVENTS)
		return NMI_DONE;
	record_number(number);
	return NMI_HANDLED;
}

static void nmi_test(struct kunit *test)
{
	struct casper_core *core = make_core(test, CASPER_MODE_DROP, 1 << 20, 16);
	unsigned int i, spins;
	u64 emitted = 0;

	atomic_set(&nmis, 0);
	KUNIT_ASSERT_EQ(test, register_nmi_handler(NMI_LOCAL, nmi_comes, 0,
						   "casper_kunit"), 0);
	casper_core_turn(core, true);
	for (i = 1; i <= NMI_EVENTS; i++) {
		preempt_disable();
		__apic_send_IPI_mask(cpumask_of(smp_processor_id()), NMI_VECTOR);
		for (spins = 0; atomic_read(&nmis) < i && spins < 100000; spins++)
			record_number(emitted++);
		preempt_enable();
	}
	casper_core_turn(core, false);
	unregister_nmi_handler(NMI_LOCAL, "casper_kunit");
	KUNIT_EXPECT_EQ(test, atomic_read(&nmis), NMI_EVENTS);
	KUNIT_EXPECT_EQ(test, count_level(test, core, CASPER_LEVEL_NMI),
			NMI_EVENTS);
	KUNIT_EXPECT_EQ(test, core->shared->no_buffer_events, 0);
	casper_core_destroy(core);
}
#endif

static int short_thread(void *done)
{
	record_number(1);
	kthread_complete_and_exit(done, 0);
}

/* Tasks that end give their buffers to the reader, who gives them back. */
static void tasks_end_test(struct kunit *test)
{
	struct casper_core *core = make_core(test, CASPER_MODE_DROP, 65536, 4);
	unsigned int i, tries, stored = 0;

	casper_core_turn(core, true);
	for (i = 0; i < 20; i++) {
		DECLARE_COMPLETION_ONSTACK(done);
		struct task_struct *tsk = kthread_run(short_thread, &done, "short");
		u32 b;

		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, tsk);
		wait_for_completion(&done);
		for (tries = 0; tries < 200; tries++) {
			bool closed = false;

			for (b = 0; b < core->ready; b++) {
				struct casper_buffer *shared =
					core->writers[b].shared;

				if (smp_load_acquire(&shared->state) !=
				    CASPER_BUFFER_CLOSED)
					continue;
				stored += read_buffer(test, core, b).events;
				closed = true;
				shared->stream = 0;
				shared->head = 0;
				smp_store_release(&shared->state,
						  CASPER_BUFFER_FREE);
			}
			if (closed)
				break;
			msleep(10);
		}
	}
	casper_core_turn(core, false);
	KUNIT_EXPECT_EQ(test, stored, 20);
	KUNIT_EXPECT_EQ(test, core->shared->no_buffer_events, 0);
	casper_core_destroy(core);
}

static struct kunit_case casper_cases[] = {
	KUNIT_CASE(off_test),
	KUNIT_CASE(task_test),
	KUNIT_CASE(bad_events_test),
	KUNIT_CASE(overflow_test),
	KUNIT_CASE(overwrite_test),
	KUNIT_CASE(hostile_reader_test),
	KUNIT_CASE(interrupt_test),
#ifdef CONFIG_X86_LOCAL_APIC
	KUNIT_CASE(nmi_test),
#endif
	KUNIT_CASE(tasks_end_test),
	{}
};

static struct kunit_suite casper_suite = {
	.name = "casper",
	.test_cases = casper_cases,
};
kunit_test_suite(casper_suite);

MODULE_DESCRIPTION("KUnit tests of CASPER");
MODULE_LICENSE("GPL");
