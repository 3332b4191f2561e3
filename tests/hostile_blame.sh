#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# blame of targets whose files, mappings and tables are made to hurt: bounded memory and time, no file outside the
# target's root, and the right code. How files become too large is in docs/reference/security.md.
# beside: it looks at programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ $(id -u) == 0 ]] || skip "blame needs root, or CAP_BPF and CAP_PERFMON"
hostile=$REPOSITORY/tests/hostile
cc=("${CC:-cc}" -O2 -Wall -Wextra)
"${cc[@]}" -o target "$hostile/target.c" -ldl
library() { "${cc[@]}" -shared -fPIC "-DNAME=$1" "${@:3}" -o "$2" "$hostile/library.c"; }
library planted plain.so
targets=()
trap '[[ ${#targets[@]} == 0 ]] || kill "${targets[@]}" 2>/dev/null || :' EXIT

# start COMMAND...: a target, which has mapped all when this returns.
start() {
	: >ready
	"$@" >ready 2>&1 &
	targets+=($!)
	wait_for 60 grep -q ready ready
}
stop() {
	kill "${targets[@]}"
	wait "${targets[@]}" 2>/dev/null || :
	targets=()
}

# bounded NAME [MIB]: all that runs is looked at with 256 MiB, one more for each process, and in less than 100 s. Files
# are sparse: none is as large on disk as it says.
bounded() {
	status=0
	"$hostile/bounded.py" $((${2:-256} + ${#targets[@]})) 100 \
		"$COWLAB" --json blame "${targets[@]}" --duration-s 2 --output runs >out 2>err </dev/null || status=$?
	called="blame of $1"
	echo "$1: $(grep -E '^[0-9]+ MiB, [0-9.]+ s$' err || :)"
	no_panic
	is_status 0
	stop
}

# A table of symbols of 3 GB. The code still has its name, by the symbols for the loader.
"$hostile/elf.py" plain.so symtab.so .symtab=3000000000
start ./target ./symtab.so 1 plain.so
bounded "3 GB of symbols"
json 'any(d.summary.places[]; .functions[0] == "planted")' 'any(d.missing[]; .reason | test("symbols|too large"))'

# 41 files of 128 MB for unwinding.
for number in {1..41}; do
	"$hostile/elf.py" plain.so "frames$number.so" .eh_frame=0x4000000 .eh_frame_hdr=0x4000000
done
start ./target ./plain.so 1 frames*.so
bounded "41 files of 128 MB"
json 'any(d.missing[]; .reason | test("too large"))'
rm frames*.so

# 60 MB of entries without an index, mapped a hundred times.
"$hostile/elf.py" plain.so entries.so .eh_frame=60000000:fdes .eh_frame_hdr=0
start ./target ./plain.so 100 entries.so
start ./target ./plain.so 100 entries.so
bounded "60 MB without an index"

# An expression without an end.
library planted endless.so -DENDLESS
start ./target ./endless.so 1 plain.so
bounded "an endless expression"
json 'any(d.summary.places[]; .functions[0] == "planted")'

# 256 MB for profilers.
start ./target ./plain.so 1 plain.so
map=/tmp/perf-${targets[0]}.map
head -c 268435456 < <(yes '0 0 ') >"$map"
bounded "256 MB of a perf map"
rm "$map"
json 'any(d.missing[]; .reason | test("took too much memory"))'

# 8 processes with 60,000 mappings each, of names of 200 bytes.
long=$(printf '%0200d' 1)
cp plain.so "$long"
for _ in {1..8}; do start ./target ./plain.so 60000 "$long"; done
bounded "60,000 mappings"
json 'any(d.missing[]; .reason | test("more mappings"))'

# Debug information that names a file outside, and links that lead there.
mkdir outside inside
(
	cd outside
	"${cc[@]}" -g -gsplit-dwarf -fPIC -DNAME=planted -c -o split.o "$hostile/library.c"
	"${cc[@]}" -shared -o ../split.so split.o
	rm split.dwo && mkfifo split.dwo
)
ln -s "$PWD/outside" inside/tmp
cp --parents -L target plain.so /lib64/ld-linux-x86-64.so.2 $(ldd ./target | grep -o '/[^ ]*\.so[^ ]*') inside
start ./target ./split.so 1 plain.so
start chroot inside /target /plain.so 1 /plain.so
echo '0 ffffffffffff outside' >"outside/perf-${targets[1]}.map"
touch "outside/jit-${targets[1]}.dump"
status=0
timeout 60 strace -f -y -e trace=open,openat,openat2 -o trace \
	"$COWLAB" --json blame "${targets[@]}" --duration-s 2 --output runs >out 2>err </dev/null || status=$?
called='blame, of which strace lists the opens'
is_status 0
stop
if grep -E "dwo|dwp|= [0-9]+<$PWD/outside" trace; then fail "a file outside was opened"; fi
json 'any(d.summary.places[]; .functions[0] == "planted")'

# Two programs with one path and inode, each in a mount namespace of its own.
library first first.so && library second second.so
mkdir mounted
for name in first second; do
	start unshare --mount sh -ec "mount -t tmpfs none mounted; cp $name.so mounted/library.so
		exec ./target ./mounted/library.so 1 plain.so"
done
inodes=$(awk '/library.so/ { print $5 }' "/proc/${targets[0]}/maps" "/proc/${targets[1]}/maps" | sort -u)
[[ $(wc -w <<<"$inodes") == 1 ]] || fail "the files do not have the same inode: $inodes"
bounded "two files that look alike"
json 'any(d.summary.places[]; .functions[0] == "first")' 'any(d.summary.places[]; .functions[0] == "second")'
