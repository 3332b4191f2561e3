// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * jitted FOLDER PAGES: a compiler whose code copies PAGES pages. It writes FOLDER/jit-PID.dump, as
 * CPython's -X perf_jit does, and maps it, loads a function, moves it, and forks. The child calls
 * it each half second, on other pages.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PAGE 4096UL

/* void f(volatile char *at, long pages): writes a byte of each page. */
static const unsigned char code[] = { 0x48, 0x85, 0xf6, 0x74, 0x0f, 0xc6, 0x07,
				      0x01, 0x48, 0x81, 0xc7, 0x00, 0x10, 0x00,
				      0x00, 0x48, 0xff, 0xce, 0x75, 0xf1, 0xc3 };

struct load {
	uint32_t id, bytes;
	uint64_t time;
	uint32_t pid, tid;
	uint64_t vma, address, size, index;
	char name[16];
	unsigned char code[sizeof(code)];
} __attribute__((packed));

struct move {
	uint32_t id, bytes;
	uint64_t time;
	uint32_t pid, tid;
	uint64_t vma, from, to, size, index;
};

static void *map(size_t bytes, int protection)
{
	void *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		exit(1);
	madvise(at, bytes, MADV_NOHUGEPAGE);
	return at;
}

int main(int argc, char **argv)
{
	uint32_t head[10] = { 0x4a695444, 1, sizeof(head), 62, 0, getpid() };
	unsigned long pages = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
	char path[200];

	if (argc < 3)
		return 2;
	snprintf(path, sizeof(path), "%s/jit-%d.dump", argv[1], getpid());
	FILE *dump = fopen(path, "w+");
	if (!dump)
		return 1;
	char *made = map(2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC), *moved = made + PAGE;
	char *memory = map(8 * pages * PAGE, PROT_READ | PROT_WRITE);
	struct load load = { 0,
			     sizeof(load),
			     0,
			     getpid(),
			     getpid(),
			     (uintptr_t)made,
			     (uintptr_t)made,
			     sizeof(code),
			     7,
			     "compiled_before",
			     { 0 } };
	struct move move = { 1,
			     sizeof(move),
			     0,
			     getpid(),
			     getpid(),
			     (uintptr_t)moved,
			     (uintptr_t)made,
			     (uintptr_t)moved,
			     sizeof(code),
			     7 };
	memcpy(load.code, code, sizeof(code));
	memcpy(moved, code, sizeof(code));
	memset(memory, 7, 8 * pages * PAGE);
	fwrite(head, sizeof(head), 1, dump);
	fwrite(&load, sizeof(load), 1, dump);
	fwrite(&move, sizeof(move), 1, dump);
	fflush(dump);
	/* So that profilers find it. */
	mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
	if (fork())
		return pause();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int turn = 0; turn < 8; turn++) {
		usleep(500000);
		((void (*)(char *, long))moved)(memory + turn * pages * PAGE, pages);
	}
	return pause();
}
