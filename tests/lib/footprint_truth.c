/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A program that knows which of its pages are written: the truth that tests/footprint.sh compares
 * footprint with.
 *
 *   footprint_truth MODE PAGES STEP [MS]
 *
 * It maps PAGES pages and writes each; then every STEP-th page is written again, with other bytes
 * (one byte of each) or, in the modes that end in "same", with the same ones.
 *
 *   child[-same]   a forked child writes them and exits
 *   child-unmaps   the same; before it exits it gives all of the memory back by munmap
 *   child-discards the same by MADV_DONTNEED
 *   parent[-same]  the parent writes them while a child lives, which then exits
 *   marks[-same]   no fork: SIGURG to itself before and after
 *   forever[-same] no fork: prints its pid, and writes them once a second until it is killed
 *   forks          prints its pid; forks once in MS ms, the parent writes, the child exits after MS
 *   forks-unmaps   the same, but the child writes, and gives the memory back before it exits, by
 *   forks-discards munmap or MADV_DONTNEED
 *   new            SIGURG, then PAGES more pages are mapped and written, and SIGURG
 *   kernel         as parent, but read(2) writes them
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long page;

static char *map(long pages)
{
	char *memory = mmap(NULL, pages * page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	madvise(memory, pages * page, MADV_NOHUGEPAGE);
	memset(memory, 1, pages * page);
	return memory;
}

static void write_some(char *memory, long pages, long step, int same)
{
	for (long at = 0; at < pages; at += step)
		((volatile char *)memory)[at * page + 100] = same ? 1 : memory[at * page + 100] + 1;
}

static void read_some(char *memory, long pages, long step)
{
	int zeros = open("/dev/zero", O_RDONLY);

	for (long at = 0; at < pages; at += step)
		if (read(zeros, memory + at * page + 100, 1) != 1)
			exit(1);
	close(zeros);
}

static void rest(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

/* What a child does: it writes, and perhaps gives the memory back, and lives for MS ms before and
 * after. */
static void write_and_free(char *memory, long pages, long step, const char *mode, long ms)
{
	rest(ms);
	write_some(memory, pages, step, strstr(mode, "same") != NULL);
	if (strstr(mode, "unmaps"))
		munmap(memory, pages * page);
	else if (strstr(mode, "discards"))
		madvise(memory, pages * page, MADV_DONTNEED);
	rest(ms);
	_exit(0);
}

/* The child of a parent that writes lives until it has. */
static void fork_and_write(char *memory, long pages, long step, int same, int by_kernel, long ms)
{
	int done[2];
	char byte;
	pid_t child;

	if (pipe(done) != 0 || (child = fork()) < 0)
		exit(1);
	if (child == 0) {
		close(done[1]);
		_exit(read(done[0], &byte, 1) != 0);
	}
	close(done[0]);
	rest(ms / 2);
	if (by_kernel)
		read_some(memory, pages, step);
	else
		write_some(memory, pages, step, same);
	rest(ms);
	close(done[1]);
	waitpid(child, NULL, 0);
}

int main(int count, char **words)
{
	if (count < 4)
		return 2;
	long pages = atol(words[2]), step = atol(words[3]), ms = count > 4 ? atol(words[4]) : 0;
	int same = strstr(words[1], "same") != NULL;
	char *memory;

	page = sysconf(_SC_PAGESIZE);
	memory = map(pages);
	if (strncmp(words[1], "child", 5) == 0) {
		pid_t child = fork();

		if (child == 0)
			write_and_free(memory, pages, step, words[1], 0);
		waitpid(child, NULL, 0);
	} else if (strncmp(words[1], "parent", 6) == 0 || strcmp(words[1], "kernel") == 0) {
		fork_and_write(memory, pages, step, same, words[1][0] == 'k', ms);
	} else if (strncmp(words[1], "marks", 5) == 0) {
		raise(SIGURG);
		write_some(memory, pages, step, same);
		raise(SIGURG);
	} else if (strcmp(words[1], "new") == 0) {
		raise(SIGURG);
		map(pages);
		raise(SIGURG);
	} else {
		printf("%d\n", getpid());
		fflush(stdout);
		for (;;) {
			if (strcmp(words[1], "forks") == 0) {
				fork_and_write(memory, pages, step, same, 0, ms);
			} else if (strncmp(words[1], "forks-", 6) == 0) {
				if (fork() == 0)
					write_and_free(memory, pages, step, words[1], ms);
				wait(NULL);
			} else {
				write_some(memory, pages, step, same);
			}
			rest(ms ? ms : 1000);
		}
	}
	return 0;
}
