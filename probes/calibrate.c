// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * calibrate: the primitive costs that a fork and its copies are made of, each
 * measured ROUNDS times, interleaved, in one process with SIZE_BYTES.
 *
 * Every row is the total time of one round; docs/reference/probes.md says which totals
 * are subtracted from each other to get the cost of a trap, a copy or a flush.
 */
#include "probe.h"

static size_t bytes, page, page_bytes;
static int threads = 1;
static bool pinned, warmed;
static cpu_set_t allowed;
static char *heap, *target, *working_set;
static size_t working_set_bytes, working_sets;
static int release_pipe[2], ready_pipe[2];

#define TIMER_READS 10000u
/* What document 000 copied to learn the memory-copy rate; rounded up to pages. */
#define MEMCPY_BYTES ((size_t)316228)
/*
 * Reads before each write among work. A program whose writes are scattered comes back to some of
 * its data soon and to some late: it reads in the first 16 KiB of a working set as often as in the
 * first 32, and so on up to the size of the largest cache. One that sweeps seldom comes back: three
 * of four reads are in the page that it writes next.
 */
enum pattern { RANDOM, SEQUENTIAL, PATTERNS };
#define PACES 4
static const char *const pattern_names[PATTERNS] = { "random", "sequential" };
static const unsigned int work_reads[PATTERNS][PACES] = { { 0, 12, 25, 50 }, { 0, 12, 50, 120 } };
#define LEAST_SET ((size_t)16 << 10)

/* Rounds are few and their figures are printed after the last one. */
struct round {
	uint64_t timer_reads_ns;
	uint64_t memcpy_ns;
	uint64_t page_copy_ns;
	uint64_t first_touch_ns;
	uint64_t fork_ns;
	uint64_t write_ns;
	uint64_t populate_ns;
	uint64_t reuse_write_ns;
	uint64_t reuse_populate_ns;
	uint64_t reap_ns;
	uint64_t write_threads_ns;
	uint64_t work_ns[PATTERNS][PACES];
	uint64_t work_write_ns[PATTERNS][PACES];
	uint64_t split_write_ns;
	uint64_t split_write_threads_ns;
};

static uint64_t since(uint64_t began)
{
	slow_down(began);
	return now_ns() - began;
}

/* ---- a child that keeps pages shared ---- */

static pid_t hold_child(uint64_t *fork_ns)
{
	uint64_t began = now_ns();
	pid_t pid = fork();
	char byte = 0;

	if (pid < 0)
		fail(1, "fork: %s", fork_error());
	if (pid == 0) {
		if (write(ready_pipe[1], &byte, 1) != 1 || read(release_pipe[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	if (fork_ns)
		*fork_ns = since(began);
	if (read(ready_pipe[0], &byte, 1) != 1)
		fail(1, "a held child vanished");
	return pid;
}

static void end_child(pid_t pid)
{
	char byte = 0;
	int status;

	if (write(release_pipe[1], &byte, 1) != 1)
		fail(1, "cannot release a held child: %s", strerror(errno));
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
		fail(1, "a held child did not end well");
}

/* ---- what is timed ---- */

static uint64_t timed_writes(size_t step)
{
	uint64_t began = now_ns();

	write_pages(heap, bytes, step);
	return since(began);
}

/* The same faults as writes would take, without their traps. 0: unavailable. */
static uint64_t timed_populate(void)
{
	uint64_t began = now_ns();

	if (madvise(heap, bytes, MADV_POPULATE_WRITE))
		return 0;
	return since(began);
}

static uint64_t timed_timer_reads(void)
{
	uint64_t began = now_ns();

	for (unsigned int i = 0; i < TIMER_READS; i++)
		now_ns();
	return since(began);
}

static uint64_t timed_memcpy(size_t step)
{
	uint64_t began = now_ns();

	for (size_t at = 0; at < bytes; at += step) {
		size_t left = bytes - at;

		memcpy(target + at, heap + at, left < step ? left : step);
		/* The compiler may not merge this copy with the next. */
		__asm__ volatile("" : : "r"(target + at) : "memory");
	}
	return since(began);
}

static uint64_t timed_first_touch(void)
{
	char *fresh = map_private(bytes, page);
	uint64_t began = now_ns(), took;

	write_pages(fresh, bytes, page);
	took = since(began);
	munmap(fresh, bytes);
	return took;
}

static uint64_t timed_reap(void)
{
	uint64_t began;
	siginfo_t info;
	pid_t pid = fork();

	if (pid < 0)
		fail(1, "fork: %s", fork_error());
	if (pid == 0)
		_exit(0);
	/* Until it is dead, without reaping it. */
	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT))
		fail(1, "waitid: %s", strerror(errno));
	began = now_ns();
	if (waitpid(pid, NULL, 0) != pid)
		fail(1, "waitpid: %s", strerror(errno));
	return since(began);
}

static uint64_t writes_with_threads(size_t step)
{
	struct spinners spinners;
	uint64_t took;
	pid_t held;

	spinners_start(&spinners, threads, pinned, &allowed);
	held = hold_child(NULL);
	took = timed_writes(step);
	end_child(held);
	spinners_stop(&spinners);
	return took;
}

/* Each read depends on the one before, as a program's mostly do. */
static void work(uint64_t *state, enum pattern pattern, unsigned int reads, const char *next_page)
{
	for (unsigned int i = 0; i < reads; i++) {
		size_t within = LEAST_SET << random_below(state, working_sets);
		const char *from = working_set;

		if (pattern == SEQUENTIAL && i % 4) {
			within = page;
			from = next_page;
		}
		*state += *(const volatile char *)(from + random_below(state, within));
	}
}

/* CPU time: the difference of two long times is small beside what another process may take. */
static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Writes with work before each, to pages that lie far apart or to one after the other. */
static uint64_t timed_work(enum pattern pattern, unsigned int reads)
{
	/* Odd, and the pages are a power of two: each once. */
	size_t count = bytes / page, stride = pattern == RANDOM ? count * 5 / 8 | 1 : 1;
	uint64_t state = 1, began = cpu_ns();

	for (size_t i = 0; i < count; i++) {
		char *at = heap + i * stride % count * page;

		work(&state, pattern, reads, at);
		(*(volatile char *)(at + i % page))++;
	}
	return cpu_ns() - began;
}

static void work_round(struct round *r)
{
	pid_t held;

	for (enum pattern pattern = RANDOM; pattern < PATTERNS; pattern++)
		for (size_t i = 0; i < PACES; i++) {
			unsigned int reads = work_reads[pattern][i];

			/* What was left write-protected. */
			timed_work(pattern, reads);
			r->work_ns[pattern][i] = timed_work(pattern, reads);
			held = hold_child(NULL);
			r->work_write_ns[pattern][i] = timed_work(pattern, reads);
			end_child(held);
		}
}

/* Rounds over base pages: what a fault, a copy, a trap and a flush cost. */
static void base_page_round(struct round *r)
{
	pid_t held;

	r->timer_reads_ns = timed_timer_reads();
	r->memcpy_ns = timed_memcpy(round_up(MEMCPY_BYTES, page));
	r->page_copy_ns = timed_memcpy(page);
	r->first_touch_ns = timed_first_touch();

	held = hold_child(&r->fork_ns);
	r->write_ns = timed_writes(page);
	end_child(held);

	held = hold_child(NULL);
	r->populate_ns = timed_populate();
	end_child(held);

	/* The child has gone: the pages are ours alone, but write-protected. */
	end_child(hold_child(NULL));
	r->reuse_write_ns = timed_writes(page);
	end_child(hold_child(NULL));
	r->reuse_populate_ns = timed_populate();

	r->reap_ns = timed_reap();
	if (threads)
		r->write_threads_ns = writes_with_threads(page);
	work_round(r);
}

/* A heap of fresh pages: the huge ones of the last round have been split. */
static void new_heap(void)
{
	if (heap)
		munmap(heap, round_up(bytes, HUGE_ALIGN));
	heap = map_private(bytes, page_bytes);
	write_pages(heap, bytes, page);
}

/* Rounds over huge pages: their fork, and the first write to each after it. */
static void huge_page_round(struct round *r)
{
	pid_t held;

	new_heap();
	held = hold_child(NULL);
	r->split_write_ns = timed_writes(page_bytes);
	end_child(held);

	if (threads) {
		new_heap();
		r->split_write_threads_ns = writes_with_threads(page_bytes);
	}
}

/* VmPTE of this process in KiB; proc(5). 0: the kernel does not say. */
static uint64_t page_table_kib(void)
{
	unsigned long long kib = 0;
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");

	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "VmPTE: %llu", &kib) == 1)
			break;
	if (status)
		fclose(status);
	return kib;
}

static void print_paces(const struct round *r, enum pattern pattern)
{
	char name[64];

	for (size_t i = 0; i < PACES && r->work_ns[pattern][i]; i++) {
		unsigned int reads = work_reads[pattern][i];

		snprintf(name, sizeof(name), "%s_%u_ns", pattern_names[pattern], reads);
		row_of_child(0, name, &r->work_ns[pattern][i], 1);
		snprintf(name, sizeof(name), "%s_%u_write_ns", pattern_names[pattern], reads);
		row_of_child(0, name, &r->work_write_ns[pattern][i], 1);
	}
}

static void print_rounds(const struct round *rounds, uint64_t count)
{
#define PRINT(member)                                                                              \
	for (uint64_t i = 0; i < count; i++)                                                       \
		if (rounds[i].member)                                                              \
	row_of_child(0, #member, &rounds[i].member, 1)

	PRINT(timer_reads_ns);
	PRINT(memcpy_ns);
	PRINT(page_copy_ns);
	PRINT(first_touch_ns);
	PRINT(fork_ns);
	PRINT(write_ns);
	PRINT(populate_ns);
	PRINT(reuse_write_ns);
	PRINT(reuse_populate_ns);
	PRINT(reap_ns);
	PRINT(write_threads_ns);
	PRINT(split_write_ns);
	PRINT(split_write_threads_ns);
#undef PRINT
	for (uint64_t i = 0; i < count; i++)
		for (enum pattern pattern = RANDOM; pattern < PATTERNS; pattern++)
			print_paces(&rounds[i], pattern);
}

int main(int argc, char **argv)
{
	static const struct parameter parameters[] = {
		{ "threads", .count = &threads },
		{ "pinned", .truth = &pinned },
		{ "warm", .flag = &warmed },
		{ "page-size-bytes", .number = &page_bytes },
		{ 0 },
	};
	uint64_t rounds, tables_kib;
	struct round *records;
	long faults;

	probe_name = "calibrate";
	page = page_bytes = base_page_bytes();
	parse_options(argc, argv, parameters);
	if (argc - optind != 2)
		fail(EXIT_USAGE, "usage: calibrate [OPTIONS] ROUNDS SIZE_BYTES");
	rounds = parse_u64("ROUNDS", argv[optind]);
	bytes = round_up(parse_u64("SIZE_BYTES", argv[optind + 1]), page_bytes);
	if (!bytes)
		fail(EXIT_USAGE, "SIZE_BYTES must be a page at least");
	die_with_parent();
	sched_getaffinity(0, sizeof(allowed), &allowed);
	if (pinned)
		pin_to(0, &allowed);
	if (pipe(ready_pipe) || pipe(release_pipe))
		fail(1, "pipe: %s", strerror(errno));
	records = map_records(rounds * sizeof(*records));
	memset(records, 0, rounds * sizeof(*records));

	tables_kib = page_table_kib();
	faults = usage_of(RUSAGE_SELF).ru_minflt;
	new_heap();
	faults = usage_of(RUSAGE_SELF).ru_minflt - faults;
	tables_kib = page_table_kib() - tables_kib;
	if (page_bytes == page) {
		target = map_private(bytes, page);
		/* Only the heap's pages are what a fork here copies the entries of. */
		madvise(target, round_up(bytes, HUGE_ALIGN), MADV_DONTFORK);
		write_pages(target, bytes, page);
		working_set_bytes = beyond_caches_bytes();
		working_set = map_private(working_set_bytes, page);
		madvise(working_set, round_up(working_set_bytes, HUGE_ALIGN), MADV_DONTFORK);
		write_pages(working_set, working_set_bytes, page);
		while (LEAST_SET << working_sets <= working_set_bytes / 2)
			working_sets++;
	}
	if (warmed)
		warm(bytes);
	for (uint64_t i = 0; i < rounds; i++) {
		if (page_bytes == page)
			base_page_round(&records[i]);
		else
			huge_page_round(&records[i]);
	}

	row("pages", bytes / page_bytes);
	row("timer_reads", TIMER_READS);
	row("populate_faults", (uint64_t)faults);
	row("page_table_kib", tables_kib);
	print_rounds(records, rounds);
	row_end();
	return 0;
}
