// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * many MAPPINGS CHILDREN: a process of so many mappings, of a page each, and so many children that
 * do nothing. Then it forks one more again and again, and writes every third page while that child
 * lives.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

static pid_t start_child(void)
{
	pid_t child = fork();

	if (child < 0) {
		perror("fork");
		exit(1);
	}
	if (!child)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

int main(int argc, char **argv)
{
	size_t mappings = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	long children = argc > 2 ? atol(argv[2]) : 0;
	/* Every second page has no rights, so that its neighbours are mappings of their own. */
	char *memory = mmap(NULL, (mappings + 1) * 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (size_t i = 0; i < mappings; i++) {
		if (mprotect(memory + i * 2 * PAGE, PAGE, PROT_READ | PROT_WRITE)) {
			perror("mprotect");
			return 1;
		}
		memory[i * 2 * PAGE] = 1;
	}
	while (children--)
		if (!start_child())
			for (;;)
				pause();
	puts("ready");
	fflush(stdout);
	for (;;) {
		int told[2];
		char byte;
		pid_t child;

		if (pipe(told)) {
			perror("pipe");
			return 1;
		}
		child = start_child();
		if (!child) {
			close(told[1]);
			_exit(read(told[0], &byte, 1) != 0);
		}
		for (size_t i = 0; i < mappings; i += 3)
			memory[i * 2 * PAGE]++;
		/* Long enough for whoever looks at so many mappings beside other work. */
		usleep(1000000);
		close(told[1]);
		waitpid(child, NULL, 0);
		close(told[0]);
		usleep(200000);
	}
}
