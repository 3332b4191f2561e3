// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * copy_among_work [MIB [ROUNDS]]: what a copy after fork costs a program that does something
 * between its copies. The same pages are written without a child and beside one, with the same work
 * before each write; what they differ by in CPU time, a page, is the copy with all that it does to
 * the caches of the work, and the work to its. A loop that only writes finds the kernel's code and
 * data in the nearest caches, and has nothing of its own there to lose.
 *
 *     cc -O2 -o copy_among_work examples/copy_among_work.c && ./copy_among_work 332 9
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul
#define WRITES 20000ul
#define READ_BYTES (64ul << 20)
#define MESSAGE_BYTES 500
#define ROUNDS_MAX 99

/* Before each write: reads at random within so much memory, and messages to itself. */
static const struct work {
	const char *name;
	unsigned int reads;
	size_t within;
	unsigned int messages;
} works[] = {
	{ "nothing", 0, PAGE, 0 },
	{ "400 reads of 16 KiB", 400, 16 << 10, 0 },
	{ "400 reads of 256 KiB", 400, 256 << 10, 0 },
	{ "400 reads of 1 MiB", 400, 1 << 20, 0 },
	{ "100 reads of 16 MiB", 100, 16 << 20, 0 },
	{ "20 reads of 16 MiB, 2 messages", 20, 16 << 20, 2 },
	{ "20 reads of 256 KiB, 4 messages", 20, 256 << 10, 4 },
};

static uint64_t state = 88172645463325252ull;
static char *heap, *other;
static uint32_t *order;
static int ends[2];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t random_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Of base pages, and not the child's. */
static char *memory(size_t bytes, int advice)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		die("mmap");
	madvise(at, bytes, MADV_NOHUGEPAGE);
	memset(at, 1, bytes);
	if (advice)
		madvise(at, bytes, advice);
	return at;
}

static void do_work(const struct work *work)
{
	char message[MESSAGE_BYTES] = { 0 };

	for (unsigned int i = 0; i < work->reads; i++)
		*(volatile char *)(other + random_number() % work->within);
	for (unsigned int i = 0; i < work->messages; i++)
		if (write(ends[0], message, sizeof(message)) < 0 ||
		    read(ends[1], message, sizeof(message)) < 0)
			die("message");
}

/* CPU time of a write and its work, in ns. */
static double writes(const struct work *work)
{
	uint64_t began = cpu_ns();

	for (size_t i = 0; i < WRITES; i++) {
		do_work(work);
		heap[order[i] * PAGE + i % 64 * 64]++;
	}
	return (double)(cpu_ns() - began) / WRITES;
}

static double writes_beside_a_child(const struct work *work)
{
	pid_t child = fork();
	double took;

	if (child < 0)
		die("fork");
	while (child == 0)
		pause();
	took = writes(work);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return took;
}

static int compare(const void *one, const void *other_one)
{
	double a = *(const double *)one, b = *(const double *)other_one;

	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 1 ? strtoul(argv[1], NULL, 10) : 332, pages = mib << 8;
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 9;

	if (pages < WRITES || pages > UINT32_MAX || !rounds || rounds > ROUNDS_MAX) {
		fprintf(stderr,
			"copy_among_work [MIB [ROUNDS]]: 79 MiB or more, at most %d rounds\n",
			ROUNDS_MAX);
		return 2;
	}
	heap = memory(mib << 20, 0);
	other = memory(READ_BYTES, MADV_DONTFORK);
	order = (uint32_t *)memory(pages * sizeof(*order), MADV_DONTFORK);
	for (size_t i = 0; i < pages; i++) {
		size_t at = random_number() % (i + 1);

		order[i] = order[at];
		order[at] = (uint32_t)i;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		die("socketpair");
	printf("%-34s %10s %26s\n", "before each write", "the work", "a copy (least to most)");
	for (size_t w = 0; w < sizeof(works) / sizeof(*works); w++) {
		double alone[ROUNDS_MAX], extra[ROUNDS_MAX];

		for (size_t i = 0; i < rounds; i++) {
			/* What the last fork left write-protected. */
			writes(&works[w]);
			alone[i] = writes(&works[w]);
			extra[i] = writes_beside_a_child(&works[w]) - alone[i];
		}
		qsort(alone, rounds, sizeof(*alone), compare);
		qsort(extra, rounds, sizeof(*extra), compare);
		printf("%-34s %7.2f us %7.2f us (%.2f to %.2f)\n", works[w].name,
		       alone[rounds / 2] / 1e3, extra[rounds / 2] / 1e3, extra[0] / 1e3,
		       extra[rounds - 1] / 1e3);
	}
	return 0;
}
