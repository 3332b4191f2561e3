# SPDX-License-Identifier: Apache-2.0 OR MIT
# What shell scripts do all day: a command's output into a variable through a pipe, a test, a
# program of its own, a subshell.
i=0
while [ $i -lt 300 ]; do
	x=$(echo hello | tr a-z A-Z)
	case $x in
	HELLO) n=$((n + 1)) ;;
	esac
	/bin/true
	(y=$x)
	i=$((i + 1))
done
echo "$n"
