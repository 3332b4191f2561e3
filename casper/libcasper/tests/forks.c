/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * forks COUNTERS CHILDREN: children that fork children of their own, vfork children, a thread that
 * forks, forks by the bare system call. Each process records three events as source 0 and counts
 * itself: counters[0] is the number of processes; counters[1 + i] are their pids.
 */
#define _GNU_SOURCE
#include "test.h"

static uint64_t *count;

static void three(uint16_t source, uint64_t first)
{
	uint32_t pid = getpid();

	if (!first)
		count[1 + __atomic_fetch_add(&count[0], 1, __ATOMIC_RELAXED)] = pid;
	for (uint64_t number = first; number < first + 3; number++)
		if (prove(source, pid, number))
			abort();
}

static void await(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "child %d ended with %x\n", pid, status);
		abort();
	}
}

static void child_of(int depth)
{
	pid_t pid = fork();

	if (pid == 0) {
		three(0, 0);
		if (depth)
			child_of(depth - 1);
		_exit(0);
	}
	await(pid);
}

static void by_vfork(void)
{
	pid_t pid = vfork();

	if (pid == 0) {
		three(0, 0);
		_exit(0);
	}
	await(pid);
}

static void by_system_call(void)
{
	pid_t pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0) {
		/* getpid() is the system call in this libc; no cache to mislead. */
		three(0, 0);
		_exit(0);
	}
	await(pid);
}

static void *thread(void *unused)
{
	(void)unused;
	three(1, 0 + 3); /* source 1 begins at 3: the process was counted already */
	child_of(0);
	by_vfork();
	three(1, 6);
	return NULL;
}

int main(int argc, char **argv)
{
	int children = argc == 3 ? atoi(argv[2]) : 0;
	pthread_t other;

	count = counters(argv[1]);
	three(0, 0);
	for (int i = 0; i < children; i++) {
		switch (i % 4) {
		case 0:
			child_of(i % 8 == 4 ? 2 : 0);
			break;
		case 1:
			by_vfork();
			break;
		case 2:
			by_system_call();
			break;
		case 3:
			pthread_create(&other, NULL, thread, NULL);
			pthread_join(other, NULL);
			break;
		}
	}
	three(0, 3);
	return 0;
}
