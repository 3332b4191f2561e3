/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What readers need beside the events: processes, types, functions, modules. Entries go to a list
 * in the session's memory that any thread of any process appends to without a lock (record.h).
 */
#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* Names of functions in one entry, about. */
#define FUNCTIONS_BYTES 32768

/* Claim an entry with `length` bytes to follow its header; NULL: no room, which is counted. */
static struct casper_meta *claim(struct view *v, uint16_t kind, uint32_t process, size_t length)
{
	struct casper_session *s = v->session;
	uint64_t need = (sizeof(struct casper_meta) + length + 7) & ~(uint64_t)7;
	uint64_t at = load(&s->meta_end);
	struct casper_meta *entry;
	unsigned int tries = 0;

	for (;;) {
		uint32_t size = 0;

		if (at % 8 || at > v->meta_bytes || need > v->meta_bytes - at)
			break;
		while (at + need > load_acquire(&s->meta_ready))
			if (!session_pause(v, &tries))
				goto lost;
		entry = (struct casper_meta *)((char *)s + v->meta_offset + at);
		if (__atomic_compare_exchange_n(&entry->size, &size, (uint32_t)need, false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			__u64 hint = at;

			__atomic_compare_exchange_n(&s->meta_end, &hint, at + need, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
			entry->kind = kind;
			entry->process = process;
			entry->length = length;
			return entry;
		}
		if (size < sizeof(*entry))
			break;
		at += size;
	}
lost:
	add_fetch(&s->lost_meta, 1);
	return NULL;
}

static void commit(struct casper_meta *entry)
{
	store_release(&entry->committed, 1);
}

static char *put(char *to, const void *from, size_t size)
{
	memcpy(to, from, size);
	return to + size;
}

static char *put_text(char *to, const char *text)
{
	return put(to, text, strlen(text) + 1);
}

static const char *own_path(char to[PATH_BYTES])
{
	ssize_t length = readlink("/proc/self/exe", to, PATH_BYTES - 1);

	to[length > 0 ? length : 0] = 0;
	return to;
}

void meta_process(struct view *v, uint32_t process, uint32_t parent, uint32_t origin)
{
	struct casper_meta_process body = { .pid = getpid(),
					    .parent_pid = getppid(),
					    .parent_process = parent,
					    .origin = origin,
					    .ticks = ticks_of(v->clock) };
	const char *path = "";
	struct casper_meta *entry;

	/* A forked child's is its parent's. */
	if (!parent)
		path = own_path(v->scratch);
	entry = claim(v, CASPER_META_PROCESS, process, sizeof(body) + strlen(path) + 1);
	if (!entry)
		return;
	put_text(put((char *)(entry + 1), &body, sizeof(body)), path);
	commit(entry);
}

void meta_type(struct view *v, const struct casper_type_info *type)
{
	struct casper_meta_type body = { .event_type = type->event_type,
					 .field_count = type->field_count,
					 .event_bytes = type->event_bytes };
	size_t length = sizeof(body) + strlen(type->name) + 1;
	struct casper_meta *entry;
	char *to;

	for (uint32_t i = 0; i < type->field_count; i++)
		length += sizeof(struct casper_meta_field) + strlen(type->fields[i].name) + 1 +
			  strlen(type->fields[i].unit) + 1;
	entry = claim(v, CASPER_META_TYPE, v->process, length);
	if (!entry)
		return;
	to = put((char *)(entry + 1), &body, sizeof(body));
	for (uint32_t i = 0; i < type->field_count; i++) {
		struct casper_meta_field field = { .offset = type->fields[i].offset,
						   .size = type->fields[i].size,
						   .count = type->fields[i].count,
						   .kind = type->fields[i].kind };

		to = put(to, &field, sizeof(field));
	}
	to = put_text(to, type->name);
	for (uint32_t i = 0; i < type->field_count; i++)
		to = put_text(put_text(to, type->fields[i].name), type->fields[i].unit);
	commit(entry);
}

/* Functions first..end of a unit. */
static void functions(struct view *v, const struct casper_unit *unit, uint32_t first, uint32_t end,
		      size_t names_bytes)
{
	struct casper_meta_functions body = { .first = unit->base + first, .count = end - first };
	struct casper_meta *entry = claim(v, CASPER_META_FUNCTIONS, v->process,
					  sizeof(body) + strlen(unit->file) + 1 + names_bytes);
	char *to;

	if (!entry)
		return;
	to = put_text(put((char *)(entry + 1), &body, sizeof(body)), unit->file);
	for (uint32_t i = first; i < end; i++) {
		uint32_t line = unit->functions[i].line;

		to = put_text(put(to, &line, sizeof(line)), unit->functions[i].name);
	}
	commit(entry);
}

void meta_unit(struct view *v, const struct casper_unit *unit)
{
	uint32_t first = 0;
	size_t bytes = 0;

	for (uint32_t i = 0; i < unit->count; i++) {
		bytes += sizeof(uint32_t) + strlen(unit->functions[i].name) + 1;
		if (bytes >= FUNCTIONS_BYTES || i + 1 == unit->count) {
			functions(v, unit, first, i + 1, bytes);
			first = i + 1;
			bytes = 0;
		}
	}
}

/* The GNU build id of a loaded module. */
static uint32_t build_id(const struct dl_phdr_info *info, uint8_t id[20])
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + segment->p_vaddr;
		const char *end = at + segment->p_memsz;

		if (segment->p_type != PT_NOTE)
			continue;
		while ((size_t)(end - at) >= sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
			const char *name = at + sizeof(*note);
			const char *text = name + ((note->n_namesz + 3) & ~3u);

			if (text > end || note->n_descsz > (size_t)(end - text))
				break;
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
			    !memcmp(name, "GNU", 4)) {
				uint32_t size = note->n_descsz < 20 ? note->n_descsz : 20;

				memcpy(id, text, size);
				return size;
			}
			at = text + ((note->n_descsz + 3) & ~3u);
		}
	}
	return 0;
}

static int module(struct dl_phdr_info *info, size_t size, void *data)
{
	struct view *v = data;
	struct casper_meta_module body = { .bias = info->dlpi_addr, .start = UINT64_MAX };
	const char *path = info->dlpi_name;
	struct casper_meta *entry;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		if (start < body.start)
			body.start = start;
		if (start + segment->p_memsz > body.end)
			body.end = start + segment->p_memsz;
	}
	if (body.start >= body.end)
		return 0;
	if (!path || !path[0])
		path = own_path(v->scratch);
	body.build_id_bytes = build_id(info, body.build_id);
	entry = claim(v, CASPER_META_MODULE, v->process, sizeof(body) + strlen(path) + 1);
	if (entry) {
		put_text(put((char *)(entry + 1), &body, sizeof(body)), path);
		commit(entry);
	}
	return 0;
}

/* Not async-signal-safe: called where the library begins and ends only. */
void meta_modules(struct view *v)
{
	dl_iterate_phdr(module, v);
}
