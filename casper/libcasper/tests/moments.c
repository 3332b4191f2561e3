/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * moments COUNTERS WHAT: records at an odd moment of a program's life. Source 0 counts from 0;
 * counters[0] is how many events were recorded.
 */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/resource.h>

#include "test.h"

static uint64_t *count;
static uint64_t early;

static void one(void)
{
	if (prove(0, getpid(), count ? count[0] : early))
		abort();
	if (count)
		count[0]++;
	else
		early++;
}

/* Before any constructor, that of libcasper included. */
static void before_everything(void)
{
	one();
}
__attribute__((section(".preinit_array"), used)) static void (*first)(void) = before_everything;

__attribute__((constructor(102))) static void before_main(void)
{
	one();
}

__attribute__((destructor(102))) static void last(void)
{
	if (count)
		one();
}

static void at_exit(void)
{
	one();
}

static void limit(int resource, rlim_t value)
{
	struct rlimit limits = { value, value };

	if (setrlimit(resource, &limits))
		abort();
}

static void *in_thread(void *unused)
{
	one();
	return unused;
}

static void record_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, NULL))
		abort();
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	const char *what = argc >= 3 ? argv[2] : "";

	count = counters(argv[1]);
	count[0] += early;
	one();
	if (!strcmp(what, "exit")) {
		atexit(at_exit);
		return 0;
	} else if (!strcmp(what, "abort")) {
		one();
		abort();
	} else if (!strcmp(what, "exec")) {
		/* The new program begins with the same pid, and numbers its events from 0. */
		if (argc == 3) {
			execl("/proc/self/exe", argv[0], argv[1], what, "again", NULL);
			abort();
		}
		_exit(0);
	} else if (!strcmp(what, "closed")) {
		/* As a daemon does; then a thread that needs a buffer. */
		close_range(0, ~0u, 0);
		record_in_thread();
	} else if (!strcmp(what, "limits")) {
		limit(RLIMIT_NOFILE, 0);
		limit(RLIMIT_FSIZE, 0);
		one();
		record_in_thread();
		limit(RLIMIT_AS, 1 << 20);
		one();
	} else if (!strcmp(what, "thread-exit")) {
		for (int i = 0; i < 300; i++)
			record_in_thread();
	}
	one();
	return 0;
}
