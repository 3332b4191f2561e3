/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * clone3(2) with a function and a stack for the child. The C library offers
 * none, and a child that shares its parent's memory must not return through
 * the parent's stack, so syscall(SYS_clone3, ...) cannot be used.
 */
#ifndef COWLAB_CLONE3_H
#define COWLAB_CLONE3_H

#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>

/* Returns the child's id, or -errno. entry must not return. */
static inline pid_t clone3_call(struct clone_args *args, void (*entry)(void *), void *argument)
{
#if defined(__x86_64__)
	register void (*function)(void *) __asm__("r12") = entry;
	register void *value __asm__("r13") = argument;
	long result;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(result)
			 : "0"((long)SYS_clone3), "D"(args), "S"(sizeof(*args)), "r"(function),
			   "r"(value)
			 : "rcx", "r11", "memory");
	return (pid_t)result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_clone3;
	register void *x0 __asm__("x0") = args;
	register size_t x1 __asm__("x1") = sizeof(*args);
	register void (*function)(void *) __asm__("x19") = entry;
	register void *value __asm__("x20") = argument;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x0, x20\n\t"
			 "blr x19\n\t"
			 "brk #1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(function), "r"(value)
			 : "memory");
	return (pid_t)(intptr_t)x0;
#else
#error "clone3_call needs a few lines for this architecture"
#endif
}

#endif
