// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * held_pages: the kernel must never copy ahead a page that I/O references without a pin (FOLL_GET:
 * direct I/O of NFS, Ceph and 9p), or the device would write to the old page.
 *
 * A page in a pipe (vmsplice) stands in for it. The test writes to the page before it: the held
 * page must keep its frame, and the page after it must be copied ahead. With copy-on-write around
 * (folios of 64 KiB), it writes in order up to the first page of the held one's block.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "settings.h"

#define PAGES 512
#define HELD 9

static char *memory;
static long page_size;
static int pagemap;

/* The number of the frame that a page is in. */
static uint64_t frame(size_t page)
{
	uint64_t entry, at = (uintptr_t)memory / page_size + page;

	if (pread(pagemap, &entry, sizeof(entry), at * sizeof(entry)) != sizeof(entry))
		die("pagemap");
	return entry & ((1ULL << 55) - 1);
}

/* Whether the held page stays where it is, and its neighbour does not. */
static bool stays(void)
{
	struct iovec held = { memory + HELD * page_size, page_size };
	uint64_t before, beside;
	int ends[2];
	pid_t child;
	bool right;

	memset(memory, 1, PAGES * page_size);
	if (pipe(ends) || vmsplice(ends[1], &held, 1, 0) != page_size)
		die("vmsplice");
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		pause();
		_exit(0);
	}
	before = frame(HELD);
	beside = frame(HELD + 1);
	if (!before)
		die("frames are hidden");
	memory[(HELD - 1) * page_size]++;
	right = frame(HELD) == before && frame(HELD + 1) != beside;
	if (!right)
		printf("# held: %d, beside it: %d\n", frame(HELD) == before,
		       frame(HELD + 1) != beside);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ends[0]);
	close(ends[1]);
	return right;
}

#define SIZES "/sys/kernel/mm/transparent_hugepage/"
#define SIZE_64K SIZES "hugepages-64kB/"
#define BLOCK 16 /* pages of 64 KiB */
#define HELD_BLOCK 8

static long blocks_copied(void)
{
	char text[32];

	if (!get_text(SIZE_64K "stats/anon_cow_alloc", text, sizeof(text)))
		die("anon_cow_alloc");
	return atol(text);
}

/* Writes to the pages before block @number, and to its first: whether the block is copied. */
static bool copies(size_t number)
{
	long before = blocks_copied();

	for (size_t page = number * BLOCK - 3; page <= number * BLOCK; page++)
		memory[page * page_size]++;
	return blocks_copied() > before;
}

/* Whether only the page that is written to is copied of a block that has a held page, or its own.
 */
static bool stays_around(void)
{
	size_t held_page = HELD_BLOCK * BLOCK + HELD;
	struct iovec held = { memory + held_page * page_size, page_size };
	bool kept, other, later;
	uint64_t before;
	int ends[2];
	pid_t child;

	madvise(memory, PAGES * page_size, MADV_DONTNEED);
	madvise(memory, PAGES * page_size, MADV_HUGEPAGE);
	memset(memory, 1, PAGES * page_size);
	if (pipe(ends) || vmsplice(ends[1], &held, 1, 0) != page_size)
		die("vmsplice");
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		pause();
		_exit(0);
	}
	before = frame(held_page);
	other = copies(HELD_BLOCK - 2);
	kept = !copies(HELD_BLOCK) && before && frame(held_page) == before;
	/* Whoever held it is gone. */
	close(ends[0]);
	close(ends[1]);
	later = copies(HELD_BLOCK + 2);
	if (!kept || !other || !later)
		printf("# held: %d, other blocks copied: %d and %d\n", kept, other, later);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return kept && other && later;
}

/* Case @number, of the sizes of folios: only 64 KiB. */
static bool around(int number)
{
	bool right;

	if (access(SIZE_64K "stats/anon_cow_alloc", R_OK)) {
		printf("ok %d and so does copy-on-write around # SKIP not in this kernel\n",
		       number);
		return true;
	}
	/* A guest of its own: nobody else's settings. */
	if (!put(SIZES "enabled", "never") || !put(SIZE_64K "enabled", "madvise"))
		die(SIZE_64K "enabled");
	right = stays_around();
	put(SIZE_64K "enabled", "never");
	put(SIZES "enabled", "madvise");
	printf("%sok %d and so does copy-on-write around\n", right ? "" : "not ", number);
	return right;
}

int main(void)
{
	bool next, region = true, block;
	bool policies = has_setting("cow_precopy");

	page_size = sysconf(_SC_PAGESIZE);
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	memory = mmap(NULL, 2 * PAGES * page_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || pagemap < 0)
		die("memory and pagemap");
	memory += -(uintptr_t)memory % (PAGES * page_size);
	madvise(memory, PAGES * page_size, MADV_NOHUGEPAGE);
	remember_settings();
	if (!policies) {
		/* Upstream's series has only this one. */
		printf("KTAP version 1\n1..1\n");
		return !around(1);
	}
	printf("KTAP version 1\n1..3\n");
	set("cow_precopy_pages", 16);
	set("cow_precopy_ramp", 0);
	set("cow_precopy", 1);
	next = stays();
	printf("%sok 1 next:16 leaves a page that the kernel holds\n", next ? "" : "not ");
	if (has_setting("cow_region_kb")) {
		set("cow_region_kb", 2048);
		set("cow_threshold_pct", 0);
		set("cow_gate_forks", 0);
		set("cow_precopy", 2);
		region = stays();
		printf("%sok 2 and so does ccow:0\n", region ? "" : "not ");
	} else {
		printf("ok 2 and so does ccow:0 # SKIP no vm.cow_region_kb\n");
	}
	set("cow_precopy", 0);
	block = around(3);
	return !next || !region || !block;
}
