// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_random [-k] [SECONDS [SEED]]: random forks, writes, unmaps, moves, protections and advice,
 * with every byte of every process checked against a model.
 *
 * Families of processes share pages by fork. Each process has a model of its memory in shared
 * memory, which is never copied on write: for each page, its generation and whether it is mapped
 * and writable. What a page must hold follows from the generation, which no two writes have in
 * common. A child takes over a copy of its parent's model, and then both go their own ways; at its
 * end, and now and then, a process checks all that it has.
 *
 * Files and shared memory come and go in the memory under test and right beside it. They are never
 * written to, so a model of their own is not needed: what is unmapped must be gone.
 *
 * Threads write while the process forks. Their child may see an old or a new word in each place,
 * and nothing else; the parent must see all that they wrote.
 *
 * Meanwhile the policy of the kernel, if it has any, changes at random; -k keeps it as it is.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "random_model.h"
#include "settings.h"

#define THREADS 3
#define COMPACT SYSCTL "compact_memory"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* A range of pages: mostly short, now and then of some megabytes. */
static size_t range(size_t *count)
{
	size_t page = below(PAGES), most = below(4) ? 40 : 1200;

	*count = below(most) + 1;
	if (*count > PAGES - page)
		*count = PAGES - page;
	return page;
}

static bool all_mapped(size_t page, size_t count)
{
	for (size_t i = page; i < page + count; i++)
		if (!model[i].mapped)
			return false;
	return true;
}

static void write_some(void)
{
	for (size_t i = below(60); i; i--)
		write_page(below(PAGES));
}

static void write_run(void)
{
	size_t count, page = range(&count);
	bool backwards = below(2);

	for (size_t i = 0; i < count; i++)
		write_page(backwards ? page + count - 1 - i : page + i);
}

/* Most of a few megabytes, so that it will be copied whole after the next fork. */
static void write_dense(void)
{
	size_t count, page = range(&count);

	for (size_t i = 0; i < count; i++)
		if (below(20))
			write_page(page + i);
}

static void map_again(size_t page, size_t count)
{
	if (mmap(address(page), count * PAGE_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	for (size_t i = page; i < page + count; i++)
		model[i] = (struct page){ .mapped = true, .writable = true };
}

static void map_some(void)
{
	size_t count, page = range(&count);

	map_again(page, count);
}

/* A file and shared memory, of the same pages, that nobody may write to. */
static int files[2] = { -1, -1 };

static void make_files(void)
{
	char path[] = "/tmp/cow_randomXXXXXX", reopened[32];

	for (int i = 0; i < 2; i++) {
		int fd = i ? memfd_create("cow_random", 0) : mkstemp(path);

		if (fd < 0)
			die(path);
		for (size_t page = 0; page < FILE_PAGES; page++) {
			uint64_t words[WORDS];

			for (size_t word = 0; word < WORDS; word++)
				words[word] = word_of(file_generation(page), word);
			if (write(fd, words, sizeof(words)) != sizeof(words))
				die(path);
		}
		snprintf(reopened, sizeof(reopened), "/proc/self/fd/%d", fd);
		files[i] = open(reopened, O_RDONLY);
		if (files[i] < 0)
			die(reopened);
		close(fd);
	}
	unlink(path);
}

/* Private ones are written to like all other memory; shared ones cannot be. */
static void map_file(void)
{
	size_t count, page = range(&count), first = below(FILE_PAGES);
	bool is_shared = below(2);

	if (count > FILE_PAGES - first)
		count = FILE_PAGES - first;
	if (mmap(address(page), count * PAGE_BYTES, PROT_READ | (is_shared ? 0 : PROT_WRITE),
		 (is_shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED, files[below(2)],
		 (off_t)(first * PAGE_BYTES)) == MAP_FAILED)
		fail("mmap of a file: %s", strerror(errno));
	for (size_t i = 0; i < count; i++)
		model[page + i] = (struct page){
			.generation = file_generation(first + i),
			.file = file_generation(first + i),
			.mapped = true,
			.writable = !is_shared,
		};
	/* Read only, so that the file's own pages are mapped. */
	for (size_t i = 0; i < count; i++)
		check_page(page + i, "who maps a file");
}

/* Whether a page of [page, page + count) is a file's. */
static bool any_file(size_t page, size_t count)
{
	for (size_t i = page; i < page + count; i++)
		if (model[i].file)
			return true;
	return false;
}

/* A file right before or behind the memory under test, and then zeros in its place. */
static void beside(void)
{
	size_t count = below(FILE_PAGES) + 1, bytes = count * PAGE_BYTES;
	char *at = below(2) ? memory - bytes : memory + PAGES * PAGE_BYTES;
	const uint64_t *words;

	if (mmap(at, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, files[below(2)], 0) == MAP_FAILED)
		fail("mmap of a file: %s", strerror(errno));
	for (size_t i = 0; i < count; i++) {
		words = (const uint64_t *)(at + i * PAGE_BYTES);
		if (!holds(words, file_generation(i)))
			fail("page %zu of a file holds 0x%llx", i, (unsigned long long)words[0]);
	}
	if (below(2))
		munmap(at, bytes);
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	for (size_t i = 0; i < count; i++) {
		words = (const uint64_t *)(at + i * PAGE_BYTES);
		if (!holds(words, 0))
			fail("fresh page %zu beside the memory holds 0x%llx", i,
			     (unsigned long long)words[0]);
	}
	munmap(at, bytes);
}

static void unmap(size_t page, size_t count)
{
	if (munmap(address(page), count * PAGE_BYTES))
		fail("munmap: %s", strerror(errno));
	memset(model + page, 0, count * sizeof(*model));
}

static void unmap_some(void)
{
	size_t count, page = range(&count);

	unmap(page, count / 4 + 1);
	/* Most of it comes back, or soon nothing would be left. */
	if (below(4))
		map_again(page, count / 4 + 1);
}

static void move(void)
{
	size_t count, from = range(&count), to;

	to = below(PAGES - count + 1);
	/* mremap moves one mapping; who knows where this one's end is? */
	if ((to < from + count && from < to + count) || !all_mapped(from, count))
		return;
	unmap(to, count);
	if (mremap(address(from), count * PAGE_BYTES, count * PAGE_BYTES,
		   MREMAP_MAYMOVE | MREMAP_FIXED, address(to)) == MAP_FAILED) {
		/* More than one mapping. */
		if (errno != EFAULT && errno != EINVAL)
			fail("mremap: %s", strerror(errno));
		map_again(to, count);
		return;
	}
	memcpy(model + to, model + from, count * sizeof(*model));
	memset(model + from, 0, count * sizeof(*model));
	map_again(from, count);
}

static void protect(void)
{
	size_t count, page = range(&count);
	bool writable = below(3);

	if (!all_mapped(page, count) || any_file(page, count))
		return;
	if (mprotect(address(page), count * PAGE_BYTES, PROT_READ | (writable ? PROT_WRITE : 0)))
		fail("mprotect: %s", strerror(errno));
	for (size_t i = page; i < page + count; i++)
		model[i].writable = writable;
}

static void advise(void)
{
	static const int advice[] = { MADV_DONTNEED,	  MADV_PAGEOUT,	    MADV_COLD,
				      MADV_HUGEPAGE,	  MADV_NOHUGEPAGE,  MADV_COLLAPSE,
				      MADV_MERGEABLE,	  MADV_UNMERGEABLE, MADV_POPULATE_READ,
				      MADV_POPULATE_WRITE };
	int which = advice[below(sizeof(advice) / sizeof(*advice))];
	size_t count, page = range(&count);

	if (!all_mapped(page, count))
		return;
	if (which == MADV_DONTNEED)
		count = count / 8 + 1;
	/* Advice may be refused, but must not change what is there. */
	if (madvise(address(page), count * PAGE_BYTES, which) || which != MADV_DONTNEED)
		return;
	for (size_t i = page; i < page + count; i++) {
		model[i].generation = model[i].file;
		model[i].freed = false;
	}
}

/*
 * Only in a process that shares its pages with nobody: what was swapped in is clean, and upstream's
 * MADV_FREE (6.12) takes a clean page from its other owner as well.
 */
static void give_up(void)
{
	size_t count, page = range(&count);

	if (depth || !all_mapped(page, count) || any_file(page, count))
		return;
	if (madvise(address(page), count * PAGE_BYTES, MADV_FREE))
		return;
	for (size_t i = page; i < page + count; i++)
		model[i].freed = true;
	for (size_t i = page; i < page + count; i += 2)
		write_page(i);
}

static void live(long operations);

/* A child's life, beginning with what it took over. */
static void child_life(uint64_t seed)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	random_state = seed;
	depth++;
	model = shared->models[family][depth];
	for (size_t page = 0; page < PAGES; page++) {
		const uint64_t *words = (const uint64_t *)address(page);
		uint64_t before = model[page].before;

		model[page].before = 0;
		if (!before)
			continue;
		/* A thread was writing it: each word is old or new. */
		for (size_t i = 0; i < WORDS; i++)
			if (words[i] != word_of(before - 1, i) &&
			    words[i] != word_of(model[page].generation, i) &&
			    !(model[page].freed && !words[i]))
				fail("a child of threads: page %zu, byte %zu is 0x%llx, neither "
				     "old nor new",
				     page, i * 8, (unsigned long long)words[i]);
		write_page(page);
	}
	if (below(2))
		check_all("a new child");
	live((long)below(60));
	check_all("a child at its end");
	_exit(0);
}

/* The model goes over before the fork: after it, the parent changes its own. */
static pid_t fork_child(uint64_t seed)
{
	pid_t child;

	memcpy(shared->models[family][depth + 1], model, sizeof(shared->models[0][0]));
	child = fork();
	if (child < 0)
		fail("fork: %s", strerror(errno));
	if (child == 0)
		child_life(seed);
	__atomic_add_fetch(&shared->forks, 1, __ATOMIC_RELAXED);
	return child;
}

static void reap(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child || status)
		fail("a child ended with 0x%x", status);
}

static void fork_some(void)
{
	uint64_t seed = below(UINT64_MAX);
	bool dies_first = below(4) == 0;
	pid_t child;

	if (depth == DEPTH)
		return;
	child = fork_child(seed);
	if (dies_first)
		reap(child);
	for (long i = (long)below(12); i && !shared->stop; i--) {
		/* No more children now: they would use this child's model. */
		if (!below(6))
			beside();
		else if (below(2))
			write_dense();
		else
			write_some();
	}
	check_all("a parent");
	if (!dies_first)
		reap(child);
}

struct share {
	size_t first, end;
};

static void *write_share(void *arg)
{
	const struct share *share = arg;

	for (size_t page = share->first; page < share->end; page += THREADS)
		if (model[page].before)
			fill(page, model[page].generation);
	return NULL;
}

/* Stacks of their own: what glibc maps could land in a hole of the memory under test. */
static char stacks[THREADS][64 << 10] __attribute__((aligned(PAGE_BYTES)));

/* Threads write while the process forks, and go on while the child lives. */
static void fork_among_threads(void)
{
	size_t count, first = range(&count);
	struct share shares[THREADS];
	pthread_attr_t attributes;
	pthread_t threads[THREADS];
	uint64_t seed = below(UINT64_MAX);
	pid_t child;

	if (depth == DEPTH)
		return;
	for (size_t page = first; page < first + count; page++) {
		if (!model[page].mapped || !model[page].writable)
			continue;
		/* Plus one, since zeros are 0. */
		model[page].before = model[page].generation + 1;
		model[page].generation = new_generation();
	}
	for (size_t i = 0; i < THREADS; i++) {
		shares[i] = (struct share){ first + i, first + count };
		pthread_attr_init(&attributes);
		pthread_attr_setstack(&attributes, stacks[i], sizeof(stacks[i]));
		if (pthread_create(&threads[i], &attributes, write_share, &shares[i]))
			fail("pthread_create");
	}
	child = fork_child(seed);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	reap(child);
	for (size_t page = first; page < first + count; page++) {
		if (model[page].before)
			model[page].freed = false;
		model[page].before = 0;
	}
	check_all("a parent of threads");
}

static const struct {
	const char *name;
	void (*run)(void);
	unsigned int weight;
} operations[] = {
	{ "write", write_some, 12 },
	{ "write_run", write_run, 6 },
	{ "write_dense", write_dense, 6 },
	{ "fork", fork_some, 8 },
	{ "fork_among_threads", fork_among_threads, 3 },
	{ "map", map_some, 1 },
	{ "map_file", map_file, 3 },
	{ "beside", beside, 3 },
	{ "unmap", unmap_some, 3 },
	{ "move", move, 3 },
	{ "protect", protect, 4 },
	{ "advise", advise, 6 },
	{ "give_up", give_up, 1 },
};
#define OPERATIONS (sizeof(operations) / sizeof(*operations))

static void live(long count)
{
	unsigned int weights = 0;

	for (size_t i = 0; i < OPERATIONS; i++)
		weights += operations[i].weight;
	for (; count && !shared->stop; count--) {
		unsigned int at = (unsigned int)below(weights);
		size_t i = 0;

		while (at >= operations[i].weight)
			at -= operations[i++].weight;
		operations[i].run();
		__atomic_add_fetch(&shared->operations[i], 1, __ATOMIC_RELAXED);
	}
}

static void family_life(uint64_t seed)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	random_state = seed;
	/* Half a page table from its start, where nobody else maps anything in it or beside it. */
	memory = (char *)(1UL << 38) + 256 * PAGE_BYTES;
	model = shared->models[family][0];
	map_again(0, PAGES);
	while (!shared->stop) {
		live(50);
		check_all("the first of a family");
	}
	check_all("the first of a family, at the end");
	_exit(0);
}

static void change_policy(void)
{
	static const long sizes[] = { 32, 64, 512, 2048, 8192 };
	static const long thresholds[] = { 0, 50, 80, 100 };
	static const long depths[] = { 1, 16, 512 };
	static const long delays[] = { 1, 5, 200 };

	/* Whoever copies ahead by coverage copies page tables in fork. */
	if (has_setting("cow_defer")) {
		set("cow_defer", below(3) ? delays[below(3)] : 0);
	}
	/* Pages that migrate while they are copied. */
	if (!below(4))
		put(COMPACT, "1");
	switch (below(has_setting("cow_region_kb") ? 6 : 2)) {
	case 0:
		set("cow_precopy", 0);
		break;
	case 1:
		set("cow_precopy_pages", depths[below(3)]);
		set("cow_precopy", 1);
		break;
	default:
		set("cow_region_kb", sizes[below(5)]);
		set("cow_threshold_pct", thresholds[below(4)]);
		set("cow_gate_forks", below(2) ? 0 : 1);
		set("cow_precopy", below(2) ? 2 : 3);
	}
}

int main(int argc, char **argv)
{
	long seconds = getenv("COWLAB_QUICK") ? 5 : 30;
	uint64_t seed = 1988;
	pid_t families[FAMILIES];
	bool policies, keep = false;
	time_t end;

	if (argc > 1 && !strcmp(argv[1], "-k")) {
		keep = true;
		argv++;
		argc--;
	}
	if (argc > 3 || (argc > 1 && (seconds = atol(argv[1])) < 1)) {
		fprintf(stderr, "usage: cow_random [-k] [SECONDS [SEED]]\n");
		return 2;
	}
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	if (sysconf(_SC_PAGESIZE) != PAGE_BYTES) {
		printf("pages are not of %d bytes\n", PAGE_BYTES);
		return 4;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED) {
		perror("cow_random: mmap");
		return 1;
	}
	make_files();
	remember_settings();
	policies = has_setting("cow_precopy");
	random_state = seed;
	for (family = 0; family < FAMILIES; family++) {
		uint64_t own = below(UINT64_MAX);

		families[family] = fork();
		if (families[family] == 0)
			family_life(own);
		if (families[family] < 0)
			fail("fork: %s", strerror(errno));
	}
	end = time(NULL) + seconds;
	while (time(NULL) < end && !shared->stop) {
		if (policies && !keep)
			change_policy();
		usleep(300000);
	}
	shared->stop = true;
	for (int i = 0; i < FAMILIES; i++) {
		int status;

		if (families[i] > 0 && (waitpid(families[i], &status, 0) < 0 || status)) {
			fprintf(stderr, "cow_random: family %d ended with 0x%x\n", i, status);
			shared->failed = 1;
		}
	}
	printf("checked_pages: %ld written_pages: %ld forks: %ld", shared->checked, shared->written,
	       shared->forks);
	for (size_t i = 0; i < OPERATIONS; i++)
		printf(" %s: %ld", operations[i].name, shared->operations[i]);
	printf(" seed: %llu\n", (unsigned long long)seed);
	return shared->failed || !shared->forks || !shared->checked;
}
