/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libcasper: time-stamped event records, at a few nanoseconds each. See libcasper(7).
 *
 * After Barkley and Schimmel 1988, "Overview of CASPER Architecture" and Panel 2.
 */
#ifndef CASPER_H
#define CASPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The first member of every event. Numbers from 0xff00 are CASPER's own. */
typedef uint16_t casper_event_type;

/* Largest event, its type included. */
#define CASPER_EVENT_BYTES_MAX 4096

/* What a field of an event is. */
enum casper_kind {
	CASPER_KIND_UNSIGNED = 1,
	CASPER_KIND_SIGNED = 2,
	CASPER_KIND_FLOAT = 3,
	CASPER_KIND_ADDRESS = 4,
	CASPER_KIND_TEXT = 5, /* up to a NUL or the field's end */
};

struct casper_field_info {
	const char *name;
	const char *unit; /* "bytes", "ns", …; "" for none */
	uint32_t offset;
	uint32_t size;	/* of one element; of text, all of it */
	uint32_t count; /* elements of an array, else 1 */
	uint32_t kind;
};

/* A registered type. The library keeps pointers to it: it must live as long as the program. */
struct casper_type_info {
	const char *name;
	const struct casper_field_info *fields;
	uint32_t field_count;
	uint32_t event_bytes;
	casper_event_type event_type;
};

/* A field of struct `type`: its offset, size and kind are the compiler's own. */
#define CASPER_FIELD(type, member, unit)                                                           \
	{                                                                                          \
#member, unit, offsetof(type, member), sizeof(((type *)0)->member), 1,             \
			CASPER_KIND_OF(((type *)0)->member)                                        \
	}

/* The same for an array of numbers. */
#define CASPER_ARRAY_FIELD(type, member, unit)                                                     \
	{                                                                                          \
#member, unit, offsetof(type, member), sizeof(((type *)0)->member[0]),             \
			sizeof(((type *)0)->member) / sizeof(((type *)0)->member[0]),              \
			CASPER_KIND_OF(((type *)0)->member[0])                                     \
	}

/* clang-format off */
#define CASPER_KIND_OF(expression)                                                                 \
	_Generic((expression),                                                                     \
		float: CASPER_KIND_FLOAT, double: CASPER_KIND_FLOAT,                               \
		signed char: CASPER_KIND_SIGNED, short: CASPER_KIND_SIGNED,                        \
		int: CASPER_KIND_SIGNED, long: CASPER_KIND_SIGNED,                                 \
		long long: CASPER_KIND_SIGNED, char: CASPER_KIND_SIGNED,                           \
		unsigned char: CASPER_KIND_UNSIGNED, unsigned short: CASPER_KIND_UNSIGNED,         \
		unsigned int: CASPER_KIND_UNSIGNED, unsigned long: CASPER_KIND_UNSIGNED,           \
		unsigned long long: CASPER_KIND_UNSIGNED, _Bool: CASPER_KIND_UNSIGNED,             \
		char *: CASPER_KIND_TEXT, const char *: CASPER_KIND_TEXT,                          \
		default: CASPER_KIND_ADDRESS)
/* clang-format on */

/*
 * Register an event type, so that readers know its fields without this program's headers. May be
 * called before or while recording, from any thread. The same type may be registered again; another
 * under its number is refused.
 */
int casper_register(const struct casper_type_info *type);

/* Not 0 while somebody records. Programs read it; only the recorder writes what it points to. */
extern const volatile uint32_t *casper_on;

int casper_record(const void *event, size_t size);

/*
 * Stamp the event with the time and store a copy in this thread's buffer. 0: stored, or nobody
 * records it; else a negative error number, see casrecord(3). Async-signal-safe; errno is kept.
 */
static __inline__ __attribute__((__no_instrument_function__)) int casrecord(const void *event,
									    size_t size)
{
	if (__builtin_expect(*casper_on != 0, 0))
		return casper_record(event, size);
	return 0;
}

/* Why this program is not recorded although it was asked for; 0: nothing is wrong. See
 * libcasper(7).
 */
int casper_status(void);

#ifdef __cplusplus
}
#endif
#endif
