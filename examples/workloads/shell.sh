#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# shell.sh [FORKS]: a shell script as scripts are: subshells, pipes and small programs, each of them
# a fork. A workload for `cowlab bench command --kernel patched`.
set -eu

forks=${1:-100}
i=0
sum=0
while [ "$i" -lt "$forks" ]; do
	i=$((i + 1))
	digits=$(printf '%s\n' "$i" | tr -d '0')
	sum=$((sum + ${#digits}))
	(sum=0)
	/bin/true
done
test "$sum" -gt 0
