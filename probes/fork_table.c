// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * fork_table: create ITERATIONS processes by METHOD, one after the other, from
 * a program that has allocated SIZE_BYTES.
 *
 * The benchmark of Kerrisk, "The Linux Programming Interface", Table 28-3, and
 * of its replay in document 004 (papers/). Children end by _exit: in a vfork
 * child, exit would run the parent's handlers in the parent's memory.
 */
#include "probe.h"

#include <spawn.h>

enum method { FORK, VFORK, POSIX_SPAWN, FORK_EXEC, VFORK_EXEC };
static const char *const method_names[] = { "fork",	 "vfork",      "posix-spawn",
					    "fork+exec", "vfork+exec", NULL };

static enum method method;
static char *program;

static pid_t create(void)
{
	char *argv[] = { program, NULL }, *envp[] = { NULL };
	pid_t pid;
	int error;

	switch (method) {
	case FORK:
		pid = fork();
		if (pid == 0)
			_exit(0);
		return pid;
	case VFORK:
		pid = vfork();
		if (pid == 0)
			_exit(0);
		return pid;
	case FORK_EXEC:
		pid = fork();
		if (pid == 0) {
			execve(program, argv, envp);
			_exit(127);
		}
		return pid;
	case VFORK_EXEC:
		pid = vfork();
		if (pid == 0) {
			execve(program, argv, envp);
			_exit(127);
		}
		return pid;
	default:
		error = posix_spawn(&pid, program, NULL, NULL, argv, envp);
		if (error) {
			errno = error;
			return -1;
		}
		return pid;
	}
}

int main(int argc, char **argv)
{
	bool touched = false, pinned = false;
	const struct parameter parameters[] = {
		{ "touched", .truth = &touched },
		{ "pinned", .truth = &pinned },
		{ "spawn", .text = &program },
		{ 0 },
	};
	struct rusage self[2], children[2];
	uint64_t iterations, began, ended;
	cpu_set_t allowed;
	int status;
	size_t bytes;
	char *memory;

	probe_name = "fork_table";
	parse_options(argc, argv, parameters);
	if (argc - optind != 3)
		fail(EXIT_USAGE, "usage: fork_table [OPTIONS] METHOD ITERATIONS SIZE_BYTES");
	method = (enum method)parse_choice("method", argv[optind], method_names);
	iterations = parse_u64("ITERATIONS", argv[optind + 1]);
	bytes = parse_u64("SIZE_BYTES", argv[optind + 2]);
	if (method >= POSIX_SPAWN && !program)
		fail(EXIT_USAGE, "%s needs --spawn PROGRAM", method_names[method]);
	die_with_parent();

	memory = malloc(bytes);
	if (!memory)
		fail(1, "cannot allocate %zu bytes: %s", bytes, strerror(errno));
	if (touched)
		write_pages(memory, bytes, base_page_bytes());
	if (pinned) {
		sched_getaffinity(0, sizeof(allowed), &allowed);
		pin_to(0, &allowed);
	}

	self[0] = usage_of(RUSAGE_SELF);
	children[0] = usage_of(RUSAGE_CHILDREN);
	began = now_ns();
	for (uint64_t i = 0; i < iterations; i++) {
		pid_t pid = create();

		if (pid < 0)
			fail(1, "%s failed after %llu of %llu: %s", method_names[method],
			     (unsigned long long)i, (unsigned long long)iterations, fork_error());
		if (waitpid(pid, &status, 0) != pid)
			fail(1, "waitpid: %s", strerror(errno));
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			fail(1, "a child did not end well (wait status 0x%x)", status);
	}
	slow_down(began);
	ended = now_ns();
	self[1] = usage_of(RUSAGE_SELF);
	children[1] = usage_of(RUSAGE_CHILDREN);

	row("elapsed_ns", ended - began);
	usage_rows("self", &self[0], &self[1]);
	usage_rows("children", &children[0], &children[1]);
	row_end();
	free(memory);
	return 0;
}
