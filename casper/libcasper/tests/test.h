/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the test programs share: an event that proves itself. Each knows who recorded it and as the
 * how-manyth, and carries a checksum, so that a torn or misplaced one shows.
 */
#ifndef CASPER_TEST_H
#define CASPER_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "casper.h"

#define PROOF 0x100

struct proof {
	casper_event_type event_type;
	uint16_t source; /* distinguishes the threads and handlers of a process */
	uint32_t pid;
	uint64_t number; /* of this source, from 0 */
	uint64_t check;
	uint8_t tail[64]; /* of varying length: each byte is the number's lowest */
};

static inline uint64_t check_of(const struct proof *proof)
{
	uint64_t sum = proof->source * 0x9e3779b97f4a7c15u + proof->pid;

	return (sum ^ proof->number) * 0xbf58476d1ce4e5b9u;
}

/* Record the `number`-th event of a source. 0 or a negative error number. */
static inline int prove(uint16_t source, uint32_t pid, uint64_t number)
{
	struct proof proof = {
		.event_type = PROOF, .source = source, .pid = pid, .number = number
	};
	size_t tail = number % (sizeof(proof.tail) + 1);

	proof.check = check_of(&proof);
	memset(proof.tail, (int)(number & 0xff), tail);
	return casrecord(&proof, offsetof(struct proof, tail) + tail);
}

/* Counters that outlive this process: the file named by argv[1], shared with the test. */
static inline uint64_t *counters(const char *path)
{
	int fd = open(path, O_RDWR);
	void *memory = fd < 0 ? MAP_FAILED
			      : mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
	return memory;
}

#endif
