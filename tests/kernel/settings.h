/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The sysctls of copying ahead (kernel/research, Documentation/admin-guide/mm/cow.rst): a test sets
 * what it needs, and each is as it was when the test has ended.
 */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SYSCTL "/proc/sys/vm/"

/* The policy last: what it needs is set before it is switched on again. */
static const char *const settings[] = {
	"cow_precopy_pages", "cow_precopy_ramp", "cow_region_kb",	 "cow_threshold_pct",
	"cow_gate_forks",    "cow_stats",	 "lowmem_reserve_ratio", "watermark_scale_factor",
	"cow_defer",	     "cow_precopy",
};
#define SETTINGS (sizeof(settings) / sizeof(*settings))
static char old_settings[SETTINGS][128]; /* "" where the kernel has none */
static pid_t settings_owner;

static inline void die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

static inline bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return done;
}

static inline bool get_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t length;

	if (fd < 0)
		return false;
	length = read(fd, text, size - 1);
	close(fd);
	if (length < 0)
		return false;
	text[length] = '\0';
	return true;
}

/* The value of "KEY VALUE" or "KEY: VALUE" in a file. */
static inline long figure(const char *path, const char *key)
{
	char line[300];
	FILE *file = fopen(path, "r");
	long value = -1;

	if (!file)
		die(path);
	while (value < 0 && fgets(line, sizeof(line), file)) {
		size_t length = strlen(key);

		if (!strncmp(line, key, length) && (line[length] == ' ' || line[length] == ':'))
			value = atol(line + length + 1);
	}
	fclose(file);
	if (value < 0)
		die(key);
	return value;
}

static inline const char *setting(const char *name)
{
	static char path[100];

	snprintf(path, sizeof(path), SYSCTL "%s", name);
	return path;
}

static inline bool has_setting(const char *name)
{
	return !access(setting(name), F_OK);
}

static inline bool try_set(const char *name, long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld\n", value);
	return put(setting(name), text);
}

static inline void set(const char *name, long value)
{
	if (!try_set(name, value))
		die(name);
}

static inline long get(const char *name)
{
	char text[32];

	if (!get_text(setting(name), text, sizeof(text)))
		die(name);
	return atol(text);
}

/* The old text of a setting. */
static inline const char *old_setting(const char *name)
{
	for (size_t i = 0; i < SETTINGS; i++)
		if (!strcmp(settings[i], name))
			return old_settings[i];
	die(name);
	return NULL;
}

static inline void put_settings_back(void)
{
	/* A child that ends by exit() has the handler as well. */
	if (getpid() != settings_owner)
		return;
	for (size_t i = 0; i < SETTINGS; i++)
		if (old_settings[i][0])
			put(setting(settings[i]), old_settings[i]);
}

/* Reads all settings, and puts them back at exit. */
static inline void remember_settings(void)
{
	settings_owner = getpid();
	for (size_t i = 0; i < SETTINGS; i++)
		if (has_setting(settings[i]) &&
		    !get_text(setting(settings[i]), old_settings[i], sizeof(*old_settings)))
			die(settings[i]);
	atexit(put_settings_back);
}

#endif
