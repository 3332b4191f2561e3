/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CASPER: time-stamped event records from anywhere in the kernel. See
 * Documentation/trace/casper.rst; the records are described in
 * <uapi/linux/casper.h>.
 *
 * Instrumented sources include this before anything else, and a source may
 * define pr_fmt and the like only after that: include nothing here that uses
 * what a source may define.
 */
#ifndef _LINUX_CASPER_H
#define _LINUX_CASPER_H

#include <linux/types.h>
#include <linux/jump_label.h>

struct task_struct;

/* The first member of every event. Numbers from 0xff00 are CASPER's own. */
typedef __u16 casper_event_type;

/* As in libcasper, so that a type's description is written the same way. */
struct casper_field_info {
	const char *name;
	const char *unit;
	u32 offset;
	u32 size;
	u32 count;
	u32 kind;		/* enum casper_field_kind */
};

struct casper_type_info {
	const char *name;
	const struct casper_field_info *fields;
	u32 field_count;
	u32 event_bytes;
	casper_event_type event_type;
};

/* What `cowlab insert --kernel` writes behind each file. */
struct casper_function {
	const char *name;
	unsigned int line;
};

struct casper_unit {
	const char *file;
	const struct casper_function *functions;
	unsigned int count;
	unsigned int base;	/* identifier of the first; 0 before casper_init() */
	u8 *selected;		/* by function: whether the session records it */
};

/* The identifier of a function that runs; 0: its beginning was not recorded. */
typedef unsigned int casper_scope;

#ifdef CONFIG_CASPER

DECLARE_STATIC_KEY_FALSE(casper_recording);

int __casrecord(const void *event, size_t size);

/**
 * casrecord - stamp an event with the time and keep a copy
 * @event: a structure whose first member is its casper_event_type
 * @size: its size, 2 to CASPER_EVENT_MAX bytes
 *
 * May be called in any context, NMI included. While nobody records it is a
 * branch that is not taken.
 *
 * Return: 0 if it was stored or nobody records it, else a negative error
 * number: -ENOBUFS where there was no room, which is counted.
 */
static __always_inline int casrecord(const void *event, size_t size)
{
	if (static_branch_unlikely(&casper_recording))
		return __casrecord(event, size);
	return 0;
}

int casper_register(const struct casper_type_info *type);
void casper_unregister(const struct casper_type_info *type);

unsigned int casper_function_enter(const struct casper_unit *unit,
				   unsigned int index, void *frame,
				   void *call_site);
void casper_function_exit(unsigned int function);

void __casper_task_end(struct task_struct *tsk);
void casper_task_init(struct task_struct *tsk);

/* Before a task's memory is freed, and when it executes another program. */
static __always_inline void casper_task_end(struct task_struct *tsk)
{
	if (static_branch_unlikely(&casper_recording))
		__casper_task_end(tsk);
}

#else

static inline int casrecord(const void *event, size_t size)
{
	return 0;
}

static inline int casper_register(const struct casper_type_info *type)
{
	return 0;
}

static inline void casper_unregister(const struct casper_type_info *type) { }
static inline void casper_task_init(struct task_struct *tsk) { }
static inline void casper_task_end(struct task_struct *tsk) { }

#endif

#if defined(CONFIG_CASPER) && !defined(MODULE)

static __always_inline void casper_leave(casper_scope *scope)
{
	if (unlikely(*scope))
		casper_function_exit(*scope);
}

/*
 * Not a function: the frame and the return address are those of the
 * instrumented one. The compiler runs casper_leave() wherever that is left.
 */
#define CASPER_FUNCTION(unit, index)					\
	casper_scope casper_scope_##index				\
		__attribute__((__cleanup__(casper_leave), __unused__)) = \
		static_branch_unlikely(&casper_recording) &&		\
		(unit).selected[index] ?				\
		casper_function_enter(&unit, index,			\
				      __builtin_frame_address(0),	\
				      __builtin_return_address(0)) : 0

#define CASPER_UNIT(unit) extern struct casper_unit unit

#define CASPER_UNIT_END(unit, file_name, function_table)		\
	static u8 unit##_selected[sizeof(function_table) /		\
				  sizeof((function_table)[0])];		\
	struct casper_unit unit __attribute__((__weak__)) = {		\
		.file = file_name,					\
		.functions = function_table,				\
		.count = sizeof(function_table) /			\
			 sizeof((function_table)[0]),			\
		.selected = unit##_selected,				\
	};								\
	static struct casper_unit *const unit##_listed			\
		__attribute__((__section__("__casper_units"), __used__)) = \
		&unit;

#else

/* A module's functions are not recorded: its identifiers would go with it. */
#define CASPER_FUNCTION(unit, index)
#define CASPER_UNIT(unit) struct casper_unit
#define CASPER_UNIT_END(unit, file_name, function_table)		\
	static const void *const unit##_unused				\
		__attribute__((__unused__)) = function_table;

#endif
#endif
