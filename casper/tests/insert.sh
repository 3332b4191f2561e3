#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# insert: what it finds, what it writes, what it refuses, and that it writes all or nothing.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"
COWLAB=$CASPER_TRACE

include=$REPOSITORY/casper/libcasper/include
mkdir -p src/sub
cat >src/main.c <<'END'
#include <stdio.h>
#include "sub/part.h"

int main(void)
{
	printf("%d %d %s:%d\n", twice(4), part(5), __FILE__, __LINE__);
	return 0;
}
END
cat >src/sub/part.h <<'END'
#ifndef PART_H
#define PART_H
int part(int a);
static inline int twice(int a) { return 2 * a; }
#endif
END
cat >src/sub/part.c <<'END'
#include "part.h"
#include "data.inc"
int part(int a)
{
	if (a > 3)
		return twice(a) + offset;
	return 0;
}
END
echo 'static const int offset = 7;' >src/sub/data.inc
cp -r src before

# A tree: .c and .h are instrumented, the rest is copied, so that includes are found.
passes insert src --output copies
says out '^3 functions found in 3 files: 3 instrumented, 0 left alone, 0 not selected$'
says out '^copies in copies; 1 other files copied$'
diff -r before src || fail "the sources were changed"
cmp src/sub/data.inc copies/sub/data.inc
[[ -z $(find copies -name '.unfinished*') ]] || fail "temporary files are left"
gcc -g -Wall -Wextra -Werror -I"$include" src/main.c src/sub/part.c -o plain
gcc -g -Wall -Wextra -Werror -I"$include" copies/main.c copies/sub/part.c \
	"$REPOSITORY/casper/tests/programs/stub.c" -o traced
./plain >plain.out
STUB_COUNTS=counts ./traced >traced.out
cmp plain.out traced.out
# twice is in a header of two files and has one entry.
sort counts >sorted
diff - sorted <<'END' || fail "expected these counts"
src/main.c:4 main 1 1
src/sub/part.c:3 part 1 1
src/sub/part.h:4 twice 2 2
END

# The debugger's lines are the original's.
line=$(grep -n 'return twice(a)' src/sub/part.c | cut -d: -f1)
objdump --dwarf=decodedline traced >lines 2>/dev/null
grep -qE "^part\.c +$line +0x" lines || fail "line $line of part.c is not in the line table: $(head -50 lines)"

# The document.
passes --json insert src --output copies
json 'd | .functions_found == 3 and .functions_instrumented == 3' \
	'd.files | map(.file) == ["src/main.c", "src/sub/part.c", "src/sub/part.h"]' \
	'd.files_copied == ["src/sub/data.inc"]' \
	'd.files[1].functions[0].exits
		== [{line: 6, kind: "return"}, {line: 7, kind: "return"}]' \
	'd.files[1].functions[0] | [.name, .line, .end_line, .lines] == ["part", 3, 8, 6]' \
	'd.files | all(.functions[0].identifier | startswith("casper_unit_"))'
passes insert --list src --output copies
says out '^src/sub/part.c:3: part: instrumented; left by return 6, return 7$'

# Selection.
passes insert src --output few --function 'p*' --function '!main'
says out '^3 functions found in 3 files: 1 instrumented, 0 left alone, 2 not selected$'
cmp src/main.c few/main.c
passes insert src --output few --min-lines 5
says out ': 2 instrumented, 0 left alone, 1 not selected$'
passes insert src --output few --file 'sub/*.c'
says out '^1 functions found in 1 files'
cmp src/main.c few/main.c
refuses 2 'error parsing glob' insert src --output few --function '['
refuses 2 '--min-lines' insert src --output few --min-lines x

# Files: their place below what holds them all, or below --root.
passes insert src/main.c src/sub/part.c --output some
[[ -f some/main.c && -f some/sub/part.c ]] || fail "saw $(find some)"
passes insert src/sub/part.c --root src --output rooted
[[ -f rooted/sub/part.c ]] || fail "saw $(find rooted)"
refuses 2 'src/main.c is not below .*/src/sub$' insert src/main.c --root src/sub --output no1
: >empty.c
passes insert empty.c --output some
says out '^0 functions found'
cmp empty.c some/empty.c

# What does not parse: the file, the line, and nothing is written.
mkdir bad
cp src/main.c bad/good.c
printf 'int f(void)\n{\n\tif (1) {\n\treturn 1;\n}\n' >bad/open.c
refuses 1 'bad/open.c: line 2: it does not parse: .* nothing was written$' \
	insert bad --output none
[[ ! -e none ]] || fail "something was written: $(find none)"
refuses 1 'bad/open.c: line 2' insert bad/good.c bad/open.c --output none
[[ ! -e none ]] || fail "something was written: $(find none)"
refuses 1 'copies/main.c: line 1: it was instrumented already' insert copies/main.c --output none

# Left alone, with the place and the reason.
printf '#define B {\n__attribute__((naked)) void n(void) { }\nTEST(x) { }\nint v(void) B return 1; }\n' >left.c
passes insert left.c --output left
says out '^left.c:2: n: left alone: naked'
says out '^left.c:3: TEST: left alone: no type before its name'
says out '^left.c:4: v: left alone: its braces are inside a macro'
cmp left.c left/left.c

# Bad inputs.
refuses 2 '--output' insert src/main.c
refuses 2 'PATH' insert --output x
refuses 1 'cannot read missing.c: No such file' insert missing.c --output x
refuses 1 'neither a file nor a directory' insert /dev/null --output x
refuses 2 'are the same file' insert src/main.c ./src/main.c --output x
refuses 2 'are the same file' insert src/main.c src --output x
refuses 2 'never written over' insert src --output src
refuses 2 'never written over' insert src/main.c --output src
refuses 2 'insert reads C, not .cpp' insert "$(touch a.cpp && echo a.cpp)" --output x
refuses 1 'cannot make .*main.c' insert src/sub/part.c --output src/main.c
mkdir -p taken/main.c
refuses 1 'a directory has its name' insert src/main.c --output taken
[[ ! -e x ]] || fail "something was written: $(find x)"
diff -r before src || fail "the sources were changed"
# Copies below the sources are no sources.
passes insert src --output src/copies
passes insert src --output src/copies
says out '^3 functions found in 3 files'
rm -r src/copies

if [[ $(id -u) == 0 ]] && unshare -m true 2>/dev/null; then
	# A full disk: half of the copies do not stay.
	cat >full_disk <<'END'
mount -t tmpfs -o size=64k none disk
head -c 56k /dev/zero >disk/filler
status=0
"$COWLAB" insert big --output disk/copies || status=$?
ls -A disk >left_there
exit "$status"
END
	mkdir -p disk big
	cp src/main.c big/a.c
	{ cat src/main.c; seq -f '/* %020.0f */' 1000; } >big/b.c
	status=0
	called='casper-trace insert on a full disk'
	unshare -m bash -e full_disk >out 2>err || status=$?
	no_panic
	is_status 1
	says err 'cannot write disk/copies/b.c: No space left on device.*nothing was written'
	[[ $(cat left_there) == filler ]] || fail "expected nothing on it, saw: $(cat left_there)"
else
	echo "a full disk was not tried: mounting one needs root"
	mkdir closed && chmod a-w closed
	refuses 1 'cannot make closed/x: Permission denied' insert src --output closed/x
	chmod a-r src/main.c
	refuses 1 'cannot read src/main.c: Permission denied' insert src --output x
fi
