/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The fast path: stamp, copy, publish. Everything unusual (the first event of a thread, a full
 * sub-buffer, a signal handler that interrupted this very code, a fork, another session) fails one
 * of its checks and goes the slow way.
 */
#include <errno.h>
#include <string.h>

#include "internal.h"

__thread struct writer *writers[LEVELS] __attribute__((tls_model("initial-exec")));

/* The writer of this thread, made busy, if it has room; NULL: go the slow way. */
static inline struct writer *begin(size_t room)
{
	const volatile uint32_t *on = casper_on;
	struct writer *w = writers[0];

	if (unlikely(!w) || unlikely(w->on != on) || unlikely(*on != CASPER_RECORDING) ||
	    unlikely(w->busy))
		return NULL;
	w->busy = 1;
	barrier();
	if (unlikely(room > (size_t)(w->end - w->at))) {
		barrier();
		w->busy = 0;
		return NULL;
	}
	return w;
}

static inline void end(struct writer *w)
{
	barrier();
	w->busy = 0;
}

/*
 * The event is in place: stamp it. False when the time does not fit behind the sub-buffer's base,
 * as when the clock ran backwards.
 */
static inline bool stamp(struct writer *w, size_t size)
{
	uint64_t delta = cycles() - w->base_ticks;

	*(uint64_t *)w->at = CASPER_RECORD_WORD(delta, size);
	return likely(delta >> 48 == 0);
}

/* Everything before the new position is whole: a reader and a kill at any moment find it so. */
static inline void publish(struct writer *w, size_t room)
{
	char *at = w->at + room;

	w->at = at;
	w->events++;
	store_release(w->head, (uint64_t)at + w->bias);
	end(w);
}

static inline int error_of(int result)
{
	return result < 0 ? result : 0;
}

/* At any address, of any type. Volatile: the compiler makes no wider loads of several. */
typedef volatile uint16_t __attribute__((may_alias, aligned(1))) any_u16;
typedef volatile uint32_t __attribute__((may_alias, aligned(1))) any_u32;

static inline uint64_t u16_at(const char *from)
{
	return *(const any_u16 *)from;
}

static inline uint64_t u32_at(const char *from)
{
	return *(const any_u32 *)from;
}

/*
 * The caller has just stored the event, member by member. A load that spans two of these stores
 * waits until both have left the store buffer, some 20 cycles, and Intel's processors may read the
 * clock no earlier (inferred, not measured). So the type is loaded alone, and the rest by halves of
 * words, which few stores cut.
 */
static inline void copy(char *to, const char *from, size_t size)
{
	size_t at = 2;
	uint64_t word = u16_at(from);

	if (likely(size >= 8)) {
		word |= u16_at(from + 2) << 16 | u32_at(from + 4) << 32;
		__builtin_memcpy(to, &word, 8);
		for (at = 8; at + 8 <= size; at += 8) {
			word = u32_at(from + at) | u32_at(from + at + 4) << 32;
			__builtin_memcpy(to + at, &word, 8);
		}
		if (size & 4) {
			word = u32_at(from + at);
			__builtin_memcpy(to + at, &word, 4);
			at += 4;
		}
	} else {
		__builtin_memcpy(to, &word, 2);
	}
	for (; at < size; at++)
		to[at] = from[at];
}

static __attribute__((noinline, cold)) int put_slowly(const void *event, size_t size)
{
	return error_of(record_slowly(event, size));
}

/* The event is in place, unless the time does not fit. */
static inline int finish(struct writer *w, const void *event, size_t size)
{
	if (unlikely(!stamp(w, size))) {
		end(w);
		return put_slowly(event, size);
	}
	publish(w, room_of(size));
	return 0;
}

/* Apart: whoever calls memcpy keeps registers in memory. */
static __attribute__((noinline)) int put_large(struct writer *w, const void *event, size_t size)
{
	memcpy(w->at + 8, event, size);
	return finish(w, event, size);
}

PUBLIC int casper_record(const void *event, size_t size)
{
	struct writer *w;
	uint16_t type;

	if (unlikely(size - sizeof(type) > CASPER_EVENT_MAX - sizeof(type)))
		return -EINVAL;
	type = *(const any_u16 *)event;
	if (unlikely(type >= CASPER_TYPE_RESERVED))
		return -EINVAL;
	w = begin(room_of(size));
	if (unlikely(!w))
		return put_slowly(event, size);
	if (unlikely(!is_recorded(w->filter, type))) {
		end(w);
		return 0;
	}
	/* Copied before the stamp: reading the clock covers what the copy waits for. */
	if (unlikely(size > 64))
		return put_large(w, event, size);
	copy(w->at + 8, event, size);
	return finish(w, event, size);
}

/* 0: stored, 1: nobody records it, else a negative error number. */
__attribute__((cold)) int record_slowly(const void *event, size_t size)
{
	int saved = errno, result = 1;
	struct view *v = session_view();
	unsigned int level = 0;
	uint16_t type;

	__builtin_memcpy(&type, event, sizeof(type));
	if (!v || *casper_on != CASPER_RECORDING || !is_recorded(v->session->filter, type))
		goto out;
	/* A writer of another session or, after a fork, of the parent, is none. */
	while (level < LEVELS && writers[level] && writers[level]->on == &v->session->on &&
	       writers[level]->busy)
		level++;
	if (level < LEVELS && (!writers[level] || writers[level]->on != &v->session->on))
		writers[level] = writer_claim(v, level);
	if (level < LEVELS && writers[level]) {
		result = writer_put(v, writers[level], event, size);
	} else {
		add_fetch(&v->session->no_buffer_events, 1);
		result = -ENOBUFS;
	}
out:
	errno = saved;
	return result;
}

static inline uint64_t type_and_frame(uint16_t type, uint64_t frame)
{
	struct casper_enter enter = { .event_type = type,
				      .frame_high = (uint16_t)(frame >> 32),
				      .frame_low = (uint32_t)frame };
	uint64_t word;

	__builtin_memcpy(&word, &enter, sizeof(word));
	return word;
}

/* Kept out of the callers, which then need no stack frame. */
static __attribute__((noinline, cold)) int put_words_slowly(uint64_t first, uint64_t second,
							    uint64_t third, size_t size)
{
	uint64_t words[3] = { first, second, third };

	return record_slowly(words, size);
}

/* An event of CASPER's own, of one to three words; `type` is in the first. As record_slowly(). */
static __attribute__((always_inline)) inline int
put_words(uint16_t type, uint64_t first, uint64_t second, uint64_t third, size_t size)
{
	struct writer *w = begin(8 + size);
	uint64_t *to;

	if (unlikely(!w))
		return put_words_slowly(first, second, third, size);
	if (unlikely(!is_recorded(w->filter, type))) {
		end(w);
		return 1;
	}
	to = (uint64_t *)w->at;
	to[1] = first;
	if (size > 8)
		to[2] = second;
	if (size > 16)
		to[3] = third;
	if (unlikely(!stamp(w, size))) {
		end(w);
		return put_words_slowly(first, second, third, size);
	}
	publish(w, 8 + size);
	return 0;
}

static inline uint64_t pair(uint32_t low, uint32_t high)
{
	uint32_t halves[2] = { low, high };
	uint64_t word;

	__builtin_memcpy(&word, halves, sizeof(word));
	return word;
}

PUBLIC unsigned int casper_function_enter(struct casper_unit *unit, unsigned int index, void *frame,
					  void *call_site)
{
	unsigned int base = unit->base;

	if (unlikely(!base)) {
		/* Called before the file's constructor. */
		casper_unit_register(unit);
		base = unit->base;
	}
	/* A beginning that was not stored gets no end: the nesting stays right. */
	if (put_words(CASPER_ENTER, type_and_frame(CASPER_ENTER, (uint64_t)frame),
		      pair(base + index, (uint32_t)(uint64_t)call_site), 0, 16))
		return 0;
	return base + index;
}

PUBLIC void casper_function_exit(unsigned int function)
{
	if (*casper_on)
		put_words(CASPER_EXIT, pair(CASPER_EXIT, function), 0, 0, 8);
}

/* GCC and clang call these with -finstrument-functions. */
PUBLIC void __cyg_profile_func_enter(void *function, void *call_site)
{
	if (unlikely(*casper_on))
		put_words(
			CASPER_ENTER_ADDRESS,
			type_and_frame(CASPER_ENTER_ADDRESS, (uint64_t)__builtin_frame_address(0)),
			(uint64_t)function, (uint64_t)call_site, 24);
}

PUBLIC void __cyg_profile_func_exit(void *function, void *call_site)
{
	(void)call_site;
	if (unlikely(*casper_on))
		put_words(CASPER_EXIT_ADDRESS, type_and_frame(CASPER_EXIT_ADDRESS, 0),
			  (uint64_t)function, 0, 16);
}
