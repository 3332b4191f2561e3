/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the BPF programs tell. crates/observe/src/bpf/record/ is made from this file by `make
 * bindings`; nothing else repeats the layout.
 */
#ifndef COWLAB_OBSERVE_RECORD_H
#define COWLAB_OBSERVE_RECORD_H

#include <linux/types.h>

/* What happened. */
enum cowlab_event_kind {
	COWLAB_FORK = 1,   /* a process was made by clone, fork or vfork; threads are not told */
	COWLAB_EXIT = 2,   /* its first thread ends */
	COWLAB_EXEC = 3,   /* it runs another program now */
	COWLAB_KILLED = 4, /* a signal that it does not handle is delivered */
};

#define COWLAB_SIGBUS 7
#define COWLAB_SIGSEGV 11

/* One of these, in the order in which they happened. Times are CLOCK_MONOTONIC's. */
struct cowlab_event {
	__u64 time_ns;
	__u64 begin_ns;	   /* fork: when its memory began to be copied; 0: not seen.
			    * killed by SIGSEGV or SIGBUS: the address that it accessed */
	__u64 clone_flags; /* fork: of clone(2). killed: the signal's number */
	__u32 kind;
	__u32 tgid;	  /* whose; of a fork the parent */
	__u32 tid;	  /* the thread that did it */
	__u32 child_tgid; /* fork: the new process; 0: not known */
	__u8 comm[16];	  /* the program's name, ended by NUL */
};

/* A page fault, in every-fault mode: of user mode, or a write of the kernel for a process. */
struct cowlab_fault {
	__u64 time_ns;
	__u64 address;
	__u32 tgid;
	__u32 tid;
	__u32 error_code; /* of the architecture; COWLAB_WRITE_PRESENT of x86-64: a copy or a reuse
			   */
	__u32 unused;
};

/* A page that was copied because it was written, in copies mode. The last piece of the writer's
 * stack follows, if `upper` is not 0, and then one from `sp` upward. */
struct cowlab_copy {
	__u64 time_ns;
	__u64 address;
	__u64 ip; /* registers in user mode */
	__u64 sp;
	__u64 fp;
	__u64 upper; /* the address of the last COWLAB_STACK_UPPER bytes; 0: they are not there */
	__u32 tgid;
	__u32 tid;
	__u32 every;   /* one copy in so many was told at this time */
	__s32 syscall; /* the kernel wrote, in this system call; -1: an instruction of the program
			*/
	__u32 stack_bytes;
	__u32 is_32_bit;
};

/* The most that is taken of a stack, and the least room in the ring that is taken for it. */
#define COWLAB_STACK_MOST 65536
#define COWLAB_STACK_LEAST 1024
/* The most that is taken where nobody said where the stack begins. */
#define COWLAB_STACK_PROBED 16384
/* What is taken of the end of a stack that is longer, or has a hole. */
#define COWLAB_STACK_UPPER 8192
/* The smallest share of copies that is told: one in so many. */
#define COWLAB_EVERY_MOST 65536

/* What user space sets in copies mode, and what was learned. */
struct cowlab_sampling {
	__u32 every;	/* tell one copy in so many; 0: none */
	__u32 learner;	/* a thread that makes one copy so that `copy_gfp` is known */
	__u32 copy_gfp; /* flags of the allocation for a copy; 0: not known */
	__u32 doubling; /* after so many `every` doubles, so that a burst costs little; 0: never */
	__u32 told;	/* since that or since it was set */
	__u32 unused;
};

/* A CPU's ring of faults. Each number has a cache line of its own: different CPUs write them. */
struct cowlab_ring {
	__u64 written; /* records since the beginning; the programs' */
	__u64 unused_written[7];
	__u64 taken; /* of them, those that were read; the reader's */
	__u64 unused_taken[7];
};

/* The bit of x86-64's error code that says: a write. */
#define COWLAB_WRITE 2
/* x86-64's error code of a write from user mode to a page that is there but write-protected. */
#define COWLAB_WRITE_PRESENT 7
/* The same to a page that is not there. */
#define COWLAB_WRITE_ABSENT 6

/* Faults of one process, on one CPU: positions in an array of __u64. */
enum cowlab_count {
	COWLAB_FAULTS,	       /* every user fault */
	COWLAB_WRITES_PRESENT, /* error code COWLAB_WRITE_PRESENT; in copies mode the kernel's, too
				*/
	COWLAB_WRITES_ABSENT,  /* error code COWLAB_WRITE_ABSENT */
	COWLAB_COPIES,	       /* pages that were copied, in copies mode */
	COWLAB_TELLING_NS,     /* time for telling them, in copies mode */
	COWLAB_COUNTS,
};

/* System calls that are counted have smaller numbers. */
#define COWLAB_CALLS 512

/* Losses, one CPU's: positions in an array of __u64. */
enum cowlab_loss {
	COWLAB_LOST_EVENTS,    /* the ring of events was full */
	COWLAB_LOST_FAULTS,    /* a ring of faults was full */
	COWLAB_LOST_PROCESSES, /* no room to count another process */
	COWLAB_LOST_COPIES,    /* the ring of copies was full */
	COWLAB_LOSSES,
};

/* What learn.bpf.c leaves: a piece of a new thread's task_struct, where a fork allocated, and whose
 * memory it locked. */
#define COWLAB_TASK_BYTES 8192
#define COWLAB_SITES 8
struct cowlab_learned {
	__u32 sites; /* in use, in their order since the fork began */
	__u32 forks; /* seen to end */
	__u64 site[COWLAB_SITES];
	__u64 locked[2]; /* the last two mm whose lock was asked for before the fork's end */
	__u32 threads;	 /* seen to be made; the last one's task_struct is below */
	__u32 task_failed;
	__u8 task[COWLAB_TASK_BYTES];
};

#endif
