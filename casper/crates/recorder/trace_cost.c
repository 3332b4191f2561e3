// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * What CASPER's own events cost, to be subtracted from what they measure: events one after the
 * other, and calls of a function that does nothing, instrumented as `insert` and as the compiler
 * do it. The trace itself has the times; this program only makes them. Linked with libcasper.
 */
#include "casper/insert.h"

#include "casper.h"

#define ROUNDS 20
#define CALLS 1000

/* The size of most events: a type and some numbers. */
struct event {
	casper_event_type event_type;
	uint16_t small;
	uint32_t number;
	uint64_t large;
	uint64_t larger;
};

void __cyg_profile_func_enter(void *function, void *call_site);
void __cyg_profile_func_exit(void *function, void *call_site);

CASPER_UNIT(unit);

static __attribute__((noinline)) void inserted(void)
{
	CASPER_FUNCTION(unit, 0);
	__asm__ volatile("");
}

static __attribute__((noinline)) void compiled(void)
{
	__cyg_profile_func_enter((void *)compiled, __builtin_return_address(0));
	__asm__ volatile("");
	__cyg_profile_func_exit((void *)compiled, __builtin_return_address(0));
}

static const struct casper_function functions[] = { { "inserted", __LINE__ } };
CASPER_UNIT_END(unit, __FILE__, functions)

int main(void)
{
	struct event event = { .event_type = 1 };

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < CALLS; i++) {
			event.large = i;
			casrecord(&event, sizeof(event));
		}
		for (int i = 0; i < CALLS; i++)
			inserted();
		for (int i = 0; i < CALLS; i++)
			compiled();
	}
	return casper_status() != 0;
}
