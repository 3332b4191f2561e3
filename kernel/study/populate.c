// SPDX-License-Identifier: GPL-2.0-only
/*
 * populate MIB PERCENT WORK_NS ROUNDS: what a program can do about copy-on-write by itself, on any
 * kernel from 6.7 on: after fork it breaks the sharing of its pages by MADV_POPULATE_WRITE, before it
 * writes to them.
 *
 * A heap of MIB in base pages was written. In each round the parent forks a child that keeps the
 * pages shared, writes to PERCENT of them, the same in each round, in address order or a random one,
 * works for WORK_NS before each, and ends the child. The modes:
 *
 * - none: each write faults
 * - all: a second thread populates the whole heap meanwhile, in address order
 * - written: it populates what PAGEMAP_SCAN says was written in the round before, by asynchronous
 *   write protection with userfaultfd. As populating counts as writing, all is protected again when
 *   it has ended: pages that were written only before are forgotten.
 * - at-once: the same pages, by the thread that forks, before it goes on
 *
 * Prints a line for each order and mode, medians over the rounds: the call of fork, with the scan and,
 * at once, the populating; the writes without the work; the faults that the writer took; CPU time of
 * the process over the writes without the work; pages that were copied though nobody wrote to them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Where the C library's headers are older than 6.7. */
#ifndef PAGEMAP_SCAN
struct page_region {
	__u64 start, end, categories;
};

struct pm_scan_arg {
	__u64 size, flags, start, end, walk_end, vec, vec_len, max_pages;
	__u64 category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define PAGEMAP_SCAN _IOWR('f', 16, struct pm_scan_arg)
#define PAGE_IS_WRITTEN (1 << 1)
#define PM_SCAN_WP_MATCHING (1 << 0)
#define PM_SCAN_CHECK_WPASYNC (1 << 1)
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define PAGE 4096UL
/* As much a call: a signal, or the writer that wants mmap_lock for writing, waits for one. */
#define STEP (128UL << 10)
#define RANGES 65536

enum mode { NONE, ALL, WRITTEN, AT_ONCE, MODES };
static const char *const modes[] = { "none", "all", "written", "at-once" };
static const char *const orders[] = { "sequential", "random" };

enum figure { FORK_NS, WRITES_NS, FAULTS, CPU_NS, IN_VAIN, FIGURES };
static uint64_t *figures[2][MODES][FIGURES];

static char *heap;
static size_t heap_bytes, written;
static uint64_t work_ns;
static uint32_t *order;
static int pagemap;
static struct page_region ranges[RANGES];
static long range_count;
static int scanning;
static sem_t begin, end;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_minflt;
}

/* Pages of the heap that the child does not share any more: bit 56 of /proc/PID/pagemap. */
static uint64_t own_pages(void)
{
	uint64_t entries[512], count = 0;
	size_t first = (uintptr_t)heap / PAGE, pages = heap_bytes / PAGE;

	for (size_t at = 0; at < pages; at += 512) {
		ssize_t got = pread(pagemap, entries, sizeof(entries),
				    (off_t)((first + at) * sizeof(*entries)));

		if (got != sizeof(entries))
			die("pagemap");
		for (size_t i = 0; i < 512; i++)
			count += entries[i] >> 56 & 1;
	}
	return count;
}

/* Which pages were written since the last time, and protect them again. */
static void scan(struct page_region *into, size_t room)
{
	long found;
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.flags = PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
		.start = (uintptr_t)heap,
		.end = (uintptr_t)heap + heap_bytes,
		.vec = (uintptr_t)into,
		.vec_len = room,
		.category_mask = PAGE_IS_WRITTEN,
		.return_mask = PAGE_IS_WRITTEN,
	};

	found = ioctl(pagemap, PAGEMAP_SCAN, &arg);
	if (found < 0)
		die("PAGEMAP_SCAN");
	if (room && found == (long)room)
		fprintf(stderr, "populate: more than %d ranges were written\n", RANGES);
	if (room)
		range_count = found;
}

static void populate(void)
{
	for (long i = 0; i < range_count; i++) {
		for (uint64_t at = ranges[i].start; at < ranges[i].end; at += STEP) {
			size_t rest = ranges[i].end - at;

			madvise((void *)at, rest < STEP ? rest : STEP, MADV_POPULATE_WRITE);
		}
	}
	if (scanning)
		scan(NULL, 0);
}

static void *second_thread(void *unused)
{
	(void)unused;
	for (;;) {
		while (sem_wait(&begin))
			;
		populate();
		sem_post(&end);
	}
	return NULL;
}

static int watch_writes(void)
{
	struct uffdio_api api = { .api = UFFD_API,
				  .features = UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED };
	struct uffdio_register range = { .range = { (uintptr_t)heap, heap_bytes },
					 .mode = UFFDIO_REGISTER_MODE_WP };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		die("userfaultfd");
	return fd;
}

static void note(uint64_t *figure[FIGURES], size_t round, const uint64_t values[FIGURES])
{
	for (int i = 0; i < FIGURES; i++)
		figure[i][round] = values[i];
}

/* Turns that take WORK_NS where nobody disturbs, so that a disturbance counts as the writes'. */
static uint64_t turns;

static void work(void)
{
	for (volatile uint64_t i = 0; i < turns; i++)
		;
}

/* What the work of all writes takes by itself. */
static uint64_t worked_ns;

static void weigh_work(void)
{
	uint64_t since, took;

	if (!work_ns)
		return;
	turns = 1000000;
	since = now(CLOCK_MONOTONIC);
	work();
	took = now(CLOCK_MONOTONIC) - since;
	turns = turns * work_ns / took;
	worked_ns = UINT64_MAX;
	for (int i = 0; i < 3; i++) {
		since = now(CLOCK_THREAD_CPUTIME_ID);
		for (size_t write = 0; write < written; write++)
			work();
		took = now(CLOCK_THREAD_CPUTIME_ID) - since;
		if (took < worked_ns)
			worked_ns = took;
	}
}

static void measure(enum mode mode, uint64_t *into[FIGURES], size_t round)
{
	uint64_t values[FIGURES], since, own, cpu;
	pid_t child;

	since = now(CLOCK_MONOTONIC);
	range_count = 0;
	if (scanning)
		scan(ranges, RANGES);
	if (mode == ALL) {
		ranges[0] = (struct page_region){ (uintptr_t)heap, (uintptr_t)heap + heap_bytes, 0 };
		range_count = 1;
	}
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		for (;;)
			pause();
	}
	if (mode == AT_ONCE)
		populate();
	values[FORK_NS] = now(CLOCK_MONOTONIC) - since;
	own = faults();
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	if (mode == ALL || mode == WRITTEN)
		sem_post(&begin);
	since = now(CLOCK_MONOTONIC);
	for (size_t i = 0; i < written; i++) {
		work();
		*(volatile char *)(heap + order[i] * PAGE) = (char)round;
	}
	values[WRITES_NS] = now(CLOCK_MONOTONIC) - since - worked_ns;
	values[FAULTS] = faults() - own;
	if (mode == ALL || mode == WRITTEN)
		while (sem_wait(&end))
			;
	values[CPU_NS] = now(CLOCK_PROCESS_CPUTIME_ID) - cpu - worked_ns;
	values[IN_VAIN] = own_pages() - written;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (round)
		note(into, round - 1, values);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The pages that are written, spread over the heap, in their order. */
static void choose(int random)
{
	size_t pages = heap_bytes / PAGE;
	uint64_t state = 1988;

	for (size_t i = 0; i < written; i++)
		order[i] = (uint32_t)(i * pages / written);
	for (size_t i = written; random && i > 1; i--) {
		size_t other;
		uint32_t page = order[i - 1];

		state = state * 6364136223846793005u + 1442695040888963407u;
		other = (size_t)(state >> 33) % i;
		order[i - 1] = order[other];
		order[other] = page;
	}
}

int main(int argc, char **argv)
{
	size_t rounds;
	pthread_t thread;

	if (argc != 5) {
		fprintf(stderr, "usage: populate MIB PERCENT WORK_NS ROUNDS\n");
		return 2;
	}
	heap_bytes = strtoul(argv[1], NULL, 10) << 20;
	written = heap_bytes / PAGE * strtoul(argv[2], NULL, 10) / 100;
	work_ns = strtoul(argv[3], NULL, 10);
	rounds = strtoul(argv[4], NULL, 10);
	heap = mmap(NULL, heap_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	order = calloc(written, sizeof(*order));
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (heap == MAP_FAILED || !order || !written || !rounds || pagemap < 0)
		die("populate");
	madvise(heap, heap_bytes, MADV_NOHUGEPAGE);
	memset(heap, 1, heap_bytes);
	weigh_work();
	for (int i = 0; i < 2 * MODES * FIGURES; i++)
		figures[i / MODES / FIGURES][i / FIGURES % MODES][i % FIGURES] =
			calloc(rounds, sizeof(uint64_t));
	sem_init(&begin, 0, 0);
	sem_init(&end, 0, 0);
	if (pthread_create(&thread, NULL, second_thread, NULL))
		die("pthread_create");
	/* Of each, the first round is not counted: it finds nothing written, and memory that is new. */
	for (enum mode mode = NONE; mode < MODES; mode++) {
		int uffd = mode >= WRITTEN ? watch_writes() : -1;

		scanning = uffd >= 0;
		for (int random = 0; random < 2; random++) {
			choose(random);
			for (size_t round = 0; round <= rounds; round++)
				measure(mode, figures[random][mode], round);
		}
		if (uffd >= 0)
			close(uffd);
	}
	printf("order\tmode\tfork_ns\twrites_ns\twriter_faults\tcpu_ns\tcopied_in_vain_pages\n");
	for (int random = 0; random < 2; random++) {
		for (enum mode mode = NONE; mode < MODES; mode++) {
			printf("%s\t%s", orders[random], modes[mode]);
			for (int i = 0; i < FIGURES; i++) {
				uint64_t *values = figures[random][mode][i];

				qsort(values, rounds, sizeof(*values), by_value);
				printf("\t%llu", (unsigned long long)values[rounds / 2]);
			}
			printf("\n");
		}
	}
	return 0;
}
