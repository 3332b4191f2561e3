/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * libcasperread: a trace of CASPER, record by record in the order of time. Link with -lcasperread.
 *
 * After Barkley and Schimmel 1988: "high-level routines to give a user access to the data at the
 * record level".
 *
 * A handle may be used by any thread, by one at a time: calls wait for each other. What a call
 * returns a pointer to stays until the next casper_next or casper_close of the same handle.
 * Negative results are error numbers; casper_error says more.
 */
#ifndef CASPER_READ_H
#define CASPER_READ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct casper_trace;

struct casper_record {
	uint64_t time_ns;  /* CLOCK_MONOTONIC of the machine that recorded */
	uint64_t ticks;	   /* of the session's clock */
	const void *event; /* as it was recorded, aligned to 16 bytes */
	size_t event_bytes;
	const char *type_name; /* NULL: nobody registered the type */
	uint32_t process;      /* number in this trace; unlike a pid it is not used twice */
	uint32_t pid;
	uint32_t tid;
	uint32_t stream;
	uint32_t level; /* signal handlers that interrupted a recording for it */
	uint16_t event_type;
};

/* What is not there. Of events unless it says otherwise. */
struct casper_account {
	uint64_t read;
	uint64_t dropped;     /* buffers were full */
	uint64_t overwritten; /* buffers were full, as was asked for */
	uint64_t no_buffer;   /* no buffer was free */
	uint64_t disk;	      /* the disk was full */
	uint64_t missing;     /* stored, and not in the file any more */
	uint64_t damaged_bytes;
	int finished; /* 0: the recorder was killed, or still runs */
};

/*
 * Open a trace. NULL only without memory; if the trace cannot be read, casper_error says why, and
 * the handle is good for nothing but casper_close.
 */
struct casper_trace *casper_open(const char *path);

/* What went wrong last; NULL: nothing did. */
const char *casper_error(struct casper_trace *trace);

/* Go on to the next record. 1: there is one; 0: the end; -EIO: see casper_error. */
int casper_next(struct casper_trace *trace, struct casper_record *record);

/*
 * A field of the record, as a number. 0; -ENOENT: its type has no such field, or the event ends
 * before it; -EDOM: the value is not one that the result can hold (text, an array, below 0).
 */
int casper_unsigned(struct casper_trace *trace, const char *field, uint64_t *value);
int casper_signed(struct casper_trace *trace, const char *field, int64_t *value);
int casper_float(struct casper_trace *trace, const char *field, double *value);

/* Any field of the record as text, as reports show it. NULL: there is none. */
const char *casper_text(struct casper_trace *trace, const char *field);

/* The name or the unit ("" for none) of the record's field with this number. NULL: there is none.
 */
const char *casper_field_name(struct casper_trace *trace, unsigned int number);
const char *casper_field_unit(struct casper_trace *trace, unsigned int number);

/* The file that the record's process had mapped at this address as code. NULL: not known. */
const char *casper_module(struct casper_trace *trace, uint64_t address);

/* What the trace lacks. 0, or -EIO. */
int casper_account(struct casper_trace *trace, struct casper_account *account);

/* NULL is fine. */
void casper_close(struct casper_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
