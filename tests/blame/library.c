// SPDX-License-Identifier: Apache-2.0 OR MIT
/* The shared library of planted.c. */
void fifth(volatile char *from, unsigned long pages);

void fifth(volatile char *from, unsigned long pages)
{
	for (unsigned long page = 0; page < pages; page++)
		from[page * 4096] = 5;
}
