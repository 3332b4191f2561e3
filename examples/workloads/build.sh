#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# build.sh [FILES]: a build as the kernel's is made: make starts shells, which start compilers, and
# an archive is made of their objects. A workload for `cowlab bench command --kernel patched`.
set -eu

files=${1:-12}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
i=0
while [ "$i" -lt "$files" ]; do
	cat >"file$i.c" <<END
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct list$i { struct list$i *next; unsigned long key; char name[16]; };
static struct list$i *heads$i[64];
int insert$i(unsigned long key, const char *name)
{
	struct list$i *new = malloc(sizeof(*new));
	if (!new)
		return -1;
	new->key = key;
	strncpy(new->name, name, sizeof(new->name) - 1);
	new->next = heads$i[key % 64];
	heads$i[key % 64] = new;
	return printf("%s\n", new->name);
}
END
	i=$((i + 1))
done
cat >Makefile <<'END'
objects := $(patsubst %.c,%.o,$(wildcard *.c))
built-in.a: $(objects)
	@rm -f $@; set -e; ar cDPrS $@ $(objects)
%.o: %.c
	@set -e; gcc -Wp,-MMD,.$@.d -O2 -Wall -c -o $@ $<; test -s .$@.d
END
make -s -j2 built-in.a
test -s built-in.a
