// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * count: a plugin of QEMU's TCG that counts instructions by address. When a
 * program in the guest executes the mark, an interval ends, and its counts go
 * to the file that `out=` names: a line `INTERVAL ADDRESS INSTRUCTIONS` for
 * each block of code.
 *
 * Debian does not package qemu-plugin.h: declared here is what is used of its
 * version 1, which QEMU 9 and later refuse.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct tb;
struct insn;
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*)(uint64_t id, struct tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct tb *, int add_is_0, void *, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *, void (*)(unsigned, void *),
					    int no_registers_is_0, void *);
size_t qemu_plugin_tb_n_insns(const struct tb *);
struct insn *qemu_plugin_tb_get_insn(const struct tb *, size_t);
const void *qemu_plugin_insn_data(const struct insn *);
size_t qemu_plugin_insn_size(const struct insn *);
uint64_t qemu_plugin_tb_vaddr(const struct tb *);

int qemu_plugin_version = 1;

/* nopl 0x74736968(%rax,%rax,1), which no compiler writes. */
static const uint8_t mark[] = { 0x0f, 0x1f, 0x84, 0x00, 0x68, 0x69, 0x73, 0x74 };

/* By address, as in a hash table: the guest has one CPU, so nothing here needs a lock. */
static struct {
	uint64_t address, count;
} blocks[1 << 21];
static FILE *out;
static unsigned interval;

static void end_interval(unsigned cpu, void *nothing)
{
	(void)cpu, (void)nothing;
	for (size_t i = 0; i < sizeof(blocks) / sizeof(*blocks); i++)
		if (blocks[i].count) {
			fprintf(out, "%u %" PRIx64 " %" PRIu64 "\n", interval, blocks[i].address,
				blocks[i].count);
			blocks[i].count = 0;
		}
	fflush(out);
	interval++;
}

static void translated(uint64_t id, struct tb *tb)
{
	size_t instructions = qemu_plugin_tb_n_insns(tb), slots = sizeof(blocks) / sizeof(*blocks);
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	size_t at = (address * 0x9e3779b97f4a7c15) >> 43;

	(void)id;
	/* All of user space is one block. */
	if (address >> 63 == 0)
		address = at = 1;
	while (blocks[at].address && blocks[at].address != address)
		at = (at + 1) % slots;
	blocks[at].address = address;
	qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &blocks[at].count, instructions);
	for (size_t i = 0; address == 1 && i < instructions; i++) {
		struct insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_size(insn) == sizeof(mark) &&
		    !memcmp(qemu_plugin_insn_data(insn), mark, sizeof(mark)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, end_interval, 0, NULL);
	}
}

int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4) || !(out = fopen(argv[0] + 4, "w")))
		return 1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
