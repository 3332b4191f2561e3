/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * An area of pages of which each begins with its number and the count of its writes, so that each
 * process can tell whether its pages are what they should be; and children that look at theirs
 * before they end.
 */
#ifndef MARKED_PAGES_H
#define MARKED_PAGES_H

#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "cases.h"
#include "settings.h"

#define PAGES 4096UL

static size_t page_size;
static char *area;
static uint64_t writes[PAGES]; /* of each page, in this process */

static uint64_t *words(size_t page)
{
	return (uint64_t *)(area + page * page_size);
}

static void write_page(size_t page)
{
	uint64_t *at = words(page);

	at[0] = page;
	at[1] = ++writes[page];
	/* The end of a page that was copied in part would tell. */
	at[page_size / sizeof(*at) - 1] = page ^ writes[page];
}

static bool page_right(size_t page)
{
	const uint64_t *at = words(page);

	return at[0] == page && at[1] == writes[page] &&
	       at[page_size / sizeof(*at) - 1] == (page ^ writes[page]);
}

static size_t wrong_pages(size_t from, size_t to)
{
	size_t wrong = 0;

	for (size_t page = from; page < to; page++)
		wrong += !page_right(page);
	return wrong;
}

static void write_every(size_t step)
{
	for (size_t page = 0; page < PAGES; page += step)
		write_page(page);
}

static void map_area(void)
{
	area = mmap(NULL, PAGES * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (area == MAP_FAILED)
		die("mmap");
	/* Huge pages are another matter. */
	if (madvise(area, PAGES * page_size, MADV_NOHUGEPAGE) && errno != EINVAL)
		die("madvise");
	memset(writes, 0, sizeof(writes));
	write_every(1);
}

static void unmap_area(void)
{
	munmap(area, PAGES * page_size);
}

/* A child that lives until its end of the pipe is closed, and then says whether its pages are
 * right. */
struct child {
	pid_t pid;
	int gate;
};

/* One that writes its pages from number @from to @to before anything else happens. */
static struct child child_with_own(size_t from, size_t to)
{
	struct child child;
	int ends[2], done[2];
	char byte = 0;

	if (pipe(ends) || pipe(done))
		die("pipe");
	child.pid = fork();
	if (child.pid < 0)
		die("fork");
	if (child.pid == 0) {
		close(ends[1]);
		for (size_t page = from; page < to; page++)
			write_page(page);
		if (write(done[1], &byte, 1) != 1 || read(ends[0], &byte, 1) < 0)
			_exit(2);
		_exit(area && wrong_pages(0, PAGES) ? 1 : 0);
	}
	if (read(done[0], &byte, 1) != 1)
		die("read");
	close(done[0]);
	close(done[1]);
	close(ends[0]);
	child.gate = ends[1];
	return child;
}

static struct child child_new(void)
{
	return child_with_own(0, 0);
}

static void child_end(struct child child)
{
	int status;

	close(child.gate);
	waitpid(child.pid, &status, 0);
	if (status)
		fail("the child's pages are not what they were (0x%x)", status);
}

#endif
