// SPDX-License-Identifier: GPL-2.0-only
/*
 * defer_waits MIB FORKS: what a process waits for after fork, with fork's page tables copied in it
 * and left for later (vm.cow_defer, alternating).
 *
 * A heap of MIB in base pages is written once. After each fork, while the child sleeps, or reads
 * all of the heap, the parent does one operation after the other for a second or until it has
 * written to each MiB: a write to a page that it has not touched since, a mapping of 1 MiB, a
 * page more of brk, an unmapping of 64 KiB of the heap. Then a snapshot: the parent writes each fifth
 * page, then the child reads the heap and ends; on one CPU without a host (icount) that is the CPU
 * time of all. Prints a line for each operation: how many, and the median, the 99th and 99.9th
 * percentile and the longest, in ns.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define PIECE (64UL << 10)

enum operation { FORK, WRITE, MMAP, BRK, MUNMAP, SNAPSHOT, OPERATIONS };
static const char *const names[] = { "fork", "write", "mmap", "brk", "munmap", "snapshot" };
static const char *const policies[] = { "off", "defer" };
static const char *const children[] = { "sleeps", "reads" };

static struct times {
	uint64_t *ns;
	size_t count, room;
} times[2][2][OPERATIONS];

static char *heap;
static size_t heap_bytes;

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void note(struct times *of, uint64_t since)
{
	uint64_t ns = now() - since;

	if (of->count == of->room) {
		of->room = of->room ? 2 * of->room : 4096;
		of->ns = realloc(of->ns, of->room * sizeof(*of->ns));
		if (!of->ns)
			die("realloc");
	}
	of->ns[of->count++] = ns;
}

static void set_policy(int policy)
{
	int fd = open("/proc/sys/vm/cow_defer", O_WRONLY);

	if (fd < 0 || write(fd, policy ? "2" : "0", 1) != 1)
		die("/proc/sys/vm/cow_defer");
	close(fd);
}

static void read_all(void)
{
	volatile char sum = 0;

	for (size_t at = 0; at < heap_bytes; at += 4096)
		sum = (char)(sum + heap[at]);
}

static void child_life(int reads)
{
	if (reads)
		read_all();
	for (;;)
		pause();
}

static void one_snapshot(int policy)
{
	uint64_t begin;
	int written[2];
	pid_t child;
	char byte;

	if (pipe(written))
		die("pipe");
	begin = now();
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		close(written[1]);
		_exit(read(written[0], &byte, 1) ? 1 : (read_all(), 0));
	}
	for (size_t at = 0; at < heap_bytes; at += 5 * 4096)
		((volatile char *)heap)[at]++;
	close(written[1]);
	waitpid(child, NULL, 0);
	note(&times[policy][1][SNAPSHOT], begin);
	close(written[0]);
	for (size_t at = 0; at < heap_bytes; at += 4096)
		((volatile char *)heap)[at]++;
}

static void one_fork(int policy, int reads)
{
	struct times *of = times[policy][reads];
	uint64_t begin = now(), since;
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (!child)
		child_life(reads);
	note(&of[FORK], begin);
	for (size_t at = 0; at < heap_bytes && now() - begin < 1000000000; at += MIB) {
		char *mapped;

		since = now();
		((volatile char *)heap)[at + 4096 * 17]++;
		note(&of[WRITE], since);
		since = now();
		mapped =
			mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		note(&of[MMAP], since);
		if (mapped == MAP_FAILED)
			die("mmap");
		munmap(mapped, MIB);
		since = now();
		if (sbrk(4096) == (void *)-1)
			die("brk");
		note(&of[BRK], since);
		/* A piece of each other MiB, of a page table that may not have been copied. */
		if (at / MIB % 8 == 7) {
			since = now();
			munmap(heap + at, PIECE);
			note(&of[MUNMAP], since);
		}
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* As it was: one mapping of base pages, each written. */
	for (size_t at = 7 * MIB; at < heap_bytes; at += 8 * MIB)
		if (mmap(heap + at, PIECE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			die("mmap");
	madvise(heap, heap_bytes, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < heap_bytes; at += 4096)
		((volatile char *)heap)[at]++;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static unsigned long long quantile(const struct times *of, double share)
{
	return of->ns[(size_t)((double)(of->count - 1) * share + 0.5)];
}

int main(int argc, char **argv)
{
	int forks = argc == 3 ? atoi(argv[2]) : 0;

	heap_bytes = argc == 3 ? strtoul(argv[1], NULL, 0) * MIB : 0;
	if (heap_bytes < 8 * MIB || forks < 1) {
		fprintf(stderr, "usage: defer_waits MIB FORKS, 8 MiB at least\n");
		return 2;
	}
	heap = mmap(NULL, heap_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (heap == MAP_FAILED)
		die("mmap");
	madvise(heap, heap_bytes, MADV_NOHUGEPAGE);
	memset(heap, 1, heap_bytes);
	for (int i = 0; i < forks; i++)
		for (int policy = 0; policy < 2; policy++) {
			set_policy(policy);
			for (int reads = 0; reads < 2; reads++)
				one_fork(policy, reads);
			one_snapshot(policy);
		}
	set_policy(0);
	printf("policy\tchild\toperation\tcount\tp50_ns\tp99_ns\tp99.9_ns\tmax_ns\n");
	for (int operation = 0; operation < OPERATIONS; operation++)
		for (int reads = 0; reads < 2; reads++)
			for (int policy = 0; policy < 2; policy++) {
				struct times *of = &times[policy][reads][operation];

				if (!of->count)
					continue;
				qsort(of->ns, of->count, sizeof(*of->ns), compare);
				printf("%s\t%s\t%s\t%zu\t%llu\t%llu\t%llu\t%llu\n",
				       policies[policy], children[reads], names[operation],
				       of->count, quantile(of, 0.5), quantile(of, 0.99),
				       quantile(of, 0.999), quantile(of, 1));
			}
	return 0;
}
