// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * swap_pressure: does a data set larger than its memory survive forks and writes?
 *
 * Workers keep DATA_MIB each under one memory limit of half of their sum, so that most of it is in
 * swap at any time. Again and again a worker forks, writes pages at random while its child looks at
 * every byte of what there was at the fork, and then looks at every byte of its own. Beside them,
 * one process moves their pages between NUMA nodes (where there are two) and compacts memory, and
 * each worker gives pages up by MADV_FREE or pushes them out by MADV_PAGEOUT.
 *
 * With -b, pages are given up while a child shares them, on any kernel: Linux 6.12 then loses pages
 * of the child (the first patch of kernel/upstream/6.12).
 *
 * What a page must hold follows from its number and its generation. The generations are in memory
 * that is shared, and so is never copied on write.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 2
#define GROUP "/sys/fs/cgroup/swap_pressure"
#define FREED 0x80000000u /* of a generation: the page may be zeros instead */

static size_t page_size, pages;
static int seconds = 20, data_mib = 48;

/* Of each worker. */
static struct shared {
	volatile bool stop;
	long checked, written, forks, freed, killed, lost, moved;
	bool free_while_shared;
	char *memory[WORKERS];
	pid_t pid[WORKERS];
	uint32_t generations[]; /* pages of the first worker, of its child, of the second, ... */
} * shared;

static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "swap_pressure: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	shared->stop = true;
	_exit(1);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		fprintf(stderr, "swap_pressure: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	close(fd);
}

static void add(long *to, long count)
{
	__atomic_add_fetch(to, count, __ATOMIC_RELAXED);
}

static uint64_t random_word(void)
{
	static uint64_t state;
	uint64_t z;

	if (!state)
		state = (uint64_t)getpid();
	z = (state += 0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* Eight equal words in a row, so that compressed swap has something to compress. */
static uint64_t word_of(int worker, size_t page, uint32_t generation, size_t i)
{
	uint64_t base = ((uint64_t)(worker + 1) << 56) + ((uint64_t)page << 28) + generation;

	return (base + i / 8) * 0x9e3779b97f4a7c15;
}

static void write_page(int worker, char *memory, uint32_t *generations, size_t page)
{
	uint32_t generation = (generations[page] & ~FREED) + 1;
	uint64_t *words = (uint64_t *)(memory + page * page_size);

	for (size_t i = 0; i < page_size / 8; i++)
		words[i] = word_of(worker, page, generation, i);
	generations[page] = generation;
}

static bool is_zero(const uint64_t *words)
{
	for (size_t i = 0; i < page_size / 8; i++)
		if (words[i])
			return false;
	return true;
}

static void check(int worker, const char *memory, const uint32_t *generations, const char *who)
{
	for (size_t page = 0; page < pages; page++) {
		const uint64_t *words = (const uint64_t *)(memory + page * page_size);
		uint32_t generation = generations[page] & ~FREED;

		if ((generations[page] & FREED) && is_zero(words)) {
			add(&shared->lost, 1);
			continue;
		}
		for (size_t i = 0; i < page_size / 8; i++)
			if (words[i] != word_of(worker, page, generation, i))
				fail("%s of worker %d: page %zu, generation %u, byte %zu is 0x%llx "
				     "instead of 0x%llx",
				     who, worker, page, generation, i * 8,
				     (unsigned long long)words[i],
				     (unsigned long long)word_of(worker, page, generation, i));
	}
	add(&shared->checked, (long)pages);
}

static uint32_t *generations_of(int worker, bool child)
{
	return shared->generations + (size_t)(2 * worker + child) * pages;
}

static size_t some(size_t *count)
{
	size_t page = random_word() % pages;

	*count = random_word() % 64 + 1;
	if (*count > pages - page)
		*count = pages - page;
	return page;
}

static void push_out(char *memory)
{
	size_t count, page = some(&count);

	if (madvise(memory + page * page_size, count * page_size, MADV_PAGEOUT))
		fail("MADV_PAGEOUT: %s", strerror(errno));
}

/*
 * Give up some pages, and write half of them again: those must not be lost any more, and a child
 * that shares them must not lose any.
 */
static void give_up(int worker, char *memory, uint32_t *generations)
{
	size_t count, page = some(&count);

	if (madvise(memory + page * page_size, count * page_size, MADV_FREE))
		fail("MADV_FREE: %s", strerror(errno));
	for (size_t i = page; i < page + count; i++)
		generations[i] |= FREED;
	add(&shared->freed, (long)count);
	for (size_t i = page; i < page + count / 2; i++)
		write_page(worker, memory, generations, i);
}

static void round_of(int worker, char *memory)
{
	uint32_t *mine = generations_of(worker, false), *childs = generations_of(worker, true);
	pid_t child;
	int status;

	memcpy(childs, mine, pages * sizeof(*mine));
	child = fork();
	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		put("/proc/self/oom_score_adj", "1000");
		check(worker, memory, childs, "the child");
		for (size_t i = 0; i < pages / 8; i++)
			write_page(worker, memory, childs, random_word() % pages);
		check(worker, memory, childs, "the child that wrote");
		_exit(0);
	}
	add(&shared->forks, 1);
	/* Some at random, some in a row: both kinds of guesses. */
	for (size_t i = 0; i < pages / 8; i++)
		write_page(worker, memory, mine, random_word() % pages);
	for (size_t i = 0, at = random_word() % pages; i < pages / 8; i++)
		write_page(worker, memory, mine, (at + i) % pages);
	add(&shared->written, (long)pages / 4);
	for (int i = 0; i < 10; i++)
		push_out(memory);
	for (int i = 0; i < 10 && shared->free_while_shared; i++)
		give_up(worker, memory, mine);
	check(worker, memory, mine, "the parent");
	if (waitpid(child, &status, 0) != child)
		fail("waitpid: %s", strerror(errno));
	/* The memory cgroup's limit is there to be reached: its OOM killer takes the child. */
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		add(&shared->killed, 1);
	else if (status)
		fail("worker %d's child ended with 0x%x", worker, status);
	for (int i = 0; i < 10; i++)
		give_up(worker, memory, mine);
}

static void work(int worker)
{
	char *memory = mmap(NULL, pages * page_size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	/* The second has huge pages where it gets them. */
	madvise(memory, pages * page_size, worker % 2 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	for (size_t page = 0; page < pages; page++)
		write_page(worker, memory, generations_of(worker, false), page);
	shared->memory[worker] = memory;
	while (!shared->stop)
		round_of(worker, memory);
	_exit(0);
}

/* Move pages of the workers to and fro, and compact, until told to stop. */
static void migrate(void)
{
	int compact = open("/proc/sys/vm/compact_memory", O_WRONLY);
	void *addresses[64];
	int nodes[64], status[64];

	for (int node = 0; !shared->stop; node = !node) {
		for (int worker = 0; worker < WORKERS; worker++) {
			size_t page = random_word() % (pages - 64);

			if (!shared->memory[worker])
				continue;
			for (int i = 0; i < 64; i++) {
				addresses[i] = shared->memory[worker] + (page + i) * page_size;
				nodes[i] = node;
			}
			if (syscall(SYS_move_pages, shared->pid[worker], 64, addresses, nodes,
				    status, 4 /* MPOL_MF_MOVE_ALL: shared ones, too */) < 0)
				continue;
			for (int i = 0; i < 64; i++)
				add(&shared->moved, status[i] == node);
		}
		if (write(compact, "1", 1) != 1 && compact >= 0)
			fail("compact_memory: %s", strerror(errno));
		usleep(50000);
	}
	_exit(0);
}

static long vmstat(const char *name)
{
	char line[100];
	long value = -1;
	FILE *file = fopen("/proc/vmstat", "r");

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ' ')
			value = atol(line + strlen(name));
	if (file)
		fclose(file);
	if (value < 0) {
		fprintf(stderr, "swap_pressure: no %s in /proc/vmstat\n", name);
		exit(1);
	}
	return value;
}

/* Swap to compressed memory, unless there is swap already. */
static void need_swap(void)
{
	char line[200];
	int lines = 0;
	FILE *file = fopen("/proc/swaps", "r");

	while (file && fgets(line, sizeof(line), file))
		lines++;
	if (file)
		fclose(file);
	if (lines > 1)
		return;
	if (access("/sys/block/zram0/disksize", W_OK)) {
		printf("no swap, and no zram device for it\n");
		exit(4);
	}
	if (system("echo 1G >/sys/block/zram0/disksize && mkswap /dev/zram0 >/dev/null && "
		   "swapon /dev/zram0")) {
		fprintf(stderr, "swap_pressure: cannot swap to zram\n");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	long swapped_in, swapped_out;
	bool failed = false;
	char limit[32];
	pid_t mover;
	bool give_up_shared = false;
	int option;

	/* Of tests that are meant to take seconds. */
	if (getenv("COWLAB_QUICK")) {
		seconds = 5;
		data_mib = 24;
	}
	while ((option = getopt(argc, argv, "s:m:b")) != -1) {
		if (option == 's')
			seconds = atoi(optarg);
		else if (option == 'm')
			data_mib = atoi(optarg);
		else if (option == 'b')
			give_up_shared = true;
		else
			return 2;
	}
	if (seconds < 1 || data_mib < 4) {
		fprintf(stderr, "usage: swap_pressure [-s SECONDS] [-m DATA_MIB] [-b]\n");
		return 2;
	}
	need_swap();
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	pages = (size_t)data_mib * (1 << 20) / page_size;
	shared = mmap(NULL, sizeof(*shared) + 2 * WORKERS * pages * 4, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("swap_pressure: mmap");
		return 1;
	}
	/* A kernel with the series has the patch that makes it safe. */
	shared->free_while_shared = give_up_shared || !access("/proc/sys/vm/cow_precopy", F_OK);
	put("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir(GROUP, 0755) && errno != EEXIST) {
		perror("swap_pressure: " GROUP);
		return 1;
	}
	snprintf(limit, sizeof(limit), "%dM", WORKERS * data_mib / 2);
	put(GROUP "/memory.max", limit);
	put(GROUP "/cgroup.procs", "0");
	swapped_in = vmstat("pswpin");
	swapped_out = vmstat("pswpout");
	for (int worker = 0; worker < WORKERS; worker++) {
		shared->pid[worker] = fork();
		if (shared->pid[worker] == 0)
			work(worker);
	}
	mover = fork();
	if (mover == 0)
		migrate();
	for (int i = 0; i < seconds * 10 && !shared->stop; i++)
		usleep(100000);
	shared->stop = true;
	for (int i = 0; i < WORKERS + 1; i++) {
		int status;

		if (wait(&status) > 0 && status)
			failed = true;
	}
	swapped_in = vmstat("pswpin") - swapped_in;
	swapped_out = vmstat("pswpout") - swapped_out;
	printf("checked_pages: %ld written_pages: %ld forks: %ld freed_pages: %ld "
	       "killed_children: %ld lost_pages: %ld moved_pages: %ld swapped_in_pages: %ld "
	       "swapped_out_pages: %ld\n",
	       shared->checked, shared->written, shared->forks, shared->freed, shared->killed,
	       shared->lost, shared->moved, swapped_in, swapped_out);
	put("/sys/fs/cgroup/cgroup.procs", "0");
	rmdir(GROUP);
	if (failed)
		return 1;
	if (shared->killed > shared->forks / 2) {
		fprintf(stderr, "swap_pressure: most children were killed for want of memory\n");
		return 1;
	}
	if (swapped_in < (long)pages || swapped_out < (long)pages) {
		fprintf(stderr, "swap_pressure: no pressure: less than a data set was swapped\n");
		return 1;
	}
	return 0;
}
