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
#ifndef WAIT_LIMIT_NS
#define WAIT_LIMIT_NS 5000000000
#endif
/* …and after this long the session is left, if the recorder has ended. */
#ifndef LEAVE_LIMIT_NS
#define LEAVE_LIMIT_NS 30000000000
#endif
/* How often that is asked. */
#define ASK_NS 1000000000

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

static uint64_t own_pid_namespace(void)
{
	struct stat namespace;

	return stat("/proc/self/ns/pid", &namespace) ? 0 : namespace.st_ino;
}

/*
 * Whether the descriptor by which this process found the session is gone. One that stands still,
 * stopped or before a disk that does not answer, comes back and wants its account. A process that
 * went to another pid namespace, or became another user, may not see one that is there.
 */
static bool recorder_ended(const struct view *v)
{
	struct stat file;

	if (!stat(v->path, &file))
		return file.st_dev != v->device || file.st_ino != v->inode;
	return errno == ENOENT && geteuid() == v->uid && v->pid_namespace &&
	       own_pid_namespace() == v->pid_namespace;
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
	if (still_ns > LEAVE_LIMIT_NS && (int64_t)(now - load(&v->asked_ns)) > ASK_NS) {
		store(&v->asked_ns, now);
		if (!recorder_ended(v))
			return false;
		/* Its memory is nobody's now; give it back and go on without. */
		store(&v->session->abandoned, 1);
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

/*
 * Copies what the session says of its layout beside the number of buffers, each word once: who
 * shares the memory may change it at any moment. False: that cannot be.
 */
static bool copy_layout(struct view *v, const struct casper_session *s, uint64_t file_bytes)
{
	uint64_t ring;

	v->mode = load(&s->mode);
	v->clock = load(&s->clock);
	v->buffer_bytes = load(&s->buffer_bytes);
	v->subbuf_bytes = load(&s->subbuf_bytes);
	v->session_bytes = load(&s->session_bytes);
	v->meta_offset = load(&s->meta_offset);
	v->meta_bytes = load(&s->meta_bytes);
	v->buffers_offset = load(&s->buffers_offset);
	v->buffer_stride = load(&s->buffer_stride);
	ring = v->buffer_bytes;
	return load(&s->magic) == CASPER_SESSION_MAGIC && load(&s->version) == CASPER_VERSION &&
	       v->session_bytes == file_bytes && v->mode <= CASPER_MODE_WAIT &&
	       v->clock <= CASPER_CLOCK_MONOTONIC && v->subbuf_bytes >= 16384 &&
	       !(v->subbuf_bytes & (v->subbuf_bytes - 1)) && !(ring & (ring - 1)) &&
	       ring >= 2 * (uint64_t)v->subbuf_bytes && v->buffer_stride <= (uint64_t)1 << 40 &&
	       v->buffer_stride >= ring + CASPER_BUFFER_HEADER_BYTES &&
	       v->buffer_stride % 4096 == 0 && v->meta_offset >= sizeof(*s) &&
	       v->meta_offset % 4096 == 0 && v->meta_offset <= v->buffers_offset &&
	       v->meta_bytes <= v->buffers_offset - v->meta_offset &&
	       v->buffers_offset % 4096 == 0 && v->buffers_offset <= file_bytes &&
	       v->buffer_count <= (file_bytes - v->buffers_offset) / v->buffer_stride;
}

static struct view *map(const char *path)
{
	struct stat file;
	struct casper_session *s;
	size_t view_bytes;
	uint32_t count;
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
	count = load(&s->buffer_count);
	status = -EPROTO;
	if (!count || count > 1 << 20)
		goto unmap;
	view_bytes = VIEW_BYTES + (count + 1) * sizeof(struct writer);
	memory = mmap(NULL, view_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		status = -errno;
		goto unmap;
	}
	v = memory;
	v->buffer_count = count;
	v->writers = (struct writer *)((char *)memory + VIEW_BYTES);
	if (!copy_layout(v, s, file.st_size))
		goto unmap_view;
	if (madvise(v->writers, view_bytes - VIEW_BYTES, MADV_WIPEONFORK)) {
		status = -errno;
		goto unmap_view;
	}
	v->writers[count].busy = 2;
	v->session = s;
	v->device = file.st_dev;
	v->inode = file.st_ino;
	/* One that is too long is none, and the recorder is never found to have ended. */
	if (strlen(path) < sizeof(v->path))
		strcpy(v->path, path);
	v->pid_namespace = own_pid_namespace();
	v->uid = geteuid();
	status = 0;
	goto close;
unmap_view:
	munmap(v, view_bytes);
	v = NULL;
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
