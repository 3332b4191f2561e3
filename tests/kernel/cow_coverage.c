// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_coverage: do the kernel's counts of regions (vm.cow_precopy=2) agree with what was written?
 *
 * A process forks again and again, and between two forks it writes some pages of each region, from
 * none to all. It notes each page that it writes, in shared memory, which is never copied on write.
 * After each fork the kernel's trace must say just that of the epoch that ended: exactly, for
 * regions that fault page by page, and within a page for those that were copied ahead, whose writes
 * the kernel knows from dirty bits. Which regions are copied ahead must follow from the threshold.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "regions.h"

#define EPOCHS 8
#define THREADS 4

static unsigned char *noted; /* by page: written in this epoch */

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
	size_t count = area_regions();

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
	}
}

/* Epochs of writes; each region's share of pages changes from one to the next. */
static void epochs(long mode, unsigned long region_kb, long threshold, bool threads)
{
	static const unsigned int shares[] = { 100, 0, 79, 100, 85, 10, 100, 50, 90 };
	static unsigned char wanted[ROOM / 4096];
	static bool copied[MAX_REGIONS];
	unsigned long size = region_kb << 10;
	bool tracked = false;
	long copies = 0;

	policy(mode, (long)region_kb, threshold, 1);
	/* The first and the last region are cut by the edge of the mapping. */
	map_area(5, (region_kb > 2048 ? 5120 : 1536) - 11);
	memset(noted, 0, ROOM / page_size);
	memset(copied, 0, sizeof(copied));
	for (int epoch = 0; epoch < EPOCHS; epoch++) {
		unsigned long first = (unsigned long)area / size * size;
		/* Who left is not copied for, only re-used from; both count. */
		bool lives = epoch % 3 != 1;
		unsigned int asked;
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
		asked = (unsigned)figure("/proc/self/cow_stats", "threshold_pct");
		count = area_regions();
		for (size_t i = 0; i < count; i++) {
			size_t number = (regions[i].start - first) / size;

			copied[number] =
				!asked || (regions[i].covered &&
					   regions[i].covered * 100 >= asked * regions[i].pages);
		}
		write_wanted(wanted, threads);
		count = area_regions();
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
			copies += r->copied;
		}
		child_end(child, lives, gate);
	}
	/* All of a page table is reached by 100 only, and a test of nothing must not pass. */
	if (!copies)
		fail("no region was ever copied ahead");
	unmap_area();
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
	size_t planned = 0;

	if (!has_setting("cow_region_kb")) {
		printf("this kernel has no vm.cow_region_kb\n");
		return 4;
	}
	remember_settings();
	trace_begin();
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	noted = mmap(NULL, ROOM / page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (noted == MAP_FAILED)
		die("mmap");
	for (size_t i = 0; i < NR_EPOCHS; i++)
		planned += wanted(i);
	printf("KTAP version 1\n1..%zu\n", planned);
	for (size_t i = 0; i < NR_EPOCHS; i++) {
		bool pieces = i >= 24;
		unsigned long kb = sizes_kb[pieces ? 2 + i / 2 % 2 : i / 6];
		long threshold = thresholds[pieces ? i % 2 : i / 2 % 3];
		static char name[100];
		int before = failures;

		if (!wanted(i))
			continue;
		snprintf(name, sizeof(name), "regions of %lu KiB, threshold %ld%%%s%s", kb,
			 threshold, pieces ? ", tuned" : "", i % 2 ? ", threads" : "");
		running = name;
		epochs(pieces ? 3 : 2, kb, threshold, i % 2);
		done(name, before);
	}
	return failures != 0;
}
