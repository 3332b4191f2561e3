// SPDX-License-Identifier: Apache-2.0 OR MIT
/* tiny: the smallest program that can be executed; it only exits. */
#include <sys/syscall.h>

__attribute__((noreturn)) void _start(void)
{
#if defined(__x86_64__)
	__asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(0));
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_exit_group;
	register long x0 __asm__("x0") = 0;

	__asm__ volatile("svc #0" : : "r"(x8), "r"(x0));
#else
#error "tiny needs a line for this architecture"
#endif
	__builtin_unreachable();
}
