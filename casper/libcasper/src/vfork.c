/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A vfork child runs in its parent's memory, on its parent's stack, while the parent's thread
 * stands still: it looks like the parent to everything but the kernel. Its events go into the
 * parent's buffer with notes that say whose they are. vfork.S calls these around the system call.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

static __thread uint32_t child __attribute__((tls_model("initial-exec")));

bool vfork_child(void)
{
	return child != 0;
}

static void switch_to(struct writer *w, uint32_t process)
{
	w->process = process;
	w->pid = getpid();
	w->tid = syscall(SYS_gettid);
	/* The note is written before the next event, which must come the slow way. */
	if (w->process != w->noted_process)
		w->end = w->at;
}

/* A buffer must be claimed before the call: it is the parent's. */
__attribute__((visibility("hidden"))) void casper_before_vfork(void)
{
	int saved = errno;
	struct view *v;

	if (*casper_on && !child) {
		v = session_view();
		if (v && (!writers[0] || writers[0]->on != &v->session->on))
			writers[0] = writer_claim(v, 0);
	}
	errno = saved;
}

__attribute__((visibility("hidden"))) long casper_after_vfork(long pid)
{
	int saved = errno;
	struct view *v = *casper_on ? session_view() : NULL;
	struct writer *w = writers[0];

	if (v && w && w->on == &v->session->on && !w->busy) {
		if (pid == 0) {
			child = add_fetch(&v->session->next_process, 1);
			meta_process(v, child, w->process, CASPER_ORIGIN_VFORKED);
			switch_to(w, child);
		} else if (child) {
			child = 0;
			switch_to(w, v->process);
		}
	} else if (pid != 0) {
		child = 0;
	}
	errno = saved;
	if (pid < 0) {
		errno = (int)-pid;
		return -1;
	}
	return pid;
}
