// SPDX-License-Identifier: GPL-2.0-only
/* The states that pages can be in when a fault copies them, or finds them beside it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../../../mm/gup_test.h"
#include "../kselftest.h"
#include "vm_util.h"
#include "thp_settings.h"
#include "cow_precopy.h"

/* Where a call that a state needs is missing or forbidden, it is skipped with errno's text. */
#define NEEDS(condition, what)					\
	do {							\
		if (!(condition))				\
			skip("%s: %s", what, strerror(errno));	\
	} while (0)

#define BASE_PAGES	640	/* more than a page table's half, so that 512 neighbours go over its end */
#define FIRST_BASE	(1ull << 32)
#define KPF_UNEVICTABLE	18

static int pagemap = -1;
static int uffd = -1;
static int file = -1;
static int gup = -1;
static int pipe_fds[2];
static bool *events;

static uint64_t entry(const struct area *a, size_t page)
{
	return pagemap_get_entry(pagemap, a->mem + page * page_size);
}

static size_t count_with(const struct area *a, uint64_t bits)
{
	size_t page, count = 0;

	for (page = 0; page < a->pages; page++)
		count += (entry(a, page) & bits) != 0;
	return count;
}

static void start(struct area *a, size_t pages)
{
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	NEEDS(pagemap >= 0, "/proc/self/pagemap");
	area_map(a, pages);
}

static void base(struct area *a)
{
	start(a, BASE_PAGES);
	area_note(a, FIRST_BASE);
	area_fill(a);
}

static void zero_page(struct area *a)
{
	size_t page;

	start(a, BASE_PAGES);
	for (page = 0; page < a->pages; page++)
		(void)*(volatile char *)(a->mem + page * page_size);
}

static void holes(struct area *a)
{
	size_t page;

	start(a, BASE_PAGES);
	/* A page, the zero page, nothing, and so on. */
	for (page = 0; page < a->pages; page++) {
		if (page % 3 == 0)
			page_write(a, page);
		else if (page % 3 == 1)
			(void)*(volatile char *)(a->mem + page * page_size);
	}
}

static void page_out(struct area *a, size_t step)
{
	size_t page, swapped = 0, tries;

	for (tries = 0; tries < 5 && swapped < a->pages / step; tries++) {
		for (page = 0; page < a->pages; page += step)
			madvise(a->mem + page * page_size, page_size, MADV_PAGEOUT);
		swapped = count_with(a, PM_SWAP);
	}
	/* A few stay for a while: pages that are still in another CPU's batch. */
	if (swapped < a->pages / step / 2)
		skip("only %zu pages swapped out: no swap space?", swapped);
}

static void swapped(struct area *a)
{
	base(a);
	page_out(a, 1);
}

static void half_swapped(struct area *a)
{
	base(a);
	page_out(a, 2);
}

static void locked(struct area *a)
{
	base(a);
	NEEDS(mlock(a->mem, a->pages * page_size) == 0, "mlock");
}

static void locked_verify(struct area *a)
{
	int flags_fd = open("/proc/kpageflags", O_RDONLY);
	uint64_t flags, pfn;
	size_t page;
	char one = '1';
	int fd;

	NEEDS(flags_fd >= 0, "/proc/kpageflags");
	/* New pages are put on the list of unevictable ones in batches: this empties them. */
	fd = open("/proc/sys/vm/compact_memory", O_WRONLY);
	NEEDS(fd >= 0 && write(fd, &one, 1) == 1, "/proc/sys/vm/compact_memory");
	close(fd);
	for (page = 0; page < a->pages; page++) {
		if (!(entry(a, page) & PM_PRESENT))
			fail("page %zu of a locked mapping is not present", page);
		pfn = PAGEMAP_PFN(entry(a, page));
		if (pread(flags_fd, &flags, 8, pfn * 8) != 8)
			fail("/proc/kpageflags: %s", strerror(errno));
		if (!(flags >> KPF_UNEVICTABLE & 1))
			fail("page %zu of a locked mapping can be reclaimed", page);
	}
	close(flags_fd);
}

static void ksm(struct area *a)
{
	long long scans, now;
	int tries;

	start(a, BASE_PAGES);
	area_note(a, FIRST_BASE | SAME_FOR_ALL);
	area_fill(a);
	NEEDS(madvise(a->mem, a->pages * page_size, MADV_MERGEABLE) == 0, "MADV_MERGEABLE");
	NEEDS(access("/sys/kernel/mm/ksm/run", W_OK) == 0, "/sys/kernel/mm/ksm/run");
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "10000", 6);
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "0", 2);
	write_file("/sys/kernel/mm/ksm/run", "1", 2);
	scans = read_num("/sys/kernel/mm/ksm/full_scans");
	for (tries = 0; tries < 3000; tries++) {
		now = read_num("/sys/kernel/mm/ksm/full_scans");
		if (now >= scans + 4)
			break;
		usleep(10000);
	}
	write_file("/sys/kernel/mm/ksm/run", "0", 2);
	if (read_num("/proc/self/ksm_merging_pages") < a->pages / 2)
		fail("ksm merged too few pages");
}

static void ksm_restore(void)
{
	if (access("/sys/kernel/mm/ksm/run", W_OK))
		return;
	write_file("/sys/kernel/mm/ksm/run", "2", 2);
	write_file("/sys/kernel/mm/ksm/run", "0", 2);
	write_file("/sys/kernel/mm/ksm/sleep_millisecs", "20", 3);
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "100", 4);
}

/* Every page pinned for writing, as by a device: the process must keep these very pages. */
static void pinned(struct area *a)
{
	struct pin_longterm_test args;

	base(a);
	gup = open("/sys/kernel/debug/gup_test", O_RDWR);
	NEEDS(gup >= 0, "/sys/kernel/debug/gup_test");
	args.addr = (uintptr_t)a->mem;
	args.size = a->pages * page_size;
	args.flags = PIN_LONGTERM_TEST_FLAG_USE_WRITE;
	NEEDS(ioctl(gup, PIN_LONGTERM_TEST_START, &args) == 0, "PIN_LONGTERM_TEST_START");
	a->torn_fork = true;
}

static void pinned_verify(struct area *a)
{
	char *seen = malloc(a->pages * page_size);
	uint64_t to = (uintptr_t)seen;

	if (ioctl(gup, PIN_LONGTERM_TEST_READ, &to))
		fail("PIN_LONGTERM_TEST_READ: %s", strerror(errno));
	if (memcmp(seen, a->mem, a->pages * page_size))
		fail("the pinned pages are no longer the process's");
	free(seen);
}

/* Every second page is in a pipe: who reads it later must get what was there. */
#define PIPE_STEP	16
static void in_pipe(struct area *a)
{
	size_t page;

	base(a);
	NEEDS(pipe(pipe_fds) == 0, "pipe");
	NEEDS(fcntl(pipe_fds[1], F_SETPIPE_SZ, 1 << 20) >= 0, "F_SETPIPE_SZ");
	for (page = 0; page < a->pages; page += PIPE_STEP) {
		struct iovec iov = { a->mem + page * page_size, page_size };

		NEEDS(vmsplice(pipe_fds[1], &iov, 1, 0) == (ssize_t)page_size, "vmsplice");
	}
}

/* Its owner's writes may show through it, at any age of the page; another process's may not. */
static bool is_owners(const struct area *a, size_t page, const uint64_t *words)
{
	uint64_t base = words[0] * PATTERN_INVERSE - (page << 40), expected[page_size / 8];
	struct page_note note = { .base = base };
	struct area as_it_was = *a;
	size_t i;

	as_it_was.notes = &note - page;
	page_expect(&as_it_was, page, expected);
	for (i = 0; i < page_size / 8; i++) {
		bool is_lane = i >= FIRST_LANE && i < FIRST_LANE + NR_LANES;

		if (words[i] != expected[i] && !is_lane && (words[i] & 0xff) != 1)
			return false;
	}
	return base == FIRST_BASE || (base & 0xff) == 1;
}

static void in_pipe_verify(struct area *a)
{
	uint64_t seen[page_size / 8];
	size_t page;

	for (page = 0; page < a->pages; page += PIPE_STEP) {
		if (read(pipe_fds[0], seen, page_size) != (ssize_t)page_size)
			fail("reading page %zu from the pipe: %s", page, strerror(errno));
		if (!is_owners(a, page, seen))
			fail("page %zu in the pipe has what another process wrote", page);
	}
}

static void huge_area(struct area *a, size_t size)
{
	char *mem;

	start(a, 2);	/* only for where it is */
	a->pages = MAX_PAGES / 2;
	mem = mmap(NULL, a->pages * page_size + size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	a->mem = (char *)(((uintptr_t)mem + size - 1) & ~(size - 1));
	area_note(a, FIRST_BASE);
}

static void thp(struct area *a)
{
	size_t size = read_pmd_pagesize();

	if (!size || MAX_PAGES / 2 * page_size % size)
		skip("no huge pages, or of another size than 512 pages");
	huge_area(a, size);
	NEEDS(madvise(a->mem, a->pages * page_size, MADV_HUGEPAGE) == 0, "MADV_HUGEPAGE");
	area_fill(a);
	if (!check_huge_anon(a->mem, a->pages * page_size / size, size))
		skip("got no huge pages");
}

static void thp_by_ptes(struct area *a)
{
	thp(a);
	NEEDS(mprotect(a->mem + page_size, page_size, PROT_READ) == 0, "mprotect");
	NEEDS(mprotect(a->mem + page_size, page_size, PROT_READ | PROT_WRITE) == 0, "mprotect");
	NEEDS(mprotect(a->mem + (a->pages - 2) * page_size, page_size, PROT_READ) == 0, "mprotect");
	NEEDS(mprotect(a->mem + (a->pages - 2) * page_size, page_size,
		       PROT_READ | PROT_WRITE) == 0, "mprotect");
}

/* Of each huge page the middle half is gone, and small pages have taken its place. */
static void thp_partly(struct area *a)
{
	size_t quarter, page;

	thp(a);
	quarter = a->pages / 8;
	for (page = quarter; page < a->pages; page += 4 * quarter) {
		if (madvise(a->mem + page * page_size, 2 * quarter * page_size, MADV_DONTNEED))
			fail("MADV_DONTNEED: %s", strerror(errno));
	}
	for (page = 0; page < a->pages; page++)
		if (page / quarter % 4 == 1 || page / quarter % 4 == 2) {
			page_discarded(a, page);
			if (page % 2)
				page_write(a, page);
			a->notes[page].fate = UNTOUCHED;
		}
}

/* Half of the huge pages moved to where small pages end: their places in the folio do not match. */
static void thp_moved(struct area *a)
{
	char *other;
	size_t half;

	thp(a);
	half = a->pages / 4;
	other = mmap(NULL, a->pages * page_size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (other == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	other += 7 * page_size;
	if (mremap(a->mem + half * page_size, 2 * half * page_size, 2 * half * page_size,
		   MREMAP_MAYMOVE | MREMAP_FIXED, other) == MAP_FAILED)
		fail("mremap: %s", strerror(errno));
	a->mem = other;
	a->pages = 2 * half;
	memmove(a->notes, a->notes + half, a->pages * sizeof(*a->notes));
	/* The pattern has the page's number in it. */
	area_fill(a);
}

/* A private large folio of 64 KiB, where the kernel has them. */
static void mthp(struct area *a)
{
	const char *stat = "/sys/kernel/mm/transparent_hugepage/hugepages-64kB/stats/anon_fault_alloc";
	unsigned long before;

	if (access(stat, R_OK))
		skip("no 64 KiB folios");
	huge_area(a, 1 << 21);
	NEEDS(madvise(a->mem, a->pages * page_size, MADV_HUGEPAGE) == 0, "MADV_HUGEPAGE");
	write_file("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "never", 6);
	write_file("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "always", 7);
	before = read_num(stat);
	area_fill(a);
	if (read_num(stat) - before < a->pages / 16 / 2)
		skip("got no 64 KiB folios");
}

static void mthp_restore(void)
{
	if (access("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", W_OK))
		return;
	write_file("/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled", "inherit", 8);
	write_file("/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled", "never", 6);
}

#define HUGETLB_PAGES	"/proc/sys/vm/nr_hugepages"
static void hugetlb(struct area *a)
{
	start(a, 2);
	a->pages = MAX_PAGES / 2;
	/* A child that gets no page of its own is killed: enough for each process of a case. */
	a->mem = mmap(NULL, a->pages * page_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (a->mem == MAP_FAILED || get_free_hugepages() < 24)
		skip("fewer than 24 free pages in " HUGETLB_PAGES);
	area_note(a, FIRST_BASE);
	area_fill(a);
}

static int uffd_open(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };

	uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	NEEDS(uffd >= 0, "userfaultfd");
	NEEDS(ioctl(uffd, UFFDIO_API, &api) == 0, "UFFDIO_API");
	return uffd;
}

static void uffd_arm(struct area *a, size_t page, bool armed)
{
	struct uffdio_writeprotect args = {
		.range = { (uintptr_t)a->mem + page * page_size, page_size },
		.mode = armed ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	if (ioctl(uffd, UFFDIO_WRITEPROTECT, &args))
		fail("UFFDIO_WRITEPROTECT: %s", strerror(errno));
}

static void *uffd_handler(void *arg)
{
	struct area *a = arg;
	struct pollfd poll_fd = { uffd, POLLIN, 0 };
	struct uffd_msg msg;
	size_t page;

	for (;;) {
		poll(&poll_fd, 1, -1);
		if (read(uffd, &msg, sizeof(msg)) != sizeof(msg))
			continue;
		page = (msg.arg.pagefault.address - (uintptr_t)a->mem) / page_size;
		events[page] = true;
		uffd_arm(a, page, false);
	}
	return NULL;
}

/* Every second page armed: each must tell when it is written, and only then. */
static void uffd_wp(struct area *a)
{
	static struct area watched;
	pthread_t thread;
	size_t page;

	base(a);
	uffd_open(UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	NEEDS(uffd_register(uffd, a->mem, a->pages * page_size, false, true, false) == 0,
	      "UFFDIO_REGISTER");
	for (page = 1; page < a->pages; page += 2)
		uffd_arm(a, page, true);
	/* Not private memory: its own faults would count. */
	events = mmap(NULL, MAX_PAGES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	watched = *a;
	if (pthread_create(&thread, NULL, uffd_handler, &watched))
		fail("pthread_create");
}

static void uffd_wp_verify(struct area *a)
{
	size_t page;

	for (page = 0; page < a->pages; page++) {
		bool armed = entry(a, page) & PM_UFFD_WP;

		if (a->notes[page].fate == LOST)
			continue;
		if (page % 2 == 0 && events[page])
			fail("an event for page %zu, which was not armed", page);
		if (page % 2 == 0)
			continue;
		if (a->notes[page].fate == WRITTEN && (!events[page] || armed))
			fail("page %zu was written without an event", page);
		if (a->notes[page].fate == UNTOUCHED && (events[page] || !armed))
			fail("page %zu was not written, and is %s", page,
			     events[page] ? "told as written" : "no longer armed");
	}
}

static void uffd_wp_async(struct area *a)
{
	size_t page;

	base(a);
	uffd_open(UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED);
	NEEDS(uffd_register(uffd, a->mem, a->pages * page_size, false, true, false) == 0,
	      "UFFDIO_REGISTER");
	for (page = 0; page < a->pages; page++)
		uffd_arm(a, page, true);
}

static void uffd_wp_async_verify(struct area *a)
{
	size_t page;

	for (page = 0; page < a->pages; page++)
		if (a->notes[page].fate != LOST &&
		    (a->notes[page].fate == WRITTEN) == !!(entry(a, page) & PM_UFFD_WP))
			fail("page %zu was%s written, and its tracking says the opposite", page,
			     a->notes[page].fate == WRITTEN ? "" : " not");
}

static void soft_dirty(struct area *a)
{
	if (!softdirty_supported())
		skip("no soft-dirty bits");
	base(a);
	clear_softdirty();
	if (count_with(a, PM_SOFT_DIRTY))
		fail("soft-dirty right after it was cleared");
}

static void soft_dirty_verify(struct area *a)
{
	size_t page;

	for (page = 0; page < a->pages; page++)
		if (a->notes[page].fate != LOST &&
		    (a->notes[page].fate == WRITTEN) != !!(entry(a, page) & PM_SOFT_DIRTY))
			fail("page %zu was%s written, and its soft-dirty bit says the opposite", page,
			     a->notes[page].fate == WRITTEN ? "" : " not");
}

/* Pages that may be written and pages that may not, by turns: neighbours in different mappings. */
static void read_only_neighbours(struct area *a)
{
	size_t page;

	base(a);
	a->unwritable_step = 4;
	for (page = 0; page < a->pages; page += 4)
		if (!page_writable(a, page) &&
		    mprotect(a->mem + page * page_size, 4 * page_size, PROT_READ))
			fail("mprotect: %s", strerror(errno));
}

static void read_only_neighbours_verify(struct area *a)
{
	int fd = open("/dev/zero", O_RDONLY);
	size_t page;

	NEEDS(fd >= 0, "/dev/zero");
	for (page = 0; page < a->pages; page++)
		if (!page_writable(a, page) && read(fd, a->mem + page * page_size, 1) >= 0)
			fail("page %zu can be written, in a mapping that is read-only", page);
	close(fd);
}

/* The same, with memory that is meant to be shared between them. */
static void shared_neighbours(struct area *a)
{
	size_t page;

	base(a);
	a->unwritable_step = 4;	/* not by this test, since all processes would see it */
	for (page = 0; page < a->pages; page += 4) {
		if (page_writable(a, page))
			continue;
		if (mmap(a->mem + page * page_size, 4 * page_size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			fail("mmap: %s", strerror(errno));
	}
	area_fill(a);
}

/* A file's private mapping: every third page the process's own, the rest the file's. */
static void private_file(struct area *a)
{
	size_t page, size;

	base(a);
	size = a->pages * page_size;
	file = memfd_create("cow_precopy", MFD_CLOEXEC);
	NEEDS(file >= 0, "memfd_create");
	if (write(file, a->mem, size) != (ssize_t)size)
		fail("write: %s", strerror(errno));
	if (mmap(a->mem, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) != a->mem)
		fail("mmap: %s", strerror(errno));
	for (page = 0; page < a->pages; page++) {
		(void)*(volatile char *)(a->mem + page * page_size);
		if (page % 3 != 1)
			page_write(a, page);
	}
	a->discarded = FIRST_BASE;
}

static void private_file_verify(struct area *a)
{
	struct page_note notes[MAX_PAGES];
	struct area of_file = *a;

	of_file.notes = notes;
	of_file.unwritable_step = 0;
	area_note(&of_file, FIRST_BASE);
	of_file.mem = mmap(NULL, a->pages * page_size, PROT_READ, MAP_SHARED, file, 0);
	check(&of_file, "the file under a private mapping");
}

/* Policy of the mapping: new pages on node 1, while the old ones are on node 0. */
static void numa(struct area *a)
{
	unsigned long nodes = 1, other = 2;

	start(a, BASE_PAGES);
	NEEDS(syscall(__NR_mbind, a->mem, a->pages * page_size, MPOL_BIND, &nodes, 8, 0) == 0,
	      "mbind to node 0");
	area_note(a, FIRST_BASE);
	area_fill(a);
	NEEDS(syscall(__NR_mbind, a->mem, a->pages * page_size, MPOL_BIND, &other, 8, 0) == 0,
	      "mbind to node 1");
}

/* No room for more: copies are not new mappings, and must not be refused. */
static void limits(struct area *a)
{
	struct rlimit none = { 1 << 20, 1 << 20 };

	base(a);
	NEEDS(mlock(a->mem, a->pages / 2 * page_size) == 0, "mlock");
	NEEDS(setrlimit(RLIMIT_MEMLOCK, &none) == 0 && setrlimit(RLIMIT_DATA, &none) == 0 &&
	      setrlimit(RLIMIT_RSS, &none) == 0, "setrlimit");
}

#define NOT_WHEN_LOCKED	(DOES_DISCARD | DOES_FREE | DOES_PAGEOUT)

const struct state states[] = {
	{ "base pages", "the state for which the policy is meant", 0, base },
	{ "zero page", "read but never written: there is nothing to copy", 0, zero_page },
	{ "holes", "a page, the zero page and nothing, by turns: the batch has gaps", 0, holes },
	{ "swapped out", "the fault swaps in, its neighbours are swap entries", 0, swapped },
	{ "half swapped out", "swap entries and pages by turns", 0, half_swapped },
	{ "mlocked", "copies must be locked too", NOT_WHEN_LOCKED, locked, locked_verify },
	{ "merged by ksm", "one page mapped everywhere: never exclusive, never re-used", 0, ksm, NULL,
	  ksm_restore },
	{ "pinned", "a device writes to these very pages: fork copies them for the child",
	  DOES_DISCARD | DOES_FREE, pinned, pinned_verify },
	{ "in a pipe", "a reference from elsewhere must not see the writes of a child", DOES_DISCARD,
	  in_pipe, in_pipe_verify },
	{ "thp", "mapped by one entry: the first write splits it", 0, thp },
	{ "thp by ptes", "one folio mapped by 512 entries", 0, thp_by_ptes },
	{ "thp in part", "a folio of which a half is unmapped, small pages in between", 0, thp_partly },
	{ "thp moved", "a folio whose pages are not where alignment would have them", 0, thp_moved },
	{ "mthp", "folios of 64 KiB", 0, mthp, NULL, mthp_restore },
	{ "hugetlb", "not the policy's: must stay as it is",
	  DOES_DISCARD | DOES_FREE | DOES_PAGEOUT | DOES_REMAP | DOES_MPROTECT, hugetlb },
	{ "uffd armed", "a guess must neither raise an event nor swallow one",
	  DOES_REMAP, uffd_wp, uffd_wp_verify },
	{ "uffd armed, async", "a guess must not count as a write", DOES_REMAP, uffd_wp_async,
	  uffd_wp_async_verify },
	{ "soft-dirty cleared", "a guess must not count as a write", DOES_REMAP, soft_dirty,
	  soft_dirty_verify },
	{ "read-only neighbours", "the batch ends with the mapping",
	  DOES_REMAP | DOES_MPROTECT, read_only_neighbours, read_only_neighbours_verify },
	{ "shared neighbours", "memory that is meant to be shared is never copied",
	  DOES_REMAP | DOES_MPROTECT | DOES_DISCARD | DOES_FREE, shared_neighbours },
	{ "private file", "a private mapping's own pages beside the file's", DOES_FREE,
	  private_file, private_file_verify },
	{ "bound to a node", "copies go where the mapping's policy says", 0, numa },
	{ "at its limits", "copies are no new mappings",
	  NOT_WHEN_LOCKED | DOES_REMAP | DOES_MPROTECT | DOES_THREADS, limits },
};
const size_t nr_states = sizeof(states) / sizeof(states[0]);
