// SPDX-License-Identifier: GPL-2.0-only
/*
 * Isolation of processes while copy-on-write faults copy neighbours as well: cases times states of
 * pages times policies. Each combination runs in a process of its own; whoever wrote a page must
 * see exactly that, and everybody else exactly what was there before.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <pthread.h>

#include "../kselftest.h"
#include "cow_precopy.h"

#define MODE_FILE	"/proc/sys/vm/cow_precopy"
#define PAGES_FILE	"/proc/sys/vm/cow_precopy_pages"
#define ORDER_FILE	"/proc/sys/vm/cow_precopy_order"
#define COUNT_FILE	"/proc/sys/vm/cow_stats"
#define RAMP_FILE	"/proc/sys/vm/cow_precopy_ramp"

static const struct policy policies[] = {
	{ "off", 0, 1, 0 },
	{ "next:1", 1, 1, 0 },	/* the published one */
	{ "next:16", 1, 16, 0 },
	{ "next:512", 1, 512, 0 },	/* always reaches the end of the mapping or of the page table */
	{ "next:512:4", 1, 512, 4 },	/* and copies into large folios */
};

/* Shared by all processes of a test. */
static struct shared {
	pthread_barrier_t barrier;
	int has_reason;
	int status;
	char reason[400];
	uint64_t stamps;
	struct page_note notes[NR_SLOTS][MAX_PAGES];
} *shared;

size_t page_size;
static const struct policy *policy;
static bool without_policies;
static uint64_t random_state;

/* The others may wait for this process: they go with it. */
static void __attribute__((noreturn)) end(int status, const char *fmt, va_list args)
{
	if (!__atomic_exchange_n(&shared->has_reason, 1, __ATOMIC_SEQ_CST)) {
		vsnprintf(shared->reason, sizeof(shared->reason), fmt, args);
		shared->status = status;
		kill(0, SIGKILL);
	}
	for (;;)
		pause();
}

void skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	end(KSFT_SKIP, fmt, args);
}

void fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	end(KSFT_FAIL, fmt, args);
}

static bool number_write(const char *path, int number)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%d\n", number);
	int fd = open(path, O_WRONLY);
	bool done = fd >= 0 && write(fd, text, length) == length;

	if (fd >= 0)
		close(fd);
	return done;
}

static int number_read(const char *path)
{
	char text[16] = "";
	int fd = open(path, O_RDONLY);

	if (fd >= 0) {
		if (read(fd, text, sizeof(text) - 1) < 0)
			text[0] = 0;
		close(fd);
	}
	return atoi(text);
}

bool has_precopy(void)
{
	return access(MODE_FILE, F_OK) == 0;
}

static void policy_set(int mode, int pages, int order)
{
	if (without_policies)
		return;
	if (!number_write(PAGES_FILE, pages) || !number_write(ORDER_FILE, order) ||
	    !number_write(MODE_FILE, mode))
		fail("could not set mode %d, pages %d, order %d: %s", mode, pages, order,
		     strerror(errno));
}

void policy_on(void)
{
	policy_set(policy->mode, policy->pages, policy->order);
}

void policy_off(void)
{
	policy_set(0, 1, 0);
}

uint64_t random_below(uint64_t limit)
{
	/* splitmix64: the same in each run, so that a failure comes back. */
	uint64_t z = (random_state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) % limit;
}

long long figure(const char *path, const char *key)
{
	/* Neither stdio nor malloc: reading must not fault by itself. */
	static char text[4096];
	int fd = open(path, O_RDONLY);
	const char *at;
	ssize_t length;

	if (fd < 0)
		return -1;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[length < 0 ? 0 : length] = 0;
	for (at = text; (at = strstr(at, key)); at++)
		if ((at == text || at[-1] == '\n' || at[-1] == ' ') && at[strlen(key)] == ':')
			return atoll(at + strlen(key) + 1);
	return -1;
}

/* Room for the area in the middle of nothing, across the end of a page table. */
void area_map(struct area *a, size_t pages)
{
	size_t table = page_size / sizeof(void *) * page_size;
	size_t room = 4 * table;
	char *reserved = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t boundary;

	if (reserved == MAP_FAILED || pages > MAX_PAGES)
		fail("no room for %zu pages", pages);
	boundary = ((uintptr_t)reserved + 2 * table) & ~(table - 1);
	a->pages = pages;
	a->mem = (char *)boundary - pages / 2 * page_size;
	a->notes = shared->notes[0];
	if (mmap(a->mem, pages * page_size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != a->mem)
		fail("mmap: %s", strerror(errno));
	/* A state of small pages stays one where huge pages are on for all. */
	madvise(a->mem, pages * page_size, MADV_NOHUGEPAGE);
}

uint64_t new_stamp(const struct area *a)
{
	return __atomic_add_fetch(&shared->stamps, 1, __ATOMIC_RELAXED) << 8 | (a->slot + 1);
}

static size_t poked_word(size_t page)
{
	return FIRST_LANE + NR_LANES + page * 37 % (page_size / 8 - FIRST_LANE - NR_LANES);
}

void page_expect(const struct area *a, size_t page, void *to)
{
	const struct page_note *note = &a->notes[page];
	uint64_t *words = to, first = note->base;
	size_t i;

	if (!(first & SAME_FOR_ALL))
		first += page << 40;
	for (i = 0; i < page_size / 8; i++)
		words[i] = note->base ? (first + i) * PATTERN : 0;
	if (note->poke)
		words[poked_word(page)] = note->poke;
}

/* Note that the area holds the pattern of @base, without writing it. */
void area_note(struct area *a, uint64_t base)
{
	size_t page;

	for (page = 0; page < a->pages; page++)
		a->notes[page] = (struct page_note){ .base = base };
}

void area_fill(struct area *a)
{
	size_t page;

	for (page = 0; page < a->pages; page++)
		page_expect(a, page, a->mem + page * page_size);
}

bool page_writable(const struct area *a, size_t page)
{
	return !a->unwritable_step || page / a->unwritable_step % 2 == 0;
}

/* Write the whole page or, as often, one word of it: then the rest must have been copied. */
void page_write(struct area *a, size_t page)
{
	struct page_note *note = &a->notes[page];
	bool whole = note->may_be_zero;
	uint64_t stamp = new_stamp(a);
	char *to = a->mem + page * page_size;

	if (!page_writable(a, page))
		return;
	if (note->fate == UNTOUCHED)
		note->fate = WRITTEN;
	note->may_be_zero = false;
	/* Of a page that may be gone, nobody knows what is left. */
	if (whole || stamp >> 8 & 1) {
		note->base = stamp;
		note->poke = 0;
		page_expect(a, page, to);
	} else {
		note->poke = stamp;
		((volatile uint64_t *)to)[poked_word(page)] = stamp;
	}
}

void page_discarded(struct area *a, size_t page)
{
	a->notes[page] = (struct page_note){ .base = a->discarded, .fate = LOST };
}

/* MADV_FREE: the kernel may take it, until it is written again. */
void page_freed(struct area *a, size_t page)
{
	a->notes[page].fate = LOST;
	a->notes[page].may_be_zero = true;
}

uint64_t *lane(const struct area *a, size_t page, int nr)
{
	return (uint64_t *)(a->mem + page * page_size) + FIRST_LANE + nr;
}

static bool is_zero(const uint64_t *words)
{
	size_t i;

	for (i = 0; i < page_size / 8; i++)
		if (words[i])
			return false;
	return true;
}

void check(const struct area *a, const char *when)
{
	uint64_t expected[page_size / 8];
	const uint64_t *seen;
	size_t page, i;

	for (page = 0; page < a->pages; page++) {
		seen = (const uint64_t *)(a->mem + page * page_size);
		if (a->notes[page].may_be_zero && is_zero(seen))
			continue;
		page_expect(a, page, expected);
		if (a->lanes)
			memcpy(expected + FIRST_LANE, seen + FIRST_LANE, 8 * NR_LANES);
		if (!memcmp(seen, expected, page_size))
			continue;
		for (i = 0; seen[i] == expected[i]; i++)
			;
		fail("%s: process %d, page %zu of %zu, byte %zu: 0x%llx instead of 0x%llx%s", when,
		     a->slot, page, a->pages, i * 8, (unsigned long long)seen[i],
		     (unsigned long long)expected[i], is_zero(seen) ? " (all zeros)" : "");
	}
}

int spawn(struct area *a, int slot, void (*fn)(struct area *a, int arg), int arg)
{
	int parent = getpid(), pid;

	if (slot >= NR_SLOTS)
		fail("too many processes");
	/* Before the fork: afterwards its parent may write already. */
	memcpy(shared->notes[slot], a->notes, sizeof(shared->notes[slot]));
	pid = fork();
	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(KSFT_FAIL);
	alarm(TIMEOUT_S);
	a->notes = shared->notes[slot];
	a->slot = slot;
	random_state += slot;
	fn(a, arg);
	_exit(KSFT_PASS);
}

void collect(int pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid: %s", strerror(errno));
	if (WIFSIGNALED(status))
		fail("a child was killed by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status))
		fail("a child exited with %d", WEXITSTATUS(status));
}

void barrier_for(unsigned int processes)
{
	pthread_barrierattr_t attr;

	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->barrier, &attr, processes);
}

void meet(void)
{
	pthread_barrier_wait(&shared->barrier);
}

static void run_combination(const struct state *state, const struct test_case *test_case)
{
	struct area a = { 0 };

	state->prepare(&a);
	policy_on();
	test_case->run(&a);
	policy_off();
	check(&a, "at the end");
	if (state->verify)
		state->verify(&a);
}

/* One test: in a process of its own, so that it may crash and its figures begin at 0. */
static void run(const char *name, const struct state *state, const struct test_case *test_case,
		const struct special *special)
{
	int status, pid;

	shared->has_reason = 0;
	shared->status = KSFT_PASS;
	memset(shared->notes[0], 0, sizeof(shared->notes[0]));
	shared->reason[0] = 0;
	shared->stamps = 0;
	random_state = 1;
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		ksft_exit_fail_perror("fork");
	if (!pid) {
		/* What it leaves behind when it fails goes with it. */
		setpgid(0, 0);
		alarm(TIMEOUT_S);
		if (special)
			special->run(policy);
		else
			run_combination(state, test_case);
		_exit(KSFT_PASS);
	}
	if (waitpid(pid, &status, 0) != pid)
		ksft_exit_fail_perror("waitpid");
	kill(-pid, SIGKILL);
	policy_off();
	if (state && state->restore)
		state->restore();
	if (!shared->has_reason && WIFSIGNALED(status)) {
		shared->status = KSFT_FAIL;
		snprintf(shared->reason, sizeof(shared->reason), "killed by signal %d%s",
			 WTERMSIG(status), WTERMSIG(status) == SIGALRM ? " (time limit)" : "");
	}
	ksft_test_result_code(shared->status, name, shared->reason[0] ? "%s" : NULL, shared->reason);
}

static bool wanted(const char *name, const char *only)
{
	return !only || strcmp(name, only) == 0;
}

/* The combinations that were asked for: counted first, then run. */
static unsigned int all(const char *only_state, const char *only_case, const char *only_policy,
			bool dry)
{
	size_t p, s, c, nr_policies = without_policies ? 1 : ARRAY_SIZE(policies);
	unsigned int count = 0;
	char name[200];

	for (p = 0; p < nr_policies; p++) {
		policy = &policies[p];
		if (!wanted(policy->name, only_policy))
			continue;
		for (s = 0; s < nr_states; s++)
			for (c = 0; c < nr_cases; c++) {
				if (states[s].refuses & cases[c].does ||
				    !wanted(states[s].name, only_state) ||
				    !wanted(cases[c].name, only_case))
					continue;
				count++;
				snprintf(name, sizeof(name), "%s: %s: %s", policy->name,
					 states[s].name, cases[c].name);
				if (!dry)
					run(name, &states[s], &cases[c], NULL);
			}
		for (c = 0; c < nr_specials; c++) {
			if (only_state || !wanted(specials[c].name, only_case))
				continue;
			count++;
			snprintf(name, sizeof(name), "%s: %s", policy->name, specials[c].name);
			if (!dry)
				run(name, NULL, NULL, &specials[c]);
		}
	}
	return count;
}

static void list(void)
{
	size_t i;

	for (i = 0; i < nr_states; i++)
		printf("state\t%s\t%s\n", states[i].name, states[i].why);
	for (i = 0; i < nr_cases; i++)
		printf("case\t%s\t%s\n", cases[i].name, cases[i].why);
	for (i = 0; i < nr_specials; i++)
		printf("case\t%s\t%s\n", specials[i].name, specials[i].why);
}

int main(int argc, char **argv)
{
	const char *only_state = NULL, *only_case = NULL, *only_policy = NULL;
	int mode, pages, order, ramp, counted;
	unsigned int count;
	int opt;

	while ((opt = getopt(argc, argv, "s:c:p:nl")) != -1) {
		switch (opt) {
		case 's':
			only_state = optarg;
			break;
		case 'c':
			only_case = optarg;
			break;
		case 'p':
			only_policy = optarg;
			break;
		case 'n':
			without_policies = true;
			break;
		case 'l':
			list();
			return 0;
		default:
			fprintf(stderr, "usage: %s [-l] [-n] [-s STATE] [-c CASE] [-p POLICY]\n"
				"-l: the states and cases, and why; -n: set no policy\n", argv[0]);
			return KSFT_FAIL;
		}
	}

	ksft_print_header();
	page_size = sysconf(_SC_PAGESIZE);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (shared == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	if (!without_policies && !has_precopy())
		ksft_exit_skip("this kernel has no " MODE_FILE " (CONFIG_COW_PRECOPY)\n");
	if (!without_policies && access(MODE_FILE, W_OK))
		ksft_exit_skip("setting a policy needs root\n");
	count = all(only_state, only_case, only_policy, true);
	if (!count)
		ksft_exit_fail_msg("no such combination: see -l\n");
	ksft_set_plan(count);
	mode = number_read(MODE_FILE);
	pages = number_read(PAGES_FILE);
	order = number_read(ORDER_FILE);
	ramp = number_read(RAMP_FILE);
	counted = number_read(COUNT_FILE);
	/* The first batch takes all the neighbours that it may, or there is little to test. */
	if (!without_policies && !number_write(RAMP_FILE, 0))
		ksft_exit_fail_perror(RAMP_FILE);
	if (!without_policies && !number_write(COUNT_FILE, 1))
		ksft_exit_fail_perror(COUNT_FILE);
	all(only_state, only_case, only_policy, false);
	policy_set(mode, pages, order);
	if (!without_policies && !number_write(RAMP_FILE, ramp))
		ksft_exit_fail_perror(RAMP_FILE);
	if (!without_policies && !number_write(COUNT_FILE, counted))
		ksft_exit_fail_perror(COUNT_FILE);
	ksft_finished();
}
