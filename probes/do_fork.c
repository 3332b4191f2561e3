// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * do_fork: fork FORKS times with a heap of HEAP_BYTES, of which each child
 * writes WRITE_FRACTION, one byte a page.
 *
 * The workload of Smith and Maguire, "Effects of copy-on-write memory
 * management on the response time of UNIX fork operations", 1988, appendix A,
 * with what Linux needs to be measured truly as options. docs/reference/probes.md has
 * the options, the rows and their definitions.
 */
#include "probe.h"

#include "clone3.h"
#include "heap.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>

enum method { FORK, VFORK, CLONE_VM_VFORK, POSIX_SPAWN };
static const char *const method_names[] = { "fork", "vfork", "clone-vm-vfork", "posix-spawn",
					    NULL };

enum writer { CHILD, PARENT, PARENT_REUSE };
static const char *const writer_names[] = { "child", "parent", "parent-reuse", NULL };

/* Moments of one fork, in ns of the monotonic clock; 0: it did not happen. */
struct moments {
	uint64_t started;   /* before the call */
	uint64_t returned;  /* the call returned in the parent */
	uint64_t child_ran; /* the child's first instruction of ours */
	uint64_t write_began;
	uint64_t write_ended;
	uint64_t ended; /* the child was reaped, and the writes are over */
};

static struct {
	uint64_t forks;
	size_t heap_bytes;
	size_t write_bytes;
	enum method method;
	enum writer writer;
	uint64_t reap; /* children alive at most; 1: each is reaped at once; 0: never */
	bool populated;
	bool spread; /* the written pages lie evenly over the heap, not at its start */
	bool scattered;
	uint64_t scatter_bytes;
	bool settled;
	bool pinned;
	bool warm;
	size_t page_bytes;
	int threads;
	uint64_t vmas_anon, vmas;
	uint64_t work_ns; /* between two forks */
	char *spawn_path;
} settings = { .reap = 1, .populated = true };

static char *heap;
static const char *other_memory;
static size_t other_bytes;
static size_t written_range, write_step;
static struct moments *moments;
static int ready_pipe[2], release_pipe[2];
static _Alignas(16) char clone_stack[16384];

static void writes(struct moments *m)
{
	uint64_t began = now_ns(), ended;

	write_pages(heap, written_range, write_step);
	slow_down(began);
	ended = now_ns();
	/* Stored only now: a child's first store here is a fault of its own. */
	m->write_began = began;
	m->write_ended = ended;
}

/* Where the writes go: each page from the start, or as many evenly apart. */
static void place_writes(void)
{
	size_t page = base_page_bytes(), pages = round_up(settings.write_bytes, page) / page;

	written_range = settings.write_bytes;
	write_step = page;
	if (settings.spread && pages) {
		write_step = settings.heap_bytes / page / pages * page;
		written_range = pages * write_step;
	}
}

/* What the child does; it may run in the parent's memory (vfork). */
__attribute__((noreturn)) static void child(void *argument)
{
	struct moments *m = argument;
	uint64_t ran = now_ns();
	char byte = 0;

	if (settings.writer == CHILD) {
		writes(m);
	} else if (settings.writer == PARENT && settings.method == FORK) {
		/* Held alive until the parent has written, or has gone. */
		if (write(ready_pipe[1], &byte, 1) != 1 || read(release_pipe[0], &byte, 1) < 0)
			_exit(1);
	}
	m->child_ran = ran;
	_exit(0);
}

static pid_t create(struct moments *m)
{
	struct clone_args clone_vm = {
		.flags = CLONE_VM | CLONE_VFORK,
		.exit_signal = SIGCHLD,
		.stack = (uintptr_t)clone_stack,
		.stack_size = sizeof(clone_stack),
	};
	char *argv[] = { settings.spawn_path, NULL }, *envp[] = { NULL };
	pid_t pid;
	int error;

	switch (settings.method) {
	case FORK:
		pid = fork();
		break;
	case VFORK:
		pid = vfork();
		break;
	case CLONE_VM_VFORK:
		pid = clone3_call(&clone_vm, child, m);
		if (pid < 0)
			errno = -pid;
		return pid;
	default:
		error = posix_spawn(&pid, settings.spawn_path, NULL, NULL, argv, envp);
		if (error) {
			errno = error;
			return -1;
		}
		return pid;
	}
	if (pid == 0)
		child(m);
	return pid;
}

static void reap_one(void)
{
	int status;
	pid_t pid;

	do
		pid = wait(&status);
	while (pid < 0 && errno == EINTR);
	if (pid < 0)
		fail(1, "wait: %s", strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail(1, "child %d did not end well (wait status 0x%x)", (int)pid, status);
}

static void parent_writes(struct moments *m)
{
	char byte = 0;

	if (settings.writer == PARENT) {
		if (read(ready_pipe[0], &byte, 1) != 1)
			fail(1, "a held child vanished");
		writes(m);
		if (write(release_pipe[1], &byte, 1) != 1)
			fail(1, "cannot release a held child: %s", strerror(errno));
	}
	reap_one();
	if (settings.writer == PARENT_REUSE)
		writes(m);
}

/*
 * What a program does between two forks, as far as a fork notices: other
 * memory goes through the caches, for long enough that other machines' work
 * does too. The memory is shared, which fork does not copy.
 */
static void work(void)
{
	uint64_t until;

	if (!settings.work_ns)
		return;
	until = now_ns() + settings.work_ns;
	while (now_ns() < until)
		for (size_t at = 0; at < other_bytes; at += 64)
			*(const volatile char *)(other_memory + at);
}

static void run(uint64_t forks)
{
	uint64_t alive = 0;

	for (uint64_t i = 0; i < forks;) {
		struct moments *m = &moments[i];
		pid_t pid;

		work();
		m->started = now_ns();
		pid = create(m);
		slow_down(m->started);
		m->returned = now_ns();
		if (pid < 0) {
			/* As published: out of processes means wait for one to end. */
			if (errno != EAGAIN || settings.reap == 1 || !alive)
				fail(1, "%s failed after %llu of %llu: %s",
				     method_names[settings.method], (unsigned long long)i,
				     (unsigned long long)forks, fork_error());
			reap_one();
			alive--;
			continue;
		}
		alive++;
		if (settings.reap == 1) {
			parent_writes(m);
			slow_down(m->write_ended ? m->write_ended : m->returned);
			m->ended = now_ns();
			alive--;
		} else if (settings.reap && alive >= settings.reap) {
			reap_one();
			alive--;
		}
		i++;
	}
	/* Those alive under "at most N" belong to the work; "never" leaves them. */
	while (settings.reap && alive--)
		reap_one();
}

static uint64_t since(uint64_t from, uint64_t to)
{
	return from && to >= from ? to - from : 0;
}

/* One row a phase; a phase that never happened has no row. */
static void print_phase(const char *metric, size_t from, size_t to)
{
	uint64_t *values = malloc(settings.forks * sizeof(*values)), total = 0;

	if (!values)
		fail(1, "no memory to print the rows");
	for (uint64_t i = 0; i < settings.forks; i++) {
		const char *m = (const char *)&moments[i];

		values[i] = since(*(const uint64_t *)(m + from), *(const uint64_t *)(m + to));
		total += values[i];
	}
	if (total)
		row_of_child(0, metric, values, settings.forks);
	free(values);
}
#define PRINT_PHASE(metric, from, to)                                                              \
	print_phase(metric, offsetof(struct moments, from), offsetof(struct moments, to))

static void parse_reap(const char *text)
{
	settings.reap = !strcmp(text, "each")	 ? 1
			: !strcmp(text, "never") ? 0
						 : parse_u64("--reap", text);
}

static void parse(int argc, char **argv)
{
	uint64_t work_us = 0;
	const struct parameter parameters[] = {
		{ "method", .choice = &settings.method, .names = method_names },
		{ "writer", .choice = &settings.writer, .names = writer_names },
		{ "reap", .parse = parse_reap },
		{ "populated", .truth = &settings.populated },
		{ "spread", .truth = &settings.spread },
		{ "scattered", .truth = &settings.scattered },
		{ "scatter-bytes", .number = &settings.scatter_bytes },
		{ "settled", .truth = &settings.settled },
		{ "pinned", .truth = &settings.pinned },
		{ "warm", .flag = &settings.warm },
		{ "page-size-bytes", .number = &settings.page_bytes },
		{ "threads", .count = &settings.threads },
		{ "vmas-anon", .number = &settings.vmas_anon },
		{ "vmas", .number = &settings.vmas },
		{ "work-us", .number = &work_us },
		{ "spawn", .text = &settings.spawn_path },
		{ 0 },
	};

	settings.page_bytes = base_page_bytes();
	parse_options(argc, argv, parameters);
	settings.work_ns = work_us * 1000;
	if (argc - optind != 3)
		fail(EXIT_USAGE, "usage: do_fork [OPTIONS] FORKS HEAP_BYTES WRITE_FRACTION");
	settings.forks = parse_u64("FORKS", argv[optind]);
	settings.heap_bytes = parse_u64("HEAP_BYTES", argv[optind + 1]);
	settings.write_bytes =
		(size_t)ceil(parse_fraction(argv[optind + 2]) * (double)settings.heap_bytes);
	if (settings.method == POSIX_SPAWN && !settings.spawn_path)
		fail(EXIT_USAGE, "posix-spawn needs --spawn PROGRAM");
	if (settings.method != FORK && settings.write_bytes)
		fail(EXIT_USAGE, "%s copies nothing: its write fraction must be 0",
		     method_names[settings.method]);
	if (settings.writer != CHILD && settings.reap != 1)
		fail(EXIT_USAGE, "a writing parent reaps each child");
}

int main(int argc, char **argv)
{
	struct rusage self[2], children[2];
	struct spinners spinners;
	cpu_set_t allowed;
	uint64_t began, ended;
	long faults;

	probe_name = "do_fork";
	parse(argc, argv);
	die_with_parent();
	if (pipe(ready_pipe) || pipe(release_pipe))
		fail(1, "pipe: %s", strerror(errno));
	moments = map_records((settings.forks ? settings.forks : 1) * sizeof(*moments));
	/* Of the first two CPUs allowed, the first measures and the rest spin. */
	sched_getaffinity(0, sizeof(allowed), &allowed);
	spinners_start(&spinners, settings.threads, settings.pinned, &allowed);
	if (settings.pinned)
		pin_to(0, &allowed);

	place_writes();
	heap = map_private(settings.heap_bytes, settings.page_bytes);
	faults = usage_of(RUSAGE_SELF).ru_minflt;
	if (settings.populated)
		write_pages(heap, settings.heap_bytes, base_page_bytes());
	faults = usage_of(RUSAGE_SELF).ru_minflt - faults;
	if (settings.work_ns) {
		other_bytes = beyond_caches_bytes();
		other_memory = map_records(other_bytes);
	}
	if (settings.scattered)
		scatter(heap, settings.heap_bytes, settings.scatter_bytes);
	if (settings.vmas_anon)
		map_anon(settings.vmas_anon);
	if (settings.vmas)
		map_files(settings.vmas);
	if (settings.warm)
		warm(settings.write_bytes);

	/* The first fork finds the heap as it was populated; later ones find it shared before. */
	if (settings.settled)
		run(1);

	self[0] = usage_of(RUSAGE_SELF);
	children[0] = usage_of(RUSAGE_CHILDREN);
	began = now_ns();
	run(settings.forks);
	ended = now_ns();
	self[1] = usage_of(RUSAGE_SELF);
	children[1] = usage_of(RUSAGE_CHILDREN);
	spinners_stop(&spinners);

	row("loop_ns", ended - began);
	usage_rows("self", &self[0], &self[1]);
	usage_rows("children", &children[0], &children[1]);
	row("populate_faults", (uint64_t)faults);
	PRINT_PHASE("fork_ns", started, returned);
	PRINT_PHASE("child_start_ns", started, child_ran);
	PRINT_PHASE("write_ns", write_began, write_ended);
	PRINT_PHASE("cycle_ns", started, ended);
	row_end();
	return 0;
}
