/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the tests of the kernel's worker (vm.cow_worker, vm.cow_huge) share: counts, epochs, and
 * what can happen to a process while it is at work.
 */
#ifndef AHEAD_H
#define AHEAD_H

#include <time.h>

#include "cases.h"
#include "marked_pages.h"

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

/* An epoch in which each @step-th page is written. */
static void epoch(size_t step)
{
	struct child child = child_new();

	write_every(step);
	child_end(child);
}

/* What tells that the worker was there. */
static const char *ahead_count = "precopied";

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
			_exit(failures ? 1 : own(ahead_count) ? 0 : 3);
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

#endif
