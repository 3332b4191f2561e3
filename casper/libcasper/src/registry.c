/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The event types and instrumented files of this process, told to each session that it enters. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

#define TYPES_MAX 1024

static const struct casper_type_info *types[TYPES_MAX];
static struct casper_unit *units;
static uint32_t next_function = 1;
/* The pid of who changes or walks `units`: a lock that a child of a fork does not inherit. */
static pid_t units_owner;

static bool lock_units(void)
{
	pid_t owner = load(&units_owner), self = getpid();

	return owner != self && __atomic_compare_exchange_n(&units_owner, &owner, self, false,
							    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void unlock_units(void)
{
	store_release(&units_owner, 0);
}

static bool is_valid(const struct casper_type_info *type)
{
	if (!type || !type->name || !type->name[0] || type->event_type >= CASPER_TYPE_RESERVED ||
	    type->event_bytes < sizeof(casper_event_type) || type->event_bytes > CASPER_EVENT_MAX ||
	    type->field_count > 256 || strlen(type->name) > 255 ||
	    (type->field_count && !type->fields))
		return false;
	for (uint32_t i = 0; i < type->field_count; i++) {
		const struct casper_field_info *f = &type->fields[i];

		if (!f->name || !f->name[0] || !f->unit || strlen(f->name) > 255 ||
		    strlen(f->unit) > 63 || f->kind < CASPER_KIND_UNSIGNED ||
		    f->kind > CASPER_KIND_TEXT || !f->size || !f->count ||
		    f->offset > type->event_bytes ||
		    f->size > (type->event_bytes - f->offset) / f->count)
			return false;
		if (f->kind == CASPER_KIND_TEXT
			    ? f->count != 1
			    : f->size != 1 && f->size != 2 && f->size != 4 && f->size != 8)
			return false;
	}
	return true;
}

static bool is_same(const struct casper_type_info *a, const struct casper_type_info *b)
{
	if (a == b)
		return true;
	if (strcmp(a->name, b->name) || a->event_bytes != b->event_bytes ||
	    a->field_count != b->field_count)
		return false;
	for (uint32_t i = 0; i < a->field_count; i++) {
		const struct casper_field_info *f = &a->fields[i], *g = &b->fields[i];

		if (strcmp(f->name, g->name) || strcmp(f->unit, g->unit) ||
		    f->offset != g->offset || f->size != g->size || f->count != g->count ||
		    f->kind != g->kind)
			return false;
	}
	return true;
}

/* A type that was asked for by its name. */
static void let_pass(struct view *v, const struct casper_type_info *type)
{
	const char *name = v->session->only, *end = name + sizeof(v->session->only);
	size_t length;

	for (; name < end && *name; name += length + 1) {
		length = strnlen(name, end - name);
		if (length == strlen(type->name) && !memcmp(name, type->name, length))
			__atomic_or_fetch(&v->session->filter[type->event_type >> 3],
					  1 << (type->event_type & 7), __ATOMIC_RELAXED);
	}
}

static void tell_type(struct view *v, const struct casper_type_info *type)
{
	let_pass(v, type);
	meta_type(v, type);
}

PUBLIC int casper_register(const struct casper_type_info *type)
{
	int saved = errno;
	struct view *v;

	if (!is_valid(type))
		return -EINVAL;
	for (uint32_t n = 0, i = type->event_type; n < TYPES_MAX; n++, i++) {
		const struct casper_type_info *there = NULL;

		if (__atomic_compare_exchange_n(&types[i % TYPES_MAX], &there, type, false,
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
			v = session_view();
			if (v)
				tell_type(v, type);
			errno = saved;
			return 0;
		}
		if (there->event_type == type->event_type)
			return is_same(there, type) ? 0 : -EEXIST;
	}
	return -ENOSPC;
}

PUBLIC void casper_unit_register(struct casper_unit *unit)
{
	uint32_t none = 0, base;
	int saved = errno;
	struct view *v;

	if (load(&unit->base))
		return;
	base = __atomic_fetch_add(&next_function, unit->count ? unit->count : 1, __ATOMIC_RELAXED);
	/* Two threads may get here; one wins, the other's numbers stay unused. */
	if (!__atomic_compare_exchange_n(&unit->base, &none, base, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return;
	unit->next = load(&units);
	while (!__atomic_compare_exchange_n(&units, &unit->next, unit, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED))
		;
	v = session_view();
	if (v)
		meta_unit(v, unit);
	errno = saved;
}

/* A library is unloaded. Who walks the list at this moment is another thread, and soon done. */
PUBLIC void casper_unit_unregister(struct casper_unit *unit)
{
	struct casper_unit **link;

	while (!lock_units())
		usleep(10);
	for (link = &units; *link; link = &(*link)->next) {
		if (*link == unit) {
			*link = unit->next;
			break;
		}
	}
	unlock_units();
}

void registry_tell(struct view *v)
{
	for (uint32_t i = 0; i < TYPES_MAX; i++) {
		const struct casper_type_info *type = load_acquire(&types[i]);

		if (type)
			tell_type(v, type);
	}
	if (!lock_units())
		return;
	for (struct casper_unit *unit = load_acquire(&units); unit; unit = unit->next)
		meta_unit(v, unit);
	unlock_units();
}
