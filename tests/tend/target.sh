# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
#
# A program to be tended (target.py), asked and answered over pipes: sourced by the tests of tend.

started=()
trap 'for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done' EXIT

# target MIB: a program with so much memory of a known pattern; its pid in $target.
target() {
	rm -f to from
	mkfifo to from
	python3 "$REPOSITORY/tests/tend/target.py" "$1" <to >from &
	target=$!
	started+=("$target")
	exec 7>to 8<from
	hears ready
}

# tell WORD ANSWER
tell() {
	echo "$1" >&7
	hears "$2"
}

hears() {
	local line=
	read -r -t 60 line <&8 || fail "the target does not answer '$1'"
	[[ $line == $1* ]] || fail "expected '$1' of the target, saw '$line'"
}

ends() {
	exec 7>&- 8<&-
	kill -9 "$target" 2>/dev/null || true # it may have ended by itself
	wait "$target" 2>/dev/null || true # its status is its own or the signal's
}
