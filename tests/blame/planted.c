// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Five functions that write known numbers of pages that a fork shares: planted SHARE, where SHARE
 * pages are one share: of them first() writes 1, second() 2, third() 3, a thread's fourth() 4, and
 * fifth() of a shared library 5. read(2) writes 6 more. Then the parent writes a share after the
 * child has ended, which copies nothing.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define NOINLINE __attribute__((noinline))

void fifth(volatile char *from, unsigned long pages);

static unsigned long share;
static char *memory;

static NOINLINE void first(volatile char *from)
{
	for (unsigned long page = 0; page < share; page++)
		from[page * PAGE] = 1;
}

static NOINLINE void second(volatile char *from)
{
	for (unsigned long page = 0; page < 2 * share; page++)
		from[page * PAGE + 8] = 2;
}

/* Deep, with much on its stack. */
static NOINLINE unsigned long third(volatile char *from, int depth)
{
	char room[512];

	memset(room, depth, sizeof(room));
	if (depth)
		return third(from, depth - 1) + room[depth];
	for (unsigned long page = 0; page < 3 * share; page++)
		from[page * PAGE + 16] = room[page % sizeof(room)] + 1;
	return room[1];
}

static NOINLINE void *fourth(void *from)
{
	volatile char *at = from;

	for (unsigned long page = 0; page < 4 * share; page++)
		at[page * PAGE] = 4;
	return NULL;
}

/* As Ruby's threads: a megabyte of their stack that is hardly touched, which reaches beyond what is
 * told of one. */
static void *in_room(void *from)
{
	volatile char room[1 << 20];

	void *end;

	room[0] = 1;
	end = fourth(from);
	/* As a server's: it is there for as long as its stack is looked at. */
	nanosleep(&(struct timespec){ .tv_nsec = 500000000 }, NULL);
	return end == NULL && room[0] ? NULL : from;
}

static NOINLINE void sixth(char *to)
{
	int zeros = open("/dev/zero", O_RDONLY);

	for (unsigned long page = 0; page < 6 * share; page++)
		if (read(zeros, to + page * PAGE, 64) != 64)
			abort();
	close(zeros);
}

static NOINLINE void child(void)
{
	char *at = memory;
	pthread_t thread;

	first(at), at += share * PAGE;
	second(at), at += 2 * share * PAGE;
	third(at, 20), at += 3 * share * PAGE;
	if (pthread_create(&thread, NULL, in_room, at) || pthread_join(thread, NULL))
		abort();
	at += 4 * share * PAGE;
	fifth(at, 5 * share), at += 5 * share * PAGE;
	sixth(at);
}

int main(int argc, char **argv)
{
	unsigned long bytes;
	pid_t pid;

	share = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
	bytes = 21 * share * PAGE;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	memset(memory, 7, bytes);
	pid = fork();
	if (!pid) {
		child();
		_exit(0);
	}
	if (waitpid(pid, NULL, 0) != pid)
		return 1;
	first(memory);
	return 0;
}
