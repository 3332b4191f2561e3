/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * scribble COUNTERS SEED WHAT: enters the session, maps its memory once more, and writes random
 * words to random places of it until counters[10] is not 0. WHAT: "all", or "own" to leave alone
 * what other processes recorded, the words that turn recording and types on and off, and the state
 * of its buffers: one that it gave up and writes to all the same would be another process's.
 */
#include "test.h"

#include <sys/prctl.h>

#include "../../include/cowlab/record.h"

static uint64_t state;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Numbers that lie near what is right, or far from it. */
static uint64_t word(void)
{
	switch (draw() % 5) {
	case 0:
		return draw() % 8;
	case 1:
		return (draw() % 64) << 12;
	case 2:
		return (uint64_t)1 << draw() % 64;
	case 3:
		return -(draw() % 4096);
	default:
		return draw();
	}
}

static void put(char *memory, uint64_t offset, uint64_t value)
{
	if (draw() % 2)
		__atomic_store_n((uint32_t *)(memory + (offset & ~3ull)), (uint32_t)value,
				 __ATOMIC_RELAXED);
	else
		__atomic_store_n((uint64_t *)(memory + (offset & ~7ull)), value, __ATOMIC_RELAXED);
}

int main(int argc, char **argv)
{
	struct casper_session *s;
	uint64_t *count, bytes, meta, first, stride, ready, at;
	uint32_t pid = getpid();
	int own, fd;

	if (argc != 4)
		return 2;
	/* A test that fails leaves nobody who scribbles on. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	count = counters(argv[1]);
	state = strtoull(argv[2], NULL, 10) * 2 + 1;
	own = !strcmp(argv[3], "own");
	fd = open(getenv("CASPER_SESSION"), O_RDWR);
	if (fd < 0)
		return 1;
	bytes = lseek(fd, 0, SEEK_END);
	s = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED)
		return 1;
	meta = s->meta_offset;
	first = s->buffers_offset;
	stride = s->buffer_stride;
	ready = s->buffers_ready;
	prove(9, pid, 0);
	while (!__atomic_load_n(&count[10], __ATOMIC_RELAXED)) {
		uint64_t buffer = first + draw() % ready * stride;
		struct casper_buffer *of = (struct casper_buffer *)((char *)s + buffer);

		switch (draw() % 8) {
		case 0:
			at = draw() % (own ? offsetof(struct casper_session, only) : sizeof(*s));
			if (!own || (at & ~7ull) != offsetof(struct casper_session, on))
				put((char *)s, at, word());
			break;
		case 1:
			put((char *)s, meta + draw() % 65536, word());
			break;
		case 2:
			prove(9, pid, ++count[11]);
			break;
		default:
			/* A free one may be taken by another process at any moment. */
			if (own && (of->state != CASPER_BUFFER_CLAIMED || of->pid != pid))
				break;
			at = draw() % (draw() % 2 ? 256 : stride);
			if (!own || (at & ~7ull) != (offsetof(struct casper_buffer, state) & ~7ull))
				put((char *)s, buffer + at, word());
		}
	}
	return 0;
}
