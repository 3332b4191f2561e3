// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * marks: preloaded into a program that does not fork, it makes a fork of it at
 * one moment and ends the child at another. The child is held: it sleeps, so
 * that what the program writes between the moments is copied.
 *
 * The program names the moments by two signals to itself: 40 begins, 41 ends.
 * FOOTPRINT_MARKS says what happens then:
 *
 *   hold          each pair of marks has a child
 *   measure       pairs have none, none and one in turn; what each pair took
 *                 goes to FOOTPRINT_ROWS, one JSON object a line. The first of
 *                 three settles: it pays for the fork before it (its pages are
 *                 still write-protected) and is not to be used
 *   every         no marks: a child each FOOTPRINT_EVERY_MS, which lives for a fifth of
 *                 that; how long each fork took goes to FOOTPRINT_ROWS
 *   (nothing)     the marks do nothing
 *
 * All of it runs in signal handlers: only what signal-safety(7) allows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BEGIN = 40, END = 41, BEAT = 42, HOLD = 1, MEASURE, EVERY };
enum { CYCLE = 3 }; /* settle, without, with */

static int mode;
static int rows = -1;
static uint64_t pair;
static pid_t held;
static int release = -1; /* closed, it ends the child */
static struct {
	uint64_t wall_ns, cpu_ns, fork_ns;
	long faults;
} began;

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* ---- text without stdio, which no signal handler may use ---- */

static char *put(char *to, const char *text)
{
	return stpcpy(to, text);
}

static char *put_number(char *to, uint64_t value)
{
	char digits[24];
	size_t count = 0;

	do
		digits[count++] = (char)('0' + value % 10);
	while (value /= 10);
	while (count)
		*to++ = digits[--count];
	*to = '\0';
	return to;
}

static void write_all(int fd, const char *text)
{
	size_t length = strlen(text);

	while (length) {
		ssize_t done = write(fd, text, length);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return;
		text += done;
		length -= (size_t)done;
	}
}

/* A file of /proc as it is, its lines joined by '|': nothing is decoded here. */
static void put_file(int fd, pid_t pid, const char *file)
{
	static char text[16384];
	char path[64];
	size_t length = 0;
	ssize_t got;
	int in;

	put(put(put_number(put(path, "/proc/"), (uint64_t)pid), "/"), file);
	in = open(path, O_RDONLY | O_CLOEXEC);
	while (in >= 0 && length < sizeof(text) - 1 &&
	       (got = read(in, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	if (in >= 0)
		close(in);
	text[length] = '\0';
	for (char *c = text; *c; c++)
		if (*c == '\n' || *c == '"' || *c == '\\' || *c == '\t')
			*c = *c == '\n' ? '|' : ' ';
	write_all(fd, text);
}

/* ---- the marks ---- */

static bool holds(void)
{
	return mode == HOLD || (mode == MEASURE && pair % CYCLE == CYCLE - 1);
}

/* The child: until its parent lets it go, or has gone. */
__attribute__((noreturn)) static void hold(const int ends[2])
{
	char byte;

	close(ends[1]);
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
	_exit(0);
}

static void begin(int signal)
{
	int saved = errno;
	uint64_t started;

	(void)signal;
	began.faults = faults();
	began.wall_ns = now(CLOCK_MONOTONIC);
	began.cpu_ns = now(CLOCK_PROCESS_CPUTIME_ID);
	began.fork_ns = 0;
	if (holds()) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC))
			_exit(1);
		started = now(CLOCK_MONOTONIC);
		/* Without the handlers of pthread_atfork, which may wait for locks. */
		held = _Fork();
		if (held == 0)
			hold(ends);
		began.fork_ns = now(CLOCK_MONOTONIC) - started;
		close(ends[0]);
		release = ends[1];
	}
	errno = saved;
}

static void write_row(void)
{
	uint64_t cpu_ns = now(CLOCK_PROCESS_CPUTIME_ID) - began.cpu_ns;
	uint64_t wall_ns = now(CLOCK_MONOTONIC) - began.wall_ns;
	uint64_t count = (uint64_t)(faults() - began.faults);
	char text[512], *to = text;

	to = put_number(put(to, "{\"pair\":"), pair);
	to = put_number(put(to, ",\"held\":"), held > 0);
	to = put_number(put(to, ",\"fork_ns\":"), began.fork_ns);
	to = put_number(put(to, ",\"cpu_ns\":"), cpu_ns);
	to = put_number(put(to, ",\"wall_ns\":"), wall_ns);
	to = put_number(put(to, ",\"minor_faults\":"), count);
	write_all(rows, text);
	if (held > 0) {
		write_all(rows, ",\"child_rollup\":\"");
		put_file(rows, held, "smaps_rollup");
		write_all(rows, "\",\"child_status\":\"");
		put_file(rows, held, "status");
		write_all(rows, "\"");
	}
	write_all(rows, "}\n");
}

static void end(int signal)
{
	int saved = errno;

	(void)signal;
	if (mode == MEASURE)
		write_row();
	if (held > 0) {
		close(release);
		while (waitpid(held, NULL, 0) < 0 && errno == EINTR)
			;
	}
	held = 0;
	pair++;
	errno = saved;
}

/* ---- a child now and then, of the thread that began ---- */

static struct timespec life;

static void beat(int signal)
{
	int saved = errno;
	char text[128], *to = text;
	uint64_t started;

	(void)signal;
	while (waitpid(held, NULL, WNOHANG) < 0 && errno == EINTR)
		;
	started = now(CLOCK_MONOTONIC);
	held = _Fork();
	if (held == 0) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &life, NULL);
		_exit(0);
	}
	to = put_number(put(to, "{\"fork_ns\":"), now(CLOCK_MONOTONIC) - started);
	put(put_number(put(to, ",\"at_ns\":"), started), "}\n");
	write_all(rows, text);
	errno = saved;
}

static void begin_beats(void)
{
	const char *every = getenv("FOOTPRINT_EVERY_MS");
	long ms = every ? atol(every) : 0;
	struct sigaction action = { .sa_handler = beat, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = BEAT };
	struct itimerspec times = { .it_interval = { ms / 1000, ms % 1000 * 1000000 } };
	timer_t timer;

	if (ms <= 0)
		return;
	life = (struct timespec){ ms / 5000, ms / 5 % 1000 * 1000000 };
	event._sigev_un._tid = gettid();
	/* What the program makes ready is not to be forked. */
	times.it_value = (struct timespec){ .tv_sec = 4 };
	sigaction(BEAT, &action, NULL);
	if (!timer_create(CLOCK_MONOTONIC, &event, &timer))
		timer_settime(timer, 0, &times, NULL);
}

__attribute__((constructor)) static void marks(void)
{
	const char *wanted = getenv("FOOTPRINT_MARKS"), *file = getenv("FOOTPRINT_ROWS");
	struct sigaction action = { .sa_handler = begin, .sa_flags = SA_RESTART };

	mode = wanted && !strcmp(wanted, "hold")      ? HOLD
	       : wanted && !strcmp(wanted, "measure") ? MEASURE
	       : wanted && !strcmp(wanted, "every")   ? EVERY
						      : 0;
	if (mode >= MEASURE && file)
		rows = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (mode == EVERY) {
		begin_beats();
		return;
	}
	if (!mode)
		action.sa_handler = SIG_IGN;
	sigaction(BEGIN, &action, NULL);
	if (mode)
		action.sa_handler = end;
	sigaction(END, &action, NULL);
}
