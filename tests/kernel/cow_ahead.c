// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_ahead: does the kernel's worker (vm.cow_worker) copy what was written after the last fork,
 * nothing else, and nothing wrong?
 *
 * A process forks, writes some of its pages, and forks again: with an eighth of that written once
 * more the worker begins. Further cases take the memory away from under the worker, or the process,
 * or the reason.
 */
#define _GNU_SOURCE
#include <time.h>

#include "cases.h"
#include "marked_pages.h"

/* The worker's time. Under emulation, beside other tests, a millisecond is nothing. */
#define PATIENCE_MS 30000

/* A figure of a file of them. */
static long figure(const char *path, const char *name)
{
	FILE *file = fopen(path, "r");
	char found[64];
	long value;

	if (!file)
		die(path);
	while (fscanf(file, "%63[^:]: %ld\n", found, &value) == 2)
		if (!strcmp(found, name)) {
			fclose(file);
			return value;
		}
	die(name);
	return 0;
}

static long own(const char *name)
{
	return figure("/proc/self/cow_stats", name);
}

static void pause_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

/*
 * Write some of each @step-th page, 16 at a time, since it is one fault in 16 that finds an idle
 * CPU for the worker, and wait until the others were copied ahead, or do not seem to be. Up to
 * half of them: the worker begins with an eighth of what was copied in the last long epoch, which
 * may be another case's. Returns how many were copied ahead.
 */
static long copied_ahead(size_t step, long *written)
{
	long before = own("precopied"), all = (long)((PAGES + step - 1) / step), ahead = 0;
	size_t page = 0;

	*written = 0;
	for (int ms = 0; ms < PATIENCE_MS && ahead + *written < all; ms += 20) {
		for (int i = 0; i < 16 && page < PAGES / 2; i++, page += step, ++*written)
			write_page(page);
		pause_ms(20);
		ahead = own("precopied") - before;
	}
	/* More than that would come at once. */
	pause_ms(50);
	return own("precopied") - before;
}

/* An epoch in which each @step-th page is written. */
static void epoch(size_t step)
{
	struct child child = child_new();

	write_every(step);
	child_end(child);
}

static void what_was_written(size_t step)
{
	long faults, ahead, written, all = (long)((PAGES + step - 1) / step);
	struct child child;

	map_area();
	epoch(step);
	child = child_new();
	ahead = copied_ahead(step, &written);
	/* Stacks and the like are copied ahead as well. */
	if (ahead < all - written || ahead > all + 16)
		fail("%ld pages are copied ahead of %ld, %ld of them written before", ahead, all,
		     written);
	faults = own("faults");
	write_every(step);
	faults = own("faults") - faults;
	if (faults > 8)
		fail("%ld faults of %ld pages that were copied ahead", faults, all - written);
	if (wrong_pages(0, PAGES))
		fail("%zu pages are not what was written", wrong_pages(0, PAGES));
	child_end(child);
	unmap_area();
}

static void all_pages(void)
{
	what_was_written(1);
}

static void every_third(void)
{
	what_was_written(3);
}

static void into_folios(void)
{
	set("cow_precopy_order", 4);
	what_was_written(1);
	set("cow_precopy_order", 0);
}

static void nothing_known(void)
{
	long before = own("precopied");
	struct child child;

	map_area();
	child = child_new();
	write_every(4);
	pause_ms(100);
	/* Stacks and the like, of which something is known. */
	if (own("precopied") - before > 32)
		fail("%ld pages are copied ahead after a first fork", own("precopied") - before);
	child_end(child);
	unmap_area();
}

/* Nobody shares the pages any more: there is nothing to copy. */
static void child_gone(void)
{
	long before;

	map_area();
	epoch(1);
	child_end(child_new());
	before = own("precopied");
	write_every(4);
	pause_ms(100);
	if (own("precopied") - before > 16)
		fail("%ld pages that nobody shares are copied", own("precopied") - before);
	unmap_area();
}

/* The child has copies of its own of most pages: the others' are nobody else's any more. */
static void child_has_its_own(void)
{
	long before, last, looked_at;
	struct child child;

	map_area();
	epoch(1);
	before = own("precopied");
	looked_at = figure("/proc/cow_stats", "precopy_refused_exclusive");
	child = child_with_own(PAGES / 4, PAGES);
	for (size_t page = 0; page < PAGES / 4; page++) {
		if (page % 4)
			write_page(page);
		if (page % 16 == 0)
			pause_ms(1);
	}
	do {
		last = own("precopied");
		pause_ms(100);
	} while (own("precopied") != last);
	if (last - before > (long)PAGES / 4 + 32)
		fail("%ld pages are copied ahead, of %lu that are shared", last - before,
		     PAGES / 4);
	/* The worker sees soon that it is of no use. */
	looked_at = figure("/proc/cow_stats", "precopy_refused_exclusive") - looked_at;
	if (looked_at > 1024)
		fail("%ld pages that nobody shares are looked at", looked_at);
	child_end(child);
	if (wrong_pages(0, PAGES))
		fail("%zu pages are not what was written", wrong_pages(0, PAGES));
	unmap_area();
}

/*
 * The child has copies of its own of some pages, as of its stack and its data: most of one batch
 * of 512 KiB. The worker must not think that these are all.
 */
static void child_has_some_of_its_own(void)
{
	long ahead, written;
	struct child child;
	size_t first = PAGES / 2;

	map_area();
	epoch(1);
	while ((uintptr_t)words(first) % (512 << 10))
		first++;
	child = child_with_own(first, first + 100);
	ahead = copied_ahead(1, &written);
	if (ahead < (long)PAGES - written - 100)
		fail("%ld pages are copied ahead, %ld were written before", ahead, written);
	child_end(child);
	unmap_area();
}

static void switched_off(void)
{
	long before, ahead;
	struct child child;

	set("cow_worker", 0);
	map_area();
	epoch(1);
	before = own("precopied");
	child = child_new();
	for (size_t page = 0; page < PAGES / 4; page++)
		write_page(page);
	pause_ms(100);
	/* Pieces, by the faults, and no more. */
	ahead = own("precopied") - before;
	if (!ahead || ahead > (long)PAGES / 4 + 64)
		fail("%ld pages are copied ahead", ahead);
	child_end(child);
	unmap_area();
	set("cow_worker", 1);
}

/* A second fork soon after the first must not be all that is remembered. */
static void two_forks_in_a_row(void)
{
	long ahead, written;
	struct child child;

	map_area();
	child = child_new();
	write_every(1);
	pause_ms(2000);
	child_end(child);
	epoch(PAGES / 4);
	child = child_new();
	ahead = copied_ahead(1, &written);
	if (ahead < (long)PAGES - written)
		fail("%ld pages are copied ahead, %ld were written before", ahead, written);
	child_end(child);
	unmap_area();
}

/* Forks, one after the other, while the worker may still be at the one before. */
static void forks_upon_forks(void)
{
	struct child children[8];

	map_area();
	epoch(1);
	for (size_t round = 0; round < 8; round++) {
		for (size_t i = 0; i < 8; i++) {
			children[i] = child_new();
			for (size_t page = i; page < PAGES; page += 7)
				write_page(page);
		}
		/* The later ones have the earlier ones' gates open as well. */
		for (size_t i = 8; i > 0; i--)
			child_end(children[i - 1]);
		if (wrong_pages(0, PAGES))
			fail("%zu pages are not what was written", wrong_pages(0, PAGES));
		write_every(1);
	}
	unmap_area();
}

static long now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

/* In a process of its own: @disturb while the worker is likely to be at work. */
static void beside(void (*disturb)(unsigned int round))
{
	/* The debug kernel takes a second for each. */
	unsigned int rounds = getenv("COWLAB_QUICK") ? 4 : 20, alone = 0;

	for (unsigned int round = 0; round < rounds; round++) {
		int status;
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0) {
			struct child child;

			failures = 0;
			map_area();
			epoch(1);
			child = child_new();
			/* Enough for the worker to begin. */
			write_every(7);
			/* From before its first step to its last. */
			for (long end = now_us() + 20000L * round / rounds; now_us() < end;)
				;
			disturb(round);
			child_end(child);
			_exit(failures ? 1 : own("precopied") ? 0 : 3);
		}
		waitpid(pid, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
			alone++;
		else if (status)
			fail("round %u ended with 0x%x", round, status);
	}
	if (alone == rounds)
		fail("nothing was copied ahead in any round");
}

static void unmap_half(unsigned int round)
{
	size_t half = PAGES / 2, gone = round % 2 ? 0 : half, left = half - gone;

	munmap(area + gone * page_size, half * page_size);
	if (wrong_pages(left, left + half))
		fail("%zu pages are wrong beside a hole", wrong_pages(left, left + half));
}

static void move_all(unsigned int round)
{
	char *to = mremap(area, PAGES * page_size, (PAGES + 512) * page_size, MREMAP_MAYMOVE);

	(void)round;
	if (to == MAP_FAILED)
		die("mremap");
	area = to;
	write_every(7);
	if (wrong_pages(0, PAGES))
		fail("%zu pages are wrong after a move", wrong_pages(0, PAGES));
}

static void protect_half(unsigned int round)
{
	(void)round;
	if (mprotect(area, PAGES / 2 * page_size, PROT_READ))
		die("mprotect");
	for (size_t page = PAGES / 2; page < PAGES; page++)
		write_page(page);
	if (mprotect(area, PAGES / 2 * page_size, PROT_READ | PROT_WRITE))
		die("mprotect");
	write_every(5);
	if (wrong_pages(0, PAGES))
		fail("%zu pages are wrong", wrong_pages(0, PAGES));
}

static void give_up(unsigned int round)
{
	size_t first = round % 2 ? 0 : PAGES / 2;
	char *half = area + first * page_size;

	if (madvise(half, PAGES / 2 * page_size, MADV_DONTNEED))
		die("madvise");
	for (size_t i = 0; i < PAGES / 2 * page_size; i += page_size)
		if (half[i])
			fail("a page that was given up has contents");
	for (size_t page = first; page < first + PAGES / 2; page++)
		write_page(page);
	if (wrong_pages(0, PAGES))
		fail("%zu pages are wrong", wrong_pages(0, PAGES));
}

static void end_at_once(unsigned int round)
{
	(void)round;
	_exit(0);
}

static void beside_munmap(void)
{
	beside(unmap_half);
}

static void beside_mremap(void)
{
	beside(move_all);
}

static void beside_mprotect(void)
{
	beside(protect_half);
}

static void beside_madvise(void)
{
	beside(give_up);
}

static void beside_exit(void)
{
	beside(end_at_once);
}

static void bad_values(void)
{
	static const struct {
		const char *name;
		long value;
	} bad[] = { { "cow_worker", 2 }, { "cow_worker", -1 }, { "cow_gate_kb", -1 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (try_set(bad[i].name, bad[i].value))
			fail("%s takes %ld", bad[i].name, bad[i].value);
}

int main(void)
{
	static const struct test_case tests[] = {
		{ "all pages", all_pages },
		{ "every third page", every_third },
		{ "into folios", into_folios },
		{ "nothing is known", nothing_known },
		{ "the child is gone", child_gone },
		{ "the child has its own", child_has_its_own },
		{ "the child has some of its own", child_has_some_of_its_own },
		{ "switched off", switched_off },
		{ "two forks in a row", two_forks_in_a_row },
		{ "forks upon forks", forks_upon_forks },
		{ "beside munmap", beside_munmap },
		{ "beside mremap", beside_mremap },
		{ "beside mprotect", beside_mprotect },
		{ "beside madvise", beside_madvise },
		{ "beside exit", beside_exit },
		{ "bad values", bad_values },
	};
	size_t nr_tests = sizeof(tests) / sizeof(*tests);

	if (!has_setting("cow_worker")) {
		printf("this kernel has no vm.cow_worker\n");
		return 4;
	}
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("one CPU has no worker\n");
		return 4;
	}
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	remember_settings();
	set("cow_region_kb", 2048);
	set("cow_batch_kb", 16);
	set("cow_gate_forks", 1);
	set("cow_gate_kb", 1024);
	set("cow_history", 1);
	set("cow_worker", 1);
	set("cow_precopy_order", 0);
	/* What is wasted on purpose here changes nothing. */
	set("cow_waste_pct", 100);
	set("cow_precopy", 2);
	printf("KTAP version 1\n1..%zu\n", nr_tests);
	run_cases(tests, nr_tests);
	return failures != 0;
}
