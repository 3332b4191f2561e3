// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * alloc_failures: allocations fail on purpose while pages are copied on write.
 *
 * 1. at random: every third allocation of pages, and of slab objects, in the writing loops of a
 *    parent and its child. A fault that gets no page is taken again, as upstream does it, so each
 *    write succeeds in the end, and a guess that gets none is dropped.
 * 2. one by one: the 1st, 2nd, 3rd, ... allocation of a fork or of a fault, until none fails. A
 * fork may fail with ENOMEM and nothing else; a fault in user mode never does.
 * 3. in guesses alone, where the kernel makes them: then each page is a fault of its own, exactly.
 *
 * After each, every byte must be right, and the memory that was charged to the test must be gone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 512
#define ROUNDS 20
#define FEW 32				  /* pages for the failures one by one */
#define COUNTING "/proc/sys/vm/cow_stats" /* where the kernel has it */
#define GROUP "/sys/fs/cgroup/alloc_failures"
/* Charges are made ahead, for each CPU; a leak of one page a round and CPU is above this. */
#define LEFT_BYTES (512 * sysconf(_SC_PAGESIZE))

static size_t page_size;
static char *memory;
static uint32_t *generations; /* of this process; shared memory, so no copy on write */
static const char *const kinds[] = { "fail_page_alloc", "failslab" };

static void die(const char *what)
{
	fprintf(stderr, "alloc_failures: %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool try_put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

static void put(const char *path, const char *text)
{
	if (!try_put(path, text))
		die(path);
}

static void set(const char *kind, const char *name, const char *value)
{
	char path[200];

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s", kind, name);
	put(path, value);
}

static long figure(const char *path, const char *key)
{
	char text[4096], *at;
	int fd = open(path, O_RDONLY);
	ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		close(fd);
	if (length < 0)
		return -1;
	text[length] = 0;
	if (!*key)
		return atol(text);
	at = strstr(text, key);
	return at ? atol(at + strlen(key)) : -1;
}

static uint64_t word_of(size_t page, uint32_t generation, size_t i)
{
	return ((uint64_t)generation << 32 | page) * 0x9e3779b97f4a7c15 + i;
}

static void write_page(size_t page, uint32_t generation)
{
	uint64_t *words = (uint64_t *)(memory + page * page_size);

	for (size_t i = 0; i < page_size / 8; i++)
		words[i] = word_of(page, generation, i);
	generations[page] = generation;
}

static void check(const char *who)
{
	for (size_t page = 0; page < PAGES; page++) {
		const uint64_t *words = (const uint64_t *)(memory + page * page_size);

		for (size_t i = 0; i < page_size / 8; i++) {
			if (words[i] == word_of(page, generations[page], i))
				continue;
			fprintf(stderr, "alloc_failures: %s: page %zu, byte %zu is 0x%llx\n", who,
				page, i * 8, (unsigned long long)words[i]);
			exit(1);
		}
	}
}

/*
 * Allocations of this task fail from here to there: only writes to memory in between. A system call
 * that the kernel cannot finish for want of a page fails with EFAULT, here as upstream.
 */
static int switch_fd = -1;
static void failing(bool on)
{
	if (switch_fd < 0)
		switch_fd = open("/proc/self/make-it-fail", O_WRONLY);
	if (switch_fd < 0 || pwrite(switch_fd, on ? "1" : "0", 1, 0) != 1)
		die("/proc/self/make-it-fail");
}

static void configure(const char *probability, const char *task_filter)
{
	/* Without the filter and with the old probability, everybody's allocations would fail. */
	for (size_t i = 0; i < 2; i++)
		set(kinds[i], "probability", "0");
	for (size_t i = 0; i < 2; i++) {
		set(kinds[i], "task-filter", task_filter);
		set(kinds[i], "interval", "0");
		set(kinds[i], "times", "-1");
		set(kinds[i], "space", "0");
		set(kinds[i], "verbose", "0");
		set(kinds[i], "ignore-gfp-wait", "N");
		set(kinds[i], "probability", probability);
	}
	set("fail_page_alloc", "min-order", "0");
	set("fail_page_alloc", "ignore-gfp-highmem", "N");
}

static uint32_t *shared_array(void)
{
	void *array = mmap(NULL, PAGES * sizeof(uint32_t), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (array == MAP_FAILED)
		die("mmap");
	return array;
}

/* Page tables that fork left for later and that could not be copied; none on other kernels. */
static long lost_tables(void)
{
	long lost = figure("/proc/cow_stats", "defer_lost: ");

	return lost > 0 ? lost : 0;
}

/* A child whose page tables were lost is killed: Documentation/admin-guide/mm/cow.rst. */
static void child_ended(pid_t child)
{
	static long lost;
	int status;

	if (waitpid(child, &status, 0) != child ||
	    (status && (status != SIGKILL || lost_tables() == lost))) {
		fprintf(stderr, "alloc_failures: a child ended with 0x%x\n", status);
		exit(1);
	}
	lost = lost_tables();
}

static void at_random(void)
{
	uint32_t *childs = shared_array();

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		pid_t child;

		memcpy(childs, generations, PAGES * sizeof(*childs));
		child = fork();
		if (child < 0)
			die("fork");
		if (child == 0) {
			generations = childs;
			switch_fd = -1;
			failing(true);
			for (size_t page = 1; page < PAGES; page += 2)
				write_page(page, 1000 + round);
			failing(false);
			check("a child whose allocations fail");
			exit(0);
		}
		failing(true);
		for (size_t page = 0; page < PAGES; page += round % 3 + 1)
			write_page(page, round);
		failing(false);
		check("a process whose allocations fail");
		child_ended(child);
	}
}

/* The nth allocation from now on fails. True if there were so many, when it is asked for. */
static int nth_fd = -1;
static char *nth_text;
static void fail_nth(int n)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d", n);

	if (nth_fd < 0)
		nth_fd = open("/proc/thread-self/fail-nth", O_RDWR);
	if (nth_fd < 0 || pwrite(nth_fd, text, (size_t)length, 0) != length)
		die("/proc/thread-self/fail-nth");
}

static bool failed_nth(void)
{
	/* Not copied on write: the kernel could not write it for want of the page. */
	ssize_t length;
	int left;

	length = pread(nth_fd, nth_text, 15, 0);
	if (length <= 0)
		die("/proc/thread-self/fail-nth");
	nth_text[length] = 0;
	left = atoi(nth_text);
	fail_nth(0);
	return left == 0;
}

static void one_by_one(long *forks_failed, long *faults_failed)
{
	bool failed = true;
	int pipe_fds[2];
	char byte;

	for (int n = 1; failed; n++) {
		pid_t child;

		fail_nth(n);
		child = fork();
		if (child == 0)
			_exit(0);
		failed = failed_nth();
		if (child < 0 && (errno != ENOMEM && errno != EAGAIN))
			die("fork");
		if (child < 0)
			*forks_failed += 1;
		else
			child_ended(child);
		check("after a fork whose allocation failed");
	}
	/* Each nth of a fault, over a few pages: with and without what a batch needs for itself. */
	failed = true;
	for (int n = 1; failed; n++) {
		pid_t child;

		if (pipe(pipe_fds))
			die("pipe");
		child = fork();
		if (child < 0)
			die("fork");
		if (child == 0) {
			close(pipe_fds[1]);
			_exit(read(pipe_fds[0], &byte, 1) != 0);
		}
		failed = false;
		for (size_t page = 0; page < FEW; page++) {
			size_t at = (page * 7 + (size_t)n * 31) % PAGES;

			fail_nth(n);
			*(volatile char *)(memory + at * page_size) = 0;
			if (failed_nth()) {
				failed = true;
				*faults_failed += 1;
			}
			write_page(at, (uint32_t)(100000 + n));
		}
		check("after faults whose allocation failed");
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		child_ended(child);
	}
}

/* Where the kernel's guesses are: the addresses of its functions of that name. */
static bool find_guesses(unsigned long *start, unsigned long *end)
{
	char line[300], name[200];
	unsigned long address;
	FILE *file = fopen("/proc/kallsyms", "r");
	bool found = false, next = false;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx %*c %199s", &address, name) != 2)
			continue;
		if (next) {
			*end = address;
			next = false;
		}
		if (!strcmp(name, "cow_precopy_range")) {
			*start = address;
			found = next = true;
		}
	}
	if (file)
		fclose(file);
	return found;
}

/* Whether the policy guesses at each fault: with a threshold, only where much was written before.
 */
static bool guesses_all(void)
{
	long policy = figure("/proc/sys/vm/cow_precopy", "");

	return policy == 1 || (policy > 1 && figure("/proc/sys/vm/cow_threshold_pct", "") == 0);
}

static void in_guesses(void)
{
	unsigned long start = 0, end = 0;
	long faults, refused, precopied;
	int pipe_fds[2];
	char text[32];
	pid_t child;

	if (!find_guesses(&start, &end)) {
		if (!access("/proc/sys/vm/cow_precopy", F_OK)) {
			fprintf(stderr, "alloc_failures: the kernel has no cow_precopy_range()\n");
			exit(1);
		}
		printf("skipped: failures in guesses alone: this kernel makes none\n");
		return;
	}
	configure("100", "Y");
	set("failslab", "probability", "0");
	snprintf(text, sizeof(text), "0x%lx", start);
	set("fail_page_alloc", "require-start", text);
	snprintf(text, sizeof(text), "0x%lx", end);
	set("fail_page_alloc", "require-end", text);
	set("fail_page_alloc", "stacktrace-depth", "16");
	if (pipe(pipe_fds))
		die("pipe");
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		close(pipe_fds[1]);
		_exit(read(pipe_fds[0], text, 1) != 0);
	}
	for (int i = 0; i < 2; i++) {
		precopied = figure("/proc/self/cow_stats", "precopied: ");
		refused = figure("/proc/cow_stats", "precopy_refused_nomem: ");
		faults = figure("/proc/self/cow_stats", "faults: ");
		failing(true);
		failing(false);
	}
	failing(true);
	for (size_t page = 0; page < PAGES; page++)
		*(volatile char *)(memory + page * page_size) = *(memory + page * page_size);
	failing(false);
	faults = figure("/proc/self/cow_stats", "faults: ") - faults;
	precopied = figure("/proc/self/cow_stats", "precopied: ") - precopied;
	refused = figure("/proc/cow_stats", "precopy_refused_nomem: ") - refused;
	set("fail_page_alloc", "require-start", "0");
	set("fail_page_alloc", "require-end", "0xffffffffffffffff");
	check("where only guesses fail");
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	child_ended(child);
	printf("guesses_failed: %ld faults: %ld precopied: %ld\n", refused, faults, precopied);
	if (faults != PAGES || precopied != 0 || (guesses_all() && refused < PAGES - 1)) {
		fprintf(stderr,
			"alloc_failures: %d pages written where every guess fails: "
			"%ld faults, %ld copied ahead, %ld refused for want of memory\n",
			PAGES, faults, precopied, refused);
		exit(1);
	}
}

/* A stack that cannot grow for want of memory is a segmentation fault: grow it before. */
static void grow_stack(void)
{
	volatile char room[256 << 10];

	for (size_t i = 0; i < sizeof(room); i += 4096)
		room[i] = 1;
}

static void all(void)
{
	long forks_failed = 0, faults_failed = 0;

	grow_stack();
	memory = mmap(NULL, PAGES * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	if (memory == MAP_FAILED)
		die("mmap");
	madvise(memory, PAGES * page_size, MADV_NOHUGEPAGE);
	generations = shared_array();
	nth_text = (char *)shared_array();
	for (size_t page = 0; page < PAGES; page++)
		write_page(page, 1);
	configure("33", "Y");
	at_random();
	/* fail-nth has no probability, and no filter. */
	configure("0", "Y");
	one_by_one(&forks_failed, &faults_failed);
	in_guesses();
	configure("0", "N");
	printf("forks_failed: %ld faults_failed: %ld\n", forks_failed, faults_failed);
	if (!forks_failed || !faults_failed) {
		fprintf(stderr, "alloc_failures: no allocation failed\n");
		exit(1);
	}
	exit(0);
}

/*
 * After a preemption the kernel writes the C library's restartable-sequences area, and ends the
 * process by SIGSEGV if that page cannot be copied, here as upstream: do without the area.
 */
static void without_rseq(char **argv)
{
	static const char tunable[] = "glibc.pthread.rseq=0";
	const char *tunables = getenv("GLIBC_TUNABLES");

	if (tunables && !strcmp(tunables, tunable))
		return;
	setenv("GLIBC_TUNABLES", tunable, 1);
	execv("/proc/self/exe", argv);
	die("/proc/self/exe");
}

int main(int argc, char **argv)
{
	long before, left = 0;
	char counting[32];
	pid_t test;
	int status;

	(void)argc;
	without_rseq(argv);
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	if (access("/sys/kernel/debug/fail_page_alloc", X_OK)) {
		printf("this kernel injects no failures (CONFIG_FAIL_PAGE_ALLOC)\n");
		return 4;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	put("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir(GROUP, 0755) && errno != EEXIST)
		die(GROUP);
	before = figure(GROUP "/memory.current", "");
	snprintf(counting, sizeof(counting), "%ld", figure(COUNTING, ""));
	try_put(COUNTING, "1");
	test = fork();
	if (test < 0)
		die("fork");
	if (test == 0) {
		put(GROUP "/cgroup.procs", "0");
		all();
	}
	if (waitpid(test, &status, 0) != test)
		die("waitpid");
	configure("0", "N");
	try_put(COUNTING, counting);
	/* The last references go a little later. */
	for (int i = 0; i < 50; i++) {
		left = figure(GROUP "/memory.current", "") - before;
		if (left < LEFT_BYTES)
			break;
		usleep(100000);
	}
	printf("left_bytes: %ld\n", left);
	rmdir(GROUP);
	if (status) {
		fprintf(stderr, "alloc_failures: the test ended with 0x%x\n", status);
		return 1;
	}
	if (left >= LEFT_BYTES) {
		fprintf(stderr, "alloc_failures: %ld bytes are still charged: a leak\n", left);
		return 1;
	}
	return 0;
}
