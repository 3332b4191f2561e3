// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a reader must know beside events: processes and their names, types of
 * events, and the functions that `cowlab insert` instrumented.
 */
#include <linux/export.h>
#include <linux/glob.h>
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>
#include <asm/sections.h>

#include "internal.h"

/* Placed by the linker: a pointer for each instrumented file. */
extern struct casper_unit *__start___casper_units[];
extern struct casper_unit *__stop___casper_units[];

/* Registered types. */
#define TYPES_MAX 256
static const struct casper_type_info *types[TYPES_MAX];
static DEFINE_MUTEX(types_lock);

/* One after the last identifier of a function. */
static u32 functions_end = 1;

u32 casper_functions_end(void)
{
	return functions_end;
}

/* Record all functions, or none. */
void casper_functions_set(bool selected)
{
	struct casper_unit **unit;

	for (unit = __start___casper_units; unit < __stop___casper_units; unit++)
		memset((*unit)->selected, selected, (*unit)->count);
}

/* Record those whose names match, or do not; returns how many match. */
u32 casper_functions_select(const char *pattern, bool selected)
{
	struct casper_unit **unit;
	unsigned int i;
	u32 matched = 0;

	for (unit = __start___casper_units; unit < __stop___casper_units; unit++) {
		for (i = 0; i < (*unit)->count; i++) {
			if (!glob_match(pattern, (*unit)->functions[i].name))
				continue;
			WRITE_ONCE((*unit)->selected[i], selected);
			matched++;
		}
	}
	return matched;
}

/*
 * Room for an entry at the list's end; NULL, and counted: there is none. The
 * place is never read back from shared memory.
 */
static struct casper_meta *reserve(struct casper_core *core, u16 kind,
				   u32 process, size_t length)
{
	size_t size = ALIGN(sizeof(struct casper_meta) + length, 8);
	s64 at = atomic64_read(&core->meta_end);
	struct casper_meta *entry;

	do {
		if (size > core->meta_bytes - at) {
			atomic64_inc((atomic64_t *)&core->shared->lost_meta);
			return NULL;
		}
	} while (!atomic64_try_cmpxchg(&core->meta_end, &at, at + size));
	entry = (void *)((char *)core->shared + core->meta_offset + at);
	entry->kind = kind;
	entry->process = process;
	entry->length = length;
	smp_store_release(&entry->size, size);
	return entry;
}

static void commit(struct casper_meta *entry)
{
	smp_store_release(&entry->committed, 1);
}

static void process_entry(struct casper_core *core, u32 process,
			  const struct casper_meta_process *head,
			  const char *name)
{
	size_t length = strlen(name) + 1;
	struct casper_meta *entry;

	entry = reserve(core, CASPER_META_PROCESS, process,
			sizeof(*head) + length);
	if (!entry)
		return;
	memcpy(entry + 1, head, sizeof(*head));
	memcpy((char *)(entry + 1) + sizeof(*head), name, length);
	commit(entry);
}

void casper_meta_task(struct casper_core *core, struct task_struct *tsk,
		      u32 process)
{
	struct casper_meta_process head = {
		.pid = task_tgid_nr(tsk),
		.parent_process = 1,
		.origin = CASPER_ORIGIN_FORKED,
		.ticks = casper_ticks(core),
	};
	char name[TASK_COMM_LEN];

	rcu_read_lock();
	head.parent_pid = task_tgid_nr(rcu_dereference(tsk->real_parent));
	rcu_read_unlock();
	/* Another thread may be changing it: it ends with a NUL all the same. */
	strscpy(name, tsk->group_leader->comm, sizeof(name));
	process_entry(core, process, &head, name);
}

void casper_meta_thread(struct casper_core *core, u32 process, u32 tid,
			const char *name)
{
	struct casper_meta_thread thread = { .tid = tid };
	struct casper_meta *entry;

	strscpy(thread.name, name, sizeof(thread.name));
	entry = reserve(core, CASPER_META_THREAD, process, sizeof(thread));
	if (!entry)
		return;
	memcpy(entry + 1, &thread, sizeof(thread));
	commit(entry);
}

static char *put_text(char *to, const char *text)
{
	size_t length = strlen(text) + 1;

	memcpy(to, text, length);
	return to + length;
}

static void type_entry(struct casper_core *core,
		       const struct casper_type_info *type)
{
	struct casper_meta_type head = {
		.event_type = type->event_type,
		.field_count = type->field_count,
		.event_bytes = type->event_bytes,
	};
	size_t length = sizeof(head) + strlen(type->name) + 1;
	struct casper_meta *entry;
	char *to;
	u32 i;

	for (i = 0; i < type->field_count; i++)
		length += sizeof(struct casper_meta_field) +
			  strlen(type->fields[i].name) + 1 +
			  strlen(type->fields[i].unit) + 1;
	entry = reserve(core, CASPER_META_TYPE, 1, length);
	if (!entry)
		return;
	to = (char *)(entry + 1);
	memcpy(to, &head, sizeof(head));
	to += sizeof(head);
	for (i = 0; i < type->field_count; i++) {
		struct casper_meta_field field = {
			.offset = type->fields[i].offset,
			.size = type->fields[i].size,
			.count = type->fields[i].count,
			.kind = type->fields[i].kind,
		};

		memcpy(to, &field, sizeof(field));
		to += sizeof(field);
	}
	to = put_text(to, type->name);
	for (i = 0; i < type->field_count; i++) {
		to = put_text(to, type->fields[i].name);
		to = put_text(to, type->fields[i].unit);
	}
	commit(entry);
}

static void unit_entry(struct casper_core *core, const struct casper_unit *unit)
{
	struct casper_meta_functions head = { .first = unit->base,
					      .count = unit->count };
	size_t length = sizeof(head) + strlen(unit->file) + 1;
	struct casper_meta *entry;
	unsigned int i;
	char *to;

	for (i = 0; i < unit->count; i++)
		length += sizeof(u32) + strlen(unit->functions[i].name) + 1;
	entry = reserve(core, CASPER_META_FUNCTIONS, 1, length);
	if (!entry)
		return;
	to = (char *)(entry + 1);
	memcpy(to, &head, sizeof(head));
	to = put_text(to + sizeof(head), unit->file);
	for (i = 0; i < unit->count; i++) {
		u32 line = unit->functions[i].line;

		memcpy(to, &line, sizeof(line));
		to = put_text(to + sizeof(line), unit->functions[i].name);
	}
	commit(entry);
}

/* What is known before the first event: process 1, its types and functions. */
void casper_meta_kernel(struct casper_core *core)
{
	struct casper_meta_process head = { .origin = CASPER_ORIGIN_ATTACHED,
					    .ticks = casper_ticks(core) };
	struct casper_meta_module text = {
		.start = core->addresses ? (u64)_stext : 0,
		.end = core->addresses ? (u64)_etext : 0,
	};
	static const char path[] = "vmlinux";
	struct casper_unit **unit;
	struct casper_meta *entry;
	int i;

	process_entry(core, 1, &head, "kernel");
	entry = reserve(core, CASPER_META_MODULE, 1, sizeof(text) + sizeof(path));
	if (entry) {
		memcpy(entry + 1, &text, sizeof(text));
		memcpy((char *)(entry + 1) + sizeof(text), path, sizeof(path));
		commit(entry);
	}
	for (unit = __start___casper_units; unit < __stop___casper_units; unit++)
		unit_entry(core, *unit);
	mutex_lock(&types_lock);
	for (i = 0; i < TYPES_MAX; i++)
		if (types[i])
			type_entry(core, types[i]);
	mutex_unlock(&types_lock);
}

/**
 * casper_register - tell readers the fields of an event type
 * @type: its description, which must live until casper_unregister()
 *
 * Sessions that are made later know it; so register when the code that
 * records it begins its life.
 *
 * Return: 0; -EINVAL where it makes no sense; -EEXIST where another type has
 * its number; -ENOSPC where there are too many.
 */
int casper_register(const struct casper_type_info *type)
{
	int free = -1, i;

	if (type->event_type >= CASPER_TYPE_RESERVED || !type->name ||
	    type->event_bytes > CASPER_EVENT_MAX || type->field_count > 1024)
		return -EINVAL;
	mutex_lock(&types_lock);
	for (i = 0; i < TYPES_MAX; i++) {
		if (!types[i])
			free = i;
		else if (types[i]->event_type == type->event_type)
			break;
	}
	if (i == TYPES_MAX && free >= 0)
		types[free] = type;
	mutex_unlock(&types_lock);
	if (i < TYPES_MAX)
		return types[i] == type ? 0 : -EEXIST;
	return free < 0 ? -ENOSPC : 0;
}
EXPORT_SYMBOL_GPL(casper_register);

void casper_unregister(const struct casper_type_info *type)
{
	int i;

	mutex_lock(&types_lock);
	for (i = 0; i < TYPES_MAX; i++)
		if (types[i] == type)
			types[i] = NULL;
	mutex_unlock(&types_lock);
}
EXPORT_SYMBOL_GPL(casper_unregister);

/* Each file's functions get a range of identifiers; they stay until the next boot. */
static int __init casper_init(void)
{
	struct casper_unit **unit;

	for (unit = __start___casper_units; unit < __stop___casper_units;
	     unit++) {
		/* An instrumented header is one unit of many files. */
		if ((*unit)->base)
			continue;
		(*unit)->base = functions_end;
		functions_end += (*unit)->count;
	}
	return 0;
}
early_initcall(casper_init);
