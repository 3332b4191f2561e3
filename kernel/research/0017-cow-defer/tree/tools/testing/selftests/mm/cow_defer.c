// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page tables that fork leaves for later (vm.cow_defer): whatever either side does first, both see
 * what they would have seen; what nobody needs is not copied; and the counts add up.
 *
 * Each test forks with an area of which page p holds p, has one side do something, and then looks
 * at every page of both.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest.h"

#define TABLE		(2ul << 20)
#define TABLES		4
#define SIZE		(TABLES * TABLE)
#define DEFER		"/proc/sys/vm/cow_defer"
#define DELAY		"/proc/sys/vm/cow_defer_delay_ms"
#define FAIL		"/sys/kernel/debug/fail_page_alloc/"

#ifndef PR_SET_COW_DEFER
#define PR_SET_COW_DEFER	0x434f5703
#define PR_GET_COW_DEFER	0x434f5704
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE		25
#endif

static size_t page_size;
static char *mem;
static size_t size;
/* What each page must hold; -1: it is not mapped. */
static long holds[SIZE / 4096];

static bool number_write(const char *path, long number)
{
	char text[24];
	int length = snprintf(text, sizeof(text), "%ld\n", number), fd = open(path, O_WRONLY);
	bool done = fd >= 0 && write(fd, text, length) == length;

	if (fd >= 0)
		close(fd);
	return done;
}

/* The number after "KEY: " in a file, or -1. */
static long figure(const char *path, const char *key)
{
	size_t length = strlen(key);
	FILE *file = fopen(path, "r");
	long value = -1, sum = -1;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, length) && line[length] == ':') {
			value = atol(line + length + 1);
			sum = sum < 0 ? value : sum + value;
		}
	if (file)
		fclose(file);
	return sum;
}

static long global(const char *key)
{
	return figure("/proc/cow_stats", key);
}

static size_t pages(void)
{
	return size / page_size;
}

static volatile long *at(size_t page)
{
	return (volatile long *)(mem + page * page_size);
}

/* An area at a page table's edge, or @cut pages from it at both ends, with nothing around it. */
static void area_make(size_t cut)
{
	char *reserved = mmap(NULL, SIZE + 2 * TABLE, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uintptr_t start = ((uintptr_t)reserved + TABLE - 1) & ~(TABLE - 1);
	size_t i;

	if (reserved == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	munmap(reserved, SIZE + 2 * TABLE);
	mem = (char *)start + cut * page_size;
	size = SIZE - 2 * cut * page_size;
	if (mmap(mem, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != mem)
		ksft_exit_fail_perror("mmap");
	madvise(mem, size, MADV_NOHUGEPAGE);
	for (i = 0; i < pages(); i++)
		*at(i) = holds[i] = i + 1;
}

/* The first page that holds what it must not, or -1. */
static long wrong(void)
{
	size_t i;

	for (i = 0; i < pages(); i++)
		if (holds[i] >= 0 && *at(i) != holds[i])
			return i;
	return -1;
}

static void now_holds(size_t from, size_t to, long value)
{
	for (; from < to; from++)
		holds[from] = value;
}

/* Half of the second page table and half of the third. */
static size_t from(void)
{
	return pages() * 3 / 8;
}

static size_t to(void)
{
	return pages() * 5 / 8;
}

static char *part(void)
{
	return mem + from() * page_size;
}

static size_t part_size(void)
{
	return (to() - from()) * page_size;
}

/* What a side may do. Each returns whether it could, and notes what its pages hold then. */
static bool writes_one(void)
{
	*at(from()) = holds[from()] = -2;
	return true;
}

static bool writes_all(void)
{
	size_t i;

	for (i = 0; i < pages(); i++)
		*at(i) = holds[i] = 1000000 + i;
	return true;
}

static bool reads_all(void)
{
	return wrong() < 0;
}

static bool discards_part(void)
{
	now_holds(from(), to(), 0);
	return !madvise(part(), part_size(), MADV_DONTNEED);
}

static bool discards_all(void)
{
	now_holds(0, pages(), 0);
	return !madvise(mem, size, MADV_DONTNEED);
}

static bool unmaps_part(void)
{
	now_holds(from(), to(), -1);
	return !munmap(part(), part_size());
}

static bool unmaps_all(void)
{
	now_holds(0, pages(), -1);
	return !munmap(mem, size);
}

static bool maps_over(void)
{
	now_holds(from(), to(), 0);
	return mmap(part(), part_size(), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == part();
}

static bool protects(void)
{
	return !mprotect(part(), part_size(), PROT_NONE) &&
	       !mprotect(part(), part_size(), PROT_READ | PROT_WRITE) && writes_one();
}

static bool moves(void)
{
	char *elsewhere = mmap(NULL, 3 * TABLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	elsewhere = (char *)(((uintptr_t)elsewhere + TABLE - 1) & ~(TABLE - 1)) +
		    (uintptr_t)part() % TABLE;
	if (mremap(part(), part_size(), part_size(), MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) !=
	    elsewhere)
		return false;
	((volatile long *)elsewhere)[0] = -3;
	holds[from()] = -3;
	return mremap(elsewhere, part_size(), part_size(), MREMAP_MAYMOVE | MREMAP_FIXED,
		      part()) == part();
}

static bool locks(void)
{
	return !mlock(part(), part_size()) && writes_one() && !munlock(part(), part_size());
}

static bool collapses(void)
{
	madvise(mem, size, MADV_HUGEPAGE);
	/* Whether a huge page can be had does not matter. */
	madvise(mem, size, MADV_COLLAPSE);
	return writes_one();
}

static bool swaps(void)
{
	return !madvise(mem, size, MADV_PAGEOUT) && writes_one();
}

static bool merges(void)
{
	return !madvise(mem, size, MADV_MERGEABLE) && writes_one() &&
	       !madvise(mem, size, MADV_UNMERGEABLE);
}

static bool reads_a_pipe(void)
{
	long value = -4;
	int ends[2];

	if (pipe(ends) || write(ends[1], &value, sizeof(value)) != sizeof(value))
		return false;
	holds[to() - 1] = value;
	return read(ends[0], (void *)at(to() - 1), sizeof(value)) == sizeof(value);
}

static bool writes_by_proc(void)
{
	int fd = open("/proc/self/mem", O_RDWR);
	long value = -5;

	holds[from()] = value;
	return pwrite(fd, &value, sizeof(value), (off_t)(uintptr_t)at(from())) == sizeof(value);
}

/* With a pin, as devices do. */
static bool writes_by_vm(void)
{
	long value = -6;
	struct iovec local = { &value, sizeof(value) };
	struct iovec remote = { (void *)at(from()), sizeof(value) };

	holds[from()] = value;
	if (process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == sizeof(value))
		return true;
	return errno == ENOSYS && writes_one();
}

static bool armed_with_uffd(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { (uintptr_t)part(), part_size() },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	/* A page that fork left for later is not missing: reading it must not wait. */
	return fd >= 0 && !ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &range) &&
	       wrong() < 0 && writes_one() && !close(fd);
}

static bool forks(void)
{
	int status, pid = fork();

	if (!pid) {
		bool right = wrong() < 0;

		writes_all();
		_exit(!right || wrong() >= 0);
	}
	return writes_one() && waitpid(pid, &status, 0) == pid && !status;
}

/* Its smaps has all that is there. */
static bool is_looked_at(void)
{
	long mapped = 0;
	size_t i;

	for (i = 0; i < pages(); i++)
		mapped += holds[i] > 0;
	return figure("/proc/self/smaps_rollup", "Rss") >= mapped * (long)page_size / 1024 &&
	       figure("/proc/self/cow_stats", "deferred_tables") == 0;
}

static const struct action {
	const char *name;
	bool (*run)(void);
} actions[] = {
	{ "does nothing", NULL },
	{ "writes a page", writes_one },
	{ "writes all", writes_all },
	{ "reads all", reads_all },
	{ "discards a part", discards_part },
	{ "discards all", discards_all },
	{ "unmaps a part", unmaps_part },
	{ "unmaps all", unmaps_all },
	{ "maps anew over a part", maps_over },
	{ "protects a part", protects },
	{ "moves a part and back", moves },
	{ "locks a part", locks },
	{ "collapses to huge pages", collapses },
	{ "swaps out", swaps },
	{ "lets ksm merge", merges },
	{ "reads a pipe into a page", reads_a_pipe },
	{ "writes by /proc/self/mem", writes_by_proc },
	{ "writes by process_vm_writev", writes_by_vm },
	{ "is armed with userfaultfd", armed_with_uffd },
	{ "forks", forks },
	{ "is looked at", is_looked_at },
};

static void meet(int fd)
{
	char byte = 0;

	if (write(fd, &byte, 1) != 1)
		exit(1);
}

static bool wait_for(int fd)
{
	char byte;

	return read(fd, &byte, 1) == 1;
}

/* 0, or what was wrong: 1 the action failed, 2 a page of this side. */
static int act(const struct action *action)
{
	if (action->run && !action->run())
		return 1;
	return wrong() >= 0 ? 2 : 0;
}

/* The parent does @own and the child @other, one after the other; then both are looked at. */
static bool right_in_both(const struct action *own, const struct action *other,
			  bool child_first, size_t cut)
{
	const char *const what[] = { "", "could not", "sees a wrong page" };
	int to_child[2], to_parent[2], status = 0, mine, pid;
	long deferred, tables;

	area_make(cut);
	tables = global("defer_tables");
	if (pipe(to_child) || pipe(to_parent))
		ksft_exit_fail_perror("pipe");
	pid = fork();
	if (!pid) {
		int result;

		if (!child_first)
			wait_for(to_child[0]);
		result = act(other);
		meet(to_parent[1]);
		wait_for(to_child[0]);
		/* What the other did since must not be seen. */
		if (!result && wrong() >= 0)
			result = 2;
		_exit(result);
	}
	deferred = global("defer_tables") - tables;
	if (child_first)
		wait_for(to_parent[0]);
	mine = act(own);
	meet(to_child[1]);
	if (!child_first)
		wait_for(to_parent[0]);
	meet(to_child[1]);
	waitpid(pid, &status, 0);
	if (!mine && wrong() >= 0)
		mine = 2;
	if (deferred < TABLES)
		ksft_print_msg("%ld page tables were left for later\n", deferred);
	if (mine)
		ksft_print_msg("parent %s (%s)\n", what[mine], strerror(errno));
	if (status)
		ksft_print_msg("child %s (status %x)\n",
			       WIFEXITED(status) ? what[WEXITSTATUS(status) % 3] : "died", status);
	return deferred >= TABLES && !mine && !status;
}

static void both(const struct action *own, const struct action *other, bool child_first,
		 size_t cut)
{
	int status = -1, pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		bool right = right_in_both(own, other, child_first, cut);

		fflush(stdout);
		_exit(!right);
	}
	waitpid(pid, &status, 0);
	ksft_test_result(!status, "%s: %s %s, %s %s\n", cut ? "cut" : "whole",
			 child_first ? "child" : "parent",
			 child_first ? other->name : own->name,
			 child_first ? "parent" : "child",
			 child_first ? own->name : other->name);
}

/* Minor faults of writing to every page. */
static long faults_of_writing(void)
{
	struct rusage before, after;
	size_t i;

	getrusage(RUSAGE_SELF, &before);
	for (i = 0; i < pages(); i++)
		*at(i) = ++holds[i];
	getrusage(RUSAGE_SELF, &after);
	return after.ru_minflt - before.ru_minflt;
}

static void leaves(bool by_exec)
{
	long tables = global("defer_tables"), dropped = global("defer_dropped");
	int status, pid;

	area_make(0);
	pid = fork();
	if (!pid) {
		if (by_exec)
			execl("/bin/true", "true", NULL);
		_exit(by_exec);
	}
	waitpid(pid, &status, 0);
	tables = global("defer_tables") - tables;
	dropped = global("defer_dropped") - dropped;
	/* By the stack of the child, say, one may have been copied. */
	ksft_test_result(!status && tables >= TABLES && dropped >= TABLES &&
			 faults_of_writing() < 8 && wrong() < 0,
			 "a child that %s costs the parent no fault\n",
			 by_exec ? "executes" : "ends");
	munmap(mem, size);
}

static void child_copies_ahead(void)
{
	long copied = global("defer_ahead");
	char path[64];
	int pid, i;

	number_write(DELAY, 0);
	area_make(0);
	pid = fork();
	if (!pid)
		for (;;)
			usleep(1000);
	snprintf(path, sizeof(path), "/proc/%d/cow_stats", pid);
	for (i = 0; i < 1000 && figure(path, "deferred_tables"); i++)
		usleep(10000);
	copied = global("defer_ahead") - copied;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	ksft_test_result(copied >= TABLES && figure(path, "VmRSS") >= (long)(size / 1024) &&
			 faults_of_writing() >= (long)pages() && wrong() < 0,
			 "the child copies ahead what nobody needed\n");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(mem, size);
	number_write(DELAY, 10000);
}

/* One that sleeps copies nothing, switching off does not wait for it, and it sees what it had. */
static void child_sleeps(void)
{
	int ends[2], status, pid;
	char path[64];
	long left;

	/* It sleeps by then. */
	number_write(DELAY, 100);
	area_make(0);
	if (pipe(ends))
		ksft_exit_fail_perror("pipe");
	pid = fork();
	if (!pid) {
		wait_for(ends[0]);
		_exit(wrong() >= 0);
	}
	usleep(300000);
	snprintf(path, sizeof(path), "/proc/%d/cow_stats", pid);
	left = figure(path, "deferred_tables");
	number_write(DEFER, 0);
	writes_all();
	meet(ends[1]);
	waitpid(pid, &status, 0);
	ksft_test_result(left >= TABLES && !status && wrong() < 0,
			 "a child that sleeps is not woken to copy\n");
	close(ends[0]);
	close(ends[1]);
	munmap(mem, size);
	number_write(DEFER, 2);
	number_write(DELAY, 10000);
}

static void parent_ends_first(void)
{
	int ends[2], status, pid;
	char right = 0;

	area_make(0);
	if (pipe(ends))
		ksft_exit_fail_perror("pipe");
	pid = fork();
	if (!pid) {
		/* The parent of the one that looks. */
		int parent = getpid();

		if (fork())
			_exit(0);
		while (getppid() == parent)
			usleep(1000);
		right = wrong() < 0;
		if (write(ends[1], &right, 1) != 1)
			_exit(1);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	ksft_test_result(read(ends[0], &right, 1) == 1 && right,
			 "a parent that ends first leaves the child its pages\n");
	munmap(mem, size);
	close(ends[0]);
	close(ends[1]);
}

static bool defers(void)
{
	long tables = global("defer_tables");
	int pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return global("defer_tables") > tables;
}

static void chooses(void)
{
	bool never, always, inherited, off, refused;
	int status = 0, pid;

	area_make(0);
	never = !prctl(PR_SET_COW_DEFER, 1, 0, 0, 0) && !defers();
	number_write(DEFER, 1);
	never &= !defers();
	always = !prctl(PR_SET_COW_DEFER, 2, 0, 0, 0) && defers() &&
		 prctl(PR_GET_COW_DEFER, 0, 0, 0, 0) == 2;
	pid = fork();
	if (!pid)
		_exit(prctl(PR_GET_COW_DEFER, 0, 0, 0, 0));
	waitpid(pid, &status, 0);
	inherited = status;
	number_write(DEFER, 0);
	off = !defers();
	refused = prctl(PR_SET_COW_DEFER, 2, 0, 0, 0) == -1 && errno == EPERM &&
		  prctl(PR_SET_COW_DEFER, 3, 0, 0, 0) == -1 && errno == EINVAL;
	prctl(PR_SET_COW_DEFER, 0, 0, 0, 0);
	number_write(DEFER, 2);
	ksft_test_result(never && always && !inherited && off && refused,
			 "a process chooses, as far as it may\n");
	munmap(mem, size);
}

static void inject(const char *setting, const char *value)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), FAIL "%s", setting);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		ksft_exit_fail_perror(path);
	close(fd);
}

/* No page table can be had while the parent writes: it goes on, and the child does not. */
static void lacks_memory(void)
{
	long lost = global("defer_lost");
	int ends[2], status, pid, helper;
	volatile bool *over;

	if (access(FAIL "probability", F_OK)) {
		ksft_test_result_skip("needs CONFIG_FAIL_PAGE_ALLOC\n");
		return;
	}
	area_make(0);
	if (pipe(ends))
		ksft_exit_fail_perror("pipe");
	/* For which nothing fails: this process may not even get what switching it off needs. */
	over = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	*over = false;
	helper = fork();
	if (!helper) {
		while (!*over)
			usleep(1000);
		inject("probability", "0");
		_exit(0);
	}
	pid = fork();
	if (!pid) {
		wait_for(ends[0]);
		_exit(wrong() >= 0);
	}
	/* First for whom: without it, even what follows could fail. */
	inject("task-filter", "Y");
	inject("times", "-1");
	inject("min-order", "0");
	inject("ignore-gfp-wait", "N");
	inject("probability", "100");
	number_write("/proc/self/make-it-fail", 1);
	/* The entry is writable already, once nothing is left for later: no page is needed. */
	writes_one();
	*over = true;
	waitpid(helper, NULL, 0);
	number_write("/proc/self/make-it-fail", 0);
	meet(ends[1]);
	waitpid(pid, &status, 0);
	ksft_test_result(wrong() < 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
			 global("defer_lost") > lost,
			 "without memory the parent goes on, and the child is killed\n");
	munmap(mem, size);
	close(ends[0]);
	close(ends[1]);
}

static long accounted(void)
{
	return global("defer_by_parent") + global("defer_by_child") +
	       global("defer_ahead") + global("defer_dropped");
}

int main(void)
{
	const size_t nr = ARRAY_SIZE(actions);
	long policy, delay, tables, done;
	size_t i, cut;
	FILE *file;

	ksft_print_header();
	page_size = sysconf(_SC_PAGESIZE);
	if (access(DEFER, F_OK))
		ksft_exit_skip("this kernel has no " DEFER " (CONFIG_COW_DEFER)\n");
	if (access(DEFER, W_OK))
		ksft_exit_skip("setting a policy needs root\n");
	file = fopen(DEFER, "r");
	if (!file || fscanf(file, "%ld", &policy) != 1)
		ksft_exit_fail_perror(DEFER);
	fclose(file);
	file = fopen(DELAY, "r");
	if (!file || fscanf(file, "%ld", &delay) != 1)
		ksft_exit_fail_perror(DELAY);
	fclose(file);
	ksft_set_plan(2 * (2 * nr - 1) + nr - 1 + 8);
	number_write(DEFER, 0);
	tables = global("defer_tables");
	done = accounted();
	/* Not ahead: it would be over before anything is tested. */
	number_write(DELAY, 10000);
	number_write(DEFER, 2);
	for (cut = 0; cut <= 100; cut += 100) {
		for (i = 0; i < nr; i++)
			both(&actions[i], &actions[0], false, cut);
		for (i = 1; i < nr; i++)
			both(&actions[0], &actions[i], true, cut);
	}
	for (i = 1; i < nr; i++)
		both(&actions[i], &actions[i], false, 0);
	leaves(false);
	leaves(true);
	child_copies_ahead();
	child_sleeps();
	parent_ends_first();
	chooses();
	number_write(DEFER, 0);
	tables = global("defer_tables") - tables;
	done = accounted() - done;
	if (tables != done)
		ksft_print_msg("%ld left for later, %ld accounted for\n", tables, done);
	ksft_test_result(tables == done, "each page table is copied or dropped, once\n");
	number_write(DEFER, 2);
	lacks_memory();
	number_write(DELAY, delay);
	number_write(DEFER, policy);
	ksft_finished();
}
