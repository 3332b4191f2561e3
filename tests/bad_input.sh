#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What cannot be measured is refused with one clear message, before anything is allocated.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# Sizes that cannot fit: the largest that does is named, and little was used to find it out.
for bench in 'fork-sweep --heap-bytes' 'fork-sweep --set populated=false --heap-bytes' \
	'fork-sweep --set reap=never --heap-bytes' 'fork-table --size-bytes' 'cow-faults --size-bytes' \
	'cow-faults --children 64 --writer parent --size-bytes' 'cow-check --size-bytes'; do
	for bytes in 100TiB 18446744073709551615; do
		# shellcheck disable=SC2086 # A bench and its flag on purpose.
		refuses 1 'the largest heap that fits is [0-9.]+ .iB; use --[a-z-]+ [0-9]+$' \
			bench $bench $bytes --output large
		says err "use ${bench##* } "
	done
done
# Just more than there is, so that allocating it could begin.
total_bytes=$(($(awk '/^MemTotal:/ { print $2 }' /proc/meminfo) * 1024))
for bytes in $total_bytes $((total_bytes * 2)); do
	python3 "$REPOSITORY/tests/lib/refused_small.py" "$COWLAB" bench fork-sweep --heap-bytes "$bytes" \
		--output large || fail "see above"
done
nothing_kept large
# The size that the message names is accepted: here under a limit of the address space.
called='cowlab bench fork-sweep --heap-bytes 1GiB under ulimit -v 400000'
status=0
(ulimit -v 400000 && exec "$COWLAB" bench fork-sweep --heap-bytes 1GiB --output x) >out 2>err || status=$?
is_status 1
says err 'RLIMIT_AS, see ulimit -v'
fits=$(grep -oE '[0-9]+$' err)
called="cowlab bench fork-sweep --heap-bytes $fits under ulimit -v 400000"
status=0
(ulimit -v 400000 && exec "$COWLAB" bench fork-sweep --heap-bytes "$fits" --forks 2 --rounds 1 \
	--write-fraction 0) >out 2>err || status=$?
no_panic
is_status 0

# Fractions, names, combinations: wrong usage, with the flag or the known names.
for fraction in 1.1 abc nan inf '' 1e300; do
	refuses 2 '--write-fraction' bench fork-sweep --write-fraction "$fraction" --output x
done
refuses 2 "--write-fraction.*'-0.1' is not in 0..1" bench fork-sweep --write-fraction=-0.1
run bench fork-sweep --write-fraction -0.1
is_status 2
says err '--write-fraction'
refuses 2 '--write-fraction' bench fork-sweep --write-fraction 0,2
# Each bench names the methods that it has.
refuses 2 "unknown method 'spoon': choose one of fork, vfork, clone-vm-vfork, posix-spawn" \
	bench fork-sweep --method spoon
refuses 2 "unknown method 'spoon': choose one of fork, vfork, posix-spawn, fork\+exec, vfork\+exec" \
	bench fork-table --method fork,spoon
refuses 2 'unknown writer .*child, parent, parent-reuse' bench fork-sweep --writer cat
refuses 2 'unknown pattern .*single, sequential, random' bench cow-faults --pattern zigzag
refuses 2 'each, never, a number' bench fork-sweep --set reap=0
refuses 2 "unknown key 'prefaul': choose one of reap, populated, " bench fork-sweep --set prefaul=true
refuses 2 "'forks' has a flag of its own: --forks" bench fork-sweep --set forks=3
refuses 2 'KEY=VALUE' bench fork-sweep --set vmas
refuses 2 "'70000' is not in 0..60000" bench fork-sweep --set vmas=1,70000
for method in vfork clone-vm-vfork posix-spawn; do
	refuses 2 "--method $method .*--write-fraction 0" \
		bench fork-sweep --method $method --write-fraction 0.5
	for writer in parent parent-reuse; do
		refuses 2 "--method $method .*--writer $writer needs --method fork" \
			bench fork-sweep --method $method --write-fraction 0 --writer $writer
	done
done
refuses 2 "--method.*'fork\+exec' is not measured here: choose one of fork, vfork, clone-vm-vfork, posix-spawn" \
	bench fork-sweep --method fork+exec
refuses 2 '--writer parent needs --set reap=each' bench fork-sweep --writer parent --set reap=4
refuses 2 "'parent-reuse' is not measured here: choose one of child, parent" bench cow-faults --writer parent-reuse
refuses 2 'not a size' bench fork-sweep --heap-bytes 5apples
refuses 2 '--forks' bench fork-sweep --forks 0
refuses 2 '--rounds' bench fork-sweep --rounds 0
refuses 2 '--threads' bench fork-sweep --threads 65
refuses 2 '--children' bench cow-faults --children 0
refuses 2 '--size-bytes' bench cow-faults --size-bytes 0
for bytes in 5000 0 8192 1TiB; do
	refuses 2 'this kernel has no pages of .*: it has ' bench fork-sweep --page-size-bytes $bytes
done
# One wrong cell of a sweep is found before the first is measured.
refuses 2 '--write-fraction 0' bench fork-sweep --method fork,vfork --write-fraction 0.5 --output x2
nothing_kept x2

# Outputs that cannot be written.
echo text >file
for verb in 'bench fork-sweep' calibrate study; do
	for output in /proc/nowhere file file/below /dev/null; do
		# shellcheck disable=SC2086 # A verb and its bench on purpose.
		refuses 1 "cannot write a run into $output: .*--output" $verb --output $output
	done
done
[[ $(cat file) == text ]] || fail "a file was overwritten"

# A full disk: an error that says so, and nothing that looks whole.
if [[ $(id -u) != 0 ]] || ! unshare -m true 2>/dev/null; then
	echo "a full disk was not tried: mounting one needs root"
	no_probes_left
	exit 0
fi
cat >full_disk <<'END'
set -e
mount -t tmpfs -o size=64k none disk
head -c "$1" /dev/zero >disk/filler
shift
status=0
"$COWLAB" "$@" || status=$?
rm disk/filler
ls -A disk >left
exit "$status"
END
mkdir disk
# Full at once, and in the middle of the second file.
for filled in 65536 57344; do
	status=0
	called="cowlab bench on a disk with $((65536 - filled)) bytes"
	unshare -m bash full_disk $filled --json bench fork-sweep --forks 2 --heap-bytes 0 \
		--write-fraction 0 --rounds 2 --output disk >out 2>err || status=$?
	no_panic
	is_status 1
	says err 'No space left on device'
	says err 'cannot write .*disk.*nothing was kept'
	[[ ! -s out ]] || fail "$called: expected no document, saw: $(seen)"
	[[ ! -s left ]] || fail "$called: expected nothing on it, saw: $(cat left)"
done
no_probes_left
