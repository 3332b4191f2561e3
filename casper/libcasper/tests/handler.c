/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * handler COUNTERS STACK_BYTES [gate]: the first event of a forked child, recorded by a signal
 * handler on an alternate stack of that many bytes beside what the kernel needs of it. Below the
 * stack is nothing. counters[0] is the number of events. With `gate` there is no child: the handler
 * records until counters[10] is not 0, so that one of its events enters the session that somebody
 * asks for.
 */
#define _GNU_SOURCE
#include <sys/auxv.h>

#include "test.h"

static uint64_t *count;

static void handler(int signal)
{
	(void)signal;
	if (prove(0, getpid(), 0) == 0)
		count[0]++;
}

static size_t of_the_kernel(void)
{
	size_t bytes = getauxval(AT_MINSIGSTKSZ);

	return bytes ? bytes : 2048;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	size_t bytes = argc >= 3 ? of_the_kernel() + strtoull(argv[2], NULL, 10) : 0;
	stack_t stack = { .ss_size = bytes };
	size_t room = (bytes + 4095) & ~(size_t)4095;
	char *memory;
	int status = 0;

	count = counters(argv[1]);
	memory = mmap(NULL, room + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || mprotect(memory + 4096, room, PROT_READ | PROT_WRITE))
		return 1;
	stack.ss_sp = memory + 4096 + room - bytes;
	/* What the stack's own end shares a page with tells an overrun as well. */
	memset(memory + 4096, 0x5a, room - bytes);
	if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL) || prove(1, getpid(), 0))
		return 1;
	if (argc == 3 && fork())
		return wait(&status) < 0 || status;
	do {
		raise(SIGUSR1);
		usleep(1000);
	} while (argc > 3 && !__atomic_load_n(&count[10], __ATOMIC_RELAXED));
	for (size_t i = 0; i < room - bytes; i++)
		if (memory[4096 + i] != 0x5a)
			_exit(1);
	_exit(0);
}
