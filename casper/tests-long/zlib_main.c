/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Compress a file in every way that zlib has, read it back, and print what came of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zlib.h"

static unsigned char *input, *packed, *unpacked;
static unsigned long input_bytes, packed_bytes_max;

static void die(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static void cycle(int level, int strategy, int window)
{
	z_stream out = { 0 }, in = { 0 };
	unsigned long done;

	if (deflateInit2(&out, level, Z_DEFLATED, window, 8, strategy) != Z_OK)
		die("deflateInit2");
	out.next_in = input;
	out.avail_in = (uInt)input_bytes;
	out.next_out = packed;
	out.avail_out = (uInt)packed_bytes_max;
	if (deflate(&out, Z_FULL_FLUSH) != Z_OK || deflate(&out, Z_FINISH) != Z_STREAM_END)
		die("deflate");
	done = out.total_out;
	deflateEnd(&out);
	if (inflateInit2(&in, window) != Z_OK)
		die("inflateInit2");
	in.next_in = packed;
	in.next_out = unpacked;
	while (in.total_out < input_bytes) {
		in.avail_in = (uInt)(done - in.total_in < 777 ? done - in.total_in : 777);
		in.avail_out = 10000;
		if (inflate(&in, Z_NO_FLUSH) < 0)
			die("inflate");
	}
	inflateEnd(&in);
	if (memcmp(input, unpacked, input_bytes))
		die("not the same");
	printf("%d %d %d: %lu bytes, crc %lx, adler %lx\n", level, strategy, window, done,
	       crc32(0, packed, (uInt)done), adler32(1, packed, (uInt)done));
	fwrite(packed, 1, done, stdout);
}

static void gzip(const char *path)
{
	gzFile file = gzopen(path, "wb6");
	char line[200];
	int i;

	if (!file)
		die("gzopen");
	for (i = 0; i < 1000; i++)
		gzprintf(file, "line %d of %s\n", i, "a file");
	gzputs(file, "the end\n");
	gzclose(file);
	file = gzopen(path, "rb");
	gzseek(file, 100, SEEK_SET);
	while (gzgets(file, line, sizeof(line)))
		fputs(line, stdout);
	gzclose(file);
}

int main(int argc, char **argv)
{
	FILE *file = argc == 3 ? fopen(argv[1], "rb") : NULL;
	int level;
	uLongf length;

	if (!file)
		return 2;
	input = malloc(300000);
	input_bytes = fread(input, 1, 300000, file);
	fclose(file);
	packed_bytes_max = compressBound(input_bytes) + 1000;
	packed = malloc(packed_bytes_max);
	unpacked = malloc(input_bytes + 10000);
	for (level = 0; level <= 9; level++)
		cycle(level, Z_DEFAULT_STRATEGY, level % 2 ? 15 : level % 3 ? 31 : -15);
	for (level = Z_FILTERED; level <= Z_FIXED; level++)
		cycle(6, level, 15);
	length = packed_bytes_max;
	if (compress2(packed, &length, input, input_bytes, 3) != Z_OK)
		die("compress2");
	printf("%lu %s\n", length, zlibVersion());
	gzip(argv[2]);
	return 0;
}
