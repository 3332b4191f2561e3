// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the arithmetic of regions (mm/cow_region.h).
 */
#include <kunit/test.h>

#include "cow_region.h"

static union cow_region region_of(unsigned int faults, unsigned int covered, unsigned int pages)
{
	union cow_region region = {};

	region.faults = faults;
	region.covered = covered;
	region.pages = pages;
	return region;
}

static void cow_region_test_word(struct kunit *test)
{
	union cow_region region = {};

	KUNIT_EXPECT_EQ(test, sizeof(region), sizeof(u64));
	/* Each field holds the most that it must. */
	region.faults = COW_REGION_COUNT_MAX;
	region.pages = (COW_REGION_KB_MAX << 10) / PAGE_SIZE;
	region.epoch = U16_MAX;
	region.tried = BIT(cow_region_table((COW_REGION_KB_MAX << 10) - 1,
					    ilog2(COW_REGION_KB_MAX) + 10));
	KUNIT_EXPECT_EQ(test, (u64)region.faults, COW_REGION_COUNT_MAX);
	KUNIT_EXPECT_EQ(test, (u64)region.pages, 2048);
	KUNIT_EXPECT_EQ(test, (u64)region.epoch, U16_MAX);
	KUNIT_EXPECT_EQ(test, (u64)region.tried, BIT(3));
	KUNIT_EXPECT_EQ(test, (u64)region.covered, 0);
	KUNIT_EXPECT_EQ(test, cow_region_sum(COW_REGION_COUNT_MAX, 1), COW_REGION_COUNT_MAX);
}

static void cow_region_test_epoch(struct kunit *test)
{
	union cow_region region = region_of(300, 17, 100);

	region.tried = 1;
	/* The first part of a walk ends the epoch ... */
	region = cow_region_walked(region, 5, 200, 9);
	KUNIT_EXPECT_EQ(test, (u64)region.epoch, 5);
	KUNIT_EXPECT_EQ(test, (u64)region.faults, 0);
	KUNIT_EXPECT_EQ(test, (u64)region.covered, 309);
	KUNIT_EXPECT_EQ(test, (u64)region.pages, 200);
	KUNIT_EXPECT_EQ(test, (u64)region.tried, 0);
	/* ... and another adds to it: faults between them were of the old one. */
	region.faults = 7;
	region = cow_region_walked(region, 5, 312, 0);
	KUNIT_EXPECT_EQ(test, (u64)region.covered, 316);
	KUNIT_EXPECT_EQ(test, (u64)region.pages, 512);
	/* An epoch without faults. */
	region = cow_region_walked(region, 6, 512, 0);
	KUNIT_EXPECT_EQ(test, (u64)region.covered, 0);
	KUNIT_EXPECT_EQ(test, (u64)region.pages, 512);
}

static void cow_region_test_threshold(struct kunit *test)
{
	/* 300 of 512 are 58.6%. */
	KUNIT_EXPECT_EQ(test, cow_region_coverage_pct(region_of(0, 300, 512)), 58);
	KUNIT_EXPECT_TRUE(test, cow_region_reaches(region_of(0, 300, 512), 58));
	KUNIT_EXPECT_FALSE(test, cow_region_reaches(region_of(0, 300, 512), 59));
	/* 80% of 512 are 409.6. */
	KUNIT_EXPECT_FALSE(test, cow_region_reaches(region_of(0, 409, 512), 80));
	KUNIT_EXPECT_TRUE(test, cow_region_reaches(region_of(0, 410, 512), 80));
	KUNIT_EXPECT_FALSE(test, cow_region_reaches(region_of(0, 511, 512), 100));
	KUNIT_EXPECT_TRUE(test, cow_region_reaches(region_of(0, 512, 512), 100));
	KUNIT_EXPECT_FALSE(test, cow_region_reaches(region_of(0, 512, 512), COW_THRESHOLD_NEVER));
	/* What was written and unmapped does not make it more than all. */
	KUNIT_EXPECT_EQ(test, cow_region_coverage_pct(region_of(0, 512, 10)), 100);
	KUNIT_EXPECT_FALSE(test, cow_region_reaches(region_of(0, 512, 10), COW_THRESHOLD_NEVER));
	/* Nothing is known of it. */
	KUNIT_EXPECT_EQ(test, cow_region_coverage_pct(region_of(0, 0, 0)), 0);
	KUNIT_EXPECT_FALSE(test, cow_region_reaches(region_of(512, 0, 0), 1));
	KUNIT_EXPECT_FALSE(test, cow_region_reaches(region_of(0, 0, 512), 1));
}

static void cow_region_test_move(struct kunit *test)
{
	union cow_region old = region_of(10, 301, 512), part, rest;
	unsigned int pages;

	old.epoch = 3;
	/* Nothing is lost or doubled, however it is cut. */
	for (pages = 0; pages <= 512; pages++) {
		part = cow_region_share(old, pages, 512);
		rest = cow_region_less(old, part);
		KUNIT_ASSERT_EQ(test, (u64)part.pages, pages);
		KUNIT_ASSERT_EQ(test, (u64)part.faults + rest.faults, 10);
		KUNIT_ASSERT_EQ(test, (u64)part.covered + rest.covered, 301);
	}
	rest = cow_region_plus((union cow_region){}, old);
	KUNIT_EXPECT_EQ(test, rest.word, old.word);
	rest = cow_region_less(region_of(1, 1, 1), old);
	KUNIT_EXPECT_EQ(test, rest.word, 0);
}

static void cow_region_test_window(struct kunit *test)
{
	const unsigned long region = 64UL << 20;
	unsigned long start, end;

	/* A region, or a piece of one. */
	cow_region_window(region + PAGE_SIZE, 32UL << 10, 0, 2 * region, &start, &end);
	KUNIT_EXPECT_EQ(test, start, region);
	KUNIT_EXPECT_EQ(test, end, region + (32UL << 10));
	/* The mapping's edges cut it. */
	cow_region_window(region + PMD_SIZE / 2, PMD_SIZE, region + PAGE_SIZE,
			  region + PMD_SIZE - PAGE_SIZE, &start, &end);
	KUNIT_EXPECT_EQ(test, start, region + PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, end, region + PMD_SIZE - PAGE_SIZE);
	/* More than a page table: one at a time. */
	KUNIT_EXPECT_EQ(test, cow_region_part(15), 32UL << 10);
	KUNIT_EXPECT_EQ(test, cow_region_part(23), PMD_SIZE);
	cow_region_window(region + PMD_SIZE, cow_region_part(23), 0, 2 * region, &start, &end);
	KUNIT_EXPECT_EQ(test, start, region + PMD_SIZE);
	KUNIT_EXPECT_EQ(test, end, region + 2 * PMD_SIZE);
	KUNIT_EXPECT_EQ(test, cow_region_table(region + PMD_SIZE, 23), 1);
	KUNIT_EXPECT_EQ(test, cow_region_table(region + PMD_SIZE, 21), 0);
	/* The end of the address space. */
	cow_region_window(-2 * PAGE_SIZE, PMD_SIZE, 0, -PAGE_SIZE, &start, &end);
	KUNIT_EXPECT_EQ(test, start, -PMD_SIZE);
	KUNIT_EXPECT_EQ(test, end, -PAGE_SIZE);
}

static void cow_region_test_tuning(struct kunit *test)
{
	/* No more than a tenth wasted. */
	KUNIT_EXPECT_EQ(test, cow_threshold_next(80, 80, 900, 101, 10), 85);
	KUNIT_EXPECT_EQ(test, cow_threshold_next(80, 80, 900, 100, 10), 80);
	KUNIT_EXPECT_EQ(test, cow_threshold_next(90, 80, 900, 100, 10), 90);
	KUNIT_EXPECT_EQ(test, cow_threshold_next(90, 80, 950, 50, 10), 85);
	KUNIT_EXPECT_EQ(test, cow_threshold_next(82, 80, 950, 0, 10), 80);
	/* In the end nothing is copied, and then it is tried again. */
	KUNIT_EXPECT_EQ(test, cow_threshold_next(100, 80, 0, 100, 10), COW_THRESHOLD_NEVER);
	KUNIT_EXPECT_EQ(test, cow_threshold_next(COW_THRESHOLD_NEVER, 80, 0, 100, 10),
			COW_THRESHOLD_NEVER);
	KUNIT_EXPECT_EQ(test, cow_threshold_next(COW_THRESHOLD_NEVER, 80, 0, 0, 10), 96);
	/* A process that was not tuned before, and a sysctl that was raised. */
	KUNIT_EXPECT_EQ(test, cow_threshold_next(0, 80, 0, 0, 10), 80);
	KUNIT_EXPECT_EQ(test, cow_threshold_next(80, 95, 900, 60, 10), 95);
}

static void cow_region_test_history(struct kunit *test)
{
	/* No more than a tenth wasted. */
	KUNIT_EXPECT_EQ(test, cow_history_next(1, 1, 3, 900, 101, 10), 2);
	KUNIT_EXPECT_EQ(test, cow_history_next(1, 1, 3, 900, 100, 10), 1);
	KUNIT_EXPECT_EQ(test, cow_history_next(2, 1, 3, 900, 100, 10), 2);
	KUNIT_EXPECT_EQ(test, cow_history_next(2, 1, 3, 950, 50, 10), 1);
	/* In the end nothing is copied for an epoch, and then it is tried again. */
	KUNIT_EXPECT_EQ(test, cow_history_next(3, 1, 3, 0, 100, 10), 4);
	KUNIT_EXPECT_EQ(test, cow_history_next(4, 1, 3, 0, 100, 10), 4);
	KUNIT_EXPECT_EQ(test, cow_history_next(4, 1, 3, 0, 0, 10), 3);
	/* A process that was not tuned before, and a sysctl that was raised. */
	KUNIT_EXPECT_EQ(test, cow_history_next(0, 1, 3, 0, 0, 10), 1);
	KUNIT_EXPECT_EQ(test, cow_history_next(1, 3, 3, 900, 60, 10), 3);
}

static struct kunit_case cow_region_test_cases[] = {
	KUNIT_CASE(cow_region_test_word),
	KUNIT_CASE(cow_region_test_epoch),
	KUNIT_CASE(cow_region_test_threshold),
	KUNIT_CASE(cow_region_test_move),
	KUNIT_CASE(cow_region_test_window),
	KUNIT_CASE(cow_region_test_tuning),
	KUNIT_CASE(cow_region_test_history),
	{}
};

static struct kunit_suite cow_region_test_suite = {
	.name = "cow_region",
	.test_cases = cow_region_test_cases,
};
kunit_test_suite(cow_region_test_suite);
