#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs tests in a guest. What follows this file in the script sets its variables, calls prepare,
# and run_test for each test. In a mount namespace of its own, so that what is mounted over /tmp
# does not hide the guest's folder from its first process.
[ -n "${IN_NAMESPACE:-}" ] || IN_NAMESPACE=1 exec unshare --mount bash "$0"

give_up() {
	echo "$*" >&2
	exit 1
}

# put VALUE FILE: where the kernel has the file.
put() {
	[ ! -e "$2" ] || echo "$1" >"$2"
}

prepare() {
	mkdir -p /run/tests /run/results
	cp -a "$PROGRAMS/." /run/tests || give_up "cannot copy the programs"
	mount --bind "$RESULTS" /run/results || give_up "cannot reach the results"
	cp "$COWLAB" /run/cowlab && COWLAB=/run/cowlab
	# Tests make files with tmpfile(): on a file system that they know, with real pages.
	mount -t tmpfs -o size=40% tests /tmp || give_up "cannot mount a tmpfs on /tmp"
	cd /run/tests || give_up "no programs"
	ulimit -l unlimited
	ulimit -c 0
	[ -b /dev/zram0 ] || give_up "no zram device for swap"
	echo "${SWAP_MIB}M" >/sys/block/zram0/disksize
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 || give_up "cannot swap to zram"
	[ -z "$MODE" ] || set_policy || give_up "this kernel has no such policy"
}

set_policy() {
	echo "$PAGES" >/proc/sys/vm/cow_precopy_pages && echo "$MODE" >/proc/sys/vm/cow_precopy
}

# run_test NAME LIMIT_S COMMAND: its output, and then its status and how long it took. Each begins
# with the same huge pages and policy, whatever the one before it left.
run_test() {
	local began status
	put 3 /proc/sys/vm/drop_caches
	put "$HUGETLB_PAGES" /proc/sys/vm/nr_hugepages
	put 0 /proc/sys/vm/overcommit_memory
	[ -z "$MODE" ] || set_policy
	echo "cowlab: test $1" >/dev/kmsg
	began=$EPOCHREALTIME
	timeout --kill-after=5 "$2" bash -c "$3" >"/run/results/$1.out" 2>&1 </dev/null
	status=$?
	echo "$status $began $EPOCHREALTIME" >"/run/results/$1.status"
	echo "$1 $status"
}

