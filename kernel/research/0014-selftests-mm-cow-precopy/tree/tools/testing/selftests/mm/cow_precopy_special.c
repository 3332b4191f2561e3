// SPDX-License-Identifier: GPL-2.0-only
/* Tests that no table of states and cases gives: counts, limits, and the interfaces. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <linux/mempolicy.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../../../mm/gup_test.h"
#include "vm_util.h"
#include "cow_precopy.h"

#define STATS		"/proc/self/cow_stats"
#define PAGES		256
#define CGROUP		"/sys/fs/cgroup/cow_precopy"

static void waits(struct area *a, int arg)
{
	meet();
	check(a, "the child");
}

/* An area that a child shares until share_end(). */
static int share_begin(struct area *a, size_t pages)
{
	memset(a, 0, sizeof(*a));
	area_map(a, pages);
	area_note(a, 1ull << 32);
	area_fill(a);
	barrier_for(2);
	return spawn(a, 1, waits, 0);
}

static void share_end(int pid)
{
	meet();
	collect(pid);
}

static void touch(struct area *a, size_t page)
{
	*(volatile char *)(a->mem + page * page_size) = page;
}

enum order { EACH, EVERY_SECOND, ONE, SHUFFLED, NR_ORDERS_HERE };
static const char *const order_names[] = { "each page", "every second page", "one page",
					   "each page, shuffled" };

/* Exactly one fault, or one page copied ahead and then written, for each page written. */
static void count_order(const struct policy *policy, enum order order)
{
	static size_t pages[PAGES];
	long long faults[3], precopied, written, wasted;
	size_t i, nr = 0, swap, other;
	struct area a;
	int pid, round;

	for (i = 0; i < PAGES; i++)
		if (order == EACH || order == SHUFFLED || (order == EVERY_SECOND && i % 2 == 0) ||
		    (order == ONE && i == PAGES / 2))
			pages[nr++] = i;
	for (i = nr - 1; order == SHUFFLED && i; i--) {
		other = random_below(i + 1);
		swap = pages[i];
		pages[i] = pages[other];
		pages[other] = swap;
	}
	pid = share_begin(&a, PAGES);
	policy_on();
	/* The first look itself writes to pages that the fork shared: an empty loop between. */
	for (round = 0; round < 2; round++) {
		precopied = figure(STATS, "precopied");
		written = figure(STATS, "precopy_written");
		wasted = figure(STATS, "precopy_wasted");
		faults[round] = figure(STATS, "faults");
	}
	for (i = 0; i < nr; i++)
		touch(&a, pages[i]);
	faults[2] = figure(STATS, "faults");
	precopied = figure(STATS, "precopied") - precopied;
	/* Now it can be told which of them were written. */
	munmap(a.mem, PAGES * page_size);
	written = figure(STATS, "precopy_written") - written;
	wasted = figure(STATS, "precopy_wasted") - wasted;
	policy_off();
	if (faults[0] != faults[1])
		fail("%lld faults in an empty loop", faults[1] - faults[0]);
	if (faults[2] - faults[1] + written != (long long)nr)
		fail("%s: %zu pages written, %lld faults and %lld copied ahead and written",
		     order_names[order], nr, faults[2] - faults[1], written);
	/* None was swapped out or otherwise lost sight of. */
	if (precopied != written + wasted)
		fail("%s: %lld copied ahead, but %lld written and %lld wasted", order_names[order],
		     precopied, written, wasted);
	if (policy->mode == 0 && precopied)
		fail("%lld pages copied ahead with the policy off", precopied);
	if (policy->mode && order == EACH && precopied < PAGES / 3)
		fail("only %lld of %d pages copied ahead", precopied, PAGES);
	/* Published behaviour: of two neighbours, the first faults and the second is there. */
	if (policy->mode && policy->pages == 1 && order == EACH && precopied != PAGES / 2)
		fail("%lld pages copied ahead instead of every second of %d", precopied, PAGES);
	share_end(pid);
}

static void counts(const struct policy *policy)
{
	int order;

	if (figure(STATS, "faults") < 0)
		skip("no " STATS);
	for (order = 0; order < NR_ORDERS_HERE; order++)
		count_order(policy, order);
}

/* Memory meant to be shared stays shared, and nothing of it is copied. */
static void mapped_shared(const struct policy *policy)
{
	struct area a = { 0 };
	long long before = 0, after;
	size_t page;
	int pid, round;

	area_map(&a, PAGES);
	if (mmap(a.mem, PAGES * page_size, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != a.mem)
		fail("mmap: %s", strerror(errno));
	area_note(&a, 1ull << 32);
	area_fill(&a);
	barrier_for(2);
	/* The child sees what its parent writes: its notes are its parent's. */
	pid = spawn(&a, 0, waits, 0);
	policy_on();
	for (round = 0; round < 2; round++)
		before = figure(STATS, "faults") + figure(STATS, "precopied");
	for (page = 0; page < PAGES; page += 2)
		touch(&a, page);
	after = figure(STATS, "faults") + figure(STATS, "precopied");
	policy_off();
	area_fill(&a);
	if (after != before)
		fail("%lld shared pages copied", after - before);
	share_end(pid);
}

/* Reading through a long pin makes a page private: a fault that copies, and is not a write. */
static void pinned_child(struct area *a, int arg)
{
	static char seen[PAGES * 4096];
	struct pin_longterm_test args = { .addr = (uintptr_t)a->mem, .size = PAGES * page_size };
	uint64_t to = (uintptr_t)seen;
	int gup = open("/sys/kernel/debug/gup_test", O_RDWR);
	size_t page;

	if (gup < 0)
		skip("/sys/kernel/debug/gup_test: %s", strerror(errno));
	if (ioctl(gup, PIN_LONGTERM_TEST_START, &args))
		skip("PIN_LONGTERM_TEST_START: %s", strerror(errno));
	meet();
	meet();	/* The parent wrote. */
	if (ioctl(gup, PIN_LONGTERM_TEST_READ, &to))
		fail("PIN_LONGTERM_TEST_READ: %s", strerror(errno));
	if (memcmp(seen, a->mem, sizeof(seen)))
		fail("what is pinned is not what the process sees");
	check(a, "the child with the pin");
	for (page = 0; page < PAGES; page += 3)
		page_write(a, page);
	if (ioctl(gup, PIN_LONGTERM_TEST_READ, &to))
		fail("PIN_LONGTERM_TEST_READ: %s", strerror(errno));
	if (memcmp(seen, a->mem, sizeof(seen)))
		fail("after writing, what is pinned is not what the process sees");
	check(a, "the child with the pin, after it wrote");
}

static void unshared(const struct policy *policy)
{
	struct area a = { 0 };
	size_t page;
	int pid;

	if (page_size != 4096)
		skip("pages of 4 KiB only");
	if (access("/sys/kernel/debug/gup_test", R_OK | W_OK))
		skip("/sys/kernel/debug/gup_test: %s", strerror(errno));
	area_map(&a, PAGES);
	area_note(&a, 1ull << 32);
	area_fill(&a);
	barrier_for(2);
	policy_on();
	pid = spawn(&a, 1, pinned_child, 0);
	meet();
	for (page = 0; page < PAGES; page += 2)
		page_write(&a, page);
	check(&a, "the parent of the child with the pin");
	meet();
	collect(pid);
	check(&a, "the parent, after the child with the pin wrote");
}

/* A mapping bound to a node: all that was copied for it, ahead or not, is there. */
static void node(const struct policy *policy)
{
	unsigned long nodes = 1, other = 2;
	struct area a = { 0 };
	size_t page, copied = 0;
	int pid, on, pagemap = open("/proc/self/pagemap", O_RDONLY);
	void *address;

	area_map(&a, PAGES);
	if (syscall(__NR_mbind, a.mem, PAGES * page_size, MPOL_BIND, &nodes, 8, 0))
		skip("mbind to node 0: %s", strerror(errno));
	area_note(&a, 1ull << 32);
	area_fill(&a);
	if (syscall(__NR_mbind, a.mem, PAGES * page_size, MPOL_BIND, &other, 8, 0))
		skip("mbind to node 1: %s", strerror(errno));
	barrier_for(2);
	pid = spawn(&a, 1, waits, 0);
	policy_on();
	for (page = 0; page < PAGES; page += 2)
		page_write(&a, page);
	policy_off();
	for (page = 0; page < PAGES; page++) {
		address = a.mem + page * page_size;
		/* Mapped here alone: this process's copy. */
		if (!(pagemap_get_entry(pagemap, address) & PM_MMAP_EXCLUSIVE))
			continue;
		copied++;
		if (syscall(__NR_move_pages, 0, 1, &address, NULL, &on, 0))
			fail("move_pages: %s", strerror(errno));
		if (on != 1)
			fail("the copy of page %zu, which was%s written, is on node %d", page,
			     page % 2 ? " not" : "", on);
	}
	if (copied < PAGES / 2)
		fail("only %zu copies found", copied);
	share_end(pid);
}

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* A memory limit that guesses hit first: faults reclaim, guesses give up. */
static void memory_limit(const struct policy *policy)
{
	const size_t pages = 2 * MAX_PAGES / 2;
	struct area a;
	int pid;

	if (access("/sys/fs/cgroup/cgroup.controllers", R_OK))
		skip("no cgroup2 in /sys/fs/cgroup");
	put("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
	if (mkdir(CGROUP, 0755) && errno != EEXIST)
		skip("mkdir " CGROUP ": %s", strerror(errno));
	/* The original fits, and the copy of half of it. */
	if (!put(CGROUP "/memory.max", "13M") || !put(CGROUP "/cgroup.procs", "0"))
		skip("no memory limit: %s", strerror(errno));
	pid = share_begin(&a, pages);
	policy_on();
	for (size_t page = 0; page < pages; page += 2)
		page_write(&a, page);
	check(&a, "under a memory limit");
	for (size_t page = 0; page < pages; page++)
		page_write(&a, page);
	check(&a, "under a memory limit, all written");
	policy_off();
	if (figure(CGROUP "/memory.events", "max") == 0)
		fail("the memory limit was never reached");
	share_end(pid);
	put("/sys/fs/cgroup/cgroup.procs", "0");
	rmdir(CGROUP);
}

static void refused(const char *path, const char *text)
{
	if (put(path, text))
		fail("%s took %s", path, text);
	if (errno != EINVAL)
		fail("%s: %s is refused by %s", path, text, strerror(errno));
}

/* Values that are not there, and the documents' own commands. */
static void interface(const struct policy *policy)
{
	char buffer[100] = "";
	int fd;

	if (!has_precopy())
		skip("this kernel has no policies");
	refused("/proc/sys/vm/cow_precopy", "-1");
	refused("/proc/sys/vm/cow_precopy", "1000");
	refused("/proc/sys/vm/cow_precopy_pages", "0");
	refused("/proc/sys/vm/cow_precopy_pages", "513");
	refused("/proc/sys/vm/cow_precopy_order", "-1");
	refused("/proc/sys/vm/cow_precopy_order", "9");
	if (!put("/proc/cow_stats", "1"))
		fail("/proc/cow_stats is not reset by a write: %s", strerror(errno));
	fd = open("/proc/cow_stats", O_RDONLY);
	if (fd < 0 || read(fd, buffer, sizeof(buffer) - 1) <= 0)
		fail("/proc/cow_stats: %s", strerror(errno));
	close(fd);
	if (strncmp(buffer, "faults: ", 8) || !strstr(buffer, " total_ns: ") ||
	    !strstr(buffer, " max_ns: ") || !strstr(buffer, "\nprecopy_attempts: ") ||
	    !strstr(buffer, " precopy_success: "))
		fail("/proc/cow_stats begins with: %s", buffer);
	if (figure("/proc/cow_stats", "precopy_attempts") <
	    figure("/proc/cow_stats", "precopy_success"))
		fail("more pages copied ahead than tried");
}

const struct special specials[] = {
	{ "counts", "faults and pages copied ahead and written are the pages written, exactly",
	  counts },
	{ "memory meant to be shared", "nothing of it is copied", mapped_shared },
	{ "pinned for reading", "an unsharing fault copies without being a write", unshared },
	{ "copies on a node", "the mapping's policy holds for guesses, too", node },
	{ "memory limit", "guesses give up where faults reclaim", memory_limit },
	{ "interface", "ranges, and the format of the figures", interface },
};
const size_t nr_specials = sizeof(specials) / sizeof(specials[0]);
