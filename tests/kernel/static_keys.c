// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * static_keys: switches a static key in the page fault handler while others fault. The kernel
 * patches its code for that, and some emulators execute a breakpoint that is gone already (QEMU
 * before 8.1 with a thread a CPU, on the plain kernel within seconds: crates/lab/src/qemu.rs). A
 * guest that dies here says nothing of copy-on-write.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KEY "/sys/kernel/tracing/events/exceptions/page_fault_user/enable"
#define PAGES 64

static void fault_for_ever(void)
{
	char *memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);
	pid_t child;

	if (memory == MAP_FAILED)
		_exit(1);
	for (;;) {
		child = fork();
		if (child <= 0)
			_exit(child < 0);
		for (int i = 0; i < PAGES; i++)
			memory[i * 4096]++;
		waitpid(child, NULL, 0);
	}
}

int main(void)
{
	time_t until = time(NULL) + (getenv("COWLAB_QUICK") ? 3 : 60);
	int key = open(KEY, O_WRONLY);
	long switched = 0;
	pid_t writer;
	int status;

	if (key < 0) {
		printf("1..0 # SKIP no %s\n", KEY);
		return 4;
	}
	writer = fork();
	if (!writer)
		fault_for_ever();
	for (; writer > 0 && time(NULL) < until; switched++)
		if (pwrite(key, switched % 2 ? "0" : "1", 1, 0) != 1)
			break;
	if (pwrite(key, "0", 1, 0) != 1 || writer < 0 || waitpid(writer, &status, WNOHANG)) {
		perror("static_keys: the writer has ended, or the key is stuck");
		return 1;
	}
	kill(writer, SIGKILL);
	waitpid(writer, NULL, 0);
	printf("# switched %ld times\n", switched);
	return switched < 2;
}
