/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Cases of one test program, told in KTAP. */
#ifndef CASES_H
#define CASES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

struct test_case {
	const char *name;
	void (*run)(void);
};

static int failures, cases;
static const char *running = "";

__attribute__((format(printf, 1, 2))) static inline void fail(const char *format, ...)
{
	va_list args;

	/* The first few say what there is to say. */
	if (failures++ > 20)
		return;
	va_start(args, format);
	printf("# %s: ", running);
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

/* The case's line: it passed if nothing has failed since there were @before failures. */
static inline void done(const char *name, int before)
{
	printf("%sok %d %s\n", failures == before ? "" : "not ", ++cases, name);
	fflush(stdout);
}

/* A case of one check. */
static inline void check(bool passed, const char *name)
{
	int before = failures;

	failures += !passed;
	done(name, before);
}

static inline void run_cases(const struct test_case *tests, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int before = failures;

		running = tests[i].name;
		tests[i].run();
		done(tests[i].name, before);
	}
}

#endif
