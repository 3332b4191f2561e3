// SPDX-License-Identifier: GPL-2.0-only
/*
 * MADV_FREE by a child must not give up pages that its parent still has, even where a read fault
 * has just brought them back from a synchronous swap device (zram): such a page is clean, and no
 * other copy of it is left.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kselftest.h"
#include "vm_util.h"

#define PAGES	64

static long page_size;
static char *mem;

static volatile long *at(int page)
{
	return (long *)(mem + page * page_size);
}

static bool swaps_to_zram(void)
{
	char line[256];
	bool found = false;
	FILE *file = fopen("/proc/swaps", "r");

	while (file && fgets(line, sizeof(line), file))
		found |= !strncmp(line, "/dev/zram", 9);
	if (file)
		fclose(file);
	return found;
}

static int swapped(int pagemap)
{
	int i, nr = 0;

	for (i = 0; i < PAGES; i++)
		nr += pagemap_is_swapped(pagemap, (char *)at(i));
	return nr;
}

int main(void)
{
	int i, pid, status, pagemap, out, lost = 0;
	bool mine = false;

	ksft_print_header();
	page_size = getpagesize();
	if (!swaps_to_zram()) {
		mine = !system("[ \"$(cat /sys/block/zram0/disksize)\" = 0 ] && "
			       "echo 64M >/sys/block/zram0/disksize && "
			       "mkswap /dev/zram0 >/dev/null && swapon /dev/zram0");
		if (!mine)
			ksft_exit_skip("no swap on zram, and no unused /dev/zram0 for it\n");
	}
	ksft_set_plan(1);
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	mem = mmap(NULL, PAGES * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	if (pagemap < 0 || mem == MAP_FAILED)
		ksft_exit_fail_perror("pagemap or mmap");
	madvise(mem, PAGES * page_size, MADV_NOHUGEPAGE);
	for (i = 0; i < PAGES; i++)
		*at(i) = i + 1;
	madvise(mem, PAGES * page_size, MADV_PAGEOUT);
	out = swapped(pagemap);
	for (i = 0; i < PAGES; i++)
		if (*at(i) != i + 1)
			ksft_exit_fail_msg("page %d was lost in swap\n", i);

	pid = fork();
	if (!pid)
		_exit(!!madvise(mem, PAGES * page_size, MADV_FREE));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		ksft_exit_fail_perror("MADV_FREE in a child");

	/* Reclaims them. */
	madvise(mem, PAGES * page_size, MADV_PAGEOUT);
	for (i = 0; i < PAGES; i++)
		lost += *at(i) != i + 1;
	if (mine)
		mine = system("swapoff /dev/zram0 && echo 1 >/sys/block/zram0/reset");
	if (!out)
		ksft_test_result_skip("nothing was swapped out\n");
	else
		ksft_test_result(!lost, "MADV_FREE in a child: %d of %d pages lost\n", lost, PAGES);
	ksft_finished();
}
