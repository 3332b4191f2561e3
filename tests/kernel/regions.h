/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A mapping of which the kernel counts regions (vm.cow_precopy=2), and what it says of them. */
#ifndef REGIONS_H
#define REGIONS_H

#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "cases.h"
#include "settings.h"

#define ROOM (32UL << 20)
#define MAX_REGIONS 1024

static size_t page_size, pages;
static char *area; /* aligned to ROOM; the mapping begins and ends within regions */

struct region {
	unsigned long start, end, precopied, dirty;
	unsigned int pages, covered, coverage_pct, faults, copied;
};

static struct region regions[MAX_REGIONS];

static inline void policy(long mode, long region_kb, long threshold, long gate)
{
	set("cow_region_kb", region_kb);
	set("cow_threshold_pct", threshold);
	set("cow_gate_forks", gate);
	set("cow_batch_kb", 2048);
	set("cow_history", 0);
	set("cow_gate_kb", 0);
	/* The same threshold for good, so that the choice can be foretold. */
	set("cow_waste_pct", 100);
	set("cow_precopy", mode);
}

/* The regions between two addresses. */
static inline size_t read_regions(const char *path, const char *from, const char *to)
{
	FILE *file = fopen(path, "r");
	char line[300];
	size_t count = 0;

	if (!file)
		die(path);
	while (fgets(line, sizeof(line), file)) {
		struct region *r = &regions[count];

		if (sscanf(line,
			   "%lx-%lx pages: %u covered: %u coverage_pct: %u faults: %u copied: %u "
			   "precopied: %lu dirty: %lu",
			   &r->start, &r->end, &r->pages, &r->covered, &r->coverage_pct, &r->faults,
			   &r->copied, &r->precopied, &r->dirty) != 9) {
			fail("a line of %s is: %s", path, line);
			break;
		}
		if (r->end <= (unsigned long)from || r->start >= (unsigned long)to)
			continue;
		if (++count == MAX_REGIONS)
			break;
	}
	fclose(file);
	return count;
}

/* A mapping of @wanted pages that begins @skip pages after a boundary of all sizes of regions. */
static inline void map_area(size_t skip, size_t wanted)
{
	char *reserved = mmap(NULL, 3 * ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (reserved == MAP_FAILED)
		die("mmap");
	munmap(reserved, 3 * ROOM);
	area = (char *)(((uintptr_t)reserved + ROOM - 1) & ~(ROOM - 1)) + skip * page_size;
	pages = wanted;
	if (mmap(area, pages * page_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != area)
		die("mmap");
	/* Huge pages fault once for 512 pages. */
	madvise(area, pages * page_size, MADV_NOHUGEPAGE);
	for (size_t page = 0; page < pages; page++)
		area[page * page_size] = 1;
}

static inline void unmap_area(void)
{
	munmap(area, pages * page_size);
}

/* A child that lives until it is told, or not at all. */
static inline pid_t child_new(bool lives, int *gate)
{
	int ends[2];
	pid_t child;
	char byte;

	if (pipe(ends))
		die("pipe");
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		close(ends[1]);
		if (lives && read(ends[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(ends[0]);
	*gate = ends[1];
	if (!lives)
		waitpid(child, NULL, 0);
	return child;
}

static inline void child_end(pid_t child, bool lives, int gate)
{
	close(gate);
	if (lives)
		waitpid(child, NULL, 0);
}

/* The end of an epoch. */
static inline void fork_once(void)
{
	int gate;
	pid_t child = child_new(false, &gate);

	child_end(child, false, gate);
}

#endif
