#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What `make install` lays down, which the packages of `make dist` are made of, finds its own files (test-dist tries
# the packages themselves). Needs no build but that of the program under test.
# beside: it measures nothing
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

make -s -C "$REPOSITORY" install-files COWLAB="$COWLAB" DESTDIR="$PWD/root" PREFIX=/usr LIBDIR=/usr/lib/x86_64-linux-gnu
built=$COWLAB
export COWLAB=$PWD/root/usr/bin/cowlab
share=$PWD/root/usr/share

# A page for each verb but the hidden ones, and completions.
for verb in $("$COWLAB" --help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 }
	on && /^  [a-z]/ && $1 != "help" { print $1 }'); do
	[[ -s $share/man/man1/cowlab-$verb.1 ]] || fail "no man page of $verb"
done
bash -c '. "$0" && complete -p cowlab' "$share/bash-completion/completions/cowlab" >said 2>&1 ||
	fail "bash completions: $(cat said)"

# The unit starts this one.
grep -q '^ExecStart=/usr/bin/cowlab watch' "$PWD/root/usr/lib/systemd/system/cowlab-watch.service" || fail 'no unit'
make -s -C "$REPOSITORY" install-files COWLAB="$built" DESTDIR="$PWD/local"
grep -q '^ExecStart=/usr/local/bin/cowlab' "$PWD"/local/usr/local/lib/systemd/system/cowlab-watch.service ||
	fail "the unit of PREFIX=/usr/local starts another program"
grep -qx libdir=/usr/lib/x86_64-linux-gnu root/usr/lib/x86_64-linux-gnu/pkgconfig/casper.pc ||
	fail 'casper.pc names another folder'

# libcasper, where Debian has it and where make install puts it.
for program in "$PWD/root/usr/bin/casper-trace" "$PWD/local/usr/local/bin/casper-trace"; do
	rm -f trace.casper
	COWLAB=$program passes record --preload -- true
done

# The kernel series. Nothing here is a clone of cowlab.
refuses 1 'no test in .*/share/cowlab/tests/kernel has .spoon. in its name' kernel test --filter spoon --variant plain
