// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_coverage: do the kernel's counts of regions (vm.cow_precopy=2) agree with what was written?
 *
 * A process forks again and again, and between two forks it writes some pages of each region, from
 * none to all. It notes each page that it writes, in shared memory, which is never copied on write.
 * After each fork /proc/self/cow_regions must say just that of the epoch that ended: exactly, for
 * regions that fault page by page, and within a page for those that were copied ahead, whose writes
 * the kernel knows from dirty bits. Which regions are copied ahead must follow from the threshold.
 *
 * Further cases are about what follows a process: fork, munmap, mremap, prctl, permissions.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SYSCTL "/proc/sys/vm/"
#define PR_SET_COW_PRECOPY 0x434f5701
#define PR_GET_COW_PRECOPY 0x434f5702
#define DEFAULT 0
#define OFF 1
#define ON 2
#define INHERIT 1

#define ROOM (32UL << 20)
#define EPOCHS 8
#define THREADS 4
#define MAX_REGIONS 1024

static const char *const settings[] = { "cow_precopy",	  "cow_region_kb", "cow_threshold_pct",
					"cow_gate_forks", "cow_waste_pct", "cow_batch_kb",
					"cow_history",	  "cow_gate_kb",   "cow_worker" };
#define SETTINGS (sizeof(settings) / sizeof(*settings))
static long old_settings[SETTINGS];
static size_t page_size, pages;
static char *area;	     /* aligned to ROOM; the mapping begins and ends within regions */
static unsigned char *noted; /* by page: written in this epoch */
static int failures, cases;
static const char *running = "";

struct region {
	unsigned long start, end, precopied, dirty;
	unsigned int pages, covered, coverage_pct, faults, copied;
};

static struct region regions[MAX_REGIONS];

static void fail(const char *format, ...)
{
	va_list args;

	/* The first few say what there is to say. */
	if (failures++ > 20)
		return;
	va_start(args, format);
	printf("# %s: ", running);
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

static void die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static bool try_set(const char *name, long value)
{
	char path[100], text[32];
	int fd, length;
	bool done;

	snprintf(path, sizeof(path), SYSCTL "%s", name);
	length = snprintf(text, sizeof(text), "%ld\n", value);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		die(path);
	done = write(fd, text, (size_t)length) == length;
	close(fd);
	return done;
}

static void set(const char *name, long value)
{
	if (!try_set(name, value))
		die(name);
}

static long get(const char *name)
{
	char path[100], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), SYSCTL "%s", name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) < 0)
		die(path);
	close(fd);
	return atol(text);
}

static void put_back(void)
{
	for (size_t i = 0; i < SETTINGS; i++)
		try_set(settings[i], old_settings[i]);
}

static void policy(long mode, long region_kb, long threshold, long gate)
{
	set("cow_region_kb", region_kb);
	set("cow_threshold_pct", threshold);
	set("cow_gate_forks", gate);
	set("cow_batch_kb", 2048);
	set("cow_history", 0);
	set("cow_gate_kb", 0);
	set("cow_worker", 0);
	/* The same threshold for good, so that the choice can be foretold. */
	set("cow_waste_pct", 100);
	set("cow_precopy", mode);
}

/* The regions between two addresses. */
static size_t read_regions(const char *path, const char *from, const char *to)
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

static const struct region *region_at(size_t count, unsigned long start)
{
	for (size_t i = 0; i < count; i++)
		if (regions[i].start == start)
			return &regions[i];
	return NULL;
}

/* A mapping of @wanted pages that begins @skip pages after a boundary of all sizes of regions. */
static void map_area(size_t skip, size_t wanted)
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
	memset(noted, 0, ROOM / page_size);
}

static void unmap_area(void)
{
	munmap(area, pages * page_size);
}

static void note_write(size_t page)
{
	area[page * page_size + page % page_size]++;
	noted[page] = 1;
}

struct share {
	const unsigned char *wanted;
	size_t first;
};

static void *write_share(void *arg)
{
	const struct share *share = arg;

	for (size_t page = share->first; page < pages; page += THREADS)
		if (share->wanted[page])
			note_write(page);
	return NULL;
}

/* Write the wanted pages, in an order that jumps about; some of them twice. */
static void write_wanted(const unsigned char *wanted, bool threads)
{
	size_t step = pages / 2 | 1;

	if (threads) {
		struct share shares[THREADS];
		pthread_t thread[THREADS];

		for (size_t i = 0; i < THREADS; i++) {
			shares[i] = (struct share){ wanted, i };
			if (pthread_create(&thread[i], NULL, write_share, &shares[i]))
				die("pthread_create");
		}
		for (size_t i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		return;
	}
	while (pages % step == 0)
		step += 2;
	for (size_t i = 0, page = 0; i < pages; i++, page = (page + 997) % pages) {
		if (!wanted[page])
			continue;
		note_write(page);
		if (page % 3 == 0)
			note_write(page);
	}
	/* 997 and the number of pages may have a common divisor. */
	for (size_t page = 0; page < pages; page++)
		if (wanted[page] && !noted[page])
			note_write(page);
}

/* A child that lives until it is told, or not at all. */
static pid_t child_new(bool lives, int *gate)
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

static void child_end(pid_t child, bool lives, int gate)
{
	close(gate);
	if (lives)
		waitpid(child, NULL, 0);
}

/* The end of an epoch. */
static void fork_once(void)
{
	int gate;
	pid_t child = child_new(false, &gate);

	child_end(child, false, gate);
}

static unsigned int written_in(unsigned long start, unsigned long end)
{
	unsigned int count = 0;

	for (size_t page = 0; page < pages; page++) {
		unsigned long at = (unsigned long)area + page * page_size;

		count += at >= start && at < end && noted[page];
	}
	return count;
}

static unsigned int mapped_in(unsigned long start, unsigned long end)
{
	unsigned long low = (unsigned long)area, high = low + pages * page_size;

	low = low > start ? low : start;
	high = high < end ? high : end;
	return high > low ? (unsigned int)((high - low) / page_size) : 0;
}

/* What each region had in the epoch that has just ended, against the notes. */
static void compare(unsigned long size, bool tracked, const bool *copied)
{
	unsigned long first = (unsigned long)area / size * size;
	unsigned long end = (unsigned long)area + pages * page_size;
	size_t count = read_regions("/proc/self/cow_regions", area, area + pages * page_size);

	for (unsigned long start = first; start < end; start += size) {
		const struct region *r = region_at(count, start);
		unsigned int expected = tracked ? written_in(start, start + size) : 0;
		unsigned int off;

		if (!r) {
			fail("no region at 0x%lx", start);
			continue;
		}
		off = r->covered > expected ? r->covered - expected : expected - r->covered;
		if (off > (copied[(start - first) / size] ? 1 : 0))
			fail("region %lu: %u pages were written, %u are counted%s",
			     (start - first) / size, expected, r->covered,
			     copied[(start - first) / size] ? " (copied ahead)" : "");
		if (r->pages != mapped_in(start, start + size))
			fail("region %lu: %u pages are mapped, %u are counted",
			     (start - first) / size, mapped_in(start, start + size), r->pages);
		if (r->faults || r->copied || r->precopied)
			fail("region %lu begins an epoch with %u faults, %lu precopied",
			     (start - first) / size, r->faults, r->precopied);
	}
}

/* Epochs of writes; each region's share of pages changes from one to the next. */
static void epochs(unsigned long region_kb, long threshold, long batch_kb, bool threads)
{
	static const unsigned int shares[] = { 100, 0, 79, 100, 85, 10, 100, 50, 90 };
	static unsigned char wanted[ROOM / 4096];
	static bool copied[MAX_REGIONS];
	unsigned long size = region_kb << 10;
	bool tracked = false;
	long copies = 0;

	policy(2, (long)region_kb, threshold, 1);
	set("cow_batch_kb", batch_kb);
	/* The first and the last region are cut by the edge of the mapping. */
	map_area(5, (region_kb > 2048 ? 5120 : 1536) - 11);
	memset(copied, 0, sizeof(copied));
	for (int epoch = 0; epoch < EPOCHS; epoch++) {
		unsigned long first = (unsigned long)area / size * size;
		/* Who left is not copied for, only re-used from; both count. */
		bool lives = epoch % 3 != 1;
		size_t count;
		int gate;
		pid_t child = child_new(lives, &gate);

		compare(size, tracked, copied);
		tracked = true;
		memset(noted, 0, pages);
		memset(wanted, 0, pages);
		for (size_t page = 0; page < pages; page++) {
			unsigned long region =
				((unsigned long)area + page * page_size - first) / size;

			/* Two epochs alike, so that a guess can be right, then another. */
			wanted[page] = page * 61 % 100 < shares[(region + (unsigned)epoch / 2) % 9];
		}
		/* What it was before the writes decides. */
		count = read_regions("/proc/self/cow_regions", area, area + pages * page_size);
		for (size_t i = 0; i < count; i++) {
			size_t number = (regions[i].start - first) / size;

			copied[number] =
				(!threshold || (regions[i].covered &&
						regions[i].covered * 100 >=
							(unsigned)threshold * regions[i].pages));
		}
		write_wanted(wanted, threads);
		count = read_regions("/proc/self/cow_regions", area, area + pages * page_size);
		for (size_t i = 0; i < count; i++) {
			const struct region *r = &regions[i];
			size_t number = (r->start - first) / size;
			unsigned int written = written_in(r->start, r->end);

			/*
			 * A page whose other owner has left is re-used, unless a CPU's list
			 * still has a reference to it.
			 */
			if (lives && r->copied != (copied[number] && written))
				fail("region %zu with %u written pages: copied is %u, and should "
				     "be %u",
				     number, written, r->copied, copied[number] && written);
			copied[number] = r->copied;
			if (!r->copied && r->faults != written)
				fail("region %zu: %u pages were written, %u have faulted", number,
				     written, r->faults);
			/* Larger regions are copied a page table at a time, and all by batches. */
			if (r->copied && size <= (unsigned long)batch_kb << 10 &&
			    r->faults + r->precopied != r->pages)
				fail("region %zu: %u faults and %lu copied ahead are not its %u "
				     "pages",
				     number, r->faults, r->precopied, r->pages);
			if (r->copied && r->faults + r->dirty != written)
				fail("region %zu: %u faults and %lu dirty are not the %u written "
				     "pages",
				     number, r->faults, r->dirty, written);
			copies += r->copied;
		}
		child_end(child, lives, gate);
	}
	/* All of a page table is reached by 100 only, and a test of nothing must not pass. */
	if (!copies)
		fail("no region was ever copied ahead");
	unmap_area();
	if (read_regions("/proc/self/cow_regions", area, area + pages * page_size))
		fail("regions outlive their mapping");
}

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
	set("cow_precopy", 0);
	write_all(512);
	if (copied_ahead() != 511)
		fail("not copied though the process asked for it");
	unmap_area();
	prctl(PR_SET_COW_PRECOPY, DEFAULT, 0, 0, 0);
	write_all(512);
	if (copied_ahead() != 0)
		fail("copied though nobody asks for it");
	unmap_area();
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
		{ "cow_precopy", 3 },	      { "cow_precopy", -1 },
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

static void done(const char *name, int before)
{
	printf("%sok %d %s\n", failures == before ? "" : "not ", ++cases, name);
	fflush(stdout);
}

#define NR_EPOCHS 28

/* Each size, threshold and kind of batch is in the quick choice, not each combination. */
static bool wanted(size_t i)
{
	return !getenv("COWLAB_QUICK") || i == 0 || i == 8 || i == 17 || i == 20 || i == 24;
}

int main(void)
{
	static const unsigned long sizes_kb[] = { 32, 256, 2048, 8192 };
	static const long thresholds[] = { 0, 80, 100 };
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "the gate", the_gate },
		{ "a child begins cleared", a_child_begins_cleared },
		{ "unmapped in part", unmapped_in_part },
		{ "moved by whole regions", moved_by_regions },
		{ "moved by less", moved_by_less },
		{ "mapped again", mapped_again },
		{ "in pieces", in_pieces },
		{ "only those written", only_those_written },
		{ "asked for by prctl", asked_by_prctl },
		{ "waste raises the threshold", waste_raises_the_threshold },
		{ "others may not read", others_may_not_read },
		{ "bad values", bad_values },
	};
	size_t planned = 0, nr_tests = sizeof(tests) / sizeof(*tests);

	if (access(SYSCTL "cow_region_kb", F_OK)) {
		printf("this kernel has no vm.cow_region_kb\n");
		return 4;
	}
	for (size_t i = 0; i < SETTINGS; i++)
		old_settings[i] = get(settings[i]);
	atexit(put_back);
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	noted = mmap(NULL, ROOM / page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (noted == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < NR_EPOCHS; i++)
		planned += wanted(i);
	printf("KTAP version 1\n1..%zu\n", planned + nr_tests);
	for (size_t i = 0; i < NR_EPOCHS; i++) {
		bool pieces = i >= 24;
		unsigned long kb = sizes_kb[pieces ? 2 + i / 2 % 2 : i / 6];
		long threshold = thresholds[pieces ? i % 2 : i / 2 % 3];
		static char name[100];
		int before = failures;

		if (!wanted(i))
			continue;
		snprintf(name, sizeof(name), "regions of %lu KiB, threshold %ld%%%s%s", kb,
			 threshold, pieces ? ", batches of 128 KiB" : "", i % 2 ? ", threads" : "");
		running = name;
		epochs(kb, threshold, pieces ? 128 : 2048, i % 2);
		done(name, before);
	}
	for (size_t i = 0; i < nr_tests; i++) {
		int before = failures;

		running = tests[i].name;
		tests[i].run();
		done(tests[i].name, before);
	}
	return failures != 0;
}
