/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A page-fault trace, for which CASPER was first made (Barkley and Schimmel 1988, "Overview of
 * CASPER Architecture"): runs a command and records each page fault of it and of what it forks,
 * as the kernel's software event reports it (perf_event_open(2)).
 *
 *	cc -o record_page_faults examples/record_page_faults.c -lcasper
 *	casper-trace record -- ./record_page_faults COMMAND...
 *	casper-trace report trace.casper --by page-fault.pid
 *
 * examples/page_faults.c and page_faults.rs read the trace again.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <casper.h>

#define PAGE_FAULT 0x20
#define RING_PAGES 256
#define CPUS_MAX 1024

struct page_fault {
	casper_event_type event_type;
	uint16_t cpu;
	int32_t pid;
	int32_t tid;
	uint32_t lost; /* faults that the kernel could not report before this one, on this CPU */
	const void *address;	 /* that was touched */
	const void *instruction; /* that touched it */
	uint64_t time; /* on the kernel's clock: CASPER's own stamp is when this program saw it */
};

static const struct casper_field_info fields[] = {
	CASPER_FIELD(struct page_fault, cpu, ""),
	CASPER_FIELD(struct page_fault, pid, ""),
	CASPER_FIELD(struct page_fault, tid, ""),
	CASPER_FIELD(struct page_fault, lost, "faults"),
	CASPER_FIELD(struct page_fault, address, ""),
	CASPER_FIELD(struct page_fault, instruction, ""),
	CASPER_FIELD(struct page_fault, time, "ns"),
};

static const struct casper_type_info type = { "page-fault", fields,
					      sizeof(fields) / sizeof(fields[0]),
					      sizeof(struct page_fault), PAGE_FAULT };

/* As sample_type below orders it; see perf_event_open(2). */
struct sample {
	struct perf_event_header header;
	uint64_t instruction;
	uint32_t pid, tid;
	uint64_t time;
	uint64_t address;
};

struct ring {
	int fd;
	uint16_t cpu;
	uint32_t lost;
	struct perf_event_mmap_page *control;
};

static volatile sig_atomic_t ended;

static void on_child(int signal)
{
	(void)signal;
	ended = 1;
}

/* -1: there is no such CPU. */
static int open_ring(struct ring *ring, pid_t pid, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = 1,
		.sample_type =
			PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR,
		.disabled = 1,
		.inherit = 1,
		.exclude_kernel = 1,
		.enable_on_exec = 1,
		.watermark = 1,
		.wakeup_watermark = RING_PAGES * 4096 / 4,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};

	ring->fd = syscall(SYS_perf_event_open, &attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return -1;
	ring->cpu = cpu;
	ring->lost = 0;
	ring->control = mmap(NULL, (1 + RING_PAGES) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			     ring->fd, 0);
	if (ring->control == MAP_FAILED) {
		perror("mmap of the kernel's ring (kernel.perf_event_mlock_kb?)");
		exit(1);
	}
	return 0;
}

/* Copy from a ring that wraps. */
static void copy(void *to, const struct ring *ring, uint64_t position, size_t size)
{
	const char *data = (const char *)ring->control + ring->control->data_offset;

	for (size_t i = 0; i < size; i++)
		((char *)to)[i] = data[(position + i) % ring->control->data_size];
}

static void drain(struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->control->data_head, __ATOMIC_ACQUIRE);
	uint64_t at = ring->control->data_tail;

	while (at < head) {
		struct sample sample;

		copy(&sample.header, ring, at, sizeof(sample.header));
		if (sample.header.type == PERF_RECORD_LOST) {
			uint64_t lost[2];

			copy(lost, ring, at + sizeof(sample.header), sizeof(lost));
			ring->lost += lost[1];
		} else if (sample.header.type == PERF_RECORD_SAMPLE) {
			copy(&sample, ring, at, sizeof(sample));
			struct page_fault fault = {
				.event_type = PAGE_FAULT,
				.cpu = ring->cpu,
				.pid = sample.pid,
				.tid = sample.tid,
				.lost = ring->lost,
				.address = (const void *)sample.address,
				.instruction = (const void *)sample.instruction,
				.time = sample.time,
			};

			casrecord(&fault, sizeof(fault));
			ring->lost = 0;
		}
		at += sample.header.size;
	}
	__atomic_store_n(&ring->control->data_tail, at, __ATOMIC_RELEASE);
}

int main(int argc, char **argv)
{
	static struct ring rings[CPUS_MAX];
	static struct pollfd polled[CPUS_MAX];
	int count = 0, status, go[2];
	pid_t child;
	char byte;

	if (argc < 2) {
		fprintf(stderr, "usage: record_page_faults COMMAND...\n");
		return 2;
	}
	casper_register(&type);
	signal(SIGCHLD, on_child);
	if (pipe(go))
		return 1;
	child = fork();
	if (child == 0) {
		close(go[1]);
		if (read(go[0], &byte, 1) == 0) {
			close(go[0]);
			execvp(argv[1], argv + 1);
			perror(argv[1]);
		}
		_exit(127);
	}
	close(go[0]);
	for (int cpu = 0; cpu < CPUS_MAX && count < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		if (open_ring(&rings[count], child, cpu) == 0) {
			polled[count].fd = rings[count].fd;
			polled[count].events = POLLIN;
			count++;
		} else if (errno != ENODEV && errno != EINVAL) {
			perror("perf_event_open (kernel.perf_event_paranoid?)");
			kill(child, SIGKILL);
			return 1;
		}
	}
	close(go[1]); /* the command begins */
	do {
		poll(polled, count, 20);
		for (int i = 0; i < count; i++)
			drain(&rings[i]);
	} while (!ended);
	waitpid(child, &status, 0);
	for (int i = 0; i < count; i++)
		drain(&rings[i]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
