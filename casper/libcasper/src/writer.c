/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Claiming a buffer, going on to the next sub-buffer, and what happens when there is none. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

static struct casper_buffer *buffer_at(const struct view *v, uint32_t index)
{
	return (struct casper_buffer *)((char *)v->session + v->buffers_offset +
					index * v->buffer_stride);
}

static uint64_t position(const struct writer *w)
{
	return (uint64_t)w->at + w->bias;
}

/* Begin the sub-buffer at `start`; there is room. */
static void open_subbuf(struct view *v, struct writer *w, uint64_t start, uint64_t now)
{
	struct casper_subbuf *subbuf =
		(struct casper_subbuf *)(w->ring + (start & (v->buffer_bytes - 1)));

	/* Who reads while this overwrites learns first that what was here is gone. */
	store_release(&w->buffer->reserve, start);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	subbuf->base_ticks = now;
	subbuf->first_event = w->events;
	subbuf->process = w->process;
	subbuf->pid = w->pid;
	w->noted_process = w->process;
	w->base_ticks = now;
	w->subbuf = start;
	w->at = (char *)(subbuf + 1);
	w->bias = start + sizeof(*subbuf) - (uint64_t)w->at;
	w->end = (char *)subbuf + v->subbuf_bytes;
	store_release(w->head, position(w));
}

static struct writer *take(struct view *v, uint32_t index, unsigned int level)
{
	struct casper_buffer *buffer = buffer_at(v, index);
	struct writer *w = &v->writers[index];

	memset(w, 0, sizeof(*w));
	w->on = &v->session->on;
	w->filter = v->session->filter;
	w->buffer = buffer;
	w->head = &buffer->head;
	w->ring = (char *)buffer + CASPER_BUFFER_HEADER_BYTES;
	w->process = v->process;
	w->pid = getpid();
	w->tid = syscall(SYS_gettid);
	buffer->process = v->process;
	buffer->pid = w->pid;
	buffer->tid = w->tid;
	buffer->level = level;
	buffer->pid_namespace = v->pid_namespace;
	open_subbuf(v, w, 0, ticks_of(v->clock));
	/* Not 0: all of the above can be read. */
	store_release(&buffer->stream, add_fetch(&v->session->next_stream, 1));
	return w;
}

struct writer *writer_claim(struct view *v, unsigned int level)
{
	unsigned int tries = 0;

	/* The buffer of a vfork child would outlive it, in its parent's hands. */
	if (vfork_child() || monotonic_ns() < v->no_buffer_until_ns)
		return NULL;
	do {
		uint32_t ready = load_acquire(&v->session->buffers_ready);

		if (ready > v->buffer_count)
			ready = v->buffer_count;
		for (uint32_t i = 0; i < ready; i++) {
			uint32_t free = CASPER_BUFFER_FREE;

			if (load(&buffer_at(v, i)->state) == free &&
			    __atomic_compare_exchange_n(&buffer_at(v, i)->state, &free,
							CASPER_BUFFER_CLAIMED, false,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return take(v, i, level);
		}
	} while (session_pause(v, &tries));
	v->no_buffer_until_ns = monotonic_ns() + 100000000;
	return NULL;
}

/* Go on to the next sub-buffer. False: the buffer is full. */
static bool next_subbuf(struct view *v, struct writer *w, uint64_t now)
{
	uint64_t start = w->subbuf + v->subbuf_bytes;
	unsigned int tries = 0;

	if (v->mode == CASPER_MODE_OVERWRITE) {
		session_alive(v);
	} else {
		while (start + v->subbuf_bytes - load_acquire(&w->buffer->tail) > v->buffer_bytes) {
			if (v->mode == CASPER_MODE_DROP) {
				session_alive(v);
				return false;
			}
			if (!session_pause(v, &tries))
				return false;
		}
		if (load(&v->session->sleeping))
			session_wake(v);
	}
	open_subbuf(v, w, start, now);
	return true;
}

/* Room in the sub-buffer for a record at `now`, or the beginning of the next. */
static bool make_room(struct view *v, struct writer *w, size_t room, uint64_t now)
{
	uint64_t left = w->subbuf + v->subbuf_bytes - position(w), nothing_follows = 0;

	/* `end` may stand too early, on purpose; after a drop it stays there. */
	if (w->dropped == w->noted_dropped && room <= left && (now - w->base_ticks) >> 48 == 0) {
		w->end = w->at + left;
		return true;
	}
	if (left >= sizeof(nothing_follows))
		memcpy(w->at, &nothing_follows, sizeof(nothing_follows));
	w->end = w->at;
	return next_subbuf(v, w, now);
}

static void append(struct writer *w, const void *event, size_t size, uint64_t now)
{
	uint64_t word = CASPER_RECORD_WORD(now - w->base_ticks, size);

	memcpy(w->at, &word, 8);
	memcpy(w->at + 8, event, size);
	w->at += room_of(size);
}

/* What a reader must know before the next event. */
static bool put_notes(struct view *v, struct writer *w)
{
	uint64_t now = ticks_of(v->clock);

	if (w->dropped != w->noted_dropped) {
		struct casper_lost lost = { .event_type = CASPER_LOST, .dropped = w->dropped };

		if (!make_room(v, w, room_of(sizeof(lost)), now))
			return false;
		w->noted_dropped = w->dropped;
		append(w, &lost, sizeof(lost), now > w->base_ticks ? now : w->base_ticks);
	}
	if (w->process != w->noted_process) {
		struct casper_switch to = { .event_type = CASPER_SWITCH,
					    .process = w->process,
					    .pid = w->pid,
					    .tid = w->tid };

		if (!make_room(v, w, room_of(sizeof(to)), now))
			return false;
		/* A sub-buffer that began just now says it itself. */
		if (w->process != w->noted_process)
			append(w, &to, sizeof(to), now > w->base_ticks ? now : w->base_ticks);
		w->noted_process = w->process;
	}
	return true;
}

int writer_put(struct view *v, struct writer *w, const void *event, size_t size)
{
	int result = 0;
	uint64_t now;

	w->busy = 1;
	barrier();
	if (!put_notes(v, w))
		goto full;
	now = ticks_of(v->clock);
	if (!make_room(v, w, room_of(size), now))
		goto full;
	append(w, event, size, now > w->base_ticks ? now : w->base_ticks);
	w->events++;
	store_release(w->head, position(w));
	/* A clock other than the cycle counter is read here only: never take the fast path. */
	if (v->clock != CASPER_CLOCK_CYCLES)
		w->end = w->at;
	goto out;
full:
	w->dropped++;
	store_release(&w->buffer->dropped, w->dropped);
	result = -ENOBUFS;
out:
	barrier();
	w->busy = 0;
	return result;
}
