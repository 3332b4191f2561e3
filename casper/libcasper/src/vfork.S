/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * vfork with two calls around it (vfork.c). The child returns first and reuses the stack below the
 * caller's frame, so the return address is kept in a register across the system call.
 */
#if defined(__x86_64__)
	.text
	.globl	vfork
	.type	vfork, @function
vfork:
	endbr64
	subq	$8, %rsp
	call	casper_before_vfork
	addq	$8, %rsp
	popq	%rdi
	movl	$58, %eax
	syscall
	pushq	%rdi
	movq	%rax, %rdi
	subq	$8, %rsp
	call	casper_after_vfork
	addq	$8, %rsp
	ret
	.size	vfork, . - vfork
#elif defined(__aarch64__)
	.text
	.globl	vfork
	.type	vfork, %function
vfork:
	stp	x29, x30, [sp, #-16]!
	bl	casper_before_vfork
	ldp	x29, x30, [sp], #16
	mov	x0, #0x4111		/* CLONE_VM | CLONE_VFORK | SIGCHLD */
	mov	x1, #0
	mov	x2, #0
	mov	x3, #0
	mov	x4, #0
	mov	x8, #220
	svc	#0
	stp	x29, x30, [sp, #-16]!
	bl	casper_after_vfork
	ldp	x29, x30, [sp], #16
	ret
	.size	vfork, . - vfork
#endif
	.section .note.GNU-stack, "", %progbits
