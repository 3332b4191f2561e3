// SPDX-License-Identifier: GPL-2.0-only
/*
 * around: which evidence should copy-on-write around ask for before it copies a block? Counts,
 * without any kernel, of rules that look at nothing but the page table.
 *
 * PAGES pages are shared by fork. Writes come in order; in a random order that writes each page
 * once; to a block in order and then to the first page of each; or to blocks of 1 KiB scattered
 * over the pages that are chosen by Zipf's law: so many that the share of the pages in the column
 * "written" has been written in the end. The rules:
 *
 * - next:N: copy the N pages that follow as well, whatever there is
 * - count:K: copy the rest of the aligned block if at least K pages of it are private
 * - run:R: copy the rest of the block if the R pages directly before, or after, are private
 * - edge:R: copy the block if the page is its first (last) one, the R pages before (after) it are
 *   written, and none of the block is private: what the kernel's series does, with R = 3
 *
 * Prints for each of the writes and each rule, with blocks of 2^ORDER pages: faults for each page
 * written, and which share of all copies was made in vain.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGES 16384
#define BLOCKS (4 * PAGES)
#define MOST_WRITES (16 * PAGES)

static uint64_t state = 1988;
static uint32_t writes[MOST_WRITES], place[BLOCKS];
static double sums[BLOCKS];
static bool written[PAGES], private[PAGES], dirty[PAGES];

enum rule { NEXT, COUNT, RUN, EDGE };
static const char *const names[] = { "next", "count", "run", "edge" };

static uint64_t random_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static void shuffle(uint32_t *numbers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		numbers[i] = i;
	for (size_t i = n - 1; i > 0; i--) {
		size_t j = random_number() % (i + 1);
		uint32_t swapped = numbers[i];

		numbers[i] = numbers[j];
		numbers[j] = swapped;
	}
}

static void write_zipf(double alpha, size_t n)
{
	double sum = 0;

	shuffle(place, BLOCKS);
	for (size_t i = 0; i < BLOCKS; i++)
		sums[i] = sum += pow(i + 1, -alpha);
	for (size_t i = 0; i < n; i++) {
		double wanted = (random_number() >> 11) * 0x1p-53 * sum;
		size_t low = 0, high = BLOCKS - 1;

		while (low < high) {
			size_t middle = (low + high) / 2;

			if (sums[middle] < wanted)
				low = middle + 1;
			else
				high = middle;
		}
		writes[i] = place[low] / 4;
	}
}

/* The pages from @low up to @high that a write to @page has copied. */
static void reach(enum rule rule, long k, long block, long page, long *low, long *high)
{
	long first = page & -block, above = 0, below = 0, within = 0;
	const bool *seen = rule == EDGE ? dirty : private;

	*low = *high = page;
	if (rule == NEXT) {
		*high = page + k;
		return;
	}
	while (below < k && page - below > 0 && seen[page - below - 1])
		below++;
	while (above < k && page + above + 1 < PAGES && seen[page + above + 1])
		above++;
	for (long p = first; p < first + block; p++)
		within += private[p];
	if (rule == EDGE &&
	    (within || (page == first ? below < k : page < first + block - 1 || above < k)))
		return;
	if (rule == COUNT ? within >= k : below >= k || above >= k) {
		*low = first;
		*high = first + block - 1;
	}
}

static void apply(enum rule rule, long k, unsigned int order, size_t n, long pages)
{
	long faults = 0, copies = 0, vain = 0, low, high;

	memset(private, 0, sizeof(private));
	memset(dirty, 0, sizeof(dirty));
	for (size_t i = 0; i < n; i++) {
		dirty[writes[i]] = true;
		if (private[writes[i]])
			continue;
		faults++;
		reach(rule, k, 1l << order, writes[i], &low, &high);
		for (long p = low; p <= high && p < PAGES; p++) {
			copies += !private[p];
			vain += !private[p] && !written[p];
			private[p] = true;
		}
	}
	printf(" %.3f %4.1f%% |", (double)faults / pages, 100.0 * vain / copies);
}

static const struct {
	enum rule rule;
	long k;
} all[] = { { NEXT, 1 }, { COUNT, 2 }, { COUNT, 4 }, { COUNT, 8 }, { RUN, 1 },	{ RUN, 2 },
	    { RUN, 3 },	 { RUN, 4 },   { EDGE, 1 },  { EDGE, 2 },  { EDGE, 3 }, { EDGE, 4 } };
#define RULES (sizeof(all) / sizeof(*all))

static void rules(const char *what, size_t n)
{
	long pages = 0;

	memset(written, 0, sizeof(written));
	for (size_t i = 0; i < n; i++)
		written[writes[i]] = true;
	for (long p = 0; p < PAGES; p++)
		pages += written[p];
	for (unsigned int order = 2; order <= 6; order += 2) {
		printf("| %s | %.0f%% | %u |", what, 100.0 * pages / PAGES, order);
		for (size_t i = 0; i < RULES; i++) {
			if (all[i].rule == COUNT && all[i].k >= 1l << order)
				printf(" |");
			else
				apply(all[i].rule, all[i].k, order, n, pages);
		}
		puts("");
	}
}

int main(void)
{
	size_t strided;

	static const double alphas[] = { 0, 0.9, 1.0, 1.1, 1.3 };

	printf("| writes | written | order |");
	for (size_t i = 0; i < RULES; i++)
		printf(" %s:%ld |", names[all[i].rule], all[i].k);
	puts("");
	for (size_t i = 0; i < PAGES; i++)
		writes[i] = i;
	rules("in order", PAGES);
	shuffle(writes, PAGES);
	rules("each once, random", PAGES);
	strided = 0;
	for (size_t i = 0; i < PAGES; i++)
		if (i < 16 || i % 16 == 0)
			writes[strided++] = i;
	rules("one of 16", strided);
	for (size_t i = 0; i < sizeof(alphas) / sizeof(*alphas); i++)
		for (size_t n = PAGES; n <= MOST_WRITES; n *= 4) {
			char what[32];

			snprintf(what, sizeof(what), "α %.1f", alphas[i]);
			write_zipf(alphas[i], n);
			rules(what, n);
		}
	return 0;
}
