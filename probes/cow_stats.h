/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a patched kernel counts at copy-on-write faults, read around a section
 * that is measured: /proc/cow_stats for all, /proc/self/cow_stats for this
 * address space. Nothing is decoded here: the rows carry the files' text.
 */
#ifndef COWLAB_COW_STATS_H
#define COWLAB_COW_STATS_H

#include "probe.h"

#include <fcntl.h>

/* Both files at one moment. In shared memory: a child reads, the parent prints. */
struct cow_text {
	size_t process_bytes;
	size_t system_bytes;
	char process[1000];
	char system[3080];
};

static inline size_t cow_read_file(const char *path, char *buffer, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd < 0 ? -1 : read(fd, buffer, room);

	if (bytes < 0)
		fail(1, "cannot read %s: %s", path, strerror(errno));
	if ((size_t)bytes == room)
		fail(1, "%s is longer than %zu bytes", path, room);
	close(fd);
	return (size_t)bytes;
}

static inline void cow_read(struct cow_text *text)
{
	text->process_bytes =
		cow_read_file("/proc/self/cow_stats", text->process, sizeof(text->process));
	text->system_bytes = cow_read_file("/proc/cow_stats", text->system, sizeof(text->system));
}

static inline void cow_write_file(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		fail(1, "cannot write %s (it needs root): %s", path, strerror(errno));
	close(fd);
}

#define COW_COUNTING "/proc/sys/vm/cow_stats"

/* Have faults counted, where they are not yet, until cow_counting_end(). */
static inline void cow_counting_begin(char was[2])
{
	char text[8];

	if (!cow_read_file(COW_COUNTING, text, sizeof(text)))
		fail(1, "%s is empty", COW_COUNTING);
	was[0] = text[0];
	was[1] = '\0';
	/* A user without the right to write it gets the counts of the policy that is set. */
	if (*was == '0' && !access(COW_COUNTING, W_OK))
		cow_write_file(COW_COUNTING, "1");
}

static inline void cow_counting_end(const char was[2])
{
	if (!access(COW_COUNTING, W_OK))
		cow_write_file(COW_COUNTING, was);
}

/* Forget all that was counted and timed, and take times from now on. */
static inline void cow_times_begin(void)
{
	cow_write_file("/proc/cow_stats", "1\n");
}

/* Faults are still counted. */
static inline void cow_times_end(void)
{
	cow_write_file(COW_COUNTING, "1\n");
}

/* A row with a file's text in the place of values; its lines are kept apart by \n. */
static inline void cow_row(int child, const char *metric, const char *text, size_t bytes)
{
	printf("{\"metric\":\"%s\",\"child\":%d,\"values\":[],\"text\":\"", metric, child);
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '\n')
			printf("\\n");
		else if (text[i] >= ' ' && text[i] <= '~' && text[i] != '"' && text[i] != '\\')
			putchar(text[i]);
		else
			fail(1, "%s has the byte 0x%02x", metric, (unsigned char)text[i]);
	}
	printf("\"}\n");
}

#endif
