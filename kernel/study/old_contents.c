// SPDX-License-Identifier: GPL-2.0-only
/*
 * old_contents COMMAND [ARGUMENT ...]: whether anybody reads again what a copy-on-write fault left.
 *
 * Runs COMMAND and looks, each LOOK_MS, at the memory that each fork in it shares. When one side
 * has written to a page, the other keeps the old content; this is put out to swap (MADV_PAGEOUT
 * from outside), so that a page that is there again was read or written again. Prints a line for
 * each program that forked:
 *
 *   copied   pages that either side wrote first; of them
 *   again    old contents that were touched again before one side ended
 *   never    that were not
 *   shared   that a third process had as well, and could not be put out
 *   late     that were seen at the end only, or did not go: nothing is known of them
 *   peak     most copies that were there at one time
 *   out      most old contents that were out at one time
 *   stored   bytes that swap took for these (zram, of all programs)
 *   put_ns   CPU time of putting one out
 *
 * Needs root, and a swap that is one zram device. Who ends between two looks is looked at where it
 * ends: ptrace(2) stops it there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS 10
#define BATCH 512
#define PRESENT (1ULL << 63)
#define SWAPPED (1ULL << 62)
#define PFN ((1ULL << 55) - 1)

enum state { SHARED, KEPT, OUT, AGAIN, NEVER, GONE, STATES };
enum { PARENT, CHILD };

struct page {
	uintptr_t at;
	uint64_t pfn;
	unsigned char state, holder, looks;
};

static struct family {
	struct family *next;
	pid_t pid[2];
	int pagemap[2], pidfd[2];
	size_t count;
	struct page *pages;
} * families;

static struct program {
	char name[16];
	size_t forks, mapped, copied, by_child, again, never, shared, late, peak, out, stored;
} programs[64];

static uint64_t put_ns, put_count;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int open_proc(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static struct program *program_of(pid_t pid)
{
	char name[16] = "?";
	int fd = open_proc(pid, "comm");
	ssize_t got = fd < 0 ? 0 : read(fd, name, sizeof(name) - 1);

	close(fd);
	if (got > 1)
		name[got - 1] = 0;
	for (struct program *of = programs; of < programs + 64; of++)
		if (!*of->name || !strcmp(of->name, name))
			return strcpy(of->name, name), of;
	fprintf(stderr, "old_contents: more than 64 programs\n");
	exit(1);
}

/* The pages of the child's private mappings that are its parent's. */
static void note_pages(struct family *of)
{
	FILE *maps = fdopen(open_proc(of->pid[CHILD], "maps"), "r");
	char line[4096];
	size_t room = 0;

	while (maps && fgets(line, sizeof(line), maps)) {
		uintptr_t start, end;
		char how[5];

		if (sscanf(line, "%lx-%lx %4s", &start, &end, how) != 3 || how[3] != 'p' ||
		    strstr(line, "[vsyscall]"))
			continue;
		for (uintptr_t at = start; at < end; at += 4096 * BATCH) {
			uint64_t both[2][BATCH];
			size_t bytes = 8 * (end - at < 4096 * BATCH ? (end - at) / 4096 : BATCH);

			for (int side = 0; side < 2; side++)
				if (pread(of->pagemap[side], both[side], bytes,
					  (off_t)(at / 4096 * 8)) != (ssize_t)bytes)
					bytes = 0;
			for (size_t i = 0; i < bytes / 8; i++) {
				uint64_t entry = both[CHILD][i];

				/* Bit 61: a page of a file. */
				if (!(entry & PRESENT) || entry >> 61 & 1 ||
				    (entry & PFN) != (both[PARENT][i] & PFN))
					continue;
				if (of->count == room) {
					room = room ? 2 * room : 4096;
					of->pages = realloc(of->pages, room * sizeof(*of->pages));
					if (!of->pages)
						die("realloc");
				}
				of->pages[of->count++] =
					(struct page){ at + 4096 * i, entry & PFN, SHARED, 0, 0 };
			}
		}
	}
	if (maps)
		fclose(maps);
}

static uint64_t cpu_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void put_out(struct family *of, int side, struct iovec *pieces, size_t count)
{
	uint64_t since = cpu_ns();

	put_count += count;
	while (count) {
		ssize_t bytes = syscall(SYS_process_madvise, of->pidfd[side], pieces, count,
					MADV_PAGEOUT, 0);
		/* One that went away meanwhile, or cannot be put out, is passed over. */
		size_t done = bytes < 0 ? 1 : bytes / 4096 + !bytes;

		if (bytes < 0 && errno != ENOMEM && errno != EINVAL)
			break;
		pieces += done;
		count -= done;
	}
	put_ns += cpu_ns() - since;
}

static size_t stored_bytes(void)
{
	size_t stored = 0;
	FILE *file = fopen("/sys/block/zram0/mm_stat", "r");

	if (!file || fscanf(file, "%*u %zu", &stored) != 1)
		die("/sys/block/zram0/mm_stat");
	fclose(file);
	return stored;
}

static void look(struct family *of)
{
	struct program *program = program_of(of->pid[PARENT]);
	struct iovec pieces[2][BATCH];
	size_t count[2] = { 0, 0 }, copies = 0, out = 0, before = stored_bytes();
	uint64_t both[2][BATCH];
	uintptr_t base = 1;

	for (struct page *page = of->pages; page < of->pages + of->count; page++) {
		uint64_t is[2];

		if (page->state >= NEVER)
			continue;
		if (page->at - base >= 4096 * BATCH) {
			base = page->at;
			memset(both, 0, sizeof(both));
			for (int side = 0; side < 2; side++)
				if (pread(of->pagemap[side], both[side], sizeof(both[side]),
					  (off_t)(base / 4096 * 8)) < 0)
					return;
		}
		for (int side = 0; side < 2; side++)
			is[side] = both[side][(page->at - base) / 4096];
		if (page->state == SHARED) {
			int same[2];

			for (int side = 0; side < 2; side++)
				same[side] = is[side] & PRESENT && (is[side] & PFN) == page->pfn;
			if (same[PARENT] && same[CHILD])
				continue;
			page->holder = same[CHILD] ? CHILD : PARENT;
			/* Given up, or put out for another family. */
			page->state =
				same[page->holder] && is[!page->holder] & PRESENT ? KEPT : GONE;
		} else if (!(is[page->holder] & (PRESENT | SWAPPED)) ||
			   !(is[!page->holder] & (PRESENT | SWAPPED))) {
			page->state = page->state == OUT    ? NEVER
				      : page->state == KEPT ? GONE
							    : AGAIN;
		} else if (is[page->holder] & SWAPPED && page->state == KEPT) {
			page->state = OUT;
		} else if (is[page->holder] & PRESENT && page->state == OUT) {
			page->state = AGAIN;
		}
		copies += page->state < NEVER;
		out += page->state == OUT;
		if (page->state != KEPT)
			continue;
		page->looks += page->looks < 255;
		pieces[page->holder][count[page->holder]++] =
			(struct iovec){ (void *)page->at, 4096 };
		if (count[page->holder] == BATCH) {
			put_out(of, page->holder, pieces[page->holder], BATCH);
			count[page->holder] = 0;
		}
	}
	for (int side = 0; side < 2; side++)
		put_out(of, side, pieces[side], count[side]);
	program->peak = copies > program->peak ? copies : program->peak;
	if (out > program->out) {
		program->out = out;
		program->stored = before;
	}
}

static void end(struct family *of, int looks)
{
	struct program *program = program_of(of->pid[PARENT]);

	if (looks)
		look(of);
	program->forks++;
	program->mapped += of->count;
	for (struct page *page = of->pages; page < of->pages + of->count; page++) {
		if (page->state == SHARED || page->state == GONE)
			continue;
		program->copied++;
		program->by_child += page->holder == PARENT;
		program->again += page->state == AGAIN;
		program->never += page->state == OUT || page->state == NEVER;
		program->shared += page->state == KEPT && page->looks > 2;
		program->late += page->state == KEPT && page->looks <= 2;
	}
	for (int side = 0; side < 2; side++) {
		close(of->pagemap[side]);
		close(of->pidfd[side]);
	}
	free(of->pages);
	free(of);
}

static void begin(pid_t parent, pid_t child)
{
	struct family *of = calloc(1, sizeof(*of));

	if (!of)
		die("calloc");
	of->next = families;
	of->pid[PARENT] = parent;
	of->pid[CHILD] = child;
	for (int side = 0; side < 2; side++) {
		of->pagemap[side] = open_proc(of->pid[side], "pagemap");
		of->pidfd[side] = (int)syscall(SYS_pidfd_open, of->pid[side], 0);
	}
	note_pages(of);
	families = of;
}

/* @pid ends, or has executed: its memory is not what it was. */
static void leave(pid_t pid, int looks)
{
	struct family **at = &families;

	while (*at) {
		struct family *of = *at;

		if (of->pid[PARENT] == pid || of->pid[CHILD] == pid) {
			*at = of->next;
			end(of, looks);
		} else {
			at = &of->next;
		}
	}
}

static void stopped(pid_t pid, int status)
{
	int event = status >> 16, number = WSTOPSIG(status);
	unsigned long message = 0;

	ptrace(PTRACE_GETEVENTMSG, pid, 0, &message);
	if (event == PTRACE_EVENT_FORK)
		begin(pid, (pid_t)message);
	else if (event == PTRACE_EVENT_EXIT || event == PTRACE_EVENT_EXEC)
		leave(pid, event == PTRACE_EVENT_EXIT);
	if (event == PTRACE_EVENT_STOP && number != SIGTRAP)
		ptrace(PTRACE_LISTEN, pid, 0, 0);
	else
		ptrace(PTRACE_CONT, pid, 0, event ? 0 : number);
}

int main(int argc, char **argv)
{
	const long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
			     PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL;
	const struct timespec pause = { 0, LOOK_MS * 1000000 };
	int gate[2], status;
	pid_t first, pid;

	if (argc < 2) {
		fprintf(stderr, "usage: old_contents COMMAND [ARGUMENT ...]\n");
		return 2;
	}
	if (pipe2(gate, O_CLOEXEC))
		die("pipe2");
	stored_bytes();
	first = fork();
	if (!first) {
		char byte;

		if (read(gate[0], &byte, 1) == 1)
			execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	if (first < 0 || ptrace(PTRACE_SEIZE, first, 0, options) || write(gate[1], "", 1) != 1)
		die("ptrace");
	while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) >= 0) {
		if (!pid) {
			for (struct family *of = families; of; of = of->next)
				look(of);
			nanosleep(&pause, NULL);
		} else if (WIFSTOPPED(status)) {
			stopped(pid, status);
		} else {
			leave(pid, 0);
		}
	}
	printf("program\tforks\tmapped\tcopied\tby_child\tagain\tnever\tshared\tlate\tpeak\tout\t"
	       "stored_bytes\tput_ns\n");
	for (struct program *of = programs; *of->name; of++)
		printf("%s\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%zu\t%llu\n",
		       of->name, of->forks, of->mapped, of->copied, of->by_child, of->again,
		       of->never, of->shared, of->late, of->peak, of->out, of->stored,
		       (unsigned long long)(put_count ? put_ns / put_count : 0));
	return 0;
}
