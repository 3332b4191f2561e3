// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * snapshot: write blocks of a populated space, chosen after Zipf's law, and
 * fork from time to time a child that stays idle for two intervals: an
 * in-memory store that takes snapshots, without the store.
 *
 * The microbenchmark of CCoW (2022, papers/003). docs/reference/probes.md has the
 * options, docs/reference/snapshot.md what differs from the paper.
 */
#include "cow_stats.h"
#include "probe.h"
#include "times.h"
#include "zipf.h"

#include <signal.h>

/* Between two looks at the clock; one batch in SAMPLED has each of its writes timed. */
#define BATCH_WRITES 256
#define SAMPLED 16

#define FORKS_MAX 1000
#define ALIVE_MAX 2 /* a child lives for two intervals */
#define REGION_BYTES ((size_t)2 << 20)

enum placement { SCATTERED, RANKED };
static const char *const placement_names[] = { "scattered", "ranked", NULL };

/* When the kernel's counts are read: as in cow_faults. */
enum moment { EMPTY, BEFORE, AFTER, SETTLED, MOMENTS };

struct memory_text {
	size_t bytes;
	char text[1400];
};

struct fork_record {
	uint64_t begin_ns; /* of the clock that stands still between sections */
	uint64_t end_ns;
	uint64_t writes; /* made before it */
};

/* Of the processes when an epoch ends: the parent, then its children from the oldest. */
struct footprint {
	uint64_t fork; /* forks made before */
	int processes;
	struct memory_text of[1 + ALIVE_MAX];
};

static struct {
	size_t bytes;
	uint64_t writes;
	size_t block_bytes;
	double alpha;
	enum placement placement;
	uint64_t interval_ns;
	uint64_t forks;
	uint64_t after_writes;
	int threads;
	bool steady;
	bool pinned;
	bool warm;
	bool cow_stats;
	size_t page_bytes;
	uint64_t seed;
} settings = { .block_bytes = 1024, .forks = UINT64_MAX, .seed = 1 };

static char *heap;
static char *data; /* what is written */
static uint32_t *order;
static uint64_t *batch_ns; /* the clock at the end of each batch */
static struct times write_times;
static struct fork_record *forks;
static struct footprint *footprints;
static uint64_t forks_made, footprints_taken;
static uint64_t fifth_writes;	      /* to the fifth of the blocks that the law prefers */
static pid_t children[ALIVE_MAX + 1]; /* alive, from the oldest */
static int alive;
static struct cow_text *counts; /* NULL: not asked for */
static struct rusage usage_before;
static bool has_rollup;
static uint64_t paused_ns, paused_at; /* the clock stands still for what is not measured */
static cpu_set_t allowed;

static uint64_t clock_ns(void)
{
	return now_ns() - paused_ns;
}

static void clock_stop(void)
{
	paused_at = now_ns();
}

static void clock_go_on(void)
{
	paused_ns += now_ns() - paused_at;
}

/* Before any clock starts: the block of each write. */
static void choose_order(void)
{
	uint64_t blocks = settings.bytes / settings.block_bytes;
	uint64_t state = settings.seed * 0x9e3779b97f4a7c15ull + 1;
	size_t place_bytes = blocks * sizeof(uint32_t);
	uint32_t *place = zipf_map(place_bytes);
	struct zipf zipf;

	for (uint64_t i = 0; i < blocks; i++)
		place[i] = (uint32_t)i;
	for (uint64_t i = blocks - 1; i > 0 && settings.placement == SCATTERED; i--) {
		uint64_t j = random_below(&state, i + 1);
		uint32_t swapped = place[i];

		place[i] = place[j];
		place[j] = swapped;
	}
	zipf_make(&zipf, blocks, settings.alpha);
	for (uint64_t i = 0; i < settings.writes; i++) {
		uint32_t rank = zipf_next(&zipf, &state);

		fifth_writes += rank < blocks / 5;
		order[i] = place[rank];
	}
	zipf_free(&zipf);
	munmap(place, place_bytes);
}

static inline void write_block(uint64_t i)
{
	memcpy(heap + (size_t)order[i] * settings.block_bytes, data, settings.block_bytes);
}

static void write_batch(uint64_t first, uint64_t count, bool timed)
{
	uint64_t began = now_ns(), last = began;

	for (uint64_t i = first; i < first + count; i++) {
		write_block(i);
		if (timed) {
			slow_down(last);
			uint64_t now = now_ns();

			times_add(&write_times, now - last);
			last = now;
		}
	}
	if (!timed)
		slow_down(began);
}

static void read_memory(struct memory_text *text, const char *path)
{
	text->bytes = cow_read_file(path, text->text, sizeof(text->text));
}

/* What the processes occupy, as the kernel says it. */
static void take_footprint(void)
{
	struct footprint *f = &footprints[footprints_taken];
	char path[64];

	if (!has_rollup)
		return;
	footprints_taken++;
	f->fork = forks_made;
	f->processes = 1 + alive;
	read_memory(&f->of[0], "/proc/self/smaps_rollup");
	for (int i = 0; i < alive; i++) {
		snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", children[i]);
		read_memory(&f->of[1 + i], path);
	}
}

static void reap(bool all)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, all ? 0 : WNOHANG)) > 0) {
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
			fail(1, "a child ended with status %d before its time", status);
		for (int i = 0; i < alive; i++)
			if (children[i] == pid)
				fail(1, "a child was killed before its time (out of memory?)");
	}
}

static void end_oldest(void)
{
	kill(children[0], SIGKILL);
	alive--;
	memmove(children, children + 1, sizeof(children[0]) * (size_t)alive);
}

/* Idle, until the parent ends it or is no more. */
__attribute__((noreturn)) static void child(pid_t parent)
{
	die_with_parent();
	while (getppid() == parent)
		pause();
	_exit(1);
}

/* Elsewhere than the measured process, where there is another CPU. */
static void place_child(pid_t pid)
{
	cpu_set_t others = allowed;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &allowed)) {
			CPU_CLR(cpu, &others);
			break;
		}
	}
	if (CPU_COUNT(&others))
		sched_setaffinity(pid, sizeof(others), &others);
}

static void take_snapshot(uint64_t written)
{
	struct fork_record *f = &forks[forks_made];
	pid_t self = getpid(), pid;

	clock_stop();
	reap(false);
	take_footprint();
	clock_go_on();

	if (alive == ALIVE_MAX)
		end_oldest();
	f->writes = written;
	f->begin_ns = clock_ns();
	pid = fork();
	if (pid == 0)
		child(self);
	f->end_ns = clock_ns();
	if (pid < 0)
		fail(1, "fork %llu failed: %s", (unsigned long long)forks_made + 1, fork_error());
	if (settings.pinned)
		place_child(pid);
	children[alive++] = pid;
	forks_made++;
}

/*
 * A fork and an interval of writes that are not measured: the first snapshot of
 * a store is one of many, and the only one before which nothing was shared and
 * of which no policy can know what will be written. The blocks are those of the
 * last writes, backwards.
 */
static void settle(void)
{
	uint64_t began, written = 0;

	take_snapshot(0);
	began = clock_ns();
	while (written < settings.writes / 2 && clock_ns() - began < settings.interval_ns)
		for (int i = 0; i < BATCH_WRITES && written < settings.writes; i++)
			write_block(settings.writes - ++written);
	forks_made = footprints_taken = 0;
}

static void begin_counting(void)
{
	clock_stop();
	/* The first look makes the pages that looking needs the program's own again. */
	if (counts)
		cow_read(&counts[EMPTY]);
	for (int i = EMPTY; i <= BEFORE && counts; i++)
		cow_read(&counts[i]);
	usage_before = usage_of(RUSAGE_SELF);
	clock_go_on();
}

static void write_all(void)
{
	uint64_t began, last, batch = 0;

	began = last = clock_ns();
	/* What became of the copies before is none of this run's. */
	if (settings.steady)
		take_snapshot(0);
	begin_counting();
	for (uint64_t written = 0; written < settings.writes;) {
		uint64_t count = settings.writes - written, now;

		if (count > BATCH_WRITES)
			count = BATCH_WRITES;
		write_batch(written, count, batch % SAMPLED == 0);
		written += count;
		now = clock_ns();
		batch_ns[batch++] = now - began;
		if (!settings.interval_ns || now - last < settings.interval_ns ||
		    written < settings.after_writes || forks_made >= settings.forks)
			continue;
		if (forks_made == FORKS_MAX)
			fail(1, "more than %d forks: --interval-ns is too short", FORKS_MAX);
		take_snapshot(written);
		last = forks[forks_made - 1].begin_ns;
	}
	for (uint64_t i = 0; i < forks_made; i++) {
		forks[i].begin_ns -= began;
		forks[i].end_ns -= began;
	}
}

/*
 * From its own record: each epoch's first writes to pages, which are the
 * copies that plain copy-on-write makes, and how much of each region they are.
 */
static void print_coverage(void)
{
	uint64_t pages = round_up(settings.bytes, base_page_bytes()) / base_page_bytes();
	uint64_t per_region = REGION_BYTES / base_page_bytes();
	uint64_t regions = round_up(pages, per_region) / per_region;
	uint64_t by_percent[101] = { 0 };
	uint64_t *first = zipf_map(FORKS_MAX * sizeof(*first));
	uint32_t *epoch_of = zipf_map(pages * sizeof(*epoch_of));
	uint32_t *covered = zipf_map(regions * sizeof(*covered));

	for (uint64_t fork = 0; fork < forks_made; fork++) {
		uint64_t end = fork + 1 < forks_made ? forks[fork + 1].writes : settings.writes;

		memset(covered, 0, regions * sizeof(*covered));
		for (uint64_t i = forks[fork].writes; i < end; i++) {
			size_t from = (size_t)order[i] * settings.block_bytes;
			size_t page = from / base_page_bytes();
			size_t last = (from + settings.block_bytes - 1) / base_page_bytes();

			for (; page <= last; page++) {
				if (epoch_of[page] == fork + 1)
					continue;
				epoch_of[page] = (uint32_t)fork + 1;
				covered[page / per_region]++;
				first[fork]++;
			}
		}
		/* The last epoch is cut: what it covers says nothing. */
		for (uint64_t r = 0; r < pages / per_region && fork + 1 < forks_made; r++)
			by_percent[covered[r] * 100 / per_region]++;
	}
	row_of_child(0, "first_written_pages", first, forks_made);
	row_of_child(0, "by_percent_regions", by_percent, 101);
}

static void print_forks(void)
{
	static const struct {
		const char *metric;
		size_t offset;
	} of[] = { { "fork_begin_ns", offsetof(struct fork_record, begin_ns) },
		   { "fork_end_ns", offsetof(struct fork_record, end_ns) },
		   { "before_fork_writes", offsetof(struct fork_record, writes) } };
	uint64_t values[FORKS_MAX];

	for (size_t m = 0; m < sizeof(of) / sizeof(*of); m++) {
		for (uint64_t i = 0; i < forks_made; i++)
			values[i] = *(const uint64_t *)((const char *)&forks[i] + of[m].offset);
		row_of_child(0, of[m].metric, values, forks_made);
	}
}

static void print_footprints(void)
{
	for (uint64_t i = 0; i < footprints_taken; i++) {
		row("footprint_forks", footprints[i].fork);
		for (int p = 0; p < footprints[i].processes; p++)
			cow_row(p, "smaps_rollup_text", footprints[i].of[p].text,
				footprints[i].of[p].bytes);
	}
}

static void parse_alpha(const char *text)
{
	char *end;

	settings.alpha = strtod(text, &end);
	if (end == text || *end || !(settings.alpha >= 0 && settings.alpha <= 10))
		fail(EXIT_USAGE, "--zipf-alpha must be in 0..10, not '%s'", text);
}

static void parse(int argc, char **argv)
{
	static const struct parameter parameters[] = {
		{ "writes", .number = &settings.writes },
		{ "block-bytes", .number = &settings.block_bytes },
		{ "zipf-alpha", .parse = parse_alpha },
		{ "placement", .choice = &settings.placement, .names = placement_names },
		{ "interval-ns", .number = &settings.interval_ns },
		{ "forks", .number = &settings.forks },
		{ "after-writes", .number = &settings.after_writes },
		{ "steady", .flag = &settings.steady },
		{ "threads", .count = &settings.threads },
		{ "pinned", .truth = &settings.pinned },
		{ "warm", .flag = &settings.warm },
		{ "counting", .truth = &settings.cow_stats },
		{ "page-size-bytes", .number = &settings.page_bytes },
		{ "seed", .number = &settings.seed },
		{ 0 },
	};

	settings.page_bytes = base_page_bytes();
	parse_options(argc, argv, parameters);
	if (argc - optind != 1)
		fail(EXIT_USAGE, "usage: snapshot [OPTIONS] SIZE_BYTES");
	settings.bytes = parse_u64("SIZE_BYTES", argv[optind]);
	if (settings.steady && !settings.interval_ns)
		fail(EXIT_USAGE, "--steady needs --interval-ns");
	if (settings.block_bytes < 1 || settings.bytes < settings.block_bytes)
		fail(EXIT_USAGE, "SIZE_BYTES must be a block at least");
	if (settings.bytes / settings.block_bytes > UINT32_MAX)
		fail(EXIT_USAGE, "at most 2^32 blocks");
	if (!settings.writes)
		settings.writes = settings.bytes / settings.block_bytes * 10;
}

int main(int argc, char **argv)
{
	uint64_t batches, samples = 1000;
	struct spinners spinners;
	struct rusage after;
	char counted[2];

	probe_name = "snapshot";
	parse(argc, argv);
	die_with_parent();
	batches = (settings.writes + BATCH_WRITES - 1) / BATCH_WRITES;
	/* Shared memory: fork copies none of its entries, and no write to it faults. */
	order = map_records(settings.writes * sizeof(*order));
	batch_ns = map_records((batches > samples ? batches : samples) * sizeof(*batch_ns));
	times_make(&write_times);
	forks = map_records(FORKS_MAX * sizeof(*forks));
	footprints = map_records((FORKS_MAX + 1) * sizeof(*footprints));
	if (settings.cow_stats)
		counts = map_records(MOMENTS * sizeof(*counts));
	has_rollup = !access("/proc/self/smaps_rollup", R_OK);
	choose_order();
	data = map_private(settings.block_bytes, base_page_bytes());
	memset(data, 0x5a, settings.block_bytes);
	heap = map_private(settings.bytes, settings.page_bytes);
	write_pages(heap, settings.bytes, base_page_bytes());
	if (settings.warm)
		warm(settings.bytes);

	sched_getaffinity(0, sizeof(allowed), &allowed);
	spinners_start(&spinners, settings.threads, settings.pinned, &allowed);
	if (settings.pinned)
		pin_to(0, &allowed);
	timer_row(batch_ns, samples);

	if (counts)
		cow_counting_begin(counted);
	if (settings.steady)
		settle();
	write_all();
	after = usage_of(RUSAGE_SELF);
	if (counts)
		cow_read(&counts[AFTER]);
	take_footprint();
	spinners_stop(&spinners);
	/* The children go first: nothing that is given back is shared then. */
	while (alive)
		end_oldest();
	reap(true);
	if (madvise(heap, settings.bytes, MADV_DONTNEED))
		fail(1, "cannot give the pages back: %s", strerror(errno));
	if (counts) {
		cow_read(&counts[SETTLED]);
		cow_counting_end(counted);
	}

	row("written_writes", settings.writes);
	row("preferred_fifth_writes", fifth_writes);
	row("batch_writes", BATCH_WRITES);
	row_of_child(0, "batch_end_ns", batch_ns, batches);
	usage_rows("run", &usage_before, &after);
	print_forks();
	print_coverage();
	times_print(&write_times, "write_ns", "of_that_time_writes");
	print_footprints();
	for (int i = 0; i < MOMENTS && counts; i++) {
		cow_row(0, "process_cow_stats_text", counts[i].process, counts[i].process_bytes);
		cow_row(0, "system_cow_stats_text", counts[i].system, counts[i].system_bytes);
	}
	row_end();
	return 0;
}
