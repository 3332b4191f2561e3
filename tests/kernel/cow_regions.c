// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_regions: do the kernel's regions (vm.cow_precopy=2) follow the process that they are of:
 * through fork, munmap, mremap and a new mapping? And do its tuning, permissions and sysctls do
 * what their documentation says?
 */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <sys/syscall.h>

#include "regions.h"

/* One fork, and all written after it: at the next fork, each region is covered. */
static void write_all(size_t wanted)
{
	map_area(0, wanted);
	fork_once();
	for (size_t page = 0; page < pages; page++)
		area[page * page_size]++;
}

/* The covered pages of the area's regions, by the last fork. */
static unsigned int covered(void)
{
	size_t count = area_regions();
	unsigned int sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += regions[i].covered;
	return sum;
}

static void the_gate(void)
{
	policy(2, 2048, 80, 1000000);
	write_all(512);
	fork_once();
	if (area_regions())
		fail("regions are counted before the gate");
	set("cow_gate_forks", 1);
	fork_once();
	if (!area_regions())
		fail("no regions are counted after the gate");
	unmap_area();
}

/* How many pages a write copies beside its own. */
static long copied_by_write(size_t page)
{
	long before = figure("/proc/self/cow_stats", "precopied");

	area[page * page_size]++;
	return figure("/proc/self/cow_stats", "precopied") - before;
}

static void a_child_begins_cleared(void)
{
	int status;
	pid_t child;

	policy(2, 2048, 80, 1);
	write_all(512);
	child = fork();
	if (child == 0)
		_exit(copied_by_write(0) != 0);
	waitpid(child, &status, 0);
	if (status)
		fail("a child copies what its parent wrote before the fork");
	unmap_area();
}

static void map_again(size_t wanted)
{
	if (mmap(area, wanted * page_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != area)
		die("mmap");
	madvise(area, wanted * page_size, MADV_NOHUGEPAGE);
	memset(area, 1, wanted * page_size);
}

static void unmapped_in_part(void)
{
	policy(2, 256, 80, 1);
	write_all(512);
	/* Two regions whole, and half of the third. */
	munmap(area, 160 * page_size);
	map_again(160);
	fork_once();
	if (area_regions() != 8 || covered() != 6 * 64)
		fail("%zu regions have %u covered pages, and should be 8 with 6 * 64",
		     area_regions(), covered());
	unmap_area();
}

static void moved(void)
{
	char *to;

	policy(2, 256, 80, 1);
	write_all(512);
	to = area + ROOM;
	if (mremap(area, pages * page_size, pages * page_size, MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
	    to)
		die("mremap");
	fork_once();
	if (area_regions())
		fail("regions stayed where nothing is mapped");
	area = to;
	if (area_regions() != 8 || covered())
		fail("%zu regions have %u covered pages after the move", area_regions(), covered());
	unmap_area();
}

static void mapped_again(void)
{
	policy(2, 2048, 80, 1);
	write_all(512);
	map_again(512);
	fork_once();
	if (!area_regions() || covered())
		fail("a new mapping has %u covered pages", covered());
	unmap_area();
}

/* How many pages the first @writes writes after a fork, each 256 KiB on, copy beside their own. */
static long copied_by_writes(size_t writes)
{
	long copied = 0;
	int gate;
	pid_t child = child_new(true, &gate);

	for (size_t page = 0; page < 64 * writes; page += 64)
		copied += copied_by_write(page);
	child_end(child, true, gate);
	return copied;
}

static long copied_ahead(void)
{
	return copied_by_writes(1);
}

static void whole(void)
{
	policy(2, 2048, 80, 1);
	write_all(512);
	if (copied_by_writes(8) != 511)
		fail("not 511 pages beside the first");
	unmap_area();
}

static void in_pieces(void)
{
	policy(3, 2048, 80, 1);
	write_all(512);
	if (copied_by_writes(1) != 31)
		fail("not 31 pages beside one");
	unmap_area();
	write_all(512);
	if (copied_by_writes(8) != 8 * 31)
		fail("not 31 pages beside each of 8");
	unmap_area();
}

/* What an epoch wrote before the policy was off says nothing of the next after it is on again. */
static void off_forgets(void)
{
	policy(2, 2048, 80, 1);
	write_all(512);
	set("cow_precopy", 0);
	set("cow_precopy", 2);
	if (copied_ahead() != 0)
		fail("copied for what was written before the policy was off");
	unmap_area();
}

/* Of 512 writes to shared pages, with the policy off. */
static void counted_if_asked(void)
{
	for (long level = 0; level < 3; level++) {
		long before, counted;

		pid_t child;
		int gate;

		set("cow_precopy", 0);
		set("cow_stats", level);
		map_area(0, 512);
		memset(area, 1, pages * page_size);
		child = child_new(true, &gate);
		before = figure("/proc/self/cow_stats", "faults");
		for (size_t page = 0; page < pages; page++)
			area[page * page_size]++;
		counted = figure("/proc/self/cow_stats", "faults") - before;
		child_end(child, true, gate);
		if (before < 0 || (level ? counted < 512 : counted))
			fail("vm.cow_stats=%ld: %ld faults of 512 are counted", level, counted);
		unmap_area();
	}
	set("cow_stats", 0);
}

/* As a container's root is. */
static void others_may_not_reset(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
		struct __user_cap_data_struct none[2] = {};
		int fd = open("/proc/cow_stats", O_WRONLY);

		if (fd < 0 || syscall(SYS_capset, &header, none))
			_exit(2);
		_exit(write(fd, "0", 1) != -1 || errno != EPERM);
	}
	waitpid(child, &status, 0);
	if (status)
		fail("root without capabilities resets /proc/cow_stats (0x%x)", status);
}

static void waste_raises_the_threshold(void)
{
	long threshold;

	policy(3, 2048, 80, 1);
	write_all(512);
	/* One page of 32 is written after all were copied. */
	if (copied_ahead() != 31)
		fail("not copied at first");
	/* The first finds the waste, the second draws the conclusion. */
	fork_once();
	fork_once();
	threshold = figure("/proc/self/cow_stats", "threshold_pct");
	if (threshold != 85)
		fail("the threshold is %ld after an epoch of waste", threshold);
	unmap_area();
}

static void others_may_not_read(void)
{
	char path[60];
	pid_t child;
	int status;

	snprintf(path, sizeof(path), "/proc/%d/cow_stats", getpid());
	child = fork();
	if (child == 0) {
		int fd;

		if (setgid(65534) || setuid(65534))
			_exit(2);
		fd = open(path, O_RDONLY);
		_exit(fd >= 0 || (errno != EACCES && errno != EPERM));
	}
	waitpid(child, &status, 0);
	if (status)
		fail("another user can read %s (0x%x)", path, status);
}

static void bad_values(void)
{
	static const struct {
		const char *name;
		long value;
	} bad[] = {
		{ "cow_precopy", 4 },	      { "cow_precopy", -1 },
		{ "cow_region_kb", 0 },	      { "cow_region_kb", 16 },
		{ "cow_region_kb", 33 },      { "cow_region_kb", 48 },
		{ "cow_region_kb", 16384 },   { "cow_region_kb", -2048 },
		{ "cow_threshold_pct", 101 }, { "cow_threshold_pct", -1 },
		{ "cow_gate_forks", -1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		long before = get(bad[i].name);

		if (try_set(bad[i].name, bad[i].value))
			fail("%s takes %ld", bad[i].name, bad[i].value);
		if (get(bad[i].name) != before)
			fail("%s is %ld after %ld was refused", bad[i].name, get(bad[i].name),
			     bad[i].value);
	}
}

int main(void)
{
	static const struct test_case tests[] = {
		{ "the gate", the_gate },
		{ "a child begins cleared", a_child_begins_cleared },
		{ "unmapped in part", unmapped_in_part },
		{ "moved", moved },
		{ "mapped again", mapped_again },
		{ "whole", whole },
		{ "in pieces", in_pieces },
		{ "off forgets", off_forgets },
		{ "counted if asked", counted_if_asked },
		{ "waste raises the threshold", waste_raises_the_threshold },
		{ "others may not read", others_may_not_read },
		{ "others may not reset", others_may_not_reset },
		{ "bad values", bad_values },
	};
	size_t count = sizeof(tests) / sizeof(*tests);

	if (!has_setting("cow_region_kb")) {
		printf("this kernel has no vm.cow_region_kb\n");
		return 4;
	}
	remember_settings();
	trace_begin();
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	printf("KTAP version 1\n1..%zu\n", count);
	run_cases(tests, count);
	return failures != 0;
}
