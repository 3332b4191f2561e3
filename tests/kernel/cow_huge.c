// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_huge: does the kernel's worker (vm.cow_huge) copy into huge pages what is written all over
 * after each fork, nothing else, and nothing wrong?
 *
 * A process forks, writes its pages, and forks again; what it wrote before is to be in huge pages
 * while it writes a part of it once more.
 */
#define _GNU_SOURCE
#include <signal.h>

#include "ahead.h"
#include "cases.h"
#include "marked_pages.h"

/* The worker's time. Under emulation, beside other tests, a millisecond is nothing. */
#define PATIENCE_MS 30000
#define HUGE_PAGES (PAGES / 512)
/* All but that which has the pages that were copied last: they are in a list of their CPU's own. */
#define MADE (HUGE_PAGES - 1)
/* The worker copies pieces where it came upon no idle CPU, and at least half of a huge page must be
 * shared still: it has some epochs to find it so. */
#define EPOCHS 6
/* Epochs for which the kernel takes what it knew of a huge page's pages to be so still. */
#define KEPT 8

/* Huge pages of the area. */
static size_t huge_pages(void)
{
	char line[200], start[32];
	FILE *file = fopen("/proc/self/smaps", "r");
	unsigned long kb = 0, from, to, value;
	bool ours = false;

	if (!file)
		die("smaps");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%31[0-9a-f]-%lx", start, &to) == 2) {
			from = strtoul(start, NULL, 16);
			ours = from < (uintptr_t)area + PAGES * page_size && to > (uintptr_t)area;
		} else if (ours && sscanf(line, "AnonHugePages: %lu", &value) == 1) {
			kb += value;
		}
	}
	fclose(file);
	return kb / 2048;
}

/*
 * Beside a child, write as many of each @step-th page as the worker waits for, and then a few at a
 * time, since it is one fault in 16 that finds an idle CPU for it, until @count of this process is
 * @least more or does not seem to become so. The few are in the last huge page.
 */
static void have_ahead(size_t step, const char *count, long least, size_t absent)
{
	size_t page = PAGES - 1 - absent;
	long before = own(count);

	page -= page % step;
	for (size_t first = 0; first < PAGES; first += 8 * step)
		if (first % 512 < 512 - absent)
			write_page(first);
	for (long ms = 0; ms < PATIENCE_MS && own(count) - before < least; ms += 50) {
		for (int i = 0; i < 16 && page > PAGES - 512; i++, page -= step)
			write_page(page);
		pause_ms(50);
	}
	/* More than that would come at once. */
	pause_ms(50);
}

/* Fork, and have huge pages while the child lives; both have what they wrote before and after. */
static void epoch_into_huge(const char *when)
{
	long faults, copied = 0;

	for (int i = 0; i < EPOCHS && copied < (long)MADE * 256; i++) {
		struct child child = child_new();

		copied = own("huge_copied");
		have_ahead(1, "huge_copied", MADE * 256, 0);
		copied = own("huge_copied") - copied;
		if (copied > (long)PAGES)
			fail("%s: %ld pages were copied into huge ones", when, copied);
		if (copied >= (long)MADE * 256 && huge_pages() < MADE)
			fail("%s: %zu huge pages of %lu", when, huge_pages(), MADE);
		faults = own("faults");
		write_every(1);
		faults = own("faults") - faults;
		if (copied >= (long)MADE * 256 && faults > 512 + 64)
			fail("%s: %ld faults of huge pages", when, faults);
		if (wrong_pages(0, PAGES))
			fail("%s: %zu pages are not what was written", when, wrong_pages(0, PAGES));
		child_end(child);
	}
	if (copied < (long)MADE * 256)
		fail("%s: %ld pages were copied into huge ones, after %d epochs", when, copied,
		     EPOCHS);
}

/* Fork, and have copies made ahead, but no huge page of them. */
static void epoch_without(const char *when, size_t step)
{
	long before = own("huge_copied"), pieces = own("precopied");
	struct child child = child_new();

	have_ahead(step, "precopied", 256, 0);
	if (own("precopied") - pieces < 256)
		fail("%s: %ld pages were copied ahead", when, own("precopied") - pieces);
	pause_ms(300);
	if (own("huge_copied") != before)
		fail("%s: %ld pages were copied into huge ones", when, own("huge_copied") - before);
	write_every(step);
	if (wrong_pages(0, PAGES))
		fail("%s: %zu pages are not what was written", when, wrong_pages(0, PAGES));
	child_end(child);
}

static void all_pages(void)
{
	map_area();
	epoch(1);
	epoch_into_huge("after one epoch");
	/* They are shared as huge pages, and it is known still what was written of them. */
	epoch_into_huge("after another");
	unmap_area();
}

/* The kernel's own huge pages, from before the first fork, split by the first write. */
static void huge_before(void)
{
	map_area();
	if (huge_pages() != HUGE_PAGES)
		fail("the area began with %zu huge pages", huge_pages());
	epoch(1);
	if (huge_pages())
		fail("%zu huge pages after writes beside a child", huge_pages());
	epoch_into_huge("again");
	unmap_area();
}

static void known_for_some_epochs(void)
{
	long made = 0, first = 0;
	int epochs;

	map_area();
	epoch(1);
	epoch_into_huge("at first");
	/* From now on a quarter of the pages is written: the kernel comes to see it, but not at
	 * once. */
	for (epochs = 0; epochs < KEPT + 6; epochs++) {
		struct child child = child_new();

		made = own("huge_copied");
		write_every(4);
		pause_ms(500);
		child_end(child);
		made = own("huge_copied") - made;
		first += epochs < 3 ? made : 0;
	}
	if (!first || made)
		fail("%ld pages were copied into huge ones in three epochs with few writes, %ld in "
		     "the %d-th",
		     first, made, epochs);
	if (wrong_pages(0, PAGES))
		fail("%zu pages are not what was written", wrong_pages(0, PAGES));
	unmap_area();
}

static void every_third(void)
{
	map_area();
	epoch(3);
	epoch_without("a third of the pages", 3);
	unmap_area();
}

static void not_allowed(void)
{
	area_advice = MADV_NOHUGEPAGE;
	map_area();
	epoch(1);
	epoch_without("MADV_NOHUGEPAGE", 1);
	unmap_area();
	area_advice = MADV_HUGEPAGE;
}

static void switched_off(void)
{
	set("cow_huge", 0);
	map_area();
	epoch(1);
	epoch_without("vm.cow_huge=0", 1);
	set("cow_huge", 1);
	epoch_into_huge("vm.cow_huge=1");
	unmap_area();
}

static void without_worker(void)
{
	set("cow_worker", 0);
	map_area();
	epoch(1);
	epoch_without("vm.cow_worker=0", 1);
	unmap_area();
	set("cow_worker", 1);
}

static bool is_zero(size_t page)
{
	for (size_t i = 0; i < page_size / sizeof(uint64_t); i++)
		if (words(page)[i])
			return false;
	return true;
}

/* The last @absent pages of each huge page are given up, and not touched any more. */
static void with_absent(size_t absent, bool become)
{
	long huge, pieces;
	struct child child;

	map_area();
	epoch(1);
	for (size_t first = 0; first < PAGES; first += 512)
		if (madvise(words(first + 512 - absent), absent * page_size, MADV_DONTNEED))
			die("madvise");
	huge = own("huge_copied");
	pieces = own("precopied");
	child = child_new();
	have_ahead(1, become ? "huge_copied" : "precopied", 256, absent);
	huge = own("huge_copied") - huge;
	if (!become && (huge || own("precopied") - pieces < 256))
		fail("%zu absent pages in each: %ld pages copied into huge ones, %ld ahead", absent,
		     huge, own("precopied") - pieces);
	if (become && huge < 256)
		fail("%zu absent pages in each: %ld pages copied into huge ones", absent, huge);
	for (size_t page = 0; page < PAGES; page++)
		if (page % 512 < 512 - absent ? !page_right(page) : !is_zero(page))
			fail("page %zu is not what was written", page);
	kill(child.pid, SIGKILL);
	waitpid(child.pid, NULL, 0);
	close(child.gate);
	unmap_area();
}

static void few_absent(void)
{
	with_absent(8, true);
}

static void many_absent(void)
{
	with_absent(9, false);
}

/* Two children of different ages, and the parent, each with its own contents. */
static void two_children(void)
{
	long before = own("huge_copied");
	struct child first, second;

	map_area();
	epoch(1);
	first = child_new();
	have_ahead(1, "huge_copied", 256, 0);
	if (own("huge_copied") == before)
		fail("nothing was copied into huge pages");
	second = child_new();
	have_ahead(1, "precopied", 1, 0);
	write_every(1);
	if (wrong_pages(0, PAGES))
		fail("%zu pages are not what was written", wrong_pages(0, PAGES));
	child_end(second);
	child_end(first);
	unmap_area();
}

static void bad_values(void)
{
	static const long bad[] = { 2, -1 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (try_set("cow_huge", bad[i]))
			fail("cow_huge takes %ld", bad[i]);
}

/* The kernel's own thread makes huge pages as well, of what it comes upon. */
#define SLEEP "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs"
static char old_sleep[32];

static void khugepaged_on(void)
{
	if (getpid() == settings_owner)
		put(SLEEP, old_sleep);
}

static void khugepaged_off(void)
{
	if (!get_text(SLEEP, old_sleep, sizeof(old_sleep)) || !put(SLEEP, "4294967295"))
		die(SLEEP);
	atexit(khugepaged_on);
}

int main(void)
{
	static const struct test_case tests[] = {
		{ "all pages", all_pages },
		{ "huge before", huge_before },
		{ "known for some epochs", known_for_some_epochs },
		{ "every third page", every_third },
		{ "not allowed", not_allowed },
		{ "switched off", switched_off },
		{ "without a worker", without_worker },
		{ "few absent pages", few_absent },
		{ "many absent pages", many_absent },
		{ "two children", two_children },
		{ "beside munmap", beside_munmap },
		{ "beside mremap", beside_mremap },
		{ "beside mprotect", beside_mprotect },
		{ "beside madvise", beside_madvise },
		{ "beside exit", beside_exit },
		{ "bad values", bad_values },
	};
	size_t nr_tests = sizeof(tests) / sizeof(*tests);

	if (!has_setting("cow_huge")) {
		printf("this kernel has no vm.cow_huge\n");
		return 4;
	}
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		printf("one CPU has no worker\n");
		return 4;
	}
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	area_advice = MADV_HUGEPAGE;
	ahead_count = "huge_copied";
	remember_settings();
	khugepaged_off();
	set("cow_region_kb", 2048);
	set("cow_batch_kb", 16);
	set("cow_gate_forks", 1);
	set("cow_gate_kb", 1024);
	set("cow_history", 1);
	set("cow_threshold_pct", 80);
	set("cow_worker", 1);
	set("cow_huge", 1);
	set("cow_precopy_order", 0);
	/* What is wasted on purpose here changes nothing. */
	set("cow_waste_pct", 100);
	set("cow_precopy", 2);
	printf("KTAP version 1\n1..%zu\n", nr_tests);
	run_cases(tests, nr_tests);
	return failures != 0;
}
