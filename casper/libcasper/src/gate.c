/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The file by which a running program learns that it shall be recorded (record.h). */
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

static const struct casper_gate *gate;

static char *put_number(char *to, uint64_t number)
{
	if (number >= 10)
		to = put_number(to, number / 10);
	*to = (char)('0' + number % 10);
	return to + 1;
}

/* Only reads it: the recorder writes its head, and fills it. */
void gate_open(void)
{
	char path[64] = "/dev/shm/casper.";
	struct rlimit limit;
	struct stat file;
	void *memory;
	int fd;

	/* To make the file longer than the limit on files would end this program (SIGXFSZ). */
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < sizeof(*gate))
		return;
	*put_number(path + strlen(path), geteuid()) = 0;
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	/* Who else could write it could have this program map a file of theirs. */
	if (fstat(fd, &file) || !S_ISREG(file.st_mode) || file.st_uid != geteuid() ||
	    (file.st_mode & 0022) || getauxval(AT_SECURE))
		goto close;
	if (file.st_size < (off_t)sizeof(*gate) && posix_fallocate(fd, 0, sizeof(*gate)))
		goto close;
	memory = mmap(NULL, sizeof(*gate), PROT_READ, MAP_SHARED, fd, 0);
	if (memory != MAP_FAILED)
		gate = memory;
close:
	close(fd);
}

const volatile uint32_t *gate_slot(void)
{
	return gate ? &gate->slots[(uint32_t)getpid() % CASPER_GATE_SLOTS] : NULL;
}

bool gate_asks(char path[56])
{
	uint32_t self = getpid();

	if (!gate || load_acquire(&gate->magic) != CASPER_GATE_MAGIC ||
	    gate->version != CASPER_VERSION)
		return false;
	for (int i = 0; i < CASPER_GATE_ENTRIES; i++) {
		if (load_acquire(&gate->entries[i].pid) != self)
			continue;
		memcpy(path, gate->entries[i].path, 56);
		path[55] = 0;
		return path[0] != 0;
	}
	return false;
}
