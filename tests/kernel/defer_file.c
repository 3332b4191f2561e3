// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * defer_file: what is mapped beside memory whose page tables fork has left for later
 * (vm.cow_defer). A file or shared memory that is mapped there, read and unmapped must be gone:
 * fresh anonymous memory in its place holds zeros.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "cases.h"
#include "settings.h"

#define TABLE (2UL << 20)
#define ROUNDS 50

static char page[4096], *room;

/* A heap of @size bytes, @offset from a page table's start, with nothing around it. */
static char *heap_new(size_t offset, size_t size)
{
	char *reserved = mmap(NULL, 4 * TABLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	     *heap;

	if (reserved == MAP_FAILED)
		die("mmap");
	munmap(reserved, 4 * TABLE);
	room = reserved + TABLE - (uintptr_t)reserved % TABLE;
	heap = room + offset;
	if (mmap(heap, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != heap)
		die("mmap");
	madvise(heap, size, MADV_NOHUGEPAGE);
	memset(heap, 'A', size);
	return heap;
}

static pid_t child_new(void)
{
	pid_t child = fork();

	if (child < 0)
		die("fork");
	if (child == 0) {
		pause();
		_exit(0);
	}
	return child;
}

/* Whether a file's page at @at, mapped and read after a fork, is gone when it is unmapped. */
static bool goes(int fd, char *at, int flags)
{
	pid_t child = child_new();
	bool right;

	munmap(at, sizeof(page));
	if (mmap(at, sizeof(page), PROT_READ, flags | MAP_FIXED, fd, 0) != at)
		die("mmap of a file");
	right = *(volatile char *)at == 'F';
	munmap(at, sizeof(page));
	if (mmap(at, sizeof(page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0) != at)
		die("mmap");
	right &= !*(volatile char *)at;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return right;
}

static void rounds(const char *name, int fd, int flags, size_t offset, size_t size, size_t gap)
{
	int wrong = 0, before = failures;

	running = name;
	for (int round = 0; round < ROUNDS; round++) {
		char *heap = heap_new(offset, size);

		wrong += !goes(fd, room + gap, flags);
		munmap(heap, size);
		munmap(room, 2 * TABLE);
	}
	if (wrong)
		fail("%d of %d fresh mappings held a file's bytes", wrong, ROUNDS);
	done(name, before);
}

int main(void)
{
	char path[] = "/tmp/defer_fileXXXXXX";
	int file = mkstemp(path), shared = memfd_create("defer_file", 0);

	if (!has_setting("cow_defer")) {
		printf("this kernel has no vm.cow_defer\n");
		return 4;
	}
	memset(page, 'F', sizeof(page));
	if (file < 0 || shared < 0 || write(file, page, sizeof(page)) != sizeof(page) ||
	    write(shared, page, sizeof(page)) != sizeof(page))
		die(path);
	unlink(path);
	remember_settings();
	set("cow_defer", 10000);
	printf("KTAP version 1\n1..6\n");
	rounds("a file behind half a page table", file, MAP_SHARED, 0, TABLE / 2, TABLE / 2);
	rounds("a file before half a page table", file, MAP_PRIVATE, TABLE / 2, TABLE / 2, 0);
	rounds("shared memory behind half a page table", shared, MAP_SHARED, 0, TABLE / 2,
	       TABLE / 2);
	rounds("a file in a whole page table", file, MAP_SHARED, 0, TABLE, TABLE / 2);
	rounds("shared memory in a whole page table", shared, MAP_SHARED, 0, TABLE, TABLE / 2);
	rounds("a file behind a whole page table", file, MAP_SHARED, 0, TABLE, TABLE);
	return failures != 0;
}
