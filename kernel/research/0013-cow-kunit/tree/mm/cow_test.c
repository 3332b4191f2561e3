// SPDX-License-Identifier: GPL-2.0-only
/*
 * KUnit tests of the arithmetic of copy-on-write statistics and pre-copy.
 */
#include <kunit/test.h>

#include "cow_histogram.h"
#include "cow_precopy.h"

static void cow_test_bucket_bounds(struct kunit *test)
{
	unsigned int bucket;

	/* Each bucket begins where the one before it ends. */
	KUNIT_EXPECT_EQ(test, cow_hist_bucket(0), 0);
	for (bucket = 1; bucket < COW_HIST_BUCKETS; bucket++) {
		u64 low = cow_hist_low(bucket);

		KUNIT_EXPECT_EQ(test, cow_hist_bucket(low), bucket);
		KUNIT_EXPECT_EQ(test, cow_hist_bucket(low - 1), bucket - 1);
	}
}

static void cow_test_bucket_width(struct kunit *test)
{
	unsigned int bucket;

	for (bucket = COW_HIST_SUB; bucket < COW_HIST_BUCKETS - 1; bucket++) {
		u64 low = cow_hist_low(bucket);

		KUNIT_EXPECT_LE(test, (cow_hist_low(bucket + 1) - low) * COW_HIST_SUB, low);
	}
}

static void cow_test_bucket_overflow(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, cow_hist_bucket((1ULL << COW_HIST_BITS) - 1),
			COW_HIST_BUCKETS - 1);
	KUNIT_EXPECT_EQ(test, cow_hist_bucket(1ULL << COW_HIST_BITS), COW_HIST_BUCKETS - 1);
	KUNIT_EXPECT_EQ(test, cow_hist_bucket(U64_MAX), COW_HIST_BUCKETS - 1);
}

static void cow_test_percentile(struct kunit *test)
{
	u64 *buckets = kunit_kcalloc(test, COW_HIST_BUCKETS, sizeof(*buckets), GFP_KERNEL);
	unsigned int value;

	KUNIT_ASSERT_NOT_NULL(test, buckets);
	/* 1000 to 1999 ns, one each: a percentile is within half a bucket. */
	for (value = 1000; value < 2000; value++)
		buckets[cow_hist_bucket(value)]++;
	KUNIT_EXPECT_LE(test, abs((int)cow_hist_permille(buckets, 1000, 500) - 1500), 32);
	KUNIT_EXPECT_LE(test, abs((int)cow_hist_permille(buckets, 1000, 990) - 1990), 32);
	KUNIT_EXPECT_LE(test, abs((int)cow_hist_permille(buckets, 1000, 0) - 1000), 32);
	KUNIT_EXPECT_LE(test, abs((int)cow_hist_permille(buckets, 1000, 1000) - 1999), 32);
}

static void cow_test_percentile_of_one(struct kunit *test)
{
	u64 *buckets = kunit_kcalloc(test, COW_HIST_BUCKETS, sizeof(*buckets), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, buckets);
	buckets[cow_hist_bucket(7)] = 1;
	KUNIT_EXPECT_EQ(test, cow_hist_permille(buckets, 1, 500), 7);
	KUNIT_EXPECT_EQ(test, cow_hist_permille(buckets, 1, 990), 7);
}

static void cow_test_window(struct kunit *test)
{
	const unsigned long table = 16 * PMD_SIZE;
	const unsigned long far = table + PMD_SIZE * 4;

	/* The depth limits. */
	KUNIT_EXPECT_EQ(test, cow_window(table, far, 1), 1);
	KUNIT_EXPECT_EQ(test, cow_window(table, far, 16), 16);
	/* The page table limits. */
	KUNIT_EXPECT_EQ(test, cow_window(table, far, PTRS_PER_PTE), PTRS_PER_PTE - 1);
	KUNIT_EXPECT_EQ(test, cow_window(table + PMD_SIZE - 2 * PAGE_SIZE, far, 16), 1);
	KUNIT_EXPECT_EQ(test, cow_window(table + PMD_SIZE - PAGE_SIZE, far, 16), 0);
	/* The mapping limits; its last page has no neighbour. */
	KUNIT_EXPECT_EQ(test, cow_window(table, table + PAGE_SIZE, 16), 0);
	KUNIT_EXPECT_EQ(test, cow_window(table, table + 4 * PAGE_SIZE, 16), 3);
	/* A mapping at the end of the address space. */
	KUNIT_EXPECT_EQ(test, cow_window(-2 * PAGE_SIZE, -PAGE_SIZE, 16), 0);
}

static void cow_test_ramp(struct kunit *test)
{
	unsigned long copied = 0;
	unsigned int faults;

	/* Nothing for the first pages, never more than asked for. */
	KUNIT_EXPECT_EQ(test, cow_ramp(512, 3, 4), 0);
	KUNIT_EXPECT_EQ(test, cow_ramp(512, -3, 4), 0);
	KUNIT_EXPECT_EQ(test, cow_ramp(16, 40, 4), 10);
	KUNIT_EXPECT_EQ(test, cow_ramp(16, 1000, 4), 16);
	/* One neighbour, or no ramp. */
	KUNIT_EXPECT_EQ(test, cow_ramp(1, 0, 4), 1);
	KUNIT_EXPECT_EQ(test, cow_ramp(512, 0, 0), 512);
	/* The largest depth within some thirty faults. */
	for (faults = 0; cow_ramp(512, copied, 4) < 512; faults++)
		copied += 1 + cow_ramp(512, copied, 4);
	KUNIT_EXPECT_LE(test, faults, 35);
}

static struct kunit_case cow_test_cases[] = {
	KUNIT_CASE(cow_test_bucket_bounds),
	KUNIT_CASE(cow_test_bucket_width),
	KUNIT_CASE(cow_test_bucket_overflow),
	KUNIT_CASE(cow_test_percentile),
	KUNIT_CASE(cow_test_percentile_of_one),
	KUNIT_CASE(cow_test_window),
	KUNIT_CASE(cow_test_ramp),
	{}
};

static struct kunit_suite cow_test_suite = {
	.name = "cow",
	.test_cases = cow_test_cases,
};
kunit_test_suite(cow_test_suite);
