/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Entering and leaving a session. A process enters when it starts, by the environment variable
 * CASPER_SESSION, or while it runs, by its user's gate. It notices that it was forked, and that the
 * session is over or has lost its recorder.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

/* Without a heartbeat for this long, nobody waits for the recorder any more… */
#define WAIT_LIMIT_NS 5000000000
/* …and after this long the session is left. */
#define LEAVE_LIMIT_NS 30000000000

/* Before main, and before this library began, the first event must come the slow way. */
static const volatile uint32_t not_begun = 1;
static const volatile uint32_t never = 0;
PUBLIC const volatile uint32_t *casper_on = &not_begun;

static struct view *current;
static int status;
/* The pid of who is entering a session, so that a child of a fork in the middle is not stuck. */
static pid_t entering;

static void idle(void)
{
	const volatile uint32_t *slot = gate_slot();

	store_release(&casper_on, slot ? slot : &never);
}

void session_wake(struct view *v)
{
	add_fetch(&v->session->wanted, 1);
	if (load(&v->session->sleeping))
		syscall(SYS_futex, &v->session->wanted, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void leave(struct view *v)
{
	if (__atomic_compare_exchange_n(&current, &v, NULL, false, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST))
		idle();
}

bool session_alive(struct view *v)
{
	uint64_t beat = load(&v->session->heartbeat), now = monotonic_ns();
	int64_t still_ns;

	/* Other threads do the same: the time goes first, and may be later than this thread's. */
	if (beat != load_acquire(&v->heartbeat) || !load(&v->heartbeat_ns)) {
		store(&v->heartbeat_ns, now);
		store_release(&v->heartbeat, beat);
		return true;
	}
	still_ns = (int64_t)(now - load(&v->heartbeat_ns));
	if (still_ns > LEAVE_LIMIT_NS) {
		/* Its memory is nobody's now; give it back and go on without. */
		store(&v->session->abandoned, 1);
		store(&v->session->on, CASPER_OVER);
		madvise((char *)v->session + v->meta_offset, v->session_bytes - v->meta_offset,
			MADV_REMOVE);
		leave(v);
	}
	return still_ns <= WAIT_LIMIT_NS;
}

bool session_pause(struct view *v, unsigned int *tries)
{
	struct timespec pause = { .tv_nsec = *tries < 20 ? 20000 : 200000 };

	session_wake(v);
	if (v->mode == CASPER_MODE_WAIT ? !session_alive(v) : *tries >= 50)
		return false;
	++*tries;
	clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	return *casper_on == CASPER_RECORDING;
}

/* After a fork this process has a number of its own, and none of its parent's buffers. */
static bool notice_fork(struct view *v)
{
	uint32_t *state = &v->writers[v->buffer_count].busy, wiped = 0, parent;

	if (likely(load_acquire(state) == 2))
		return true;
	if (!__atomic_compare_exchange_n(state, &wiped, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return false;
	parent = v->process;
	v->process = add_fetch(&v->session->next_process, 1);
	meta_process(v, v->process, parent, CASPER_ORIGIN_FORKED);
	store_release(state, 2);
	return true;
}

static bool valid(const struct casper_session *s, uint64_t file_bytes)
{
	uint64_t ring = s->buffer_bytes;

	return s->magic == CASPER_SESSION_MAGIC && s->version == CASPER_VERSION &&
	       s->session_bytes == file_bytes && s->subbuf_bytes >= 16384 &&
	       !(s->subbuf_bytes & (s->subbuf_bytes - 1)) && !(ring & (ring - 1)) &&
	       ring >= 2 * (uint64_t)s->subbuf_bytes && s->buffer_count &&
	       s->buffer_count <= 1 << 20 && s->buffer_stride <= (uint64_t)1 << 40 &&
	       s->buffer_stride >= ring + CASPER_BUFFER_HEADER_BYTES &&
	       s->buffer_stride % 4096 == 0 && s->meta_offset >= sizeof(*s) &&
	       s->meta_offset % 4096 == 0 && s->meta_bytes <= file_bytes &&
	       s->meta_offset + s->meta_bytes <= s->buffers_offset &&
	       s->buffers_offset % 4096 == 0 && s->buffers_offset <= file_bytes &&
	       s->buffer_count <= (file_bytes - s->buffers_offset) / s->buffer_stride;
}

static struct view *map(const char *path)
{
	struct stat file, namespace;
	struct casper_session *s;
	size_t writers_bytes;
	void *memory;
	struct view *v = NULL;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		status = -errno;
		return NULL;
	}
	status = -EPERM;
	/* Another user's file could be changed under us by that user. */
	if (fstat(fd, &file) || !S_ISREG(file.st_mode) ||
	    (file.st_uid != geteuid() && file.st_uid != 0))
		goto close;
	status = -EPROTO;
	if ((size_t)file.st_size < sizeof(*s))
		goto close;
	memory = mmap(NULL, file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	status = -errno;
	if (memory == MAP_FAILED)
		goto close;
	s = memory;
	if (!valid(s, file.st_size)) {
		status = -EPROTO;
		goto unmap;
	}
	writers_bytes = (s->buffer_count + 1) * sizeof(struct writer);
	memory = mmap(NULL, 4096 + writers_bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		status = -errno;
		goto unmap;
	}
	v = memory;
	v->writers = (struct writer *)((char *)memory + 4096);
	if (madvise(v->writers, writers_bytes, MADV_WIPEONFORK)) {
		status = -errno;
		munmap(memory, 4096 + writers_bytes);
		v = NULL;
		goto unmap;
	}
	v->writers[s->buffer_count].busy = 2;
	v->session = s;
	v->mode = s->mode;
	v->clock = s->clock;
	v->buffer_count = s->buffer_count;
	v->buffer_bytes = s->buffer_bytes;
	v->subbuf_bytes = s->subbuf_bytes;
	v->session_bytes = s->session_bytes;
	v->meta_offset = s->meta_offset;
	v->meta_bytes = s->meta_bytes;
	v->buffers_offset = s->buffers_offset;
	v->buffer_stride = s->buffer_stride;
	if (!stat("/proc/self/ns/pid", &namespace))
		v->pid_namespace = namespace.st_ino;
	status = 0;
	goto close;
unmap:
	munmap(s, file.st_size);
close:
	close(fd);
	return v;
}

/* Buffers that a program left which this one replaced by exec. */
static void close_buffers_of_before(struct view *v)
{
	uint32_t ready = load(&v->session->buffers_ready), pid = getpid();

	for (uint32_t i = 0; i < ready && i < v->buffer_count; i++) {
		struct casper_buffer *buffer =
			(struct casper_buffer *)((char *)v->session + v->buffers_offset +
						 i * v->buffer_stride);

		if (load_acquire(&buffer->state) == CASPER_BUFFER_CLAIMED && buffer->pid == pid &&
		    buffer->pid_namespace == v->pid_namespace)
			store_release(&buffer->state, CASPER_BUFFER_CLOSED);
	}
}

/* False when another thread, or the code that this signal handler interrupted, is at it. */
static bool enter(const char *path, uint32_t origin)
{
	pid_t expected = load(&entering), self = getpid();
	struct view *v;

	if (expected == self || !__atomic_compare_exchange_n(&entering, &expected, self, false,
							     __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	v = map(path);
	if (v) {
		close_buffers_of_before(v);
		v->process = add_fetch(&v->session->next_process, 1);
		meta_process(v, v->process, 0, origin);
		store_release(&current, v);
		/* From here on who registers a type tells it, and those before are told below. */
		__atomic_store_n(&casper_on, &v->session->on, __ATOMIC_SEQ_CST);
		registry_tell(v);
	}
	store_release(&entering, 0);
	return v;
}

struct view *session_view(void)
{
	struct view *v;
	char path[56];

	if (unlikely(casper_on == &not_begun))
		session_begin();
	v = load_acquire(&current);
	if (v && *casper_on == CASPER_OVER) {
		leave(v);
		v = NULL;
	}
	if (!v) {
		if (*casper_on && gate_asks(path))
			enter(path, CASPER_ORIGIN_ATTACHED);
		v = load_acquire(&current);
	}
	return v && notice_fork(v) ? v : NULL;
}

static void after_fork(void)
{
	if (!load(&current))
		idle();
}

/* The value of CASPER_SESSION before libc knows the environment, as in a program's preinit_array.
 */
static const char *early_path(char *to, size_t size)
{
	static const char name[] = "CASPER_SESSION=";
	size_t matched = 0, length = 0;
	int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
	bool skip = false;
	char bytes[512];
	ssize_t got;

	while (fd >= 0 && (got = read(fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t i = 0; i < got; i++) {
			if (matched == sizeof(name) - 1) {
				to[length] = bytes[i];
				if (!bytes[i] || ++length == size)
					goto out;
			} else if (!bytes[i]) {
				matched = 0;
				skip = false;
			} else if (!skip && bytes[i] == name[matched]) {
				matched++;
			} else {
				skip = true;
			}
		}
	}
	length = size;
out:
	if (fd >= 0)
		close(fd);
	return length < size ? to : NULL;
}

/* The first event or the constructor, whichever comes first. */
void session_begin(void)
{
	static uint32_t begun;
	char early[128];
	const char *path;

	if (__atomic_exchange_n(&begun, 1, __ATOMIC_ACQ_REL))
		return;
	gate_open();
	/* A program that gains rights by its execution does not listen to who executed it. */
	if (getauxval(AT_SECURE))
		path = NULL;
	else
		path = environ ? getenv("CASPER_SESSION") : early_path(early, sizeof(early));
	if (!path || !enter(path, CASPER_ORIGIN_STARTED))
		idle();
}

__attribute__((constructor(101))) static void begin(void)
{
	session_begin();
	pthread_atfork(NULL, NULL, after_fork);
	if (load(&current))
		meta_modules(current);
}

/* Libraries that were loaded since then. */
__attribute__((destructor(101))) static void end(void)
{
	if (load(&current) && *casper_on == CASPER_RECORDING && notice_fork(current))
		meta_modules(current);
}

PUBLIC int casper_status(void)
{
	return load(&status);
}
