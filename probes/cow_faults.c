// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_faults: after a fork, write one byte to each of the pages of SIZE_BYTES
 * (or to a single one) and time it, as a whole and write by write.
 *
 * The workloads of document 002 (papers/): single-page, sequential and random
 * writes, seen from user space. docs/reference/probes.md has the options and the rows.
 */
#include "cow_stats.h"
#include "probe.h"

enum pattern { SINGLE, SEQUENTIAL, RANDOM };
static const char *const pattern_names[] = { "single", "sequential", "random", NULL };

enum writer { CHILD, PARENT };
static const char *const writer_names[] = { "child", "parent", NULL };

/* What a kernel that counts is asked for. */
enum counting { NOTHING, COUNTS, TIMES };
static const char *const counting_names[] = { "none", "counts", "times", NULL };

/*
 * What one repetition takes the time of: all writes together, each of them, or
 * each by the kernel, whose own time-stamps the first two are kept free of.
 */
enum timing { WHOLE, EACH, KERNEL };

/*
 * When the kernel's counts are read: around a loop that faults nowhere, whose
 * count belongs to the loop's surroundings, around the writes, and after the
 * pages were given back, when it is settled which of those that were copied
 * ahead were written.
 */
enum moment { EMPTY, BEFORE, AFTER, SETTLED, MOMENTS };

/* What one writer records of one repetition; write_ns follows, if it is timed. */
struct record {
	uint64_t elapsed_ns;
	uint64_t minor_faults;
	uint64_t write_ns[];
};

static struct {
	size_t bytes;
	enum pattern pattern;
	enum writer writer;
	int children;
	int threads;
	bool pinned;
	bool warm;
	enum counting counting;
	size_t page_bytes;
	uint64_t repetitions;
	uint64_t unmeasured; /* repetitions before them, from which the kernel may learn */
	uint64_t seed;
} settings = { .children = 1, .repetitions = 2, .seed = 1 };

static char *heap;
static char *scratch;			   /* a page that each writer has to itself */
static struct cow_text (*counts)[MOMENTS]; /* of each writer, if asked for */
static uint32_t *order;			   /* page numbers in the order of the writes */
static uint64_t writes;
static cpu_set_t allowed; /* before this program bound itself to a CPU */
static int ready_pipe[2], go_pipe[2];

static struct record *record_of(char *records, int child)
{
	size_t bytes = sizeof(struct record) + writes * sizeof(uint64_t);

	return (struct record *)(records + (size_t)child * round_up(bytes, base_page_bytes()));
}

/* Before any clock starts: order of one repetition's writes. */
static void choose_order(uint64_t *state, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++)
		order[i] = (uint32_t)i;
	if (settings.pattern == SEQUENTIAL)
		return;
	for (uint64_t i = pages - 1; i > 0; i--) {
		uint64_t j = next_random(state) % (i + 1);
		uint32_t swapped = order[i];

		order[i] = order[j];
		order[j] = swapped;
	}
}

/* One byte at each of the places base + order[i] * step; the time that all of them took. */
static uint64_t write_loop(struct record *r, enum timing timing, char *base, size_t step)
{
	uint64_t began, last;

	began = last = now_ns();
	for (uint64_t i = 0; i < writes; i++) {
		*(volatile char *)(base + order[i] * step) = 1;
		if (timing == EACH) {
			slow_down(last);
			uint64_t now = now_ns();

			r->write_ns[i] = now - last;
			last = now;
		}
	}
	if (timing != EACH)
		slow_down(began);
	return now_ns() - began;
}

static void write_all(int writer, struct record *r, enum timing timing)
{
	struct cow_text *texts = settings.counting && timing != WHOLE ? counts[writer] : NULL;
	struct rusage before;

	/*
	 * Once for nothing: this process's own faults, on its stack (whose pages begin
	 * where the system's randomness put them), its code and its vDSO, are not counted.
	 */
	before = usage_of(RUSAGE_SELF);
	write_loop(r, timing, scratch, 0);
	if (texts) {
		for (int i = 0; i < MOMENTS; i++)
			cow_read(&texts[i]);
		cow_read(&texts[EMPTY]);
		write_loop(r, timing, scratch, 0);
		if (timing == KERNEL)
			cow_times_begin();
		cow_read(&texts[BEFORE]);
	}
	before = usage_of(RUSAGE_SELF);
	r->elapsed_ns = write_loop(r, timing, heap, base_page_bytes());
	r->minor_faults = (uint64_t)(usage_of(RUSAGE_SELF).ru_minflt - before.ru_minflt);
	if (texts) {
		cow_read(&texts[AFTER]);
		if (timing == KERNEL)
			cow_times_end();
		if (madvise(heap, settings.bytes, MADV_DONTNEED))
			fail(1, "cannot give the pages back: %s", strerror(errno));
		cow_read(&texts[SETTLED]);
	}
}

/* A child of the fork: a writer, or held only to keep the pages shared. */
__attribute__((noreturn)) static void child(int number, struct record *r, enum timing timing)
{
	struct spinners spinners;
	char byte = 0;

	if (settings.writer == CHILD) {
		/* fork did not copy the entries of the shared records: fault them in now. */
		for (uint64_t i = 0; i < writes; i += base_page_bytes() / sizeof(uint64_t))
			r->write_ns[i] = 0;
		r->write_ns[writes - 1] = 0;
		spinners_start(&spinners, settings.threads, settings.pinned, &allowed);
	}
	if (write(ready_pipe[1], &byte, 1) != 1)
		_exit(1);
	close(go_pipe[1]);
	/* Ends when the parent closes its end: all children at once. */
	while (read(go_pipe[0], &byte, 1) < 0 && errno == EINTR)
		;
	if (settings.writer == CHILD) {
		write_all(number, r, timing);
		spinners_stop(&spinners);
	}
	_exit(0);
}

/* The texts of all moments in their order; where the kernel took times, its figures of the writes.
 */
static void print_counts(int writer, struct cow_text *texts, enum timing timing)
{
	if (timing == KERNEL) {
		cow_row(writer, "timed_cow_stats_text", texts[AFTER].system,
			texts[AFTER].system_bytes);
		return;
	}
	for (int i = 0; i < MOMENTS; i++) {
		cow_row(writer, "process_cow_stats_text", texts[i].process, texts[i].process_bytes);
		cow_row(writer, "system_cow_stats_text", texts[i].system, texts[i].system_bytes);
	}
}

static void repeat(char *records, enum timing timing)
{
	pid_t pids[64];
	char byte;

	if (pipe(ready_pipe) || pipe(go_pipe))
		fail(1, "pipe: %s", strerror(errno));
	for (int i = 0; i < settings.children; i++) {
		pids[i] = fork();
		if (pids[i] < 0) {
			/* Those made so far read the end of the pipe and exit. */
			close(go_pipe[1]);
			fail(1, "fork of child %d failed: %s", i + 1, fork_error());
		}
		if (pids[i] == 0)
			child(i, record_of(records, i), timing);
	}
	for (int i = 0; i < settings.children; i++)
		if (read(ready_pipe[0], &byte, 1) != 1)
			fail(1, "a child vanished");
	if (settings.writer == PARENT)
		write_all(0, record_of(records, 0), timing);
	close(go_pipe[1]);
	for (int i = 0; i < settings.children; i++) {
		int status;

		if (waitpid(pids[i], &status, 0) != pids[i] || !WIFEXITED(status) ||
		    WEXITSTATUS(status))
			fail(1, "child %d did not end well", i + 1);
	}
	close(go_pipe[0]);
	close(ready_pipe[0]);
	close(ready_pipe[1]);
	if (settings.counting && settings.writer == PARENT)
		write_pages(heap, settings.bytes, base_page_bytes());
}

static void print_repetition(char *records, uint64_t repetition, enum timing timing)
{
	static const char *const elapsed[] = { "elapsed_ns", "timed_elapsed_ns",
					       "kernel_timed_elapsed_ns" };
	int writers = settings.writer == CHILD ? settings.children : 1;

	row("repetition", repetition);
	for (int i = 0; i < writers; i++) {
		struct record *r = record_of(records, i);
		int writer = settings.writer == CHILD ? i + 1 : 0;

		row_of_child(writer, elapsed[timing], &r->elapsed_ns, 1);
		row_of_child(writer, "minor_faults", &r->minor_faults, 1);
		row_of_child(writer, "pages_written", &writes, 1);
		if (timing == EACH)
			row_of_child(writer, "write_ns", r->write_ns, writes);
		if (settings.counting && timing != WHOLE)
			print_counts(writer, counts[i], timing);
	}
}

static void parse(int argc, char **argv)
{
	static const struct parameter parameters[] = {
		{ "pattern", .choice = &settings.pattern, .names = pattern_names },
		{ "writer", .choice = &settings.writer, .names = writer_names },
		{ "children", .count = &settings.children },
		{ "threads", .count = &settings.threads },
		{ "pinned", .truth = &settings.pinned },
		{ "warm", .flag = &settings.warm },
		{ "counting", .choice = &settings.counting, .names = counting_names },
		{ "page-size-bytes", .number = &settings.page_bytes },
		{ "repetitions", .number = &settings.repetitions },
		{ "unmeasured", .number = &settings.unmeasured },
		{ "seed", .number = &settings.seed },
		{ 0 },
	};

	settings.page_bytes = base_page_bytes();
	parse_options(argc, argv, parameters);
	if (argc - optind != 1)
		fail(EXIT_USAGE, "usage: cow_faults [OPTIONS] SIZE_BYTES");
	settings.bytes = parse_u64("SIZE_BYTES", argv[optind]);
	if (settings.bytes < base_page_bytes())
		fail(EXIT_USAGE, "SIZE_BYTES must be a page at least");
	if (settings.children < 1 || settings.children > 64)
		fail(EXIT_USAGE, "--children must be in 1..64");
}

int main(int argc, char **argv)
{
	uint64_t pages, state, samples = 1000;
	struct spinners spinners;
	char counted[2];
	size_t length;
	char *records;

	probe_name = "cow_faults";
	parse(argc, argv);
	die_with_parent();
	pages = settings.bytes / base_page_bytes();
	writes = settings.pattern == SINGLE ? 1 : pages;
	state = settings.seed * 0x9e3779b97f4a7c15ull + 1;

	length = round_up(sizeof(struct record) + writes * sizeof(uint64_t), base_page_bytes());
	records = map_records(length * (size_t)settings.children + samples * sizeof(uint64_t));
	order = (uint32_t *)map_private(pages * sizeof(*order), base_page_bytes());
	heap = map_private(settings.bytes, settings.page_bytes);
	write_pages(heap, settings.bytes, base_page_bytes());
	scratch = map_private(base_page_bytes(), base_page_bytes());
	write_pages(scratch, base_page_bytes(), base_page_bytes());
	if (settings.counting)
		counts = map_records(sizeof(*counts) * (size_t)settings.children);
	if (settings.warm)
		warm(writes * base_page_bytes() * (size_t)settings.children);

	sched_getaffinity(0, sizeof(allowed), &allowed);
	spinners_start(&spinners, settings.writer == PARENT ? settings.threads : 0, settings.pinned,
		       &allowed);
	if (settings.pinned)
		pin_to(0, &allowed);
	timer_row((uint64_t *)records, samples);
	for (uint64_t i = 0; i < settings.unmeasured; i++) {
		choose_order(&state, pages);
		repeat(records, WHOLE);
	}
	/* Each timing in turn: the whole-run time is free of time-stamps, and of counting. */
	for (uint64_t i = 0; i < settings.repetitions; i++) {
		enum timing timing = (enum timing)(i % (settings.counting == TIMES ? 3 : 2));

		choose_order(&state, pages);
		if (settings.counting && timing != WHOLE)
			cow_counting_begin(counted);
		repeat(records, timing);
		if (settings.counting && timing != WHOLE)
			cow_counting_end(counted);
		print_repetition(records, i, timing);
	}
	spinners_stop(&spinners);
	row_end();
	return 0;
}
