// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * defer_memory: deferred page tables (vm.cow_defer) and a memory cgroup at its limit. A child in
 * the full cgroup survives its parent's writes. A parent in it makes room like anybody else: all
 * page tables are charged to the cgroup. A parent and child that the OOM killer chooses both exit:
 * no task waits for memory while it holds a lock that they need in order to exit.
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
#define MANY 256 /* page tables: more than CPUs charge in advance */
#define OTHERS 4
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
	char current[40], *whole;
	pid_t child;

	if (pipe(to_child) || pipe(to_parent))
		die("pipe");
	set("cow_defer", 10000);
	whole = map((TABLES + 1) * TABLE);
	heap = whole + TABLE - (uintptr_t)whole % TABLE;
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
	munmap(whole, (TABLES + 1) * TABLE);
	check(!status && !killed(), "a child in a full group keeps what its parent overwrites");
}

static long page_tables(void)
{
	return figure(GROUP "memory.stat", "pagetables");
}

/* The parent's group has room for some of the page tables, and processes to end for more. */
static void parent_at_limit(void)
{
	long before = killed(), copied, charged = 0;
	int ready[2], status;
	pid_t parent, others[OTHERS];

	if (pipe(ready))
		die("pipe");
	limit_group("max");
	/* More than one, since the first one's memory comes back late. */
	for (int i = 0; i < OTHERS; i++) {
		others[i] = fork();
		if (others[i] == 0) {
			enter_group();
			put("/proc/self/oom_score_adj", "1000");
			memset(map(TABLE), 1, TABLE);
			tell(ready[1]);
			for (;;)
				pause();
		}
		hear(ready[0]);
	}
	parent = fork();
	if (parent == 0) {
		char limit[40];
		pid_t child;

		enter_group();
		heap = map((MANY + 1) * TABLE);
		heap += TABLE - (uintptr_t)heap % TABLE;
		for (size_t table = 0; table < MANY; table++)
			heap[table * TABLE] = 1;
		child = fork();
		if (child == 0) {
			hear(ready[0]);
			for (size_t table = 0; table < MANY; table++)
				if (heap[table * TABLE] != 1)
					_exit(1);
			_exit(0);
		}
		copied = figure("/proc/cow_stats", "defer_by_parent");
		charged = page_tables();
		if (!get_text(GROUP "memory.current", limit, sizeof(limit)))
			die(GROUP "memory.current");
		snprintf(limit, sizeof(limit), "%ld", atol(limit) + MANY / 16 * 4096);
		limit_group(limit);
		/* Copies all page tables, and takes nothing else. */
		if (mprotect(heap, MANY * TABLE, PROT_READ))
			_exit(2);
		limit_group("max");
		copied = figure("/proc/cow_stats", "defer_by_parent") - copied;
		/* Some of the others' are gone. */
		charged = page_tables() - charged + OTHERS * 16 * 4096;
		printf("# %ld page tables copied, %ld bytes more of them charged\n", copied,
		       charged);
		fflush(stdout);
		tell(ready[1]);
		waitpid(child, &status, 0);
		_exit(status || copied < MANY || charged < MANY * 4096 ? 3 : 0);
	}
	waitpid(parent, &status, 0);
	for (int i = 0; i < OTHERS; i++) {
		kill(others[i], SIGKILL);
		waitpid(others[i], NULL, 0);
	}
	if (status)
		printf("# the parent ended with 0x%x, %ld killed\n", status, killed() - before);
	check(!status && killed() > before,
	      "a parent in a full group is charged for the page tables that it has copied");
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
	put(CGROUPS "cgroup.subtree_control", "+memory");
	if (mkdir(GROUP, 0755) && errno != EEXIST)
		die(GROUP);
	put(GROUP "memory.swap.max", "0");
	printf("KTAP version 1\n1..3\n");
	child_at_limit();
	parent_at_limit();
	limit_group("67108864"); /* 64 MiB: 32 and their page tables, and 48 */
	for (int round = 0; round < ROUNDS; round++) {
		set("cow_defer", 1 + round % 3);
		right += victims_end();
	}
	check(right == ROUNDS, "a parent and a child whom the OOM killer ends do end");
	rmdir(GROUP);
	return failures != 0;
}
