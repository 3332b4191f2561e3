// SPDX-License-Identifier: GPL-2.0-only
/* What processes and threads do with the pages: who writes, in which order, and beside what. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cow_precopy.h"

enum order { EVERY_SECOND, ALL, BACKWARDS, RANDOM };

#define NR_CHILDREN	8
#define NR_NESTED	4
#define GROUP		8	/* pages that belong to one of two threads */

static void write_pages(struct area *a, enum order order)
{
	size_t page, i;

	for (i = 0; i < a->pages; i++) {
		page = order == BACKWARDS ? a->pages - 1 - i :
		       order == RANDOM ? random_below(a->pages) : i;
		if (order == EVERY_SECOND && i % 2)
			continue;
		/* Random: some two thirds of the pages, a few of them again and again. */
		page_write(a, page);
	}
}

/* A child that sees what was there at the fork, before and after its parent writes. */
static void onlooker(struct area *a, int arg)
{
	check(a, "the child at its fork");
	meet();
	meet();
	check(a, "the child, after its parent wrote");
}

static void parent_writes(struct area *a, enum order order)
{
	int pid;

	barrier_for(2);
	pid = spawn(a, 1, onlooker, 0);
	meet();
	write_pages(a, order);
	check(a, "the parent, after it wrote");
	meet();
	collect(pid);
}

static void parent_every_second(struct area *a)
{
	parent_writes(a, EVERY_SECOND);
}

static void parent_all(struct area *a)
{
	parent_writes(a, ALL);
}

static void parent_backwards(struct area *a)
{
	parent_writes(a, BACKWARDS);
}

static void parent_random(struct area *a)
{
	parent_writes(a, RANDOM);
}

static void writing_child(struct area *a, int order)
{
	meet();
	write_pages(a, order);
	check(a, "a child, after it wrote");
	meet();
	/* Everybody has written: what is here is still one's own. */
	check(a, "a child, after everybody wrote");
	write_pages(a, ALL);
	check(a, "a child, after it wrote again");
}

static void child_writes(struct area *a)
{
	int pid;

	barrier_for(2);
	pid = spawn(a, 1, writing_child, EVERY_SECOND);
	meet();
	meet();
	check(a, "the parent, after its child wrote");
	collect(pid);
}

static void children_write(struct area *a)
{
	int pids[NR_CHILDREN], i;

	barrier_for(NR_CHILDREN + 1);
	for (i = 0; i < NR_CHILDREN; i++)
		pids[i] = spawn(a, i + 1, writing_child, i % 4);
	meet();
	write_pages(a, RANDOM);
	meet();
	check(a, "the parent among eight children");
	for (i = 0; i < NR_CHILDREN; i++)
		collect(pids[i]);
}

/* Each generation writes, forks the next, writes again while that lives, and looks. */
static void generation(struct area *a, int depth)
{
	int pid;

	check(a, "a generation at its fork");
	write_pages(a, RANDOM);
	if (depth < NR_NESTED) {
		pid = spawn(a, a->slot + 1, generation, depth + 1);
		write_pages(a, EVERY_SECOND);
		check(a, "a generation, after it wrote");
		collect(pid);
	}
	check(a, "a generation, after the younger ones");
}

static void nested(struct area *a)
{
	generation(a, 0);
}

/* What was copied ahead is shared again by the next fork, and copied again. */
static void fork_again(struct area *a)
{
	int pids[3], i;

	barrier_for(4);
	for (i = 0; i < 3; i++) {
		pids[i] = spawn(a, i + 1, writing_child, i);
		write_pages(a, i == 1 ? BACKWARDS : EVERY_SECOND);
		check(a, "the parent between forks");
	}
	meet();
	write_pages(a, RANDOM);
	meet();
	for (i = 0; i < 3; i++)
		collect(pids[i]);
}

static void leaves(struct area *a, int arg)
{
	write_pages(a, RANDOM);
}

/* The other process is gone: whoever writes re-uses the page, or copies it once more. */
static void exit_first(struct area *a)
{
	int round;

	for (round = 0; round < 3; round++) {
		collect(spawn(a, 1, leaves, 0));
		write_pages(a, EVERY_SECOND);
		check(a, "the parent, after its child left");
	}
}

/* Every second page copied without the policy: in the batch, it is not to be copied again. */
static void exclusive_neighbours(struct area *a)
{
	int pid;

	barrier_for(2);
	pid = spawn(a, 1, onlooker, 0);
	meet();
	policy_off();
	write_pages(a, EVERY_SECOND);
	policy_on();
	write_pages(a, ALL);
	check(a, "the parent, after it wrote all");
	meet();
	collect(pid);
}

/* Threads. Each writes a word of its own in each page, so that no write may be lost. */

#define ROUNDS	4

struct writer {
	pthread_t thread;
	struct area *area;
	int nr;
	uint64_t last;		/* what it wrote last, into each page */
	uint64_t seed;
	volatile bool stop;
};

static void start_thread(struct writer *writer, void *(*fn)(void *))
{
	int error = pthread_create(&writer->thread, NULL, fn, writer);

	if (error)
		fail("pthread_create: %s", strerror(error));
}

static void set_lane(const struct area *a, size_t page, int nr, uint64_t value)
{
	if (page_writable(a, page))
		__atomic_store_n(lane(a, page, nr), value, __ATOMIC_RELAXED);
}

static void *write_in_own_order(void *arg)
{
	struct writer *writer = arg;
	struct area *a = writer->area;
	size_t i, step = 2 * writer->nr + 1;

	/* Each in another order, over the same pages at the same time: some copy what others write. */
	for (writer->last = 1; writer->last <= ROUNDS; writer->last++)
		for (i = 0; i < a->pages; i++)
			set_lane(a, writer->nr % 2 ? a->pages - 1 - i * step % a->pages :
						     i * step % a->pages,
				 writer->nr, writer->last);
	writer->last--;
	return NULL;
}

static void check_lanes(const struct area *a, const struct writer *writers, int count)
{
	size_t page;
	int nr;

	for (page = 0; page < a->pages; page++)
		for (nr = 0; nr < count; nr++)
			if (page_writable(a, page) && *lane(a, page, nr) != writers[nr].last)
				fail("thread %d's write to page %zu is lost: %llu instead of %llu",
				     nr, page, (unsigned long long)*lane(a, page, nr),
				     (unsigned long long)writers[nr].last);
}

static void all_written(struct area *a)
{
	size_t page;

	a->lanes = true;
	for (page = 0; page < a->pages; page++)
		if (page_writable(a, page) && a->notes[page].fate == UNTOUCHED)
			a->notes[page].fate = WRITTEN;
}

static void threads_same_pages(struct area *a)
{
	struct writer writers[NR_LANES] = { 0 };
	size_t pages = a->pages;
	int pid, nr;

	barrier_for(2);
	pid = spawn(a, 1, onlooker, 0);
	meet();
	for (nr = 0; nr < NR_LANES; nr++) {
		writers[nr].area = a;
		writers[nr].nr = nr;
	}
	/* 1, 3, 5 and 7 must not divide the number of pages: the last of them are left to others. */
	while (a->pages % 3 == 0 || a->pages % 5 == 0 || a->pages % 7 == 0)
		a->pages--;
	for (nr = 0; nr < NR_LANES; nr++)
		start_thread(&writers[nr], write_in_own_order);
	for (nr = 0; nr < NR_LANES; nr++)
		pthread_join(writers[nr].thread, NULL);
	check_lanes(a, writers, NR_LANES);
	all_written(a);
	a->pages = pages;
	check(a, "the parent, beside what its threads wrote");
	meet();
	collect(pid);
}

static void *write_until_stopped(void *arg)
{
	struct writer *writer = arg;
	struct area *a = writer->area;
	size_t page;

	while (!writer->stop) {
		writer->last++;
		for (page = 0; page < a->pages; page++)
			set_lane(a, page, writer->nr, writer->last);
	}
	return NULL;
}

/*
 * A thread writes its number into page after page, then a larger one. What a child got is of one
 * moment: the numbers never grow from a page to the next, and the first is at most one ahead.
 */
static void snapshot(struct area *a, int arg)
{
	uint64_t seen[2][MAX_PAGES];
	size_t page, last;
	int nr;

	a->lanes = true;
	check(a, "a snapshot at its fork");
	for (nr = 0; nr < 2; nr++) {
		last = 0;
		for (page = 0; page < a->pages; page++) {
			seen[nr][page] = *lane(a, page, nr);
			if (a->torn_fork || !page_writable(a, page))
				continue;
			if (page && (seen[nr][page] > seen[nr][last] ||
				     seen[nr][page] + 1 < seen[nr][0]))
				fail("a snapshot of two moments: %llu in page %zu, %llu in page %zu, %llu in page 0",
				     (unsigned long long)seen[nr][last], last,
				     (unsigned long long)seen[nr][page], page,
				     (unsigned long long)seen[nr][0]);
			last = page;
		}
	}
	meet();	/* Threads write on. */
	meet();
	for (nr = 0; nr < 2; nr++)
		for (page = 0; page < a->pages; page++)
			if (*lane(a, page, nr) != seen[nr][page])
				fail("a snapshot's page %zu changed: %llu, was %llu", page,
				     (unsigned long long)*lane(a, page, nr),
				     (unsigned long long)seen[nr][page]);
	check(a, "a snapshot at its end");
}

static void threads_fork(struct area *a)
{
	struct writer writers[2] = { { .area = a, .nr = 0 }, { .area = a, .nr = 1 } };
	int pid, nr, round;
	size_t page;

	for (page = 0; page < a->pages; page++)
		for (nr = 0; nr < 2; nr++)
			set_lane(a, page, nr, 0);
	barrier_for(2);
	for (nr = 0; nr < 2; nr++)
		start_thread(&writers[nr], write_until_stopped);
	for (round = 0; round < 5; round++) {
		usleep(2000);
		pid = spawn(a, 1, snapshot, 0);
		meet();
		usleep(5000);
		meet();
		collect(pid);
	}
	for (nr = 0; nr < 2; nr++)
		writers[nr].stop = true;
	for (nr = 0; nr < 2; nr++)
		pthread_join(writers[nr].thread, NULL);
	check_lanes(a, writers, 2);
	all_written(a);
}

/*
 * Two threads in step, group by group: one writes the first page, so that a batch copies those
 * after it, and meanwhile the other writes one of these. Neither may lose that write, nor may the
 * other go on to see an old page that its CPU remembers.
 */
#define STEP_PAGES	17	/* the batch of next:16 */
#define STEP_WATCHED	8	/* of them the other looks at; the rest is copied, never written */

struct step {
	struct area *area;
	size_t turn;		/* counts what either has done */
	size_t rival;		/* the page that the other thread writes */
	uint64_t value;
};

/* An emulator that executes CPUs by turns goes on with the next one here. */
static inline void relax_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#endif
}

static void wait_for(struct step *step, size_t turn)
{
	size_t spins;

	for (spins = 1; __atomic_load_n(&step->turn, __ATOMIC_ACQUIRE) < turn; spins++) {
		relax_cpu();
		if (spins % 100000 == 0)
			sched_yield();
	}
}

static void take_turn(struct step *step, size_t turn)
{
	__atomic_store_n(&step->turn, turn, __ATOMIC_RELEASE);
}

static uint64_t read_lane(const struct area *a, size_t page, int nr)
{
	return __atomic_load_n(lane(a, page, nr), __ATOMIC_RELAXED);
}

static void *step_beside(void *arg)
{
	struct step *step = arg;
	struct area *a = step->area;
	volatile unsigned int delay;
	size_t first, page, turn = 0;

	for (first = 0; first + STEP_PAGES <= a->pages; first += STEP_PAGES, turn += 5) {
		/* Now its CPU knows the old pages. */
		for (page = first + 1; page <= first + STEP_WATCHED; page++)
			(void)read_lane(a, page, 1);
		take_turn(step, turn + 1);
		wait_for(step, turn + 2);
		/* At another moment of the other's fault each time. */
		for (delay = random_below(20000); delay; delay--)
			;
		set_lane(a, step->rival, 1, step->value);
		take_turn(step, turn + 3);
		wait_for(step, turn + 4);
		if (page_writable(a, step->rival) &&
		    read_lane(a, step->rival, 1) != step->value)
			fail("a write to page %zu is lost", step->rival);
		for (page = first + 1; page <= first + STEP_WATCHED; page++)
			if (page_writable(a, page) && read_lane(a, page, 2) != step->value)
				fail("a thread still sees the old page %zu", page);
		take_turn(step, turn + 5);
	}
	return NULL;
}

static void step_round(struct area *a, uint64_t value)
{
	struct step step = { .area = a, .value = value };
	size_t first, page, turn = 0;
	pthread_t thread;
	int error;

	error = pthread_create(&thread, NULL, step_beside, &step);
	if (error)
		fail("pthread_create: %s", strerror(error));
	for (first = 0; first + STEP_PAGES <= a->pages; first += STEP_PAGES, turn += 5) {
		wait_for(&step, turn + 1);
		step.rival = first + 1 + (first + value) % STEP_WATCHED;
		take_turn(&step, turn + 2);
		set_lane(a, first, 0, value);
		wait_for(&step, turn + 3);
		for (page = first + 1; page <= first + STEP_WATCHED; page++)
			set_lane(a, page, 2, value);
		take_turn(&step, turn + 4);
		wait_for(&step, turn + 5);
		for (page = first; page <= first + STEP_WATCHED; page++)
			if (page_writable(a, page) && a->notes[page].fate == UNTOUCHED)
				a->notes[page].fate = WRITTEN;
	}
	pthread_join(thread, NULL);
}

static void threads_in_step(struct area *a)
{
	int round, pid;

	for (round = 1; round <= 6; round++) {
		barrier_for(2);
		pid = spawn(a, 1, onlooker, 0);
		meet();
		step_round(a, round);
		a->lanes = true;
		check(a, "the parent, beside what its threads wrote in step");
		meet();
		collect(pid);
	}
}

/* Groups of pages belong to the thread and to the first process by turns. */
static bool is_threads(size_t page)
{
	return page / GROUP % 2;
}

static void *discard_groups(void *arg)
{
	struct writer *writer = arg;
	struct area *a = writer->area;
	char expected[page_size];
	size_t page, i;

	for (page = GROUP; page + GROUP <= a->pages; page += 2 * GROUP) {
		if (madvise(a->mem + page * page_size, GROUP * page_size, MADV_DONTNEED))
			fail("MADV_DONTNEED: %s", strerror(errno));
		for (i = page; i < page + GROUP; i++) {
			page_discarded(a, i);
			page_expect(a, i, expected);
			if (memcmp(a->mem + i * page_size, expected, page_size))
				fail("page %zu came back after MADV_DONTNEED", i);
			if (i % 3 == 0)
				page_write(a, i);
		}
	}
	return NULL;
}

static void *protect_groups(void *arg)
{
	struct writer *writer = arg;
	struct area *a = writer->area;
	size_t page;

	while (!writer->stop)
		for (page = GROUP; page + GROUP <= a->pages; page += 2 * GROUP)
			if (mprotect(a->mem + page * page_size, GROUP * page_size, PROT_READ) ||
			    mprotect(a->mem + page * page_size, GROUP * page_size,
				     PROT_READ | PROT_WRITE))
				fail("mprotect: %s", strerror(errno));
	return NULL;
}

/* While a thread does something to its groups, write the groups between. */
static void beside(struct area *a, void *(*fn)(void *))
{
	int round, pid;
	size_t page;

	for (round = 0; round < 3; round++) {
		struct writer writer = { .area = a };

		barrier_for(2);
		pid = spawn(a, 1, onlooker, 0);
		meet();
		start_thread(&writer, fn);
		for (page = 0; page < a->pages; page++)
			if (!is_threads(page))
				page_write(a, page);
		writer.stop = true;
		pthread_join(writer.thread, NULL);
		check(a, "the parent, beside its thread");
		meet();
		collect(pid);
	}
}

static void discard_thread(struct area *a)
{
	beside(a, discard_groups);
}

static void protect_thread(struct area *a)
{
	beside(a, protect_groups);
}

/* What the kernel does to pages that were copied ahead. */

static void page_out(struct area *a)
{
	/* Not a failure: a mapping may hold some back, and a busy page stays. */
	madvise(a->mem, a->pages * page_size, MADV_PAGEOUT);
}

static void paged_out_child(struct area *a, int arg)
{
	meet();
	meet();
	page_out(a);
	check(a, "the child, swapped out");
	write_pages(a, EVERY_SECOND);
	page_out(a);
	check(a, "the child, swapped out again");
}

static void swap_after(struct area *a)
{
	int pid;

	barrier_for(2);
	pid = spawn(a, 1, paged_out_child, 0);
	meet();
	write_pages(a, EVERY_SECOND);
	page_out(a);
	meet();
	check(a, "the parent, swapped out");
	write_pages(a, RANDOM);
	page_out(a);
	collect(pid);
}

static void free_after(struct area *a)
{
	size_t page;
	int pid;

	barrier_for(2);
	pid = spawn(a, 1, onlooker, 0);
	meet();
	write_pages(a, EVERY_SECOND);
	if (madvise(a->mem, a->pages * page_size, MADV_FREE))
		fail("MADV_FREE: %s", strerror(errno));
	for (page = 0; page < a->pages; page++)
		if (page_writable(a, page))
			page_freed(a, page);
	page_out(a);
	check(a, "the parent, after MADV_FREE");
	write_pages(a, ALL);
	page_out(a);
	check(a, "the parent, after it wrote again");
	meet();
	collect(pid);
}

static void heir(struct area *a, int arg)
{
	meet();
	/* Now these pages are mapped here alone: what was given up is this process's still. */
	page_out(a);
	check(a, "the heir of pages that its parent gave up");
}

/*
 * What was copied ahead, and never written, is shared by a second fork; then one of both gives it
 * up. madvise() looks for others only where a folio is dirty, so a copy must be.
 */
static void free_shared(struct area *a)
{
	size_t size = a->pages * page_size, page;
	int first, second;

	barrier_for(2);
	first = spawn(a, 1, onlooker, 0);
	meet();
	write_pages(a, EVERY_SECOND);
	meet();
	collect(first);
	second = spawn(a, 2, heir, 0);
	if (madvise(a->mem, size, MADV_FREE))
		fail("MADV_FREE: %s", strerror(errno));
	/* Pages wait in a batch of this CPU before they are marked: this empties it. */
	page_out(a);
	if (madvise(a->mem, size, MADV_DONTNEED))
		fail("MADV_DONTNEED: %s", strerror(errno));
	for (page = 0; page < a->pages; page++)
		page_discarded(a, page);
	meet();
	collect(second);
}

static void move_after(struct area *a)
{
	size_t size = a->pages * page_size;
	char *to, *was = a->mem;
	int pid;

	barrier_for(2);
	pid = spawn(a, 1, onlooker, 0);
	meet();
	write_pages(a, EVERY_SECOND);
	to = mmap(NULL, size + 3 * page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (to == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	to += 3 * page_size;	/* No longer where page tables and huge pages begin. */
	a->mem = mremap(was, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (a->mem == MAP_FAILED)
		fail("mremap: %s", strerror(errno));
	check(a, "the parent, after it moved its pages");
	write_pages(a, ALL);
	check(a, "the parent, after it wrote again");
	meet();
	collect(pid);
}

const struct test_case cases[] = {
	{ "parent writes every second page", "what was copied ahead and never written", 0,
	  parent_every_second },
	{ "parent writes all", "each page is a fault or was copied ahead", 0, parent_all },
	{ "parent writes backwards", "the neighbours that follow are exclusive already", 0,
	  parent_backwards },
	{ "parent writes at random", "both, mixed", 0, parent_random },
	{ "child writes", "the same from the other side", 0, child_writes },
	{ "eight children write", "a page mapped nine times, copied by all at once", 0,
	  children_write },
	{ "nested forks", "pages shared by several generations", 0, nested },
	{ "forks again", "what was copied ahead is shared once more", 0, fork_again },
	{ "child leaves first", "re-use instead of copy", 0, exit_first },
	{ "exclusive neighbours", "a batch must leave out what is private already", 0,
	  exclusive_neighbours },
	{ "threads write the same pages", "a copy made ahead while another thread writes the page",
	  DOES_THREADS, threads_same_pages },
	{ "threads in step", "a write, and a look, at the moment at which the page is copied ahead",
	  DOES_THREADS, threads_in_step },
	{ "forks while threads write", "a snapshot of one moment", DOES_THREADS, threads_fork },
	{ "a thread discards", "a page discarded while it is being copied ahead",
	  DOES_DISCARD | DOES_THREADS, discard_thread },
	{ "a thread protects", "mappings split and merge while neighbours are copied",
	  DOES_MPROTECT | DOES_THREADS, protect_thread },
	{ "swapped out after", "copies made ahead must be written to swap", DOES_PAGEOUT, swap_after },
	{ "MADV_FREE after", "copies made ahead, then given up", DOES_FREE, free_after },
	{ "given up by one of two", "copies made ahead and never written, which another still needs",
	  DOES_FREE | DOES_DISCARD | DOES_PAGEOUT, free_shared },
	{ "moved after", "reverse mapping of copies made ahead", DOES_REMAP, move_after },
};
const size_t nr_cases = sizeof(cases) / sizeof(cases[0]);
