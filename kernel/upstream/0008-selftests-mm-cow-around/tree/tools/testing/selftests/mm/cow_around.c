// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy-on-write around (mm/cow_around.c): writes in order to large folios that fork shares are
 * copied block by block, any others page by page, and both processes see what they would have seen.
 *
 * Each test forks with an area of which page p holds p. One of the two writes to some of the
 * pages; then both look at every page, and mTHP's statistics tell how the pages were copied.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest.h"
#include "thp_settings.h"

/* Orders of the blocks: the smallest, and that of 64 KiB (of 256 KiB where pages have 64 KiB). */
#define SMALL_ORDER	2
#define ORDER		(page_size < 16384 ? 4 : 2)
#define BLOCK		(1l << ORDER)
#define TABLES		2
/* Number of adjacent written pages that show writes in order. */
#define RUN		3
/* The page that some tests make special, in the middle of a block, and the first of that block. */
#define SPECIAL		(3 * BLOCK + 2)
#define EDGE		(3 * BLOCK)
/* How often pages are discarded while blocks are copied. */
#define ROUNDS		30

static size_t page_size;
static long pages, table; /* of the area, and of one page table */
static char *mem, *around; /* aligned to page tables, in a larger mapping */

static long *at(long page)
{
	return (long *)(mem + page * page_size);
}

static bool has_hw_dirty(void)
{
#ifdef __x86_64__
	return true;
#else
	return false;
#endif
}

static long stat_of(int order)
{
	char path[128];

	snprintf(path, sizeof(path),
		 "/sys/kernel/mm/transparent_hugepage/hugepages-%lukB/stats/anon_cow_alloc",
		 (page_size << order) >> 10);
	return access(path, R_OK) ? -1 : (long)read_num(path);
}

/* Pages that were copied block by block. */
static long copied(void)
{
	return stat_of(ORDER) * BLOCK +
	       (ORDER > SMALL_ORDER ? stat_of(SMALL_ORDER) << SMALL_ORDER : 0);
}

/* --- Ways to write: each leaves -p - 1 in the pages that it writes to --- */

static void write_page(long page)
{
	*at(page) = -page - 1;
}

static void upwards(void)
{
	for (long p = 0; p < pages; p++)
		write_page(p);
}

static void downwards(void)
{
	for (long p = pages - 1; p >= 0; p--)
		write_page(p);
}

static void lone(void)
{
	for (long p = 5; p < pages; p += 2 * BLOCK)
		write_page(p);
}

/* The last pages of a block and the first of the next. */
static void in_a_row(long nr)
{
	for (long p = BLOCK; p < pages; p += 2 * BLOCK)
		for (long i = -nr; i <= 0; i++)
			write_page(p + i);
}

static void few(void)
{
	in_a_row(RUN - 1);
}

static void enough(void)
{
	in_a_row(RUN);
}

/* A block in order, then the first page of each: what was copied around is not evidence. */
static void strided(void)
{
	for (long p = 0; p < pages; p++)
		if (p % table < BLOCK || p % BLOCK == 0)
			write_page(p);
}

static void all_but_one(void)
{
	for (long p = 0; p < pages; p++)
		if (p != SPECIAL)
			write_page(p);
}

/* The second word of each page, which no other test writes to. */
static void *thread_downwards(void *unused)
{
	for (long p = pages - 1; p >= 0; p--)
		at(p)[1] = p + 1;
	return NULL;
}

static void two_threads(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, thread_downwards, NULL))
		ksft_exit_fail_msg("pthread_create: %s\n", strerror(errno));
	upwards();
	pthread_join(thread, NULL);
	for (long p = 0; p < pages; p++)
		if (at(p)[1] != p + 1)
			*at(p) = pages; /* lost: let the look at the pages fail */
}

static void *thread_discards(void *seed)
{
	unsigned int state = (uintptr_t)seed;

	for (long i = 0; i < pages; i++)
		madvise(at(rand_r(&state) % pages), page_size, MADV_DONTNEED);
	return NULL;
}

/* Of a block that is being copied, pages go. Again and again, since they must meet. */
static void discarded_meanwhile(void)
{
	for (uintptr_t round = 1; round <= ROUNDS; round++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			pthread_t thread;

			if (pthread_create(&thread, NULL, thread_discards, (void *)round))
				_exit(1);
			upwards();
			pthread_join(thread, NULL);
			for (long p = 0; p < pages; p++)
				if (*at(p) && *at(p) != -p - 1)
					_exit(1);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			*at(0) = -2; /* let the look at the pages fail */
	}
}

static void beside(void)
{
	write_page(EDGE);
}

/* --- What is done to the area before the fork --- */

static int pipe_of_page[2];
static int uffd = -1;

static void hole(void)
{
	if (madvise(at(SPECIAL), page_size, MADV_DONTNEED))
		ksft_exit_fail_msg("MADV_DONTNEED: %s\n", strerror(errno));
}

/* A reference that is no pin. */
static void in_a_pipe(void)
{
	struct iovec vector = { at(SPECIAL), page_size };

	if (pipe(pipe_of_page) || vmsplice(pipe_of_page[1], &vector, 1, 0) != (ssize_t)page_size)
		ksft_exit_fail_msg("vmsplice: %s\n", strerror(errno));
}

static void given_up(void)
{
	if (madvise(at(SPECIAL), page_size, MADV_FREE))
		ksft_exit_fail_msg("MADV_FREE: %s\n", strerror(errno));
}

static void watched(void)
{
	struct uffdio_register range = {
		.range = { (uintptr_t)mem, pages * page_size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_api api = { .api = UFFD_API };

	uffd = syscall(__NR_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &range))
		ksft_exit_fail_msg("userfaultfd: %s\n", strerror(errno));
}

static void locked(void)
{
	if (mlock(mem, pages * page_size))
		ksft_exit_fail_msg("mlock: %s\n", strerror(errno));
}

/* The mapping ends in the middle of a block, and begins there. */
static void cut(void)
{
	if (mprotect(at(SPECIAL), page_size, PROT_READ))
		ksft_exit_fail_msg("mprotect: %s\n", strerror(errno));
}

/* Writable, and yet no evidence of writes in a row. */
static void shared_neighbours(void)
{
	char *start = (char *)at(EDGE - RUN);

	if (mmap(start, RUN * page_size, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != start)
		ksft_exit_fail_msg("mmap: %s\n", strerror(errno));
	for (long p = EDGE - RUN; p < EDGE; p++)
		*at(p) = p;
}

/* Where there is swap: its entries have bits of their own. */
static void swapped_neighbours(void)
{
	madvise(at(EDGE - RUN), RUN * page_size, MADV_PAGEOUT);
}

static void small_too(void)
{
	thp_current_settings()->hugepages[SMALL_ORDER].enabled = THP_MADVISE;
	thp_write_settings(thp_current_settings());
}

static void no_sizes(void)
{
	thp_current_settings()->hugepages[ORDER].enabled = THP_NEVER;
	thp_write_settings(thp_current_settings());
}

/* --- The frame --- */

enum writer { CHILD, PARENT };

static const struct test {
	const char *name;
	void (*before)(void);
	void (*write)(void);
	enum writer writer;
	bool of_base_pages;
	bool alone; /* the child has ended before the parent writes */
	bool raced; /* how the pages are copied depends on the order of the threads */
	bool special; /* a page is, so that its block is copied page by page */
} tests[] = {
	{ "the child writes upwards", NULL, upwards, CHILD },
	{ "the child writes downwards", NULL, downwards, CHILD },
	{ "the parent writes upwards", NULL, upwards, PARENT },
	{ "base pages", NULL, upwards, CHILD, .of_base_pages = true },
	{ "lone writes", NULL, lone, CHILD },
	{ "too few writes in a row", NULL, few, CHILD },
	{ "enough writes in a row", NULL, enough, CHILD },
	{ "a write to each block", NULL, strided, CHILD },
	{ "two threads that meet", NULL, two_threads, CHILD, .raced = true },
	{ "pages discarded meanwhile", NULL, discarded_meanwhile, CHILD, .raced = true },
	{ "the child is gone", NULL, upwards, PARENT, .alone = true, .raced = true },
	{ "a page that is not there", hole, upwards, CHILD, .special = true },
	{ "a page in a pipe", in_a_pipe, upwards, CHILD },
	{ "a page that is given up", given_up, upwards, CHILD, .special = true },
	{ "memory that userfaultfd watches", watched, upwards, PARENT },
	{ "memory that is locked", locked, upwards, CHILD },
	{ "a block of two mappings", cut, all_but_one, CHILD, .special = true },
	{ "beside a shared mapping", shared_neighbours, beside, CHILD },
	{ "beside swapped pages", swapped_neighbours, beside, CHILD },
	{ "two sizes are enabled", small_too, upwards, CHILD },
	{ "no size is enabled", no_sizes, upwards, CHILD },
};

/* How many pages are to be copied block by block. */
static long expect(const struct test *test)
{
	long nr;

	if (test->of_base_pages || test->before == watched || test->before == no_sizes)
		return 0;
	if (test->write == lone || test->write == few || test->write == beside)
		return 0;
	if (test->write == enough)
		return pages / 2;
	if (test->write == strided)
		return has_hw_dirty() ? TABLES * BLOCK : pages - TABLES * BLOCK;
	if (test->before == small_too)
		return pages - (TABLES << SMALL_ORDER);
	/* The first block of each page table has nothing beside it. */
	nr = TABLES + test->special;
	/* Small blocks: the read-only page is one of the RUN before the next block, too. */
	if (test->before == cut && BLOCK - SPECIAL % BLOCK <= RUN)
		nr++;
	return pages - nr * BLOCK;
}

static bool written(const struct test *test, long page)
{
	long i = page % (2 * BLOCK);

	if (test->write == lone)
		return i == 5;
	if (test->write == few)
		return i > BLOCK - RUN && i <= BLOCK;
	if (test->write == enough)
		return i >= BLOCK - RUN && i <= BLOCK;
	if (test->write == strided)
		return page % table < BLOCK || page % BLOCK == 0;
	if (test->write == all_but_one)
		return page != SPECIAL;
	if (test->write == beside)
		return page == EDGE;
	return test->write != discarded_meanwhile;
}

/* Whether the area is as it has to be for the process that @wrote, or did not. */
static bool right(const struct test *test, bool wrote)
{
	for (long p = 0; p < pages; p++) {
		long holds = wrote && written(test, p) ? -p - 1 : p;

		if (p == SPECIAL && test->before == hole && !wrote)
			holds = 0;
		if (*at(p) != holds) {
			/* MADV_FREE: it may be gone, unless it was written to. */
			if (p == SPECIAL && test->before == given_up && !wrote && !*at(p))
				continue;
			ksft_print_msg("page %ld holds %ld, not %ld\n", p, *at(p), holds);
			return false;
		}
	}
	return true;
}

static void map_area(bool of_base_pages)
{
	size_t size = pages * page_size, align = table * page_size;

	around = mmap(NULL, size + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	if (around == MAP_FAILED)
		ksft_exit_fail_msg("mmap: %s\n", strerror(errno));
	mem = (char *)(((uintptr_t)around + align - 1) & ~(align - 1));
	madvise(mem, size, of_base_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	for (long p = 0; p < pages; p++)
		*at(p) = p;
	if (madvise(mem, size, MADV_HUGEPAGE))
		ksft_exit_fail_msg("MADV_HUGEPAGE: %s\n", strerror(errno));
}

struct result {
	bool right;
	long copied;
};

static struct result watch_writes(const struct test *test)
{
	long before = copied();
	struct result r;

	test->write();
	r.copied = copied() - before;
	r.right = right(test, true);
	return r;
}

static void run(const struct test *test)
{
	struct result *shared, r = {};
	int done[2], status;
	bool fine;
	pid_t pid;
	char byte;

	shared = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || pipe(done))
		ksft_exit_fail_msg("cannot begin: %s\n", strerror(errno));
	thp_push_settings(thp_current_settings());
	map_area(test->of_base_pages);
	if (test->before)
		test->before();
	pid = fork();
	if (pid < 0)
		ksft_exit_fail_msg("fork: %s\n", strerror(errno));
	if (!pid) {
		close(done[1]);
		if (test->writer == CHILD)
			*shared = watch_writes(test);
		else if (!test->alone && read(done[0], &byte, 1) == 0)
			shared->right = right(test, false);
		_exit(0);
	}
	close(done[0]);
	if (test->alone)
		waitpid(pid, &status, 0);
	if (test->writer == PARENT) {
		r = watch_writes(test);
		close(done[1]);
	}
	if (!test->alone)
		waitpid(pid, &status, 0);
	if (test->writer == CHILD) {
		r = *shared;
		close(done[1]);
		fine = right(test, false);
	} else {
		fine = test->alone || shared->right;
	}
	fine = fine && r.right && WIFEXITED(status) && !WEXITSTATUS(status);
	if (test->before == in_a_pipe) {
		long held;

		fine = fine && read(pipe_of_page[0], &held, sizeof(held)) == sizeof(held) &&
		       held == SPECIAL;
		close(pipe_of_page[0]);
		close(pipe_of_page[1]);
	}
	if (uffd >= 0)
		close(uffd);
	uffd = -1;
	thp_pop_settings();
	munmap(around, (pages + table) * page_size);
	munmap(shared, page_size);

	if (!test->raced && r.copied != expect(test)) {
		ksft_print_msg("%ld pages were copied block by block, not %ld\n", r.copied,
			       expect(test));
		fine = false;
	}
	ksft_test_result(fine, "%s\n", test->name);
}

int main(void)
{
	struct thp_settings settings;

	ksft_print_header();
	page_size = getpagesize();
	table = read_num("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") / page_size;
	pages = TABLES * table;
	if (stat_of(ORDER) < 0 || !(thp_supported_orders() & (1 << ORDER)))
		ksft_exit_skip("no copy-on-write around, or no folios of order %d\n", ORDER);
	if (geteuid())
		ksft_exit_skip("needs root, for the sizes of folios\n");
	ksft_set_plan(ARRAY_SIZE(tests));

	thp_save_settings();
	thp_read_settings(&settings);
	for (int order = 0; order < NR_ORDERS; order++)
		settings.hugepages[order].enabled = THP_NEVER;
	settings.hugepages[ORDER].enabled = THP_MADVISE;
	thp_push_settings(&settings);
	for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
		run(&tests[i]);
	thp_restore_settings();
	ksft_finished();
}
