// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * defer_memory: deferred page tables (vm.cow_defer) and a memory cgroup at its limit. A child in
 * the full cgroup survives its parent's writes. A parent and child that the OOM killer chooses both
 * exit: no task waits for memory while it holds a lock that they need in order to exit.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cases.h"
#include "settings.h"

#define CGROUPS "/sys/fs/cgroup/"
#define GROUP CGROUPS "defer_memory/"
#define TABLE (2UL << 20)
#define TABLES 64
#define ROUNDS 10

static char *heap;

static char *map(size_t size)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("mmap");
	madvise(memory, size, MADV_NOHUGEPAGE);
	return memory;
}

static void enter_group(void)
{
	if (!put(GROUP "cgroup.procs", "0"))
		die(GROUP "cgroup.procs");
}

static void limit_group(const char *bytes)
{
	if (!put(GROUP "memory.max", bytes))
		die(GROUP "memory.max");
}

static long killed(void)
{
	return figure(GROUP "memory.events", "oom_kill");
}

/* Tell the other side, or wait until it has told. */
static void tell(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(1);
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(1);
}

/* One page of each page table is written, and a child in the full group sees what was there. */
static void child_at_limit(void)
{
	int to_child[2], to_parent[2], status;
	char current[40];
	pid_t child;

	if (pipe(to_child) || pipe(to_parent))
		die("pipe");
	set("cow_defer_delay_ms", 10000);
	heap = map((TABLES + 1) * TABLE);
	heap += TABLE - (uintptr_t)heap % TABLE;
	for (size_t table = 0; table < TABLES; table++)
		heap[table * TABLE] = 1;
	child = fork();
	if (child < 0)
		die("fork");
	if (child == 0) {
		bool same = true;

		enter_group();
		memset(map(TABLE), 1, TABLE);
		tell(to_parent[1]);
		hear(to_child[0]);
		for (size_t table = 0; table < TABLES; table++)
			same &= heap[table * TABLE] == 1;
		_exit(!same);
	}
	hear(to_parent[0]);
	if (!get_text(GROUP "memory.current", current, sizeof(current)))
		die(GROUP "memory.current");
	limit_group(current);
	for (size_t table = 0; table < TABLES; table++)
		heap[table * TABLE] = 2;
	limit_group("max");
	tell(to_child[1]);
	waitpid(child, &status, 0);
	check(!status && !killed(), "a child in a full group keeps what its parent overwrites");
}

/* Whether the group has nobody left, soon. */
static bool group_empties(void)
{
	for (int tries = 0; tries < 1000; tries++) {
		char processes[40];

		if (get_text(GROUP "cgroup.procs", processes, sizeof(processes)) && !*processes)
			return true;
		usleep(10000);
	}
	return false;
}

/* A third needs the memory of a parent and its child: whether these end, with all page tables
 * copied. */
static bool victims_end(void)
{
	long lost = figure("/proc/cow_stats", "defer_lost"), before = killed();
	pid_t parent, third;
	int ready[2];
	char byte;
	bool end;

	if (pipe(ready))
		die("pipe");
	parent = fork();
	if (parent == 0) {
		enter_group();
		put("/proc/self/oom_score_adj", "1000");
		memset(map(16 * TABLE), 1, 16 * TABLE);
		fork();
		tell(ready[1]);
		for (;;)
			pause();
	}
	if (parent < 0 || read(ready[0], &byte, 1) != 1 || read(ready[0], &byte, 1) != 1)
		die("fork");
	third = fork();
	if (third < 0)
		die("fork");
	if (third == 0) {
		enter_group();
		memset(map(24 * TABLE), 1, 24 * TABLE);
		_exit(0);
	}
	waitpid(third, NULL, 0);
	waitpid(parent, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	end = group_empties();
	if (!end)
		put(GROUP "cgroup.kill", "1");
	return end && killed() - before >= 2 && figure("/proc/cow_stats", "defer_lost") == lost;
}

int main(void)
{
	int right = 0;

	if (!has_setting("cow_defer")) {
		printf("this kernel has no vm.cow_defer\n");
		return 4;
	}
	if (access(CGROUPS "cgroup.controllers", R_OK)) {
		printf("no cgroup2 in " CGROUPS "\n");
		return 4;
	}
	remember_settings();
	set("cow_defer", 2);
	put(CGROUPS "cgroup.subtree_control", "+memory");
	if (mkdir(GROUP, 0755) && errno != EEXIST)
		die(GROUP);
	printf("KTAP version 1\n1..2\n");
	child_at_limit();
	limit_group("67108864"); /* 64 MiB: 32 and their page tables, and 48 */
	put(GROUP "memory.swap.max", "0");
	for (int round = 0; round < ROUNDS; round++) {
		set("cow_defer_delay_ms", round % 3);
		right += victims_end();
	}
	check(right == ROUNDS, "a parent and a child whom the OOM killer ends do end");
	rmdir(GROUP);
	return failures != 0;
}
