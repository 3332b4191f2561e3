/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of copying ahead of copy-on-write faults share.
 *
 * Each process of a test keeps notes of what every page of the area must hold, from what it wrote
 * itself. The notes are in shared memory: what is under test cannot damage them.
 */
#ifndef _COW_PRECOPY_H
#define _COW_PRECOPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NR_SLOTS	24
#define MAX_PAGES	2048
#define NR_LANES	4
#define FIRST_LANE	8
#define TIMEOUT_S	300

enum fate { UNTOUCHED, WRITTEN, LOST };

#define SAME_FOR_ALL	(1ull << 63)	/* a base whose pattern is the same in each page */
/* Word i of a page is (base + page + i) times an odd number, so a base can be found again. */
#define PATTERN		0x9e3779b97f4a7c15ull
#define PATTERN_INVERSE	0xf1de83e19937733dull

/* What a page must hold: a pattern made from @base (0: zeros), and one word from @poke (0: none). */
struct page_note {
	uint64_t base;
	uint64_t poke;
	uint8_t fate;	/* of this process's page since the state was prepared */
	bool may_be_zero; /* MADV_FREE: the kernel may have taken it */
};

struct area {
	char *mem;
	size_t pages;
	int slot;		/* the process; 0 is the first */
	struct page_note *notes; /* of this process, one a page */
	uint64_t discarded;	/* the base of a page after MADV_DONTNEED */
	bool lanes;		/* words that threads write are not looked at by check() */
	bool torn_fork;		/* fork copies pages while other threads write to them */
	size_t unwritable_step;	/* page p may not be written if p % 2 * step is odd */
};

struct policy {
	const char *name;
	int mode;
	int pages;
	int order;
};

/* What a case does to the area; a state refuses what it does not survive. */
#define DOES_DISCARD	1	/* MADV_DONTNEED */
#define DOES_FREE	2	/* MADV_FREE */
#define DOES_PAGEOUT	4
#define DOES_REMAP	8
#define DOES_MPROTECT	16
#define DOES_THREADS	32

struct state {
	const char *name;
	const char *why;
	unsigned int refuses;
	void (*prepare)(struct area *a);
	void (*verify)(struct area *a);	/* in the first process, after the case */
	void (*restore)(void);		/* of settings, by the parent, also after a crash */
};

struct test_case {
	const char *name;
	const char *why;
	unsigned int does;
	void (*run)(struct area *a);
};

struct special {
	const char *name;
	const char *why;
	void (*run)(const struct policy *policy);
};

extern const struct state states[];
extern const size_t nr_states;
extern const struct test_case cases[];
extern const size_t nr_cases;
extern const struct special specials[];
extern const size_t nr_specials;
extern size_t page_size;

/* The end of a test, from any of its processes: the first reason given is the one shown. */
void skip(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));
void fail(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Switched on by the runner for the case alone; cases may switch it off meanwhile. */
void policy_on(void);
void policy_off(void);
bool has_precopy(void);

/* The area and its notes. */
void area_map(struct area *a, size_t pages);
void area_fill(struct area *a);
void area_note(struct area *a, uint64_t base);
bool page_writable(const struct area *a, size_t page);
void page_write(struct area *a, size_t page);
void page_freed(struct area *a, size_t page);
void page_discarded(struct area *a, size_t page);
void page_expect(const struct area *a, size_t page, void *to);
uint64_t new_stamp(const struct area *a);
uint64_t *lane(const struct area *a, size_t page, int nr);
void check(const struct area *a, const char *when);
uint64_t random_below(uint64_t limit);

/* Processes: a child has its own notes, copied from its parent's. */
int spawn(struct area *a, int slot, void (*fn)(struct area *a, int arg), int arg);
void collect(int pid);
void barrier_for(unsigned int processes);
void meet(void);

/* A figure of a file of "key: value" lines; -1 if there is none. */
long long figure(const char *path, const char *key);

#endif
