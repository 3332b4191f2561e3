/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * signals COUNTERS EVENTS: records while two timers interrupt it often, each with a
 * handler that records, and one of which the other may interrupt. counters[i] is the number of
 * events of source i.
 */
#define _GNU_SOURCE
#include <time.h>

#include "test.h"

static uint64_t *count;
static volatile int saved_errno_lost;

static void handler(int signal)
{
	uint16_t source = signal == SIGUSR1 ? 1 : 2;
	int before = errno;

	if (prove(source, getpid(), count[source]) == 0)
		count[source]++;
	if (errno != before)
		saved_errno_lost = 1;
}

static void start_timer(int signal, long period_ns)
{
	struct sigevent how = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal };
	struct itimerspec period = { .it_interval.tv_nsec = period_ns,
				     .it_value.tv_nsec = period_ns };
	struct sigaction action = { .sa_handler = handler };
	timer_t timer;

	if (sigaction(signal, &action, NULL) || timer_create(CLOCK_MONOTONIC, &how, &timer) ||
	    timer_settime(timer, 0, &period, NULL))
		abort();
}

int main(int argc, char **argv)
{
	uint64_t events = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
	uint32_t pid = getpid();

	count = counters(argv[1]);
	start_timer(SIGUSR1, 50000);
	start_timer(SIGUSR2, 70000);
	errno = 4711;
	while (count[0] < events)
		if (prove(0, pid, count[0]) == 0)
			count[0]++;
	if (errno != 4711 || saved_errno_lost)
		abort();
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	return 0;
}
