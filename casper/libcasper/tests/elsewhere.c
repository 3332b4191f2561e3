/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * elsewhere COUNTERS EVENTS HOW: enters the session, then a child records EVENTS with a pause after
 * each hundred from where it does not see the recorder's /proc entry. HOW: "namespace", a pid
 * namespace with a /proc of its own; "user", another user under hidepid=2. counters[0] and
 * counters[100] count as those of `threads`.
 */
#define _GNU_SOURCE
#include "test.h"

#include <sys/mount.h>

static bool hide(bool namespace)
{
	if (unshare(CLONE_NEWNS | (namespace ? CLONE_NEWPID : 0)) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return false;
	return namespace || (!mount("proc", "/proc", "proc", 0, "hidepid=2") && !setuid(65534));
}

int main(int argc, char **argv)
{
	uint64_t *count = counters(argv[1]), events = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
	bool namespace = argc == 4 && !strcmp(argv[3], "namespace");
	int status;

	prove(1, getpid(), 0);
	if (!hide(namespace))
		return 1;
	if (!fork()) {
		if (namespace && mount("proc", "/proc", "proc", 0, NULL))
			_exit(1);
		if (!access(getenv("CASPER_SESSION"), F_OK) || access("/proc/self", F_OK))
			_exit(2);
		for (uint64_t number = 0; number < events; number++) {
			count[prove(0, getpid(), number) ? 100 : 0]++;
			if (number % 100 == 99)
				usleep(1000);
		}
		_exit(0);
	}
	return wait(&status) < 0 || status;
}
