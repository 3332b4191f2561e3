#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The n-th call of a kind fails, for every n: the program ends with one line that says why, and what it
# leaves is whole or absent. The same when it is killed at each call that makes something durable.
# strace injects the faults, since the program's own system calls pass by the C library. Some n of each;
# all with COWLAB_TEST_LONG=1 (make test-long).
# beside: it times nothing
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

command -v strace >/dev/null || skip "needs strace: scripts/install test"
strace -qq -o /dev/null true 2>err || skip "strace may not trace here: $(<err)"
kinds=(write pwritev openat fsync fdatasync rename ftruncate fallocate mkdir)
tried=0

sleep infinity &
sleeper=$!
trap 'kill $sleeper' EXIT
becomes "$sleeper" sleep
passes footprint "$sleeper" --duration-s 0.1 --output whole
whole=$(only_run whole)
make -s -C "$REPOSITORY/casper/libcasper" BUILD="$PWD/lib" "$PWD/lib/libcasper.a" >&2
cc -O1 -D_GNU_SOURCE -finstrument-functions -I"$REPOSITORY/casper/libcasper/include" -o traced \
	"$REPOSITORY/casper/tests/programs/longjmp.c" lib/libcasper.a -pthread

# What is tried: each leaves its files in `made`.
declare -A commands=(
	[bench]='bench fork-table --iterations 2 --rounds 1 --size-bytes 1MiB --method fork --touched true --output made'
	[footprint]="footprint $sleeper --duration-s 0.1 --output made"
	[report]="report $whole --output made/page.html"
	[record]="record --force --output made/t.casper -- ./traced"
)

# faulty NAME FLAG...: run it under strace in a fresh folder; `calls` has what was seen.
faulty() {
	local name=$1
	shift
	rm -rf made
	mkdir made
	status=0
	# One that waits for children of its own cannot be followed.
	local follow=()
	[[ $name != bench ]] || follow=(-f)
	local program=$COWLAB
	[[ $name != record ]] || program=$CASPER_TRACE
	# shellcheck disable=SC2086 # Several words on purpose.
	timeout 60 strace "${follow[@]}" -qq -o calls -e signal=none "$@" "$program" ${commands[$name]} \
		>out 2>err </dev/null || status=$?
	called="$name with $*"
	tried=$((tried + 1))
}

# is_whole: what is in `made` under its own name can be read.
is_whole() {
	local it
	for it in made/*; do
		: >read
		case $it in
		'made/*' | *.unfinished) ;;
		*.casper) "$CASPER_TRACE" report "$it" >read 2>&1 ;;
		*.html) tail -c 20 "$it" | grep -q '</html>' ;;
		*) "$COWLAB" compare "$it" "$it" >read 2>&1 ;;
		esac || fail "$called: $it is not whole: $(head -c 600 read) $(seen)"
	done
}

# says_why: after a fault.
says_why() {
	no_panic
	# Before the program's own first instruction.
	! grep -q 'error while loading shared libraries' err || return 0
	[[ $status != 124 ]] || fail "$called: it does not end: $(seen)"
	((status < 128)) || fail "$called: a signal ended it: $(seen)"
	# What cannot be said is told by the status alone.
	if [[ $status != 0 ]] && ! grep -q 'write(2, .*INJECTED' calls; then
		[[ $(tail -n 1 err) == @(cowlab|casper-trace)': '* ]] ||
			fail "$called: expected at last a line that says why, saw: $(seen) $(grep INJECTED calls)"
	fi
	[[ -z $(find made -name '.unfinished*' -o -name '*.part' -o -name '*.unfinished') ]] ||
		fail "$called: something unfinished is left: $(ls -AR made) $(seen)"
	is_whole
}

for name in ${COWLAB_TEST_FAULTS:-"${!commands[@]}"}; do
	faulty "$name" -e "trace=$(IFS=,; echo "${kinds[*]}")"
	is_status 0
	is_whole
	cp calls clean
	for kind in "${kinds[@]}"; do
		count=$(grep -c "\b$kind(" clean) || continue
		for error in ENOSPC EIO ENOMEM EINTR; do
			step=1
			[[ -n ${COWLAB_TEST_LONG:-} ]] || step=$((count / 3 + 1))
			for ((n = 1 + RANDOM % step; n <= count; n += step)); do
				faulty "$name" -e "trace=$kind" -e "inject=$kind:error=$error:when=$n"
				says_why
			done
		done
	done
	# Power loss.
	for kind in fsync fdatasync rename; do
		count=$(grep -c "\b$kind(" clean) || continue
		for ((n = 1; n <= count; n++)); do
			faulty "$name" -e "trace=$kind" -e "inject=$kind:signal=KILL:when=$n"
			is_whole
		done
	done
done
echo "$tried faults"
