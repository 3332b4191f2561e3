/* SPDX-License-Identifier: (GPL-2.0-only OR Apache-2.0 OR MIT) */
/*
 * The records of CASPER: how a traced program (or a kernel) writes events into shared memory, and
 * how a trace is stored. One definition for the C library, the recorder, the readers and, later,
 * the kernel; crates/casper/src/record.rs is made from it (make bindings).
 *
 * After Barkley and Schimmel 1988, "Event Records" and Panel 2: an event is a C structure whose
 * first member is its type; CASPER stamps it with the time and copies it into a circular buffer.
 *
 * All numbers are in the byte order of the machine that recorded; casper_file.byte_order tells
 * which. Sizes are bytes and times are ticks of the session's clock unless a name says otherwise.
 */
#ifndef COWLAB_RECORD_H
#define COWLAB_RECORD_H

#include <linux/types.h>

/* ---- Events ---------------------------------------------------------------------------------
 *
 * A circular buffer is a ring of sub-buffers. Each begins with struct casper_subbuf; records
 * follow, none of which crosses into the next sub-buffer. A record is one word
 *
 *	(ticks - casper_subbuf.base_ticks) << 16 | size
 *
 * and then `size` bytes of event, padded with anything to a multiple of 8. A word whose size is 0
 * says that the rest of the sub-buffer is unused.
 */
struct casper_subbuf {
	__u64 base_ticks;  /* time to which its records add theirs */
	__u64 first_event; /* events of this stream before this sub-buffer, stored or overwritten */
	__u32 process;	   /* to which its first record belongs */
	__u32 pid;
};

#define CASPER_RECORD_WORD(delta_ticks, size) ((__u64)(delta_ticks) << 16 | (size))
#define CASPER_RECORD_SIZE(word) ((__u32)((word)&0xffff))
#define CASPER_RECORD_DELTA(word) ((word) >> 16)

/* Largest event, in bytes, its type included. The smallest is the type alone: 2. */
#define CASPER_EVENT_MAX 4096

/* Types from here on are CASPER's own. Those below are the developers'. */
#define CASPER_TYPE_RESERVED 0xff00

enum casper_own_type {
	CASPER_ENTER = 0xff00,	       /* struct casper_enter: an instrumented function began */
	CASPER_EXIT = 0xff01,	       /* struct casper_exit: it returned */
	CASPER_ENTER_ADDRESS = 0xff02, /* struct casper_enter_address: -finstrument-functions */
	CASPER_EXIT_ADDRESS = 0xff03,  /* struct casper_exit_address */
	/* Notes: not events, and not counted as such. */
	CASPER_SWITCH = 0xff10, /* struct casper_switch: what follows is another process's */
	CASPER_LOST = 0xff11,	/* struct casper_lost: events were dropped here */
	CASPER_CPU = 0xff12,	/* struct casper_cpu: what follows was recorded on another CPU */
};

/*
 * The frame address tells a reader which functions a longjmp has left: those whose frame is below
 * that of a function that begins, stacks growing down; and those whose frame is the same, unless
 * they return to the same place, since then the one was compiled into the other. 0: not known.
 */
struct casper_enter {
	__u16 event_type;
	__u16 frame_high; /* bits 32..47 of the frame address */
	__u32 frame_low;
	__u32 function;	 /* identifier within its process, see CASPER_META_FUNCTIONS */
	__u32 call_site; /* low 32 bits of the return address */
};

struct casper_exit {
	__u16 event_type;
	__u16 unused;
	__u32 function;
};

struct casper_enter_address {
	__u16 event_type;
	__u16 frame_high;
	__u32 frame_low;
	__u64 function;	 /* its address */
	__u64 call_site; /* the return address */
};

struct casper_exit_address {
	__u16 event_type;
	__u16 unused;
	__u32 unused2;
	__u64 function;
};

/* A vfork child borrows its parent's memory, and with it the parent's buffer. */
struct casper_switch {
	__u16 event_type;
	__u16 unused;
	__u32 process;
	__u32 pid;
	__u32 tid;
};

struct casper_lost {
	__u16 event_type;
	__u16 unused;
	__u32 unused2;
	__u64 dropped; /* events that this stream dropped so far, in all */
};

/* Only a kernel knows: a program's thread would have to ask before each event. */
struct casper_cpu {
	__u16 event_type;
	__u16 unused;
	__u32 cpu;
};

/* ---- The memory of a session ----------------------------------------------------------------
 *
 * One file in memory, made by the recorder, mapped by each traced program:
 *
 *	struct casper_session            at 0
 *	metadata                         at meta_offset, meta_bytes long
 *	buffer_count times               at buffers_offset, buffer_stride apart
 *	    struct casper_buffer         (CASPER_BUFFER_HEADER_BYTES)
 *	    the ring                     (buffer_bytes)
 *
 * The recorder gives memory to a part before it says that the part is ready, so that a program
 * that writes there never finds that there is none (SIGBUS).
 */
#define CASPER_SESSION_MAGIC 0x50534143 /* "CASP" in memory, little endian */
#define CASPER_VERSION 1
#define CASPER_BUFFER_HEADER_BYTES 4096

enum casper_mode {
	CASPER_MODE_DROP = 0,	   /* a full buffer drops what comes, and counts it */
	CASPER_MODE_OVERWRITE = 1, /* it overwrites its oldest: a flight recorder */
	CASPER_MODE_WAIT = 2,	   /* the program waits until there is room */
};

enum casper_clock {
	CASPER_CLOCK_CYCLES = 0,    /* invariant TSC, or arm64's cntvct_el0 */
	CASPER_CLOCK_MONOTONIC = 1, /* CLOCK_MONOTONIC, in ns */
};

enum casper_session_state {
	CASPER_PAUSED = 0,
	CASPER_RECORDING = 1,
	CASPER_OVER = 2, /* programs leave the session when they notice */
};

struct casper_session {
	__u32 magic;
	__u32 version;
	__u32 on;    /* enum casper_session_state. The one word that an idle program looks at */
	__u32 mode;  /* enum casper_mode */
	__u32 clock; /* enum casper_clock */
	__u32 buffer_count;
	__u32 buffer_bytes;  /* of one ring; a power of two */
	__u32 subbuf_bytes;  /* a power of two, at least 16384, at most half of buffer_bytes */
	__u64 session_bytes; /* of the whole file */
	__u64 meta_offset;
	__u64 meta_bytes;
	__u64 buffers_offset;
	__u64 buffer_stride;
	__u64 id;	     /* random; tells one session from the next */
	__u64 pid_namespace; /* inode of the recorder's /proc/self/ns/pid */
	__u64 clock_hz;	     /* ticks a second, as calibrated at the start */

	/* Written by the recorder while it runs. */
	__u64 heartbeat;  /* counts up some times a second; one that stands still has no recorder */
	__u64 meta_ready; /* bytes of metadata that have memory */
	__u32 buffers_ready; /* buffers below this number have memory */
	__u32 sleeping;	     /* not 0: the recorder waits for the futex `wanted` */

	/* Written by programs. */
	__u32 wanted __attribute__((aligned(64))); /* counts up when there is something to do */
	__u32 abandoned; /* not 0: a program found no heartbeat for long and left */
	__u64 meta_end;	 /* a hint: no metadata begins before this offset that is still free */
	__u64 no_buffer_events; /* events dropped since no buffer was free */
	__u64 lost_meta;	/* metadata entries that found no room */
	__u32 next_process;	/* last number given to a process; the first is 1 */
	__u32 next_stream;	/* last number given to a stream; the first is 1 */

	/*
	 * Names of the types to record, each ended by a NUL, the list by an empty one. Empty: all.
	 * A program that registers a type looks its name up here and sets the bit below.
	 */
	char only[2048] __attribute__((aligned(64)));

	/* A bit for each type, bit (type & 7) of byte (type >> 3): 1 is recorded. */
	__u8 filter[8192] __attribute__((aligned(64)));
};

enum casper_buffer_state {
	CASPER_BUFFER_FREE = 0,
	CASPER_BUFFER_CLAIMED = 1, /* by the thread named in it */
	CASPER_BUFFER_CLOSED = 2,  /* its owner will not write again: an exec replaced it */
};

/*
 * A claimed buffer carries one stream: what one thread recorded from claiming it until its end.
 * Positions count bytes since the claim and never wrap; the place in the ring is the position
 * modulo buffer_bytes.
 */
struct casper_buffer {
	__u32 state;
	__u32 stream;
	__u32 process;
	__u32 pid;
	__u32 tid;
	__u32 level; /* 0; n: of signal handlers that interrupted the recording of level n - 1 */
	__u64 pid_namespace; /* inode of the owner's /proc/self/ns/pid; 0: not known */

	__u64 head __attribute__((aligned(64))); /* everything before it is whole */
	__u64 reserve; /* start of the sub-buffer that is being written, stored before any of it */
	__u64 dropped; /* events */
	__u64 tail __attribute__((aligned(64))); /* everything before it was drained */
};

/*
 * How a running program learns that it shall be recorded: each program that uses libcasper maps
 * its user's gate, /dev/shm/casper.UID, when it starts. Who may write this file may have that
 * user's programs recorded; the file's permissions decide, as in Barkley and Schimmel 1988.
 */
#define CASPER_GATE_MAGIC 0x45544147 /* "GATE" in memory, little endian */
#define CASPER_GATE_ENTRIES 16
#define CASPER_GATE_SLOTS 704

struct casper_gate_entry {
	__u32 pid;	/* of the program; 0: the entry is free */
	__u32 recorder; /* pid */
	char path[56];	/* of the session's memory, ended by a NUL */
};

struct casper_gate {
	__u32 magic;
	__u32 version;
	__u8 unused[248];
	struct casper_gate_entry entries[CASPER_GATE_ENTRIES];
	__u32 slots[CASPER_GATE_SLOTS]; /* by pid modulo their number; not 0: look at the entries */
};

/*
 * A kernel's session is had from its device, /dev/casper, by whom the file's permissions let open
 * it, and by one at a time: CASPER_SETUP makes the memory, mmap(2) of session_bytes shows it, laid
 * out as above; CASPER_PROVIDE gives memory to more buffers; CASPER_TURN lets the kernel record,
 * or not. poll(2) tells that a sub-buffer was filled while `sleeping` was not 0. Closing the device
 * ends the session, however that came about.
 *
 * Process 1 is the kernel: the types and functions are its own, every task's process is its child
 * (CASPER_ORIGIN_FORKED), and it has the streams of interrupts, of which each CPU has one for each
 * level: 1 softirq, 2 hard interrupt, 3 NMI.
 */
#define CASPER_DEVICE_IOCTL 0xca /* the type of these ioctls; their numbers: */

enum casper_device_request {
	CASPER_SETUP = 0,     /* struct casper_setup, read and written */
	CASPER_PROVIDE = 1,   /* __u32: buffers that shall have memory */
	CASPER_TURN = 2,      /* __u32: enum casper_session_state */
	CASPER_SELECT = 3,    /* struct casper_select, read and written */
	CASPER_CALIBRATE = 4, /* __u32: record this many events and as many empty functions */
};

struct casper_setup {
	__u32 version; /* CASPER_VERSION */
	__u32 mode;    /* drop or overwrite: a kernel does not wait */
	__u32 clock;
	__u32 buffer_count;
	__u32 buffer_bytes;
	__u32 subbuf_bytes;
	__u64 meta_bytes; /* a multiple of the page */

	/* The answer. */
	__u64 meta_offset;
	__u64 buffers_offset;
	__u64 buffer_stride;
	__u64 session_bytes;
	__u32 functions; /* that are instrumented */
	__u32 unused;
};

/* Before the first, all functions are recorded; a first that adds begins with none. */
struct casper_select {
	char pattern[120]; /* of names, with * and ?, ended by a NUL */
	__u32 record;	   /* 1: functions of these names too, 0: not these */
	__u32 matched;	   /* the answer: functions of such a name */
};

/* ---- Metadata -------------------------------------------------------------------------------
 *
 * A list that only grows, of entries a multiple of 8 long. A writer claims room by changing `size`
 * from 0 at the list's end in one atomic step, and commits the entry at last. An entry that is
 * never committed was cut by its writer's end; its size is good all the same.
 */
struct casper_meta {
	__u32 size; /* with this header and the padding */
	__u16 kind; /* enum casper_meta_kind */
	__u16 committed;
	__u32 process; /* whose */
	__u32 length;  /* of what follows, without padding */
};

enum casper_meta_kind {
	CASPER_META_PROCESS = 1,   /* struct casper_meta_process, then the program's path and NUL */
	CASPER_META_TYPE = 2,	   /* struct casper_meta_type, see there */
	CASPER_META_FUNCTIONS = 3, /* struct casper_meta_functions, see there */
	CASPER_META_MODULE = 4,	   /* struct casper_meta_module, then the file's path and NUL */
	CASPER_META_THREAD = 5,	   /* struct casper_meta_thread */
};

enum casper_origin {
	CASPER_ORIGIN_STARTED = 1,  /* executed while recording */
	CASPER_ORIGIN_FORKED = 2,   /* its types, functions and modules are its parent's */
	CASPER_ORIGIN_VFORKED = 3,  /* the same */
	CASPER_ORIGIN_ATTACHED = 4, /* ran before the recording began */
};

struct casper_meta_process {
	__u32 pid;
	__u32 parent_pid;
	__u32 parent_process; /* 0: not traced */
	__u32 origin;
	__u64 ticks;
};

enum casper_field_kind {
	CASPER_UNSIGNED = 1,
	CASPER_SIGNED = 2,
	CASPER_FLOAT = 3,
	CASPER_ADDRESS = 4, /* unsigned, shown in base 16 */
	CASPER_TEXT = 5,    /* bytes up to a NUL or the field's end; count is 1 */
};

/* Then field_count times struct casper_meta_field; then, each ended by a NUL, the type's name and
 * the name and the unit of each field. */
struct casper_meta_type {
	__u16 event_type;
	__u16 field_count;
	__u32 event_bytes; /* sizeof the event */
};

struct casper_meta_field {
	__u32 offset;
	__u32 size;  /* of one element: 1, 2, 4, 8; of text, all of it */
	__u32 count; /* elements of an array, else 1 */
	__u32 kind;  /* enum casper_field_kind */
};

/* Then the source file's name and NUL; then count times a __u32 line (not aligned), and a name and
 * NUL. */
struct casper_meta_functions {
	__u32 first; /* identifier of the first; the others follow in order */
	__u32 count;
};

struct casper_meta_module {
	__u64 start; /* first address of its executable segments */
	__u64 end;   /* first address after them */
	__u64 bias;  /* run-time address minus the address in the file's symbol table */
	__u32 build_id_bytes;
	__u8 build_id[20];
};

struct casper_meta_thread {
	__u32 tid;
	char name[16]; /* ended by a NUL */
};

/* ---- A stored trace -------------------------------------------------------------------------
 *
 * struct casper_file, and then chunks to the end. A chunk is struct casper_chunk and `size` bytes,
 * padded with zeros to a multiple of 8. Whatever else is damaged, each chunk stands for itself.
 */
#define CASPER_FILE_MAGIC "CASPER\r\n"
#define CASPER_BYTE_ORDER 0x01020304
#define CASPER_CHUNK_MAGIC 0x4b4e4843 /* "CHNK" in memory, little endian */
#define CASPER_CHUNK_MAX (1 << 24)

/* What was not measured, or is not known, in a __u64. */
#define CASPER_ABSENT (~0ULL)

struct casper_file {
	__u8 magic[8];
	__u32 byte_order;
	__u32 version;
	__u32 header_bytes; /* of this structure: 4096 */
	__u32 crc;	    /* CRC-32C of the whole structure with this field 0 */
	__u32 mode;	    /* enum casper_mode */
	__u32 clock;	    /* enum casper_clock */
	__u32 buffer_bytes;
	__u32 subbuf_bytes;
	__u64 id;

	/* Two moments on both clocks; their difference gives the ticks a second. The second is
	 * brought up to date while recording. */
	__u64 first_ticks;
	__u64 first_monotonic_ns;
	__s64 first_realtime_ns; /* since 1970, UTC */
	__u64 last_ticks;
	__u64 last_monotonic_ns;

	/* What the probes themselves cost on this machine, in ps, calibrated before the recording.
	 */
	__u64 event_ps;		/* one casrecord */
	__u64 call_inner_ps;	/* that a call's own duration contains of its two events */
	__u64 call_outer_ps;	/* that the two events cost altogether */
	__u64 address_inner_ps; /* the same with -finstrument-functions */
	__u64 address_outer_ps;

	/* Brought up to date at the end. */
	__u32 finished;	   /* 1: the recorder ended in order, and what follows is final */
	__s32 exit_status; /* of the command, as wait(2) gives it; -1: not known */
	__u64 stored_events;
	__u64 dropped_events;	  /* buffers were full (drop) */
	__u64 overwritten_events; /* buffers were full (overwrite) */
	__u64 no_buffer_events;	  /* no buffer was free */
	__u64 disk_lost_events;	  /* the disk was full */
	__u64 lost_meta;	  /* metadata entries */
	__u32 processes;
	__u32 streams;

	char command[1024]; /* as given, ended by a NUL */
	__u8 unused[2880];
};

enum casper_chunk_kind {
	CASPER_CHUNK_DATA = 1, /* records of one sub-buffer, or a part of it, without its header */
	CASPER_CHUNK_META = 2, /* metadata entries */
	CASPER_CHUNK_END = 3,  /* struct casper_total for each stream: the last chunk */
};

struct casper_chunk {
	__u32 magic;
	__u32 crc; /* CRC-32C of the rest of this structure and of what follows, without padding */
	__u32 size;
	__u32 kind;	/* enum casper_chunk_kind */
	__u64 sequence; /* chunks before this one */
	/* Of data only, else 0. */
	__u32 stream;
	__u32 process; /* to which the first record belongs */
	__u32 pid;
	__u32 tid;
	__u32 level;
	__u32 events;	   /* in this chunk; notes are not counted */
	__u64 first_event; /* events of the stream before, stored or overwritten */
	__u64 base_ticks;
	__u64 dropped; /* events that the stream dropped before, as far as the recorder knew */
};

struct casper_total {
	__u32 stream;
	__u32 process;
	__u64 stored;
	__u64 dropped;
	__u64 overwritten;
	__u64 disk_lost;
};

#endif
