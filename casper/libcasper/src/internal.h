/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What libcasper's parts share. Names that begin with casper_ are public or seen by the linker;
 * those of this header are hidden (-fvisibility=hidden) or static.
 *
 * The rules of this library, since it runs inside somebody's program at any moment of its life:
 * no allocation, no lock that is held across a fork, no call that is not async-signal-safe on any
 * path that casrecord can take, errno kept, and what the shared memory says never becomes an
 * address without having been checked: a recorder that misbehaves costs the trace, not the program.
 */
#ifndef CASPER_INTERNAL_H
#define CASPER_INTERNAL_H

/* Nothing in a session is 32 bits wide that has to be 64, nor the other way round. */
#if __SIZEOF_POINTER__ != 8
#error "libcasper records 64-bit programs only"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "casper.h"
#include "casper/insert.h"
#include "cowlab/record.h"

/* The longest path, its NUL included. */
#define PATH_BYTES 4096

#define PUBLIC __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
/* Orders what a signal handler on the same thread can see. */
#define barrier() __atomic_signal_fence(__ATOMIC_SEQ_CST)

#define load(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define load_acquire(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define add_fetch(p, v) __atomic_add_fetch(p, v, __ATOMIC_ACQ_REL)

/*
 * A thread has a buffer for its normal course and one for each signal handler that interrupted the
 * recording of an event, up to this depth; deeper ones drop their events.
 */
#define LEVELS 4

/*
 * The private side of a claimed buffer. It lives in memory that a fork wipes (MADV_WIPEONFORK): a
 * child finds zeros, so that `at + room > end` sends it to the slow path, which notices the fork.
 */
struct writer {
	const volatile uint32_t *on; /* casper_on of the session that it belongs to */
	char *at;		     /* where the next record goes */
	char *end;		     /* of the sub-buffer; equal to `at` to force the slow path */
	uint64_t base_ticks;	     /* of the sub-buffer */
	uint64_t bias;		     /* position minus address */
	uint64_t events;
	__u64 *head; /* where the position is published */
	const uint8_t *filter;
	uint32_t busy; /* an event is being recorded; what comes now comes from a signal handler */
	uint32_t unused;
	struct casper_buffer *buffer;
	char *ring;
	uint64_t subbuf; /* position of the sub-buffer */
	uint64_t dropped;
	uint64_t noted_dropped; /* as the last CASPER_LOST said */
	uint32_t process;	/* to which events belong now */
	uint32_t noted_process;
	uint32_t pid;
	uint32_t tid;
} __attribute__((aligned(64)));

/*
 * A process's view of a session, in private memory of its own that is never freed: another thread
 * may still look at it after the session was left. Sizes are checked copies, since what the shared
 * memory says may change at any time.
 */
struct view {
	struct casper_session *session;
	struct writer *writers; /* one for each buffer, and one more whose `busy` tells of a fork */
	uint64_t heartbeat;	/* the last one seen, and when */
	uint64_t heartbeat_ns;
	uint64_t asked_ns;	     /* when the recorder was looked for last */
	uint64_t no_buffer_until_ns; /* do not wait for a buffer again before this */
	uint32_t process;
	uint32_t mode;
	uint32_t clock;
	uint32_t buffer_count;
	uint32_t buffer_bytes;
	uint32_t subbuf_bytes;
	uid_t uid;		/* who entered, and where: another may not see the recorder */
	uint64_t pid_namespace; /* 0: not known */
	uint64_t session_bytes;
	uint64_t meta_offset;
	uint64_t meta_bytes;
	uint64_t buffers_offset;
	uint64_t buffer_stride;
	uint64_t device; /* of the session's file, */
	uint64_t inode;
	char path[128];		  /* and where it was found; empty: not known */
	char scratch[PATH_BYTES]; /* of who enters: signal handlers have small stacks */
};

/* What precedes a view's writers in memory: whole pages. */
#define VIEW_BYTES 8192
_Static_assert(sizeof(struct view) <= VIEW_BYTES, "a view does not fit");

extern __thread struct writer *writers[LEVELS] __attribute__((tls_model("initial-exec")));

/* record.c */
int record_slowly(const void *event, size_t size);

/* session.c */
struct view *session_view(void); /* NULL: nobody records */
void session_begin(void);
void session_wake(struct view *v);
bool session_alive(struct view *v);
bool session_pause(struct view *v, unsigned int *tries); /* false: it was long enough */

/* writer.c */
struct writer *writer_claim(struct view *v, unsigned int level);
int writer_put(struct view *v, struct writer *w, const void *event, size_t size);

/* vfork.c */
bool vfork_child(void);

/* meta.c */
void meta_process(struct view *v, uint32_t process, uint32_t parent, uint32_t origin);
void meta_type(struct view *v, const struct casper_type_info *type);
void meta_unit(struct view *v, const struct casper_unit *unit);
void meta_modules(struct view *v);

/* registry.c */
void registry_tell(struct view *v);

/* gate.c */
void gate_open(void);
const volatile uint32_t *gate_slot(void);
bool gate_asks(char path[56]);

/* clock.c */
uint64_t ticks_of(uint32_t clock);
uint64_t monotonic_ns(void);

static inline uint64_t cycles(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t value;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
	return value;
#else
	return 0; /* the recorder never chooses this clock here */
#endif
}

static inline size_t room_of(size_t size)
{
	return 8 + ((size + 7) & ~(size_t)7);
}

static inline bool is_recorded(const uint8_t *filter, uint32_t type)
{
	return filter[type >> 3] >> (type & 7) & 1;
}

#endif
