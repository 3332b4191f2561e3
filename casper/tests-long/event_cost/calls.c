// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Calls of functions that a tracer has instrumented; the same source for all tracers. An event is a
 * call out of a chain of eight functions each of which calls the next. What instruments them is
 * chosen when this file is compiled:
 *
 *   nothing                  plain calls, which are subtracted from all others
 *   -DCASPER_INSERT          what `casper-trace insert` puts into a source
 *   -finstrument-functions   libcasper's hooks, or uftrace's
 *   -pg                      uftrace's mcount
 */
#ifdef CASPER_INSERT
#include "casper/insert.h"
CASPER_UNIT(calls_unit);
#define INSERTED(index) CASPER_FUNCTION(calls_unit, index);
#else
#define INSERTED(index)
#endif

#include "batches.h"

#define NESTED 8

#define TRACED __attribute__((noinline, noclone))

TRACED static int leaf(int x)
{
	INSERTED(0)
	__asm__ volatile("" : "+r"(x));
	return x + 1;
}

/* What follows the inner call keeps it from becoming a jump. */
#define LEVEL(name, index, inner)                                                                  \
	TRACED static int name(int x)                                                              \
	{                                                                                          \
		INSERTED(index)                                                                    \
		x = inner(x);                                                                      \
		__asm__ volatile("" : "+r"(x));                                                    \
		return x + 1;                                                                      \
	}

LEVEL(level7, 7, leaf)
LEVEL(level6, 6, level7)
LEVEL(level5, 5, level6)
LEVEL(level4, 4, level5)
LEVEL(level3, 3, level4)
LEVEL(level2, 2, level3)
LEVEL(level1, 1, level2)

/* n calls in all: n is a multiple of NESTED. */
UNTRACED static void nested_calls(uint64_t n)
{
	int x = 0;

	for (uint64_t i = 0; i < n; i += NESTED)
		x = level1(x);
	__asm__ volatile("" : : "r"(x));
}

UNTRACED int main(int argc, char **argv)
{
	return run(argc, argv, nested_calls);
}

#ifdef CASPER_INSERT
static const struct casper_function calls_functions[] = {
	{ "leaf", __LINE__ },	{ "level1", __LINE__ }, { "level2", __LINE__ },
	{ "level3", __LINE__ }, { "level4", __LINE__ }, { "level5", __LINE__ },
	{ "level6", __LINE__ }, { "level7", __LINE__ },
};
CASPER_UNIT_END(calls_unit, "calls.c", calls_functions)
#endif
