/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* threads COUNTERS EVENTS THREADS [PAUSE_US]: each thread records EVENTS, with a pause after each
 * hundred; counters[i] says how many returned 0, counters[100 + i] how many returned -ENOBUFS. */
#include "test.h"

static uint64_t *count, events;
static useconds_t pause_us;

static void *record(void *argument)
{
	uint16_t source = (uint16_t)(uintptr_t)argument;
	uint32_t pid = getpid();

	for (uint64_t number = 0; number < events; number++) {
		int result = prove(source, pid, number);

		count[source + (result == -ENOBUFS ? 100 : 0)]++;
		if (result && result != -ENOBUFS)
			abort();
		if (pause_us && number % 100 == 99)
			usleep(pause_us);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	int n = argc >= 4 ? atoi(argv[3]) : 0;

	count = counters(argv[1]);
	events = strtoull(argv[2], NULL, 10);
	pause_us = argc == 5 ? (useconds_t)atoi(argv[4]) : 0;
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, record, (void *)(uintptr_t)i);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
