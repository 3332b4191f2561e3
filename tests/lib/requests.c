// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// requests WARMED SERVED: a parent that serves WARMED requests and forks three workers, which serve
// SERVED each. Each worker prints a line "COPIED NEW": the pages that it wrote of what its fork
// shared, and those that it made.
//
// The first 20 requests of a process, its parent's before the fork included, build its state, 50
// pages each, and the first one a cache of 400 new pages as well. Each request writes the same 300
// pages, and 5 that only this worker has with this request.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATE = 50, STEPS = 20, EACH = 300, OWN = 5, CACHE = 400, MOST = 1000, WORKERS = 3 };
enum { PAGES = STATE * STEPS + EACH + OWN * MOST * (WORKERS + 1), BYTES = 4096 };

static char *memory, *cache;
// Pages that this process wrote since its fork.
static char *written;
static int served, copied, made;

static char *map(size_t pages)
{
	char *at = mmap(NULL, pages * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	if (at == MAP_FAILED)
		exit(1);
	madvise(at, pages * BYTES, MADV_NOHUGEPAGE);
	for (size_t page = 0; page < pages; page++)
		at[page * BYTES] = 1;
	return at;
}

static void writes(int from, int pages)
{
	for (int page = from; page < from + pages; page++) {
		((volatile char *)memory)[(size_t)page * BYTES]++;
		copied += !written[page];
		written[page] = 1;
	}
}

static void serve(int worker, int request)
{
	if (!cache) {
		cache = map(CACHE);
		made = CACHE;
	}
	if (served < STEPS)
		writes(STATE * served, STATE);
	writes(STATE * STEPS, EACH);
	writes(STATE * STEPS + EACH + OWN * (MOST * worker + request), OWN);
	served++;
}

int main(int count, char **words)
{
	int warmed = count > 1 ? atoi(words[1]) : 0, requests = count > 2 ? atoi(words[2]) : 1;

	if (warmed > MOST || requests > MOST)
		return 2;
	memory = map(PAGES);
	// What is counted is no part of what is shared.
	written = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (written == MAP_FAILED)
		return 1;
	for (int request = 0; request < warmed; request++)
		serve(0, request);
	// One after the other: they share what is counted.
	for (int worker = 1; worker <= WORKERS; worker++) {
		memset(written, 0, PAGES);
		pid_t pid = fork();
		if (pid == 0) {
			char line[64];
			copied = made = 0;
			for (int request = 0; request < requests; request++)
				serve(worker, request);
			int length = snprintf(line, sizeof(line), "%d %d\n", copied, made);
			// Its stack is looked at while it is there.
			usleep(200000);
			return write(1, line, length) != length;
		}
		int status;
		if (waitpid(pid, &status, 0) != pid || status)
			return 1;
	}
	return 0;
}
