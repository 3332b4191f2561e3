/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A mapping of which the kernel counts regions (vm.cow_precopy=2), and what its trace says of them.
 */
#ifndef REGIONS_H
#define REGIONS_H

#include <stdint.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "cases.h"
#include "settings.h"

#define ROOM (32UL << 20)
#define MAX_REGIONS 1024
#define TRACING "/sys/kernel/tracing/"

static size_t page_size, pages;
static char *area; /* aligned to ROOM; the mapping begins and ends within regions */

/* Of the last fork; copied: a fault since has copied it, or set out to. */
struct region {
	unsigned long start, end;
	unsigned int pages, covered;
	bool copied;
};

static struct region regions[MAX_REGIONS];

static inline void policy(long mode, long region_kb, long threshold, long gate)
{
	set("cow_region_kb", region_kb);
	set("cow_threshold_pct", threshold);
	set("cow_gate_forks", gate);
	set("cow_precopy", mode);
}

/* Begin to note what the kernel says of regions. */
static inline void trace_begin(void)
{
	if (access(TRACING "trace", F_OK) && mount("tracefs", TRACING, "tracefs", 0, NULL))
		die("mount tracefs");
	if (!put(TRACING "events/cow/cow_region_epoch/enable", "1") ||
	    !put(TRACING "events/cow/cow_region_precopy/enable", "1") ||
	    !put(TRACING "tracing_on", "1"))
		die(TRACING);
}

static inline void trace_clear(void)
{
	int fd = open(TRACING "trace", O_WRONLY | O_TRUNC);

	if (fd < 0)
		die(TRACING "trace");
	close(fd);
}

static inline struct region *region_at(size_t count, unsigned long address)
{
	for (size_t i = 0; i < count; i++)
		if (regions[i].start <= address && address < regions[i].end)
			return &regions[i];
	return NULL;
}

/* This program's regions between two addresses, as the last fork has left them. */
static inline size_t read_regions(const char *from, const char *to)
{
	FILE *file = fopen(TRACING "trace", "r");
	size_t count = 0, name = strlen(program_invocation_short_name);
	char line[300];

	if (!file)
		die(TRACING "trace");
	while (fgets(line, sizeof(line), file)) {
		const char *task = line + strspn(line, " "), *event = strstr(line, ": cow_region_");
		unsigned long address, bytes;
		unsigned int covered, mapped;
		struct region *r;
		char kind[8];

		/* The kernel cuts names at 15. */
		if (!event || strncmp(task, program_invocation_short_name, name < 15 ? name : 15))
			continue;
		if (sscanf(event,
			   ": cow_region_%7[a-z]: address=0x%lx bytes=%lu covered=%u pages=%u",
			   kind, &address, &bytes, &covered, &mapped) != 5) {
			fail("a line of the trace is: %s", line);
			break;
		}
		if (address + bytes <= (unsigned long)from || address >= (unsigned long)to)
			continue;
		r = region_at(count, address);
		if (!strcmp(kind, "precopy")) {
			if (r)
				r->copied = true;
			continue;
		}
		/* Fork may come to it in parts; the last line counts. */
		if (!r) {
			if (count == MAX_REGIONS)
				break;
			r = &regions[count++];
			*r = (struct region){ .start = address, .end = address + bytes };
		}
		r->covered = covered;
		r->pages = mapped;
	}
	fclose(file);
	return count;
}

static inline size_t area_regions(void)
{
	return read_regions(area, area + pages * page_size);
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
	trace_clear();
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
