// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// family NAME FILE [huge|merge]: a parent with memory of three kinds, and workers that write known
// sets of it.
//
// It is named NAME and maps 20,000 private pages (huge ones, or ones for KSM, if told so), 2,000
// pages of shared memory, and the file. Each line of its input is a command, answered by a line
// "worker PID WRITTEN NEW" of every worker that lives, and "done".
//
// "fork WRITTEN NEW [hidden]": a worker, which writes so many private pages, and so many new ones;
// one that only root may look at, as after a change of its user.
//
// "erode": each worker writes 100 more, one worker after the other.
//
// "end PID": that worker ends.
//
// "swap": the parent's private pages that no worker shares go to swap.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PRIVATE_PAGES = 20000, SHARED_PAGES = 2000, MOST = 32, MORE = 100, BYTES = 4096 };

struct worker {
	pid_t pid;
	int written, made, to;
};

static char *map(size_t pages, int flags, int advice)
{
	char *memory =
		mmap(NULL, pages * BYTES, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		exit(1);
	madvise(memory, pages * BYTES, advice);
	for (size_t page = 0; page < pages; page++)
		memory[page * BYTES] = (char)(page % 250 + 1);
	return memory;
}

// What a worker does until its parent ends: a byte on `from` is MORE pages to write.
static void work(char *memory, const volatile char *shared, int written, int made, int from,
		 int ready)
{
	char byte = 0;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int page = 0; page < SHARED_PAGES; page++)
		(void)shared[page * BYTES];
	for (int page = 0; page < written; page++)
		memory[page * BYTES]++;
	if (made > 0)
		map(made, MAP_PRIVATE, MADV_NOHUGEPAGE);
	do {
		if (write(ready, &byte, 1) != 1)
			break;
		if (read(from, &byte, 1) != 1)
			break;
		for (int page = 0; page < MORE; page++, written++)
			memory[written * BYTES]++;
	} while (1);
	_exit(0);
}

int main(int count, char **words)
{
	static struct worker workers[MOST];
	int alive = 0, ready[2], file = count >= 3 ? open(words[2], O_RDONLY) : -1;
	char line[80], byte;
	struct stat facts;

	if (file < 0 || fstat(file, &facts) || pipe(ready))
		return 2;
	int advice = MADV_NOHUGEPAGE;
	if (count > 3)
		advice = !strcmp(words[3], "huge") ? MADV_HUGEPAGE : MADV_MERGEABLE;
	prctl(PR_SET_NAME, words[1]);
	char *memory = map(PRIVATE_PAGES, MAP_PRIVATE, advice);
	char *shared = map(SHARED_PAGES, MAP_SHARED, MADV_NOHUGEPAGE);
	const volatile char *read_only = mmap(NULL, facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	for (off_t at = 0; at < facts.st_size; at += BYTES)
		(void)read_only[at];
	puts("done");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		struct worker new = { 0 };
		if (sscanf(line, "fork %d %d", &new.written, &new.made) == 2 && alive < MOST) {
			int to[2];
			if (pipe(to))
				return 1;
			new.pid = fork();
			if (new.pid == 0) {
				close(to[1]);
				if (strstr(line, "hidden"))
					prctl(PR_SET_DUMPABLE, 0);
				work(memory, shared, new.written, new.made, to[0], ready[1]);
			}
			close(to[0]);
			new.to = to[1];
			workers[alive++] = new;
			if (read(ready[0], &byte, 1) != 1)
				return 1;
		} else if (sscanf(line, "end %d", &new.pid) == 1) {
			kill(new.pid, SIGKILL);
			waitpid(new.pid, NULL, 0);
			for (int at = 0; at < alive; at++) {
				if (workers[at].pid == new.pid) {
					close(workers[at].to);
					memmove(&workers[at], &workers[at + 1],
						(MOST - at - 1) * sizeof(*workers));
					alive--, at--;
				}
			}
		} else if (!strcmp(line, "swap\n")) {
			madvise(memory, (size_t)PRIVATE_PAGES * BYTES, MADV_PAGEOUT);
		} else if (!strcmp(line, "erode\n")) {
			for (int at = 0; at < alive; at++) {
				if (write(workers[at].to, "", 1) != 1 ||
				    read(ready[0], &byte, 1) != 1)
					return 1;
				workers[at].written += MORE;
			}
		}
		for (int at = 0; at < alive; at++)
			printf("worker %d %d %d\n", workers[at].pid, workers[at].written,
			       workers[at].made);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
