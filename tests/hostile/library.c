/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * copy_pages() of a target. With -DENDLESS its unwind table finds the frame by an expression that
 * jumps to itself.
 */
void NAME(volatile char *memory, int pages);

__attribute__((noinline)) void NAME(volatile char *memory, int pages)
{
#ifdef ENDLESS
	/* DW_CFA_def_cfa_expression of 3 bytes: DW_OP_skip -3. */
	__asm__ volatile(".cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff");
#endif
	for (int page = 0; page < pages; page++)
		memory[page * 4096] = 2;
}

void copy_pages(volatile char *memory, int pages)
{
	NAME(memory, pages);
	__asm__ volatile("");
}
