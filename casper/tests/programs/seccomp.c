/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Records an event each ms under a filter that ends it for any system call but those that
 * libcasper(7) names for a program that has entered its session, or that nobody asked to enter one.
 */
#include <casper.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOW(number)                                                                              \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, 0, 1),                                   \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(gettid),
		ALLOW(futex),
		ALLOW(clock_nanosleep),
		ALLOW(newfstatat),
		ALLOW(faccessat),
		ALLOW(madvise),
		ALLOW(getpid),
		ALLOW(getppid),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };
	struct {
		casper_event_type event_type;
	} event = { 0x20 };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 1;
	for (;;) {
		casrecord(&event, sizeof(event));
		usleep(1000);
	}
}
