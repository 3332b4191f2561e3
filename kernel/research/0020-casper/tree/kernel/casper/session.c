// SPDX-License-Identifier: GPL-2.0-only
/*
 * A session's memory, which functions it records, and its beginning and end.
 * All of this runs in process context, one call at a time: who opened the
 * device holds its lock.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>
#include <linux/vmalloc.h>

#include "internal.h"

/* Before the metadata: struct casper_session. */
#define META_OFFSET	ALIGN(sizeof(struct casper_session), 16384)
#define META_BYTES_MAX	(1ULL << 30)
#define BUFFER_BYTES_MIN	(1U << 16)
#define BUFFER_BYTES_MAX	(1U << 30)
#define SUBBUF_BYTES_MIN	(1U << 14)
#define BUFFERS_MAX	65536U

static atomic64_t casper_sessions;

static void wake_reader(struct irq_work *work)
{
	struct casper_core *core = container_of(work, struct casper_core, wake);

	atomic_set(&core->woken, 1);
	wake_up_interruptible(&core->waiters);
}

static bool setup_is_valid(const struct casper_setup *setup)
{
	return setup->version == CASPER_VERSION &&
	       (setup->mode == CASPER_MODE_DROP ||
		setup->mode == CASPER_MODE_OVERWRITE) &&
	       (setup->clock == CASPER_CLOCK_CYCLES ||
		setup->clock == CASPER_CLOCK_MONOTONIC) &&
	       setup->buffer_count >= 1 &&
	       setup->buffer_count <= BUFFERS_MAX &&
	       is_power_of_2(setup->buffer_bytes) &&
	       setup->buffer_bytes >= BUFFER_BYTES_MIN &&
	       setup->buffer_bytes <= BUFFER_BYTES_MAX &&
	       is_power_of_2(setup->subbuf_bytes) &&
	       setup->subbuf_bytes >= SUBBUF_BYTES_MIN &&
	       setup->subbuf_bytes <= setup->buffer_bytes / 2 &&
	       setup->meta_bytes >= PAGE_SIZE &&
	       setup->meta_bytes <= META_BYTES_MAX &&
	       PAGE_ALIGNED(setup->meta_bytes);
}

struct casper_core *casper_core_create(struct casper_setup *setup,
				       bool addresses)
{
	struct casper_core *core;

	if (!setup_is_valid(setup))
		return ERR_PTR(-EINVAL);
	core = kzalloc(sizeof(*core), GFP_KERNEL_ACCOUNT);
	if (!core)
		return ERR_PTR(-ENOMEM);
	core->number = atomic64_inc_return(&casper_sessions);
	core->addresses = addresses;
	core->mode = setup->mode;
	core->clock = setup->clock;
	core->buffer_count = setup->buffer_count;
	core->buffer_bytes = setup->buffer_bytes;
	core->subbuf_bytes = setup->subbuf_bytes;
	core->meta_offset = META_OFFSET;
	core->meta_bytes = setup->meta_bytes;
	core->buffers_offset = META_OFFSET + setup->meta_bytes;
	core->buffer_stride = CASPER_BUFFER_HEADER_BYTES + setup->buffer_bytes;
	core->session_bytes = core->buffers_offset +
			      core->buffer_count * core->buffer_stride;
	init_irq_work(&core->wake, wake_reader);
	init_waitqueue_head(&core->waiters);

	core->interrupts = __alloc_percpu(sizeof(*core->interrupts),
					  sizeof(u32));
	core->writers = __vcalloc(core->buffer_count, sizeof(*core->writers),
				  GFP_KERNEL_ACCOUNT);
	core->shared = __vmalloc(core->buffers_offset,
				 GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!core->interrupts || !core->writers || !core->shared) {
		casper_core_destroy(core);
		return ERR_PTR(-ENOMEM);
	}
	memset(core->shared->filter, 0xff, sizeof(core->shared->filter));
	/* The kernel's own process. */
	core->shared->next_process = 1;
	core->shared->meta_ready = core->meta_bytes;
	casper_meta_kernel(core);
	casper_functions_set(true);

	setup->meta_offset = core->meta_offset;
	setup->buffers_offset = core->buffers_offset;
	setup->buffer_stride = core->buffer_stride;
	setup->session_bytes = core->session_bytes;
	/* Without the empty one that shows what a call costs. */
	setup->functions = casper_functions_end() - 2;
	return core;
}

void casper_core_destroy(struct casper_core *core)
{
	u32 i;

	for (i = 0; i < core->ready; i++)
		vfree(core->writers[i].shared);
	vfree(core->writers);
	vfree(core->shared);
	free_percpu(core->interrupts);
	kfree(core);
}

/* See that the first @buffers have memory. */
int casper_core_provide(struct casper_core *core, u32 buffers)
{
	if (buffers > core->buffer_count)
		return -EINVAL;
	while (core->ready < buffers) {
		struct casper_writer *w = &core->writers[core->ready];

		w->shared = __vmalloc(core->buffer_stride,
				      GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!w->shared)
			return -ENOMEM;
		w->ring = (char *)w->shared + CASPER_BUFFER_HEADER_BYTES;
		/* Pairs with the address dependency of who looks for one. */
		smp_store_release(&core->ready, core->ready + 1);
	}
	return 0;
}

/* What stands at an offset of the session's memory; NULL: nothing yet. */
void *casper_core_address(struct casper_core *core, u64 offset)
{
	u64 buffer;

	if (offset < core->buffers_offset)
		return (char *)core->shared + offset;
	offset -= core->buffers_offset;
	buffer = div64_u64_rem(offset, core->buffer_stride, &offset);
	if (buffer >= smp_load_acquire(&core->ready))
		return NULL;
	return (char *)core->writers[buffer].shared + offset;
}

int casper_core_select(struct casper_core *core, struct casper_select *select)
{
	if (core->on)
		return -EBUSY;
	if (select->record > 1 ||
	    strnlen(select->pattern, sizeof(select->pattern)) ==
		    sizeof(select->pattern))
		return -EINVAL;
	/* A first pattern that adds begins with none. */
	if (!core->selective && select->record)
		casper_functions_set(false);
	core->selective = true;
	select->matched = casper_functions_select(select->pattern,
						  select->record);
	return 0;
}

int casper_core_turn(struct casper_core *core, bool on)
{
	if (on == core->on)
		return 0;
	core->on = on;
	if (on)
		return casper_start(core);
	casper_stop(core);
	return 0;
}
