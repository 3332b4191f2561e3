/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the measured programs of `cowlab bench trace` share: threads that begin together, batches
 * that are timed as a whole, and their rows.
 *
 * Each program hands run() a function that makes n events (or calls). A thread first makes `warm`
 * of them untimed, a whole lap of the tracer's buffer at least, so that no page is touched for the
 * first time while the clock runs. Then it times batches, keeping each one's nanoseconds. A thread
 * that has finished goes on, untimed, until the others have: whoever is slower was never alone.
 */
#ifndef COWLAB_TRACE_H
#define COWLAB_TRACE_H

#include "../probe.h"

#include <pthread.h>

/* What a tracer that instruments every function must leave alone. */
#define UNTRACED __attribute__((no_instrument_function))

#define TRACE_THREADS_MAX 64

/* Make n events on the thread of that number, from 0. */
typedef void (*trace_work)(int thread, uint64_t n);

struct trace_plan {
	int threads;
	uint64_t warm; /* events of each thread before the clock starts */
	uint64_t batches;
	uint64_t batch;	       /* events of one batch */
	uint64_t buffer_bytes; /* for the programs that bring their own ring */
	uint64_t pause_ms;     /* between the warm lap and the timed batches: a drain catches up */
	bool pin;
	bool nested;
	cpu_set_t allowed;
	trace_work work;
	atomic_int finished;
	pthread_barrier_t together;
};

struct trace_thread {
	struct trace_plan *plan;
	int index;
	pthread_t id;
	uint64_t *batch_ns; /* touched before the thread starts */
	uint64_t extra_batches;
};

UNTRACED static void *trace_thread_main(void *argument)
{
	struct trace_thread *thread = argument;
	struct trace_plan *plan = thread->plan;
	struct timespec pause = { .tv_sec = (time_t)(plan->pause_ms / 1000),
				  .tv_nsec = (long)(plan->pause_ms % 1000) * 1000000 };

	if (plan->pin)
		pin_to(thread->index, &plan->allowed);
	pthread_barrier_wait(&plan->together);
	plan->work(thread->index, plan->warm);
	if (plan->pause_ms)
		nanosleep(&pause, NULL);
	pthread_barrier_wait(&plan->together);
	/* Asleep, the CPU has forgotten the lap: one batch brings back what a running program has.
	 */
	plan->work(thread->index, plan->batch);
	for (uint64_t i = 0; i < plan->batches; i++) {
		uint64_t began = now_ns();

		plan->work(thread->index, plan->batch);
		slow_down(began);
		thread->batch_ns[i] = now_ns() - began;
	}
	atomic_fetch_add(&plan->finished, 1);
	while (atomic_load_explicit(&plan->finished, memory_order_relaxed) < plan->threads) {
		plan->work(thread->index, plan->batch);
		thread->extra_batches++;
	}
	return NULL;
}

/* Options that every program takes, each a whole number. */
UNTRACED static void trace_options(struct trace_plan *plan, int argc, char **argv)
{
	uint64_t threads = 1;
	const struct parameter parameters[] = {
		{ "threads", .number = &threads },
		{ "warm", .number = &plan->warm },
		{ "batches", .number = &plan->batches },
		{ "batch", .number = &plan->batch },
		{ "buffer-bytes", .number = &plan->buffer_bytes },
		{ "pause-ms", .number = &plan->pause_ms },
		{ "pin", .flag = &plan->pin },
		{ "nested", .flag = &plan->nested },
		{ 0 },
	};

	*plan = (struct trace_plan){ .batches = 100, .batch = 1000, .buffer_bytes = 1 << 20 };
	parse_options(argc, argv, parameters);
	if (threads < 1 || threads > TRACE_THREADS_MAX)
		fail(EXIT_USAGE, "--threads must be in 1..%d", TRACE_THREADS_MAX);
	plan->threads = (int)threads;
	if (plan->buffer_bytes < 4096 || plan->buffer_bytes & (plan->buffer_bytes - 1))
		fail(EXIT_USAGE, "--buffer-bytes must be a power of two from 4096");
	if (optind < argc || !plan->batches || !plan->batch)
		fail(EXIT_USAGE,
		     "usage: %s [--threads N] [--warm N] [--batches N] [--batch N] "
		     "[--buffer-bytes N] [--pause-ms N] [--pin] [--nested]",
		     probe_name);
}

/* Run the plan and print its rows; `child` is the thread's number, from 1. */
UNTRACED static void trace_run(struct trace_plan *plan, trace_work work)
{
	struct trace_thread threads[TRACE_THREADS_MAX];
	int error;

	die_with_parent();
	plan->work = work;
	sched_getaffinity(0, sizeof(plan->allowed), &plan->allowed);
	pthread_barrier_init(&plan->together, NULL, (unsigned)plan->threads);
	for (int i = 0; i < plan->threads; i++) {
		threads[i] = (struct trace_thread){
			.plan = plan,
			.index = i,
			.batch_ns = map_records(plan->batches * sizeof(uint64_t)),
		};
	}
	for (int i = 0; i < plan->threads; i++) {
		error = pthread_create(&threads[i].id, NULL, trace_thread_main, &threads[i]);
		if (error) {
			errno = error;
			fail(1, "cannot start thread %d: %s", i + 1, fork_error());
		}
	}
	for (int i = 0; i < plan->threads; i++)
		pthread_join(threads[i].id, NULL);
	row("batch_events", plan->batch);
	for (int i = 0; i < plan->threads; i++) {
		uint64_t events =
			plan->warm + plan->batch * (1 + plan->batches + threads[i].extra_batches);

		row_of_child(i + 1, "batch_ns", threads[i].batch_ns, plan->batches);
		row_of_child(i + 1, "made_events", &events, 1);
	}
}

#endif
