// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * trace_calls: calls of functions that a tracer has instrumented; the same source for all tracers.
 *
 * A leaf that does next to nothing, or with --nested a chain of NESTED functions each of which
 * calls the next. What instruments them is chosen when this file is compiled:
 *
 *   nothing                  plain calls, which are subtracted from all others
 *   -DCASPER_INSERT          what `cowlab insert` puts into a source
 *   -finstrument-functions   libcasper's hooks, or uftrace's
 *   -pg                      uftrace's mcount
 */
#ifdef CASPER_INSERT
#include "casper/insert.h"
CASPER_UNIT(trace_calls_unit);
#define INSERTED(index) CASPER_FUNCTION(trace_calls_unit, index);
#else
#define INSERTED(index)
#endif

#include "trace.h"

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

UNTRACED static void leaf_calls(int thread, uint64_t n)
{
	int x = thread;

	for (uint64_t i = 0; i < n; i++)
		x = leaf(x);
	__asm__ volatile("" : : "r"(x));
}

/* n calls in all: n is a multiple of NESTED. */
UNTRACED static void nested_calls(int thread, uint64_t n)
{
	int x = thread;

	for (uint64_t i = 0; i < n; i += NESTED)
		x = level1(x);
	__asm__ volatile("" : : "r"(x));
}

UNTRACED int main(int argc, char **argv)
{
	struct trace_plan plan;

	probe_name = "trace_calls";
	trace_options(&plan, argc, argv);
	if (plan.nested && (plan.batch % NESTED || plan.warm % NESTED))
		fail(EXIT_USAGE, "--nested needs multiples of %d", NESTED);
	trace_run(&plan, plan.nested ? nested_calls : leaf_calls);
	row_end();
	return 0;
}

#ifdef CASPER_INSERT
static const struct casper_function trace_calls_functions[] = {
	{ "leaf", __LINE__ },	{ "level1", __LINE__ }, { "level2", __LINE__ },
	{ "level3", __LINE__ }, { "level4", __LINE__ }, { "level5", __LINE__ },
	{ "level6", __LINE__ }, { "level7", __LINE__ },
};
CASPER_UNIT_END(trace_calls_unit, "trace_calls.c", trace_calls_functions)
#endif
