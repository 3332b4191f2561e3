// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Situations of public reports about fork, each with a truth that tests/cases.sh knows: situations
 * NAME. The file `ready` says that it is there; it goes on until it is killed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define PAGE 4096UL

extern char **environ;
static char *memory;

static void *map(size_t bytes, int flags, int fd)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return at;
}

/* Memory of base pages, each touched. */
static void take(size_t bytes)
{
	memory = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	memset(memory, 1, bytes);
}

static void ready(void)
{
	close(open("ready", O_CREAT | O_WRONLY, 0600));
}

static void pause_ms(int ms)
{
	usleep(ms * 1000);
}

/* Forks again and again; each child does this. */
static void fork_on(void (*child)(void), int every_ms)
{
	ready();
	for (;;) {
		pid_t pid = fork();

		if (!pid) {
			child();
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
		pause_ms(every_ms);
	}
}

static void nothing(void)
{
}

static void run_true(void)
{
	execl("/bin/true", "true", NULL);
	_exit(1);
}

/* MADV_DONTFORK for each second page, and never undone: 60,000 mappings. */
static void pieces(void)
{
	char *at = map(30000 * 2 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);

	for (int i = 0; i < 30000; i++)
		madvise(at + 2 * i * PAGE, PAGE, MADV_DONTFORK);
	fork_on(nothing, 200);
}

/* A buffer that is left out of forks, and other data on its page that a child reads. */
static void read_left_out(void)
{
	((volatile char *)memory)[PAGE - 1];
}

static void left_out(void)
{
	take(MIB);
	madvise(memory, PAGE, MADV_DONTFORK);
	fork_on(read_left_out, 200);
}

/* 128 MiB of buffers that io_uring has pinned. */
static void pinned(void)
{
	struct io_uring_params params = { 0 };
	struct iovec buffer;
	int ring = syscall(__NR_io_uring_setup, 8, &params);

	take(128 * MIB);
	buffer = (struct iovec){ memory, 128 * MIB };
	if (ring < 0 ||
	    syscall(__NR_io_uring_register, ring, IORING_REGISTER_BUFFERS, &buffer, 1) < 0)
		exit(77);
	fork_on(nothing, 200);
}

/* Each page of 128 MiB twice: in a memfd, and as a private copy. */
static void doubled(void)
{
	int fd = memfd_create("ram", 0);

	if (ftruncate(fd, 128 * MIB))
		exit(1);
	memset(map(128 * MIB, MAP_PRIVATE, fd), 1, 128 * MIB);
	fork_on(nothing, 200);
}

/* Children that close all descriptors that there could be. */
static void close_all(void)
{
	for (int fd = 3; fd < 300000; fd++)
		close(fd);
	run_true();
}

static void descriptors(void)
{
	struct rlimit limit = { 300000, 300000 };

	setrlimit(RLIMIT_NOFILE, &limit);
	take(16 * MIB);
	fork_on(close_all, 100);
}

/* Starts programs, and forks for none. */
static void start(void)
{
	char *arguments[] = { "true", NULL };
	pid_t pid;

	if (!posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ))
		waitpid(pid, NULL, 0);
}

static void spawns(void)
{
	take(128 * MIB);
	for (ready();; pause_ms(100))
		start();
}

/* Starts half of its programs so. */
static void mixed(void)
{
	take(128 * MIB);
	for (ready();; pause_ms(50)) {
		pid_t pid;

		start();
		pid = fork();
		if (!pid)
			run_true();
		waitpid(pid, NULL, 0);
	}
}

/* CLONE_VFORK without CLONE_VM: the parent waits, and all page tables are copied none the less. */
static void vfork_alone(void)
{
	take(128 * MIB);
	for (ready();; pause_ms(100)) {
		pid_t pid = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);

		if (!pid)
			run_true();
		waitpid(pid, NULL, 0);
	}
}

/* Workers that live 0.1 s and write 256 KiB of 128 MiB. */
static void short_child(void)
{
	memset(memory, 2, 256 << 10);
	pause_ms(100);
}

static void short_lives(void)
{
	take(128 * MIB);
	fork_on(short_child, 20);
}

/* A pool of 4 that share 256 MiB of shared memory, and have 1 MiB each. */
static void pool(void)
{
	memory = map(256 * MIB, MAP_SHARED | MAP_ANONYMOUS, -1);
	memset(memory, 1, 256 * MIB);
	for (int i = 0; i < 4; i++) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (size_t at = 0; at < 256 * MIB; at += PAGE)
				((volatile char *)memory)[at];
			take(MIB);
			pause();
		}
	}
	pause_ms(500);
	ready();
	pause();
}

/* Two workers that share 64 MiB and wait. */
static void workers(void)
{
	take(64 * MIB);
	for (int i = 0; i < 2; i++) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
	}
	ready();
	pause();
}

/* The first thread forks while another holds a lock: two children wait for it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *hold(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&lock);
	pause();
	return NULL;
}

static void stuck(void)
{
	pthread_t thread;

	take(16 * MIB);
	pthread_create(&thread, NULL, hold, NULL);
	pause_ms(200);
	for (int i = 0; i < 2; i++) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pthread_mutex_lock(&lock);
		}
	}
	pause_ms(200);
	ready();
	pause();
}

/* Workers that wait for a lock in shared memory, as a pool's do for their queue: innocent. */
static void queue(void)
{
	pthread_mutexattr_t shared;
	pthread_mutex_t *of_all = map(PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);

	take(16 * MIB);
	pthread_mutexattr_init(&shared);
	pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(of_all, &shared);
	pthread_mutex_lock(of_all);
	for (int i = 0; i < 2; i++) {
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pthread_mutex_lock(of_all);
		}
	}
	pause_ms(200);
	ready();
	pause();
}

/* Three children that ended, and that nobody waits for. */
static void zombies(void)
{
	take(16 * MIB);
	for (int i = 0; i < 3; i++) {
		if (!fork())
			_exit(0);
	}
	pause_ms(200);
	ready();
	pause();
}

/* Two mappings of half of *bytes each, 1.4 times the RAM in all, of which the kernel makes one. */
static char *too_large(size_t *bytes)
{
	size_t half = sysconf(_SC_PHYS_PAGES) * PAGE / 10 * 7 & ~(PAGE - 1);
	char *at =
		mmap(NULL, 2 * half, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	for (int i = 0; i < 2; i++) {
		if (mmap(at + i * half, half, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			exit(77);
	}
	*bytes = 2 * half;
	return at;
}

/* Nothing is touched, and fork is refused. */
static void merged(void)
{
	size_t bytes;

	too_large(&bytes);
	fork_on(nothing, 200);
}

/* The same, and given back after the fork that failed. */
static void merged_before(void)
{
	size_t bytes;
	char *at = too_large(&bytes);

	if (fork() >= 0)
		exit(77);
	munmap(at, bytes);
	take(MIB);
	ready();
	pause();
}

/* Its children's pid namespace has lost its init. */
static void no_init(void)
{
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		exit(77);
	pid = fork();
	if (!pid) {
		take(MIB);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	fork_on(nothing, 200);
}

/* Private hugetlb pages, written by both sides, and a pool that has only the parent's. */
static void write_huge(void)
{
	memset(memory, 2, 4 * MIB);
}

static void hugetlb(void)
{
	memory = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	if (memory == MAP_FAILED)
		exit(77);
	memset(memory, 1, 4 * MIB);
	fork_on(write_huge, 200);
}

/* 256 MiB, forked all the time: under a CPU quota, or not. */
static void forks(void)
{
	take(256 * MIB);
	fork_on(nothing, 100);
}

/* 256 MiB of huge pages: the parent writes one byte to each beside a child. */
static void huge(void)
{
	memory = map(258 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memory += -(unsigned long)memory & (2 * MIB - 1);
	if (madvise(memory, 256 * MIB, MADV_HUGEPAGE))
		exit(77);
	memset(memory, 1, 256 * MIB);
	for (ready();; pause_ms(300)) {
		pid_t pid = fork();

		if (!pid) {
			pause_ms(300);
			_exit(0);
		}
		for (size_t at = 0; at < 256 * MIB; at += 2 * MIB)
			((volatile char *)memory)[at] = 2;
		waitpid(pid, NULL, 0);
	}
}

/* The child has ended when the parent writes 64 MiB: faults, and no copies. */
static void reuse(void)
{
	take(64 * MIB);
	for (ready();; pause_ms(200)) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
		memset(memory, 3, 64 * MIB);
	}
}

/* A program that writes 40 KiB after each fork of a child that executes another. */
static void executes(void)
{
	take(256 * MIB);
	for (ready();; pause_ms(100)) {
		pid_t pid = fork();

		if (!pid)
			run_true();
		memset(memory, 3, 40 << 10);
		waitpid(pid, NULL, 0);
	}
}

/* Children that work with its memory, 45 of them, and none executes anything. */
static void serves(void)
{
	take(64 * MIB);
	fork_on(short_child, 0);
}

int main(int count, char **words)
{
	static const struct {
		const char *name;
		void (*play)(void);
	} all[] = {
		{ "workers", workers },
		{ "huge", huge },
		{ "reuse", reuse },
		{ "pieces", pieces },
		{ "left_out", left_out },
		{ "pinned", pinned },
		{ "doubled", doubled },
		{ "descriptors", descriptors },
		{ "spawns", spawns },
		{ "mixed", mixed },
		{ "vfork_alone", vfork_alone },
		{ "short_lives", short_lives },
		{ "pool", pool },
		{ "stuck", stuck },
		{ "queue", queue },
		{ "zombies", zombies },
		{ "merged", merged },
		{ "merged_before", merged_before },
		{ "no_init", no_init },
		{ "hugetlb", hugetlb },
		{ "forks", forks },
		{ "executes", executes },
		{ "serves", serves },
	};

	for (size_t i = 0; count > 1 && i < sizeof(all) / sizeof(*all); i++) {
		if (!strcmp(all[i].name, words[1]))
			all[i].play();
	}
	return 2;
}
