// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_regions: do the kernel's regions (vm.cow_precopy=2) follow the process that they are of:
 * through fork, munmap, mremap and a new mapping? And do its history, prctl, permissions and
 * sysctls do what their documentation says?
 */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "regions.h"

#define PR_SET_COW_PRECOPY 0x434f5701
#define PR_GET_COW_PRECOPY 0x434f5702
#define DEFAULT 0
#define OFF 1
#define ON 2
#define INHERIT 1
/* Of vm.cow_precopy. */
#define OPTED_IN 3

/* One fork, and all written after it: at the next fork, each region is covered. */
static void write_all(size_t wanted)
{
	map_area(0, wanted);
	fork_once();
	for (size_t page = 0; page < pages; page++)
		area[page * page_size]++;
}

static void cover(size_t wanted)
{
	write_all(wanted);
	fork_once();
}

static void the_gate(void)
{
	policy(2, 2048, 80, 1000000);
	cover(512);
	if (read_regions("/proc/self/cow_regions", area, area + pages * page_size))
		fail("regions are counted before the gate");
	set("cow_gate_forks", 1);
	fork_once();
	if (!read_regions("/proc/self/cow_regions", area, area + pages * page_size))
		fail("no regions are counted after the gate");
	unmap_area();
}

static void a_child_begins_cleared(void)
{
	int status;
	pid_t child;

	policy(2, 2048, 80, 1);
	cover(512);
	child = fork();
	if (child == 0)
		_exit(read_regions("/proc/self/cow_regions", NULL, (char *)-1) != 0);
	waitpid(child, &status, 0);
	if (status)
		fail("a child has regions");
	if (!read_regions("/proc/self/cow_regions", area, area + pages * page_size))
		fail("its parent has none");
	unmap_area();
}

static void unmapped_in_part(void)
{
	policy(2, 256, 80, 1);
	cover(512);
	if (read_regions("/proc/self/cow_regions", area, area + pages * page_size) != 8)
		fail("not 8 regions before");
	/* Two regions whole, and half of the third. */
	munmap(area, 160 * page_size);
	if (read_regions("/proc/self/cow_regions", area, area + pages * page_size) != 6)
		fail("not 6 regions after");
	/* The other half. */
	munmap(area + 160 * page_size, 32 * page_size);
	if (read_regions("/proc/self/cow_regions", area, area + pages * page_size) != 5)
		fail("not 5 regions in the end");
	unmap_area();
}

static void moved(size_t by_pages, bool exactly)
{
	size_t count;
	unsigned int covered = 0;
	char *to;

	policy(2, 256, 80, 1);
	cover(512);
	to = area + ROOM + by_pages * page_size;
	if (mremap(area, pages * page_size, pages * page_size, MREMAP_MAYMOVE | MREMAP_FIXED, to) !=
	    to)
		die("mremap");
	if (read_regions("/proc/self/cow_regions", area, area + pages * page_size))
		fail("regions stayed where nothing is mapped");
	count = read_regions("/proc/self/cow_regions", to, to + pages * page_size);
	for (size_t i = 0; i < count; i++) {
		covered += regions[i].covered;
		if (exactly && regions[i].covered != 64)
			fail("a region has %u covered pages after the move", regions[i].covered);
	}
	if (covered != 512)
		fail("512 pages were covered, %u are after the move", covered);
	area = to;
	unmap_area();
}

static void moved_by_regions(void)
{
	moved(0, true);
}

static void moved_by_less(void)
{
	moved(13, false);
}

static void mapped_again(void)
{
	size_t count;

	policy(2, 2048, 80, 1);
	cover(512);
	if (mmap(area, pages * page_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != area)
		die("mmap");
	count = read_regions("/proc/self/cow_regions", area, area + pages * page_size);
	if (count)
		fail("a new mapping has %u covered pages", regions[0].covered);
	unmap_area();
}

/* How many pages the first @writes writes after a fork, each 256 KiB on, copy beside their own. */
static unsigned long copied_by_writes(size_t writes)
{
	unsigned long copied = 0;
	int gate;
	pid_t child = child_new(true, &gate);

	for (size_t page = 0; page < 64 * writes; page += 64)
		area[page * page_size]++;
	if (read_regions("/proc/self/cow_regions", area, area + pages * page_size))
		copied = regions[0].precopied;
	child_end(child, true, gate);
	return copied;
}

static unsigned long copied_ahead(void)
{
	return copied_by_writes(1);
}

static void in_pieces(void)
{
	policy(2, 2048, 80, 1);
	set("cow_batch_kb", 64);
	write_all(512);
	if (copied_by_writes(1) != 15)
		fail("not 15 pages beside one");
	unmap_area();
	write_all(512);
	if (copied_by_writes(8) != 8 * 15)
		fail("not 15 pages beside each of 8");
	unmap_area();
}

/* An epoch ends, and every so many pages are written in the next. */
static void fork_and_write(size_t step)
{
	fork_once();
	for (size_t page = 0; page < pages; page += step)
		area[page * page_size]++;
	/* An epoch much shorter than the one before would be added to it. */
	nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
}

static void only_those_written(void)
{
	static const struct {
		long history;
		size_t before, last, copied;
	} rows[] = {
		{ 1, 1, 2, 255 }, { 1, 2, 1, 511 }, { 2, 1, 2, 255 }, { 2, 2, 1, 255 },
		{ 3, 2, 1, 0 },	  { 2, 512, 1, 0 }, { 1, 1, 512, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		unsigned long copied;

		policy(2, 2048, 1, 0);
		set("cow_history", rows[i].history);
		map_area(0, 512);
		/* What was written before the first fork that is tracked is not known. */
		fork_and_write(512);
		fork_and_write(rows[i].before);
		fork_and_write(rows[i].last);
		copied = copied_ahead();
		if (copied != rows[i].copied)
			fail("history %ld, each %zuth page written, then each %zuth: %lu are "
			     "copied",
			     rows[i].history, rows[i].before, rows[i].last, copied);
		unmap_area();
	}
}

static void asked_by_prctl(void)
{
	pid_t child;
	int status;

	policy(2, 2048, 80, 1);
	if (prctl(PR_SET_COW_PRECOPY, 3, 0, 0, 0) != -1 || errno != EINVAL)
		fail("mode 3 is taken");
	if (prctl(PR_SET_COW_PRECOPY, ON, 2, 0, 0) != -1 || errno != EINVAL)
		fail("flag 2 is taken");
	if (prctl(PR_SET_COW_PRECOPY, ON, 0, 1, 0) != -1 || errno != EINVAL)
		fail("a fourth argument is taken");
	write_all(512);
	if (copied_ahead() != 511)
		fail("not copied by vm.cow_precopy alone");
	if (prctl(PR_SET_COW_PRECOPY, OFF, INHERIT, 0, 0))
		fail("OFF: %s", strerror(errno));
	unmap_area();
	write_all(512);
	if (copied_ahead() != 0)
		fail("copied though it is off");
	unmap_area();
	child = fork();
	if (child == 0)
		_exit(prctl(PR_GET_COW_PRECOPY, 0, 0, 0, 0) != (OFF | INHERIT << 8));
	waitpid(child, &status, 0);
	if (status)
		fail("OFF is not inherited");
	prctl(PR_SET_COW_PRECOPY, ON, 0, 0, 0);
	child = fork();
	if (child == 0)
		_exit(prctl(PR_GET_COW_PRECOPY, 0, 0, 0, 0) != DEFAULT);
	waitpid(child, &status, 0);
	if (status)
		fail("ON is inherited without being asked to");
	set("cow_precopy", OPTED_IN);
	write_all(512);
	if (copied_ahead() != 511)
		fail("not copied though the process asked for it");
	unmap_area();
	prctl(PR_SET_COW_PRECOPY, DEFAULT, 0, 0, 0);
	write_all(512);
	if (copied_ahead() != 0)
		fail("copied though nobody asks for it");
	unmap_area();
	prctl(PR_SET_COW_PRECOPY, ON, 0, 0, 0);
	set("cow_precopy", 0);
	write_all(512);
	if (copied_ahead() != 0)
		fail("copied though vm.cow_precopy is 0");
	unmap_area();
	if (prctl(PR_SET_COW_PRECOPY, ON, 0, 0, 0) != -1 || errno != EPERM)
		fail("ON is taken though vm.cow_precopy is 0");
	prctl(PR_SET_COW_PRECOPY, DEFAULT, 0, 0, 0);
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

static long faults_counted(void)
{
	FILE *file = fopen("/proc/self/cow_stats", "r");
	char line[100];
	long faults = -1;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "faults: %ld", &faults);
	if (file)
		fclose(file);
	return faults;
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
		before = faults_counted();
		for (size_t page = 0; page < pages; page++)
			area[page * page_size]++;
		counted = faults_counted() - before;
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
	char line[100];
	int threshold = -1;
	FILE *file;

	policy(2, 2048, 80, 1);
	set("cow_waste_pct", 10);
	write_all(512);
	/* One page of 512 is written after all were copied. */
	if (copied_ahead() != 511)
		fail("not copied at first");
	/* The first finds the waste, the second draws the conclusion. */
	fork_once();
	fork_once();
	file = fopen("/proc/self/cow_stats", "r");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "threshold_pct: %d", &threshold);
	if (file)
		fclose(file);
	if (threshold != 85)
		fail("the threshold is %d after an epoch of waste", threshold);
	unmap_area();
}

static void others_may_not_read(void)
{
	char path[60];
	pid_t child;
	int status;

	snprintf(path, sizeof(path), "/proc/%d/cow_regions", getpid());
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
		{ "cow_waste_pct", 101 },     { "cow_gate_forks", -1 },
		{ "cow_batch_kb", 8 },	      { "cow_batch_kb", 4096 },
		{ "cow_batch_kb", 96 },	      { "cow_history", 4 },
		{ "cow_history", -1 },
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
		{ "moved by whole regions", moved_by_regions },
		{ "moved by less", moved_by_less },
		{ "mapped again", mapped_again },
		{ "in pieces", in_pieces },
		{ "only those written", only_those_written },
		{ "asked for by prctl", asked_by_prctl },
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
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	printf("KTAP version 1\n1..%zu\n", count);
	run_cases(tests, count);
	return failures != 0;
}
