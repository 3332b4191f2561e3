/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * fork_small FORKS HEAP_BYTES: forks of the smallest possible process, as in Barkley and Schimmel
 * 1988, "Analysis of Fork": one page of text, one of data, one of stack, and a heap of which every
 * page is written. No C library: nothing else is mapped, nothing runs before _start, and what a
 * fork costs is the kernel's. Each child ends at once, and is reaped before the next.
 *
 * Rows: fork_ns, the parent's time in fork(2); timer_ns, that two readings of the clock take alone.
 */
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define FORKS_MAX 500 /* the records are in the page of data */

static uint64_t times[FORKS_MAX];

#if defined(__x86_64__)
static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}
__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall begin\n");
#elif defined(__aarch64__)
static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
__asm__(".globl _start\n_start:\n\tmov x0, sp\n\tbl begin\n");
#else
#error "fork_small needs a system call for this architecture"
#endif

static void leave(int status)
{
	call(SYS_exit_group, status, 0, 0, 0, 0, 0);
	__builtin_unreachable();
}

static void print(const char *text)
{
	long length = 0;

	while (text[length])
		length++;
	call(SYS_write, 1, (long)text, length, 0, 0, 0);
}

static void fail(const char *text)
{
	long length = 0;

	while (text[length])
		length++;
	call(SYS_write, 2, (long)text, length, 0, 0, 0);
	leave(text[0] == 'u' ? 2 : 1);
}

static void print_number(uint64_t value)
{
	char text[21], *at = text + 20;

	*at = 0;
	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	print(at);
}

static uint64_t parse(const char *text)
{
	uint64_t value = 0;

	if (!text || !*text)
		fail("usage: fork_small FORKS HEAP_BYTES\n");
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || value > UINT64_MAX / 10 - 1)
			fail("usage: fork_small FORKS HEAP_BYTES: whole numbers\n");
		value = value * 10 + (uint64_t)(*text - '0');
	}
	return value;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0, 0, 0, 0);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static long fork_once(void)
{
#ifdef SYS_fork
	return call(SYS_fork, 0, 0, 0, 0, 0, 0);
#else
	return call(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0, 0);
#endif
}

__attribute__((used)) void begin(const uintptr_t *stack)
{
	const char *const *arguments = (const char *const *)(stack + 1);
	uint64_t forks, heap_bytes, began, timer_ns;

	if (stack[0] != 3)
		fail("usage: fork_small FORKS HEAP_BYTES\n");
	forks = parse(arguments[1]);
	heap_bytes = parse(arguments[2]);
	if (!forks || forks > FORKS_MAX)
		fail("usage: fork_small FORKS HEAP_BYTES: 1 to 500 forks\n");
	if (heap_bytes) {
		char *heap = (char *)call(SYS_mmap, 0, (long)heap_bytes, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if ((uintptr_t)heap > (uintptr_t)-4096)
			fail("cannot map the heap: no memory for so many bytes\n");
		call(SYS_madvise, (long)heap, (long)heap_bytes, MADV_NOHUGEPAGE, 0, 0, 0);
		for (uint64_t at = 0; at < heap_bytes; at += 4096)
			((volatile char *)heap)[at] = 1;
	}
	/* One that is not recorded: the stack and the data are the parent's own again. */
	for (uint64_t i = 0; i <= forks; i++) {
		long pid;

		began = now_ns();
		pid = fork_once();
		if (!pid)
			leave(0);
		times[i ? i - 1 : 0] = now_ns() - began;
		if (pid < 0)
			fail("fork failed: the limit on processes, or on memory, is reached\n");
		call(SYS_wait4, pid, 0, 0, 0, 0, 0);
	}
	began = now_ns();
	timer_ns = now_ns() - began;
	print("{\"metric\":\"fork_ns\",\"child\":0,\"values\":[");
	for (uint64_t i = 0; i < forks; i++) {
		if (i)
			print(",");
		print_number(times[i]);
	}
	print("]}\n{\"metric\":\"timer_ns\",\"child\":0,\"values\":[");
	print_number(timer_ns);
	print("]}\n{\"metric\":\"end\",\"child\":0,\"values\":[]}\n");
	leave(0);
}
