// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * defer_lock: a child that is stopped while it copies a page table that fork has left for later
 * (vm.cow_defer) must not stop its parent, which writes to other page tables.
 *
 * The child reads the first half of the heap on the second CPU, where a real-time process soon
 * takes all time. Meanwhile the parent writes to the second half. Before, it waited for the child's
 * copy, and so for the real-time process, in about half of the rounds.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "cases.h"
#include "settings.h"

#define TABLE (2UL << 20)
#define TABLES 128
#define ROUNDS 12
#define HOG_MS 900 /* less than real-time processes may have of a second */
#define LIMIT_MS 400

static volatile struct {
	bool copies, spins, ended;
} * shared;
static char *heap;

static long now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
}

static void read_half(void)
{
	volatile char sum = 0;

	for (size_t at = 0; at < TABLES / 2 * TABLE; at += TABLE)
		sum += heap[at];
	(void)sum;
}

/* Takes the second CPU some time after the child has begun to copy. */
static void hog(int delay_us)
{
	struct sched_param priority = { .sched_priority = 1 };
	long end;

	pin(1);
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		_exit(1);
	while (!shared->copies)
		usleep(100);
	usleep(delay_us);
	shared->spins = true;
	for (end = now_ms() + HOG_MS; now_ms() < end;)
		;
	shared->ended = true;
	_exit(0);
}

/* The longest write of a round, in ms. */
static long round_of(int number)
{
	long longest = 0;
	pid_t child, other;

	shared->copies = shared->spins = shared->ended = false;
	other = fork();
	if (other == 0)
		hog(number % 4 * 300);
	child = fork();
	if (child < 0 || other < 0)
		die("fork");
	if (child == 0) {
		pin(1);
		shared->copies = true;
		read_half();
		pause();
		_exit(0);
	}
	while (!shared->spins)
		usleep(100);
	for (size_t table = TABLES / 2; table < TABLES && !shared->ended; table++) {
		long before = now_ms(), took;

		heap[table * TABLE + (size_t)number * 4096] = 1;
		took = now_ms() - before;
		if (took > longest)
			longest = took;
	}
	waitpid(other, NULL, 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return longest;
}

int main(void)
{
	int before = failures;
	volatile char sum = 0;

	if (!has_setting("cow_defer")) {
		printf("this kernel has no vm.cow_defer\n");
		return 4;
	}
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("needs two CPUs\n");
		return 4;
	}
	remember_settings();
	set("cow_defer", 10000);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	heap = mmap(NULL, (TABLES + 1) * TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (shared == MAP_FAILED || heap == MAP_FAILED)
		die("mmap");
	heap += TABLE - (uintptr_t)heap % TABLE;
	madvise(heap, TABLES * TABLE, MADV_NOHUGEPAGE);
	heap[0] = 1;
	/* Full page tables, of the page of zeros. */
	for (size_t at = 0; at < TABLES * TABLE; at += 4096)
		sum += heap[at];
	pin(0);
	printf("KTAP version 1\n1..1\n");
	running = "a stopped child";
	for (int number = 0; number < ROUNDS; number++) {
		long longest = round_of(number);

		if (longest > LIMIT_MS)
			fail("in round %d a write took %ld ms", number, longest);
	}
	done("a child that is stopped does not stop its parent at other page tables", before);
	return failures != 0;
}
