/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How a heap lies in memory, and the mappings that a fork copies beside it.
 */
#ifndef COWLAB_HEAP_H
#define COWLAB_HEAP_H

#include "probe.h"

#include <fcntl.h>
#include <sys/wait.h>

/*
 * Mappings that fork copies beside the heap. Two neighbours never become one:
 * every other one is read-only, or they begin at the same place of the file.
 */
static inline void map_anon(uint64_t count)
{
	size_t page = base_page_bytes();
	char *start = map_private(count * page, page);

	write_pages(start, count * page, page);
	for (uint64_t i = 0; i < count; i += 2)
		if (mprotect(start + i * page, page, PROT_READ))
			fail(1, "cannot make %llu mappings: %s (see vm.max_map_count)",
			     (unsigned long long)count, strerror(errno));
}

static inline void map_files(uint64_t count)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fail(1, "cannot open this program: %s", strerror(errno));
	for (uint64_t i = 0; i < count; i++)
		if (mmap(NULL, base_page_bytes(), PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED)
			fail(1, "cannot make %llu mappings: %s (see vm.max_map_count)",
			     (unsigned long long)count, strerror(errno));
	close(fd);
}

/*
 * Have the heap's pages lie in memory as those of a program that has been
 * copied from: each is replaced beside a child, in an order of no pattern, and
 * far enough from the one before that the heap lies in `over` bytes.
 */
static inline void scatter(char *heap, size_t bytes, size_t over)
{
	size_t page = base_page_bytes(), count = bytes / page, times = bytes ? over / bytes : 0;
	size_t between = times > 1 ? (times - 1) * page : 0, far_bytes = count * between;
	size_t *order = malloc((count ? count : 1) * sizeof(*order));
	char *far = NULL, *next, byte = 0;
	uint64_t state = 1;
	int release[2];
	pid_t pid;

	if (!order)
		fail(1, "no memory to scatter the heap");
	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = count; i-- > 1;) {
		size_t other = random_below(&state, i + 1), kept = order[i];

		order[i] = order[other];
		order[other] = kept;
	}
	if (pipe(release))
		fail(1, "pipe: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		fail(1, "fork: %s", fork_error());
	if (pid == 0)
		_exit(read(release[0], &byte, 1) != 1);
	/* After the fork: where memory is promised by what is mapped, the child needs none. */
	if (far_bytes)
		far = map_private(far_bytes, page);
	next = far;
	for (size_t i = 0; i < count; i++) {
		*(volatile char *)(heap + order[i] * page) = 1;
		if (far)
			write_pages(next, between, page);
		next += between;
	}
	if (write(release[1], &byte, 1) != 1)
		fail(1, "cannot release a held child: %s", strerror(errno));
	if (waitpid(pid, NULL, 0) != pid)
		fail(1, "waitpid: %s", strerror(errno));
	close(release[0]);
	close(release[1]);
	if (far)
		munmap(far, round_up(far_bytes, HUGE_ALIGN));
	free(order);
}

#endif
