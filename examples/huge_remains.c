// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * huge_remains FILE [MIB]: what copy-on-write in huge pages leaves behind. A write after fork
 * splits the mapping of a huge page and copies one base page of it; the base page that it replaces
 * is freed with the whole huge page only, which the rest of it still needs. So RSS says nothing of
 * it, and a control group is charged for both. Collapsing ends it; being short of memory does too
 * (the kernel splits such pages then).
 *
 * FILE is where the control group that it runs in says what it is charged: memory.current, or
 * memory.usage_in_bytes in version 1.
 *
 *     cc -O2 -o huge_remains examples/huge_remains.c && mkdir $GROUP
 *     sh -c 'echo $$ > $GROUP/cgroup.procs && ./huge_remains $GROUP/memory.current'
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define HUGE_BYTES (2ul << 20)
#define BASE_BYTES 4096ul
/* One base page in so many is written after the fork. */
#define WRITTEN_ONE_IN 5

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The figure of a line of a file of /proc that has such. */
static long number(const char *path, const char *key)
{
	FILE *file = fopen(path, "r");
	char line[200];
	long value = -1;

	if (!file)
		die(path);
	while (value < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, strlen(key)))
			sscanf(line + strlen(key), "%ld", &value);
	fclose(file);
	return value;
}

static const char *charged;

static void say(const char *when)
{
	printf("%-36s %7.1f %7.1f %7.1f\n", when, number(charged, "") / 1048576.0,
	       number("/proc/self/smaps_rollup", "Rss:") / 1024.0,
	       number("/proc/self/smaps_rollup", "AnonHugePages:") / 1024.0);
}

int main(int argc, char **argv)
{
	size_t bytes = (argc > 2 ? strtoul(argv[2], NULL, 10) : 512) << 20;
	char *mapped, *memory, byte;
	int release[2];
	pid_t child;

	if (argc < 2) {
		fprintf(stderr, "usage: huge_remains FILE [MIB]\n");
		return 2;
	}
	charged = argv[1];
	mapped = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	if (!bytes || mapped == MAP_FAILED)
		die("mmap");
	memory = (char *)(((uintptr_t)mapped + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
	if (madvise(memory, bytes, MADV_HUGEPAGE))
		die("this kernel has no transparent huge pages: madvise");
	memset(memory, 1, bytes);
	printf("%-36s %7s %7s %7s\n", "MiB", "charged", "RSS", "huge");
	say("populated");

	if (pipe(release))
		die("pipe");
	child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		close(release[1]);
		_exit(read(release[0], &byte, 1) != 0);
	}
	for (size_t place = 0; place < bytes; place += WRITTEN_ONE_IN * BASE_BYTES)
		memory[place]++;
	say("a fifth written beside a child");
	close(release[1]);
	waitpid(child, NULL, 0);
	say("the child has gone");

	for (size_t place = 0; place < bytes; place += HUGE_BYTES)
		if (madvise(memory + place, HUGE_BYTES, MADV_COLLAPSE))
			die("madvise(MADV_COLLAPSE)");
	say("collapsed again");
	return 0;
}
