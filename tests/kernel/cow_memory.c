// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_memory: no region is copied ahead (vm.cow_precopy=2) while memory is scarce, or a memory
 * cgroup is near its limit; each guess that was refused is counted, and made when there is room.
 *
 * A parent shares one region with its child and writes to single pages of it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cases.h"
#include "settings.h"

#define CGROUPS "/sys/fs/cgroup/"
#define GROUP CGROUPS "cow_memory/"
#define REGION (2UL << 20)
#define CHUNK (16UL << 20)

static size_t page_size;
static char *region;
static pid_t child;

static void skip(const char *name, const char *why)
{
	printf("ok %d %s # SKIP %s\n", ++cases, name, why);
}

/* A region that a child shares until unshare_region(). */
static void share_region(void)
{
	char *reserved =
		mmap(NULL, 2 * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (reserved == MAP_FAILED)
		die("mmap");
	region = (char *)(((uintptr_t)reserved + REGION - 1) & ~(REGION - 1));
	/* What lies around it stays unmapped. */
	munmap(reserved, (size_t)(region - reserved));
	munmap(region + REGION, (size_t)(reserved + REGION - region));
	madvise(region, REGION, MADV_NOHUGEPAGE);
	memset(region, 1, REGION);
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		pause();
		_exit(0);
	}
}

static void unshare_region(void)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(region, REGION);
}

/* How many pages the first write to a page copies beside it. */
static long copied_by_write(size_t page)
{
	long before = figure("/proc/self/cow_stats", "precopied");

	region[page * page_size]++;
	return figure("/proc/self/cow_stats", "precopied") - before;
}

static void with_room(void)
{
	share_region();
	check(copied_by_write(7) == 511, "with room, a region is copied");
	unshare_region();
}

/* Whether each zone that a program's pages come from is below its high watermark. */
static bool all_zones_low(void)
{
	FILE *file = fopen("/proc/zoneinfo", "r");
	long free_pages = 0, high = 0, managed = 0;
	bool low = true;
	char line[200];

	if (!file)
		die("/proc/zoneinfo");
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, " pages free %ld", &free_pages);
		sscanf(line, " high %ld", &high);
		/* Zones of a few MiB are kept from programs, below. */
		if (sscanf(line, " managed %ld", &managed) == 1 && managed > 16384)
			low &= free_pages < high;
	}
	fclose(file);
	return low;
}

/* Keep the small zones from programs: a 32nd of each larger one is more than they have. */
static void keep_small_zones(void)
{
	const char *at = old_setting("lowmem_reserve_ratio");
	char ratios[128] = "", *end;
	size_t length = 0;

	for (long ratio = strtol(at, &end, 10); end != at; ratio = strtol(at, &end, 10)) {
		length += (size_t)snprintf(ratios + length, sizeof(ratios) - length, "%d ",
					   ratio ? 32 : 0);
		at = end;
	}
	if (!put(setting("lowmem_reserve_ratio"), ratios))
		die("lowmem_reserve_ratio");
}

static void memory_scarce(void)
{
	static const char name[] = "while memory is scarce, none is copied";
	static const char of_those_that_follow[] = "nor are the pages that follow";
	static const char full[] = "the zones cannot be filled to between their watermarks";
	long before, copied, refused, total = figure("/proc/meminfo", "MemTotal");
	size_t filled = 0, chunks = 0;
	static char *memory[4096];

	share_region();
	/* The high watermark goes up to some 60% of a zone, the low one to 30%. */
	set("watermark_scale_factor", 3000);
	keep_small_zones();
	while (!all_zones_low() && figure("/proc/meminfo", "MemFree") > total / 3 &&
	       chunks < 4096) {
		memory[chunks] = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (memory[chunks] == MAP_FAILED)
			break;
		filled += CHUNK;
		chunks++;
	}
	if (all_zones_low()) {
		before = figure("/proc/cow_stats", "regions_memory_scarce");
		copied = copied_by_write(7);
		refused = figure("/proc/cow_stats", "regions_memory_scarce") - before;
		printf("# %zu MiB filled, %ld copied, %ld refused\n", filled >> 20, copied,
		       refused);
		/* Others may be refused as well. */
		check(!copied && refused > 0, name);
		set("cow_precopy", 1);
		before = figure("/proc/cow_stats", "precopy_refused_nomem");
		check(!copied_by_write(100) &&
			      figure("/proc/cow_stats", "precopy_refused_nomem") > before,
		      of_those_that_follow);
		set("cow_precopy", 2);
	} else {
		skip(name, full);
		skip(of_those_that_follow, full);
	}
	while (chunks)
		munmap(memory[--chunks], CHUNK);
	put(setting("watermark_scale_factor"), old_setting("watermark_scale_factor"));
	put(setting("lowmem_reserve_ratio"), old_setting("lowmem_reserve_ratio"));
	/* All that is left of it: 511 pages, but for those that were written. */
	check(copied_by_write(8) >= 509, "when memory is free again, the region is copied");
	unshare_region();
}

static void cgroup_near_limit(const char *limit)
{
	char name[100], path[100], text[40];
	long before;

	snprintf(name, sizeof(name), "near %s, none is copied", limit);
	if (access(CGROUPS "cgroup.controllers", R_OK)) {
		skip(name, "no cgroup2 in " CGROUPS);
		return;
	}
	put(CGROUPS "cgroup.subtree_control", "+memory");
	if (mkdir(GROUP, 0755) && errno != EEXIST)
		die(GROUP);
	if (!put(GROUP "cgroup.procs", "0"))
		die(GROUP "cgroup.procs");
	share_region();
	snprintf(path, sizeof(path), GROUP "%s", limit);
	/* Room for one page and what is charged ahead, not for a region. */
	if (!get_text(GROUP "memory.current", text, sizeof(text)))
		die(GROUP "memory.current");
	snprintf(text, sizeof(text), "%ld", atol(text) + (1L << 20));
	if (!put(path, text))
		die(path);
	before = figure("/proc/cow_stats", "regions_cgroup_full");
	check(!copied_by_write(7) &&
		      figure("/proc/cow_stats", "regions_cgroup_full") == before + 1 &&
		      !figure(GROUP "memory.events", limit + strlen("memory.")),
	      name);
	put(path, "max");
	snprintf(name, sizeof(name), "without %s, the region is copied", limit);
	check(copied_by_write(8) == 510, name);
	unshare_region();
	put(CGROUPS "cgroup.procs", "0");
	rmdir(GROUP);
}

int main(void)
{
	if (!has_setting("cow_region_kb")) {
		printf("this kernel has no vm.cow_region_kb\n");
		return 4;
	}
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	remember_settings();
	set("cow_region_kb", 2048);
	set("cow_threshold_pct", 0);
	set("cow_gate_forks", 0);
	set("cow_precopy_pages", 16);
	set("cow_precopy_ramp", 0);
	set("cow_precopy", 2);
	printf("KTAP version 1\n1..8\n");
	with_room();
	memory_scarce();
	cgroup_near_limit("memory.high");
	cgroup_near_limit("memory.max");
	return failures != 0;
}
