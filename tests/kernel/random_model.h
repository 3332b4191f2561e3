/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The memory of cow_random's families of processes, and the model that it is checked against. */
#ifndef RANDOM_MODEL_H
#define RANDOM_MODEL_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FAMILIES 2
#define DEPTH 3 /* generations of processes at a time */
/* arm64 has others: built with -DPAGE_BYTES=65536 there. */
#ifndef PAGE_BYTES
#define PAGE_BYTES 4096
#endif
#define PAGES (PAGE_BYTES > 4096 ? 768 : 3072)
#define WORDS (PAGE_BYTES / 8)
#define FILE_PAGES 64

struct page {
	uint64_t generation; /* 0: zeros */
	uint64_t before;     /* by threads: what it was before they wrote */
	uint64_t file;	     /* the generation of the file's page that is mapped; 0: none */
	bool mapped, writable;
	bool freed; /* by MADV_FREE: may be zeros instead */
};

static struct shared {
	volatile bool stop;
	volatile int failed;
	uint64_t generations;
	long operations[16], checked, written, forks;
	struct page models[FAMILIES][DEPTH + 1][PAGES];
} * shared;

static char *memory;
static struct page *model;
static int family, depth;
static uint64_t random_state;

static inline void fail(const char *format, ...)
{
	va_list args;

	if (!__atomic_exchange_n(&shared->failed, 1, __ATOMIC_SEQ_CST)) {
		va_start(args, format);
		fprintf(stderr, "cow_random: family %d, depth %d: ", family, depth);
		vfprintf(stderr, format, args);
		fprintf(stderr, "\n");
		va_end(args);
	}
	shared->stop = true;
	_exit(1);
}

static inline uint64_t below(uint64_t limit)
{
	uint64_t z = (random_state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) % limit;
}

static inline char *address(size_t page)
{
	return memory + page * PAGE_BYTES;
}

static inline uint64_t word_of(uint64_t generation, size_t i)
{
	/* Some equal words in a row, so that compressed swap has something to compress. */
	return generation ? (generation + ((uint64_t)(i / 8) << 48)) * 0x9e3779b97f4a7c15 : 0;
}

/* What page @i of the files holds: a generation that no write has. */
static inline uint64_t file_generation(size_t i)
{
	return (1ULL << 40) + i;
}

static inline void fill(size_t page, uint64_t generation)
{
	volatile uint64_t *words = (volatile uint64_t *)address(page);

	for (size_t i = 0; i < WORDS; i++)
		words[i] = word_of(generation, i);
}

static inline uint64_t new_generation(void)
{
	return __atomic_add_fetch(&shared->generations, 1, __ATOMIC_RELAXED);
}

static inline void write_page(size_t page)
{
	uint64_t generation = new_generation();

	if (!model[page].mapped || !model[page].writable)
		return;
	fill(page, generation);
	model[page].generation = generation;
	model[page].freed = false;
	__atomic_add_fetch(&shared->written, 1, __ATOMIC_RELAXED);
}

static inline bool holds(const uint64_t *words, uint64_t generation)
{
	for (size_t i = 0; i < WORDS; i++)
		if (words[i] != word_of(generation, i))
			return false;
	return true;
}

static inline void check_page(size_t page, const char *who)
{
	const struct page *own = &model[page];
	const uint64_t *words = (const uint64_t *)address(page);

	if (!own->mapped || holds(words, own->generation) || (own->freed && holds(words, 0)))
		return;
	for (size_t i = 0; i < WORDS; i++)
		if (words[i] != word_of(own->generation, i))
			fail("%s: page %zu, byte %zu is 0x%llx instead of 0x%llx", who, page, i * 8,
			     (unsigned long long)words[i],
			     (unsigned long long)word_of(own->generation, i));
}

static inline void check_all(const char *who)
{
	for (size_t page = 0; page < PAGES; page++)
		check_page(page, who);
	__atomic_add_fetch(&shared->checked, PAGES, __ATOMIC_RELAXED);
}

#endif
