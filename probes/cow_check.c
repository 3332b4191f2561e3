// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * cow_check: does copy-on-write keep processes apart?
 *
 * A program and its children change alternating pages of SIZE_BYTES at the
 * same time; then each looks at every byte: its own changes must be there,
 * and nobody else's. Odd rounds change a whole page, even rounds one byte of
 * it, so that the rest of a copy is checked as well. After the isolation test
 * of document 002 (papers/), with more children and huge pages.
 */
#include "probe.h"

static size_t bytes, page;
static int children = 1;
static char *heap;

/* What byte offset of page number holds before anybody changes it. */
static char original(size_t number, size_t offset)
{
	return (char)(number * 31 + offset * 7 + 1);
}

static char changed_by(int id, size_t number)
{
	return (char)(0x80 ^ (id * 17 + (int)number));
}

static bool is_changed(size_t number, size_t offset, bool whole)
{
	return whole || offset == number * 61 % page;
}

static void fill(void)
{
	for (size_t n = 0; n < bytes / page; n++)
		for (size_t i = 0; i < page; i++)
			heap[n * page + i] = original(n, i);
}

static void change(int id, bool whole)
{
	for (size_t n = (size_t)id; n < bytes / page; n += (size_t)children + 1)
		for (size_t i = 0; i < page; i++)
			if (is_changed(n, i, whole))
				heap[n * page + i] = changed_by(id, n);
}

/* Exit code of the check that process id makes: 0, or 1 after a message. */
static int check(int id, bool whole)
{
	for (size_t n = 0; n < bytes / page; n++) {
		bool mine = n % ((size_t)children + 1) == (size_t)id;

		for (size_t i = 0; i < page; i++) {
			char want = mine && is_changed(n, i, whole) ? changed_by(id, n)
								    : original(n, i);
			char have = heap[n * page + i];

			if (have == want)
				continue;
			fprintf(stderr,
				"cow_check: %s %d sees 0x%02x where 0x%02x belongs: "
				"page %zu, byte %zu\n",
				id ? "child" : "parent", id, (unsigned char)have,
				(unsigned char)want, n, i);
			return 1;
		}
	}
	return 0;
}

/* Blocks until the other end of the pipe is closed by the parent. */
static void wait_for_close(const int ends[2])
{
	char byte;

	close(ends[1]);
	while (read(ends[0], &byte, 1) < 0 && errno == EINTR)
		;
}

__attribute__((noreturn)) static void child(int id, bool whole, const int go[2],
					    const int verify[2], int done)
{
	char byte = 0;

	wait_for_close(go);
	change(id, whole);
	if (write(done, &byte, 1) != 1)
		_exit(1);
	wait_for_close(verify);
	_exit(check(id, whole));
}

static int check_round(bool whole)
{
	int go[2], verify[2], done[2], result, status;
	char byte;

	if (pipe(go) || pipe(verify) || pipe(done))
		fail(1, "pipe: %s", strerror(errno));
	for (int id = 1; id <= children; id++) {
		pid_t pid = fork();

		if (pid < 0) {
			close(go[1]);
			close(verify[1]);
			fail(1, "fork of child %d failed: %s", id, fork_error());
		}
		if (pid == 0)
			child(id, whole, go, verify, done[1]);
	}
	/* All change at once, and all have changed before anybody looks. */
	close(go[1]);
	change(0, whole);
	close(done[1]);
	for (int i = 0; i < children; i++)
		if (read(done[0], &byte, 1) != 1)
			fail(1, "a child vanished");
	close(verify[1]);
	result = check(0, whole);
	for (int i = 0; i < children; i++)
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
			result = 1;
	close(go[0]);
	close(verify[0]);
	close(done[0]);
	return result;
}

int main(int argc, char **argv)
{
	uint64_t rounds = 2, mismatches = 0;
	bool shared = false;
	size_t page_bytes = base_page_bytes();
	const struct parameter parameters[] = {
		{ "children", .count = &children },
		{ "page-size-bytes", .number = &page_bytes },
		{ "rounds", .number = &rounds },
		/* Proves that the check can fail: nothing is isolated. */
		{ "shared", .truth = &shared },
		{ 0 },
	};

	probe_name = "cow_check";
	page = base_page_bytes();
	parse_options(argc, argv, parameters);
	if (argc - optind != 1)
		fail(EXIT_USAGE, "usage: cow_check [OPTIONS] SIZE_BYTES");
	bytes = parse_u64("SIZE_BYTES", argv[optind]) / page * page;
	if (children < 1 || children > 64 || bytes < page * ((size_t)children + 1))
		fail(EXIT_USAGE, "needs 1..64 children and a page for each process");
	die_with_parent();

	heap = shared ? map_records(bytes) : map_private(bytes, page_bytes);
	for (uint64_t i = 0; i < rounds; i++) {
		fill();
		mismatches += (uint64_t)check_round(i % 2 == 0);
	}
	row("pages_checked", rounds * (bytes / page) * ((size_t)children + 1));
	row("rounds_with_mismatches", mismatches);
	row_end();
	return mismatches ? 1 : 0;
}
