// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of what a fork that leaves page tables for later notes of them.
 */
#include <kunit/test.h>

#include <linux/slab.h>

#include "cow_defer.h"

static void cow_defer_test_cut(struct kunit *test)
{
	const unsigned long table = 5 * PUD_SIZE + 7 * PMD_SIZE;
	unsigned long first, last, start, end;

	for (first = 0; first < PTRS_PER_PTE; first++) {
		for (last = first + 1; last <= PTRS_PER_PTE; last++) {
			const unsigned long from = table + first * PAGE_SIZE;
			const unsigned long to = table + last * PAGE_SIZE;

			cow_defer_range(cow_defer_cut(from, to), table, &start, &end);
			if (start != from || end != to)
				KUNIT_FAIL(test, "entries %lu to %lu: %lx to %lx", first, last,
					   start, end);
		}
	}
}

static void cow_defer_test_range_of_whole(struct kunit *test)
{
	unsigned long start, end;

	/* From any address of it. */
	cow_defer_range(NULL, 3 * PMD_SIZE + 5 * PAGE_SIZE, &start, &end);
	KUNIT_EXPECT_EQ(test, start, 3 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, end, 4 * PMD_SIZE);
}

static void cow_defer_test_addr(struct kunit *test)
{
	unsigned long addr;

	for (addr = 0; addr < 3 * PUD_SIZE; addr += PMD_SIZE)
		KUNIT_EXPECT_EQ(test, cow_defer_addr(addr >> PUD_SHIFT, pmd_index(addr)), addr);
}

static void cow_defer_test_blocks(struct kunit *test)
{
	struct cow_defer *defer = kunit_kzalloc(test, sizeof(*defer), GFP_KERNEL);
	pmd_t *parent = kunit_kcalloc(test, PTRS_PER_PMD, sizeof(pmd_t), GFP_KERNEL);
	pmd_t *child = kunit_kcalloc(test, PTRS_PER_PMD, sizeof(pmd_t), GFP_KERNEL);
	struct cow_defer_block *first, *second;

	KUNIT_ASSERT_NOT_NULL(test, defer);
	KUNIT_ASSERT_NOT_NULL(test, parent);
	KUNIT_ASSERT_NOT_NULL(test, child);
	xa_init(&defer->blocks);
	first = cow_defer_block(defer, PUD_SIZE + 3 * PMD_SIZE, child + 3, parent + 3);
	KUNIT_ASSERT_NOT_NULL(test, first);
	KUNIT_EXPECT_PTR_EQ(test, first->parent, parent);
	KUNIT_EXPECT_PTR_EQ(test, first->child, child);
	KUNIT_EXPECT_TRUE(test, bitmap_empty(first->pending, PTRS_PER_PMD));
	/* One of each table of the level above, in whatever order fork comes to them. */
	second = cow_defer_block(defer, 2 * PUD_SIZE, child, parent);
	KUNIT_EXPECT_PTR_NE(test, second, first);
	KUNIT_EXPECT_PTR_EQ(test, first, cow_defer_block(defer, PUD_SIZE + 9 * PMD_SIZE,
							 child + 9, parent + 9));
	KUNIT_EXPECT_PTR_EQ(test, second, cow_defer_block(defer, 3 * PUD_SIZE - PMD_SIZE,
							  child + PTRS_PER_PMD - 1,
							  parent + PTRS_PER_PMD - 1));
	xa_destroy(&defer->blocks);
	kfree(first);
	kfree(second);
}

static void cow_defer_test_mark(struct kunit *test)
{
	pmd_t *pmd = kunit_kzalloc(test, sizeof(*pmd), GFP_KERNEL);
	pmd_t before;

	KUNIT_ASSERT_NOT_NULL(test, pmd);
	set_pmd(pmd, __pmd(_PAGE_TABLE));
	before = *pmd;
	pmd_set_deferred(pmd);
	KUNIT_EXPECT_TRUE(test, pmd_deferred(*pmd));
	KUNIT_EXPECT_FALSE(test, pmd_write(*pmd));
	/* It is still a page table, and not a bad one. */
	KUNIT_EXPECT_TRUE(test, pmd_present(*pmd));
	KUNIT_EXPECT_FALSE(test, pmd_bad(*pmd));
	KUNIT_EXPECT_FALSE(test, pmd_leaf(*pmd));
	pmd_clear_deferred(pmd);
	KUNIT_EXPECT_FALSE(test, pmd_deferred(*pmd));
	KUNIT_EXPECT_EQ(test, pmd_val(*pmd), pmd_val(before));
}

static struct kunit_case cow_defer_test_cases[] = {
	KUNIT_CASE(cow_defer_test_cut),
	KUNIT_CASE(cow_defer_test_range_of_whole),
	KUNIT_CASE(cow_defer_test_addr),
	KUNIT_CASE(cow_defer_test_blocks),
	KUNIT_CASE(cow_defer_test_mark),
	{}
};

static struct kunit_suite cow_defer_test_suite = {
	.name = "cow_defer",
	.test_cases = cow_defer_test_cases,
};
kunit_test_suite(cow_defer_test_suite);
