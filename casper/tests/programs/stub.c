/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A stand-in for libcasper in the tests of insert: counts how often each function begins and ends
 * and writes "file:line name begins ends" to the file that STUB_COUNTS names, at the very end.
 */
#include <casper/insert.h>
#include <stdio.h>
#include <stdlib.h>

#define FUNCTIONS_MAX 100000

static const __UINT32_TYPE__ on = 1;
const volatile __UINT32_TYPE__ *casper_on = &on;

static struct casper_unit *units;
static unsigned int last = 1; /* 0 is not an identifier */
static unsigned long begins[FUNCTIONS_MAX], ends[FUNCTIONS_MAX];

void casper_unit_register(struct casper_unit *unit)
{
	unit->base = last;
	last += unit->count;
	if (last > FUNCTIONS_MAX)
		abort();
	unit->next = units;
	units = unit;
}

/* The counts are printed later. */
void casper_unit_unregister(struct casper_unit *unit)
{
	(void)unit;
}

unsigned int casper_function_enter(struct casper_unit *unit, unsigned int index, void *frame,
				   void *call_site)
{
	if (!unit->base || index >= unit->count || !frame || !call_site)
		abort();
	begins[unit->base + index]++;
	return unit->base + index;
}

void casper_function_exit(unsigned int function)
{
	ends[function]++;
}

/* Destructors run from the highest priority to the lowest. */
static __attribute__((__destructor__(101))) void print(void)
{
	const char *path = getenv("STUB_COUNTS");
	FILE *out = path ? fopen(path, "w") : NULL;
	struct casper_unit *unit;
	unsigned int i;

	if (!out)
		return;
	for (unit = units; unit; unit = unit->next)
		for (i = 0; i < unit->count; i++)
			fprintf(out, "%s:%u %s %lu %lu\n", unit->file, unit->functions[i].line,
				unit->functions[i].name, begins[unit->base + i],
				ends[unit->base + i]);
	fclose(out);
}
