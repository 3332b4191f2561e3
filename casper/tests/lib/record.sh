# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
#
# What the tests of record share. After tests/lib/common.sh.

# library FOLDER [CFLAGS]: libcasper, into FOLDER.
library() {
	make -s -C "$REPOSITORY/casper/libcasper" BUILD="$PWD/$1" CFLAGS="-O2 -g ${2:-}" ||
		fail "libcasper does not compile"
}
library lib

# compile NAME SOURCE: a program that links it.
compile() {
	cc -O1 -Wall -Werror -I"$REPOSITORY/casper/libcasper/include" -I"$REPOSITORY/casper/include" \
		-o "$1" "$2" -L"$PWD/lib" -lcasper -Wl,-rpath,"$PWD/lib" -Wl,--enable-new-dtags -pthread ||
		fail "$2 does not compile"
}
compile ticks "$REPOSITORY/casper/tests/programs/ticks.c"

# record ARGUMENT...: as `passes`, over the trace of before.
record() {
	passes record --force --json "$@"
}

# stores N: the recording of before has that many events.
stores() {
	json stored="$1" 'd.stored_events == $stored'
}

# accounts N: that many were emitted, and each was stored or counted.
accounts() {
	json emitted="$1" 'd | .stored_events + .dropped_events + .no_buffer_events +
		.disk_lost_events == $emitted'
}
