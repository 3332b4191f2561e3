/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A target with files of its own choice: target LIBRARY TIMES FILE... maps each file so often, to
 * execute it, and forks children whose pages LIBRARY's copy_pages() copies.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 64

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW),
	     *copy = library ? dlsym(library, "copy_pages") : NULL;
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	if (!copy || memory == MAP_FAILED)
		errx(1, "%s", library ? "no memory" : dlerror());
	for (int at = 3; at < argc; at++) {
		int fd = open(argv[at], O_RDONLY);

		for (int times = atoi(argv[2]); times > 0; times--)
			if (mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) ==
			    MAP_FAILED)
				err(1, "%s", argv[at]);
		close(fd);
	}
	for (int page = 0; page < PAGES; page++)
		memory[page * PAGE] = 1;
	puts("ready");
	fflush(stdout);
	for (;;) {
		pid_t pid = fork();

		if (pid < 0)
			err(1, "fork");
		if (pid == 0) {
			((void (*)(volatile char *, int))copy)(memory, PAGES);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		/* A fork of so many mappings takes long. */
		usleep(atoi(argv[2]) > 1000 ? 1000000 : 50000);
	}
}
