/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Registers the private memory of the program that loads or links it for asynchronous
 * write-protection, so that `cowlab footprint PID --method uffd --allow-marking` can see which
 * pages it writes (Linux 6.7). Nothing is protected, and no write costs anything, before cowlab
 * does so.
 *
 *   cc -O2 -shared -fPIC -o footprint_uffd.so examples/footprint_uffd.c
 *   LD_PRELOAD=./footprint_uffd.so PROGRAM
 *
 * Memory that is mapped later is not registered: call footprint_register() for it (it may be called
 * again and again), or look at it as new pages, which count as written anyway. A forked child has
 * nothing registered. UFFD_USER_MODE_ONLY is not asked for, since the kernel's own writes are to be
 * seen as well: that takes root, CAP_SYS_PTRACE or vm.unprivileged_userfaultfd=1.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/userfaultfd.h, which is older than this on many machines. */
struct api {
	uint64_t api, features, ioctls;
};
struct registration {
	uint64_t start, length, mode, ioctls;
};
#define API _IOWR(0xaa, 0x3f, struct api)
#define REGISTER _IOWR(0xaa, 0x00, struct registration)
#define VERSION 0xaaULL
#define MODE_WRITE_PROTECT (1ULL << 1)
#define FEATURE_WP_UNPOPULATED (1ULL << 13)
#define FEATURE_WP_ASYNC (1ULL << 15)

static int descriptor = -1;

/* How many mappings are registered; -1 where the kernel refuses. Uses no memory of malloc's, which
 * may not be ready yet.
 */
int footprint_register(void)
{
	static char text[1 << 20];
	struct api api = { VERSION, FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED, 0 };
	size_t length = 0;
	ssize_t got;
	int maps, count = 0;

	if (descriptor < 0) {
		descriptor = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
		if (descriptor < 0 || ioctl(descriptor, API, &api) != 0)
			return -1;
	}
	maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	while (maps >= 0 && length < sizeof(text) - 1 &&
	       (got = read(maps, text + length, sizeof(text) - 1 - length)) > 0)
		length += got;
	close(maps);
	text[length] = 0;
	for (char *line = text; line && *line; line = strchr(line, '\n')) {
		unsigned long start, end;
		char perms[5];

		line += *line == '\n';
		if (sscanf(line, "%lx-%lx %4s", &start, &end, perms) != 3)
			break;
		if (perms[1] != 'w' || perms[3] != 'p')
			continue;
		struct registration one = { start, end - start, MODE_WRITE_PROTECT, 0 };
		/* A private mapping of a file cannot be: its pages stay unseen until they are new.
		 */
		count += ioctl(descriptor, REGISTER, &one) == 0;
	}
	return count;
}

__attribute__((constructor)) static void at_start(void)
{
	footprint_register();
}
