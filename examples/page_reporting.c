// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * page_reporting [SECONDS]: what it costs one process that another frees memory, in a virtual
 * machine whose kernel reports free blocks to its hypervisor. One process writes at random to
 * 1 GiB of its own, on the first CPU; another makes 256 MiB of huge pages each four seconds, on the
 * second, and frees them. Nothing else joins the two: without reporting the first one notices
 * nothing. It counts writes in each 10 ms and prints, in percent of the median, each time of 50 ms
 * or more below 70 that began below 25, with the longest time between two looks at the clock: a CPU
 * that was taken away shows there, memory that answers slowly does not.
 *
 *     cc -O2 -o page_reporting examples/page_reporting.c
 *     cd /sys/module/page_reporting/parameters && cat page_reporting_order     # keep it
 *     ./page_reporting; echo 11 > page_reporting_order; ./page_reporting       # 11: nothing is
 * reported
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HUGE_BYTES (2ul << 20)
#define BASE_BYTES 4096ul
#define OWN_BYTES (1ul << 30)
#define FREED_BYTES (256ul << 20)
#define BUCKET_NS 10000000l
/* Populating and the writes after fork, which are not counted. */
#define WARM_UP_NS 1500000000l

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static long now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000l + time.tv_nsec;
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		die("sched_setaffinity");
}

/* Memory of whole huge pages, with the advice, written once. */
static char *written(char **mapping, size_t bytes, int advice)
{
	char *memory;

	*mapping = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (*mapping == MAP_FAILED)
		die("mmap");
	memory = (char *)(((uintptr_t)*mapping + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
	if (madvise(memory, bytes, advice) != 0)
		die("madvise");
	for (size_t at = 0; at < bytes; at += BASE_BYTES)
		memory[at] = 1;
	return memory;
}

static void free_again_and_again(void)
{
	char *mapping;

	for (;;) {
		written(&mapping, FREED_BYTES, MADV_HUGEPAGE);
		munmap(mapping, FREED_BYTES + HUGE_BYTES);
		sleep(4);
	}
}

static int by_count(const void *left, const void *right)
{
	long difference = *(const long *)left - *(const long *)right;

	return (difference > 0) - (difference < 0);
}

static void tell(const long *counts, const long *longest_ns, size_t buckets)
{
	long *sorted = malloc(buckets * sizeof(*sorted));
	double lost_ms = 0;
	long median;
	int times = 0;

	if (sorted == NULL)
		die("malloc");
	memcpy(sorted, counts, buckets * sizeof(*sorted));
	qsort(sorted, buckets, sizeof(*sorted), by_count);
	median = sorted[buckets / 2];
	free(sorted);
	for (size_t first = 0; first < buckets; first++) {
		size_t end = first;
		long gap_ns = 0;

		if (counts[first] * 4 >= median)
			continue;
		while (end < buckets && counts[end] * 10 < median * 7)
			end++;
		if (end - first >= 5) {
			printf("at %.2f s:", (double)first * BUCKET_NS / 1e9);
			for (size_t at = first; at < end; at++) {
				printf(" %ld%%", counts[at] * 100 / median);
				lost_ms += BUCKET_NS / 1e6 * (double)(median - counts[at]) /
					   (double)median;
				gap_ns = longest_ns[at] > gap_ns ? longest_ns[at] : gap_ns;
			}
			printf(", longest gap %.1f ms\n", (double)gap_ns / 1e6);
			times++;
		}
		first = end;
	}
	printf("%d slow times, %.0f ms lost; %.0f ns a write in the median\n", times, lost_ms,
	       (double)BUCKET_NS / (double)median);
}

int main(int argc, char **argv)
{
	long seconds = argc > 1 ? atol(argv[1]) : 60;
	size_t buckets = 0, most = seconds > 0 ? (size_t)seconds * (1000000000l / BUCKET_NS) : 0;
	long *counts = calloc(most, sizeof(*counts)),
	     *longest_ns = calloc(most, sizeof(*longest_ns));
	uint64_t random = 88172645463325252ull;
	char *mapping, *memory;
	long began_ns, last_ns, end_ns;
	pid_t other;

	if (argc > 2 || most == 0) {
		fprintf(stderr, "usage: page_reporting [SECONDS]\n");
		return 2;
	}
	if (counts == NULL || longest_ns == NULL)
		die("calloc");
	other = fork();
	if (other < 0)
		die("fork");
	if (other == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run_on(1);
		free_again_and_again();
	}
	run_on(0);
	memory = written(&mapping, OWN_BYTES, MADV_NOHUGEPAGE);
	began_ns = last_ns = now_ns();
	end_ns = began_ns + WARM_UP_NS;
	while (buckets < most) {
		long time_ns;

		for (int turn = 0; turn < 16; turn++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			memory[random % (OWN_BYTES / BASE_BYTES) * BASE_BYTES]++;
		}
		time_ns = now_ns();
		if (time_ns < began_ns + WARM_UP_NS) {
			last_ns = time_ns;
			continue;
		}
		counts[buckets] += 16;
		if (time_ns - last_ns > longest_ns[buckets])
			longest_ns[buckets] = time_ns - last_ns;
		last_ns = time_ns;
		if (time_ns >= end_ns) {
			end_ns = time_ns + BUCKET_NS;
			buckets++;
		}
	}
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	tell(counts, longest_ns, buckets);
	return 0;
}
