// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * keep_warm: keep BYTES of the free memory from being taken back by a
 * hypervisor while other probes run.
 *
 * A guest kernel that reports free pages reports large free blocks only
 * (mm/page_reporting.c). This program touches BYTES and gives all of it back
 * but one page in KEPT_EVERY, so that the free pages between those cannot
 * merge into blocks that are reported. It ends when its input does.
 */
#include "probe.h"

/* 255 free pages in a row at most: half of the smallest block that is reported. */
#define KEPT_EVERY ((size_t)256)

int main(int argc, char **argv)
{
	size_t bytes, stride = KEPT_EVERY * base_page_bytes();
	uint64_t began;
	char *memory, byte;

	probe_name = "keep_warm";
	if (argc != 2)
		fail(EXIT_USAGE, "usage: keep_warm BYTES");
	die_with_parent();
	bytes = round_up(parse_u64("BYTES", argv[1]), stride);
	memory = map_private(bytes, base_page_bytes());
	began = now_ns();
	write_pages(memory, bytes, base_page_bytes());
	row("touch_ns", now_ns() - began);
	row("pages", bytes / base_page_bytes());
	for (size_t at = 0; at < bytes; at += stride)
		madvise(memory + at + base_page_bytes(), stride - base_page_bytes(), MADV_DONTNEED);
	row_end();
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
