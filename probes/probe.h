/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What every probe shares: the clock, memory that is ready before the clock
 * starts, threads that keep other CPUs in this address space, and the rows
 * that crates/bench decodes.
 *
 * A probe never computes a statistic. It stores raw figures in memory that it
 * touched beforehand and prints them when the measurement is over.
 */
#ifndef COWLAB_PROBE_H
#define COWLAB_PROBE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <getopt.h>
#include <glob.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Exit status of a probe that was called wrongly; 1 is a failed measurement. */
#define EXIT_USAGE 2

/* Huge page alignment that suits every page size up to the PMD's. */
#define HUGE_ALIGN ((size_t)2 << 20)

static const char *probe_name = "probe";

__attribute__((noreturn, format(printf, 2, 3))) static inline void fail(int status,
									const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "%s: ", probe_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

/* CLOCK_MONOTONIC in ns; read in user space where the vDSO has the counter. */
static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t timeval_ns(struct timeval t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

static inline size_t base_page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static inline size_t round_up(size_t value, size_t step)
{
	return (value + step - 1) / step * step;
}

/*
 * As much memory as leaves nothing else in any cache when it is read: twice the
 * largest one of this machine, by Linux, since the C library's figure may be
 * that of a whole socket. 64 MiB where there is none, and 256 MiB at most.
 */
static inline size_t beyond_caches_bytes(void)
{
	size_t largest_kib = 0, kib;
	glob_t found;

	if (!glob("/sys/devices/system/cpu/cpu0/cache/index*/size", 0, NULL, &found)) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			FILE *file = fopen(found.gl_pathv[i], "re");

			if (!file)
				continue;
			if (fscanf(file, "%zuK", &kib) == 1 && kib > largest_kib)
				largest_kib = kib;
			fclose(file);
		}
		globfree(&found);
	}
	if (!largest_kib)
		largest_kib = 32 << 10;
	if (largest_kib > 128 << 10)
		largest_kib = 128 << 10;
	return 2 * (largest_kib << 10);
}

/* ---- arguments ---- */

static inline uint64_t parse_u64(const char *what, const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-')
		fail(EXIT_USAGE, "%s must be a whole number, not '%s'", what, text);
	return value;
}

static inline double parse_fraction(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= 0.0 && value <= 1.0))
		fail(EXIT_USAGE, "the write fraction must be in 0..1, not '%s'", text);
	return value;
}

static inline bool parse_bool(const char *what, const char *text)
{
	if (strcmp(text, "true") && strcmp(text, "false"))
		fail(EXIT_USAGE, "%s must be true or false, not '%s'", what, text);
	return *text == 't';
}

/* The index of text in the NULL-terminated names. */
static inline int parse_choice(const char *what, const char *text, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(text, names[i]))
			return i;
	fail(EXIT_USAGE, "unknown %s '%s'", what, text);
}

/* An option, and where its value goes: one of the pointers is given. */
struct parameter {
	const char *name;
	uint64_t *number;
	int *count;
	bool *truth;	      /* --name=true or --name=false */
	bool *flag;	      /* --name */
	unsigned int *choice; /* the index in the NULL-terminated names */
	const char *const *names;
	char **text;
	void (*parse)(const char *text); /* whatever is none of these */
};

#define PARAMETERS_MAX 31

static inline void take_parameter(const struct parameter *p, char *text)
{
	char what[64];

	snprintf(what, sizeof(what), "--%s", p->name);
	if (p->flag)
		*p->flag = true;
	else if (p->number)
		*p->number = parse_u64(what, text);
	else if (p->count)
		*p->count = (int)parse_u64(what, text);
	else if (p->truth)
		*p->truth = parse_bool(what, text);
	else if (p->choice)
		*p->choice = (unsigned int)parse_choice(p->name, text, p->names);
	else if (p->text)
		*p->text = text;
	else
		p->parse(text);
}

/* Take the options of a table whose last row has no name; optind is what follows them. */
static inline void parse_options(int argc, char **argv, const struct parameter *parameters)
{
	enum { FIRST = 256 }; /* getopt's own '?' is below */
	struct option options[PARAMETERS_MAX + 1] = { 0 };
	int option;

	for (int i = 0; i < PARAMETERS_MAX && parameters[i].name; i++)
		options[i] = (struct option){
			.name = parameters[i].name,
			.has_arg = parameters[i].flag ? no_argument : required_argument,
			.val = FIRST + i,
		};
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option < FIRST)
			exit(EXIT_USAGE);
		take_parameter(&parameters[option - FIRST], optarg);
	}
}

/* xorshift64*: Vigna 2016; what is chosen must only be the same for the same seed. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

/* A number below bound, as likely as any other but for 1 in 2^64 / bound. */
static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)next_random(state) * bound) >> 64);
}

/*
 * Spin until the time since began is SLOWDOWN_PERCENT longer. Only in builds
 * that test whether a slowdown would be found (make test-slowdown).
 */
static inline void slow_down(uint64_t began)
{
#ifdef SLOWDOWN_PERCENT
	uint64_t until = now_ns();

	until += (until - began) * SLOWDOWN_PERCENT / 100;
	while (now_ns() < until)
		;
#else
	(void)began;
#endif
}

/* ---- memory ---- */

/*
 * Whether the system gives huge pages, of any size, to memory that did not ask
 * for them. Memory that forbids them cannot be copied into larger pages either
 * (a policy of the patched kernel), so only where it must.
 */
static inline bool huge_pages_unasked(void)
{
	char text[64];
	bool always = false;
	glob_t files;

	if (glob("/sys/kernel/mm/transparent_hugepage/{,hugepages-*/}enabled", GLOB_BRACE, NULL,
		 &files))
		return true;
	for (size_t i = 0; i < files.gl_pathc && !always; i++) {
		FILE *file = fopen(files.gl_pathv[i], "r");

		always = !file || !fgets(text, sizeof(text), file) || strstr(text, "[always]");
		if (file)
			fclose(file);
	}
	globfree(&files);
	return always;
}

/*
 * Private anonymous memory, aligned for huge pages and untouched. page_bytes
 * says which page size the kernel may use: the base page keeps larger ones out,
 * any other size asks for them (the system's settings choose which).
 */
static inline char *map_private(size_t bytes, size_t page_bytes)
{
	size_t length = round_up(bytes ? bytes : 1, HUGE_ALIGN);
	char *raw = mmap(NULL, length + HUGE_ALIGN, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *start;
	int advice = page_bytes == base_page_bytes() ? MADV_NOHUGEPAGE : MADV_HUGEPAGE;

	if (raw == MAP_FAILED)
		fail(1, "cannot map %zu bytes: %s", length, strerror(errno));
	start = (char *)round_up((size_t)raw, HUGE_ALIGN);
	if (start > raw)
		munmap(raw, (size_t)(start - raw));
	munmap(start + length, (size_t)(raw + HUGE_ALIGN - start));
	if (advice == MADV_NOHUGEPAGE && !huge_pages_unasked())
		return start;
	/* EINVAL: a kernel without huge pages, which has nothing to forbid. */
	if (madvise(start, length, advice) && advice == MADV_HUGEPAGE)
		fail(1, "this kernel has no transparent huge pages: %s", strerror(errno));
	return start;
}

/*
 * Memory for a probe's records: shared, so that what a child stores is the
 * parent's to print, and touched, so that storing costs the parent no fault.
 * A child still takes one minor fault for each page it uses: fork does not
 * copy the page tables of shared memory.
 */
static inline void *map_records(size_t bytes)
{
	void *records = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (records == MAP_FAILED)
		fail(1, "cannot map %zu bytes for records: %s", bytes, strerror(errno));
	return records;
}

/* Write one byte in each page of [start, start + bytes). */
static inline void write_pages(char *start, size_t bytes, size_t page_bytes)
{
	for (volatile char *p = start; p < start + bytes; p += page_bytes)
		*p = 1;
}

/*
 * Take bytes from the free memory, touch them and give them back, so that the
 * timed section does not pay for pages that a hypervisor has taken away. By
 * base pages, which come from the same free blocks as the copies will.
 */
static inline void warm(size_t bytes)
{
	char *p;

	if (!bytes)
		return;
	p = map_private(bytes, base_page_bytes());
	write_pages(p, bytes, base_page_bytes());
	munmap(p, round_up(bytes, HUGE_ALIGN));
}

/* ---- processes, CPUs and threads ---- */

/* Why a fork or a thread failed, with what to do about it. */
static inline const char *fork_error(void)
{
	if (errno == EAGAIN)
		return "the limit on processes is reached (ulimit -u, or pids.max of a control "
		       "group)";
	if (errno == ENOMEM)
		return "no memory for another process (see vm.overcommit_memory)";
	return strerror(errno);
}

/* Die with the process that started this one, however it ends. */
static inline void die_with_parent(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static inline struct rusage usage_of(int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	return usage;
}

/* Bind the calling thread to the index-th CPU that it is allowed (modulo). */
static inline void pin_to(int index, const cpu_set_t *allowed)
{
	cpu_set_t one;
	int wanted = index % CPU_COUNT(allowed);

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, allowed) || wanted-- > 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

#define SPINNER_STACK_BYTES 16384
#define SPINNERS_MAX 64

struct spinners {
	atomic_int stop;
	atomic_int running;
	int count;
	bool pinned;
	cpu_set_t allowed;
	pid_t ids[SPINNERS_MAX];
	char *stacks;
};

static inline int spin(void *argument)
{
	struct spinners *s = argument;
	int index = atomic_fetch_add(&s->running, 1);

	/* CPU 0 of the allowed ones is the measured thread's. */
	if (s->pinned)
		pin_to(index + 1, &s->allowed);
	while (!atomic_load_explicit(&s->stop, memory_order_relaxed))
		;
	syscall(SYS_exit, 0);
	return 0;
}

/*
 * Start count threads that only run, so that other CPUs hold this address
 * space and every flush of its entries must reach them. Made by clone(2)
 * without the C library's threads: it may be called in a forked child, where
 * only async-signal-safe calls are allowed, and it leaves no locks behind.
 * The threads share the caller's thread-local storage and must not touch it.
 */
static inline void spinners_start(struct spinners *s, int count, bool pinned,
				  const cpu_set_t *allowed)
{
	if (count > SPINNERS_MAX)
		fail(EXIT_USAGE, "at most %d threads", SPINNERS_MAX);
	memset(s, 0, sizeof(*s));
	s->count = count;
	s->pinned = pinned;
	if (!count)
		return;
	s->allowed = *allowed;
	s->stacks = mmap(NULL, (size_t)count * SPINNER_STACK_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (s->stacks == MAP_FAILED)
		fail(1, "cannot map the stacks of %d threads: %s", count, strerror(errno));
	for (int i = 0; i < count; i++) {
		s->ids[i] = clone(spin, s->stacks + (size_t)(i + 1) * SPINNER_STACK_BYTES,
				  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
					  CLONE_SYSVSEM,
				  s);
		if (s->ids[i] < 0)
			fail(1, "cannot start thread %d: %s", i + 1, fork_error());
	}
	while (atomic_load(&s->running) < count)
		sched_yield();
}

static inline void spinners_stop(struct spinners *s)
{
	if (!s->count)
		return;
	atomic_store(&s->stop, 1);
	for (int i = 0; i < s->count; i++)
		while (!syscall(SYS_tgkill, getpid(), s->ids[i], 0))
			sched_yield();
	munmap(s->stacks, (size_t)s->count * SPINNER_STACK_BYTES);
	s->count = 0;
}

/* ---- rows ---- */

/*
 * One JSON object a line: {"metric":"fork_ns","child":0,"values":[...]}.
 * The metric's last word is its unit. child counts from 1; 0 is the program.
 */
static inline void row_of_child(int child, const char *metric, const uint64_t *values, size_t count)
{
	printf("{\"metric\":\"%s\",\"child\":%d,\"values\":[", metric, child);
	for (size_t i = 0; i < count; i++)
		printf(i ? ",%llu" : "%llu", (unsigned long long)values[i]);
	printf("]}\n");
}

static inline void row(const char *metric, uint64_t value)
{
	row_of_child(0, metric, &value, 1);
}

/* What the kernel charged between two moments; metric: OF_user_ns and so on. */
static inline void usage_rows(const char *of, const struct rusage *before,
			      const struct rusage *after)
{
	char metric[64];

	snprintf(metric, sizeof(metric), "%s_user_ns", of);
	row(metric, timeval_ns(after->ru_utime) - timeval_ns(before->ru_utime));
	snprintf(metric, sizeof(metric), "%s_sys_ns", of);
	row(metric, timeval_ns(after->ru_stime) - timeval_ns(before->ru_stime));
	snprintf(metric, sizeof(metric), "%s_minor_faults", of);
	row(metric, (uint64_t)(after->ru_minflt - before->ru_minflt));
}

/* What a time-stamp and its store cost: count times, as a timed loop without its work. */
static inline void timer_row(uint64_t *values, size_t count)
{
	uint64_t last = now_ns();

	for (size_t i = 0; i < count; i++) {
		uint64_t now = now_ns();

		values[i] = now - last;
		last = now;
	}
	row_of_child(0, "timer_ns", values, count);
}

/* The last row: a reader that does not see it knows that the output was cut. */
static inline void row_end(void)
{
	printf("{\"metric\":\"end\",\"child\":0,\"values\":[]}\n");
	if (fflush(stdout) || ferror(stdout))
		fail(1, "cannot write the rows: %s", strerror(errno));
}

#endif
