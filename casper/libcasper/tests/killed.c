/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* killed COUNTERS THREADS: records until it is killed; counters[i * 8] is the number of events of
 * thread i whose casrecord has returned. */
#include "test.h"

static uint64_t *count;

static void *record(void *argument)
{
	uint16_t source = (uint16_t)(uintptr_t)argument;
	uint32_t pid = getpid();

	for (uint64_t number = 0;; number++) {
		if (prove(source, pid, number))
			abort();
		__atomic_store_n(&count[source * 8], number + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 3)
		return 2;
	count = counters(argv[1]);
	for (int i = 1; i < atoi(argv[2]); i++)
		pthread_create(&thread, NULL, record, (void *)(uintptr_t)i);
	record(NULL);
	return 0;
}
