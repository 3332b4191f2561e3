#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# run-test prepare: what the guest gets before its first test
# run-test run COMMAND: one test
#
# PROGRAMS, COWLAB, STRESS_S and SETTINGS (FILE=VALUE of the policy) are set by whoever calls this.

give_up() {
	echo "$*" >&2
	exit 1
}

# put VALUE FILE: where the kernel has the file.
put() {
	[ ! -e "$2" ] || echo "$1" >"$2"
}

set_policy() {
	for setting in $SETTINGS; do
		echo "${setting#*=}" >"${setting%%=*}" || return 1
	done
}

prepare() {
	set_policy || give_up "this kernel has no such policy"
	[ ! -e /run/tests/prepared ] || return 0
	mkdir -p /run/tests
	cp -a "$PROGRAMS/." /run/tests || give_up "cannot copy the programs"
	cp "$COWLAB" /run/tests/cowlab || give_up "cannot copy cowlab"
	[ ! -e "${COWLAB%/*}/casper-trace" ] || cp "${COWLAB%/*}/casper-trace" /run/tests
	[ -b /dev/zram0 ] || give_up "no zram device for swap"
	echo 1024M >/sys/block/zram0/disksize
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0 || give_up "cannot swap to zram"
	# thuge-gen maps 2 GiB of SysV shared memory.
	put 4294967296 /proc/sys/kernel/shmmax
	touch /run/tests/prepared
}

# Each test begins with the same memory, huge pages and policy, whatever the one before it left.
run() {
	# Tests make files with tmpfile(): on a file system that they know, with pages of its own. In a
	# namespace, because the guest's own folder may be below /tmp.
	mount -t tmpfs -o size=40% tests /tmp || give_up "cannot mount a tmpfs on /tmp"
	put 3 /proc/sys/vm/drop_caches
	# For 2 MiB pages: cow's and gup's largest need, with enough for the children of uffd-stress.
	put 256 /proc/sys/vm/nr_hugepages
	put 0 /proc/sys/vm/overcommit_memory
	set_policy || give_up "the policy cannot be set"
	ulimit -l unlimited
	ulimit -c 0
	cd /run/tests || give_up "no programs"
	COWLAB=/run/tests/cowlab exec bash -c "$1"
}

case $1 in
prepare) prepare ;;
run)
	[ -n "${IN_NAMESPACE:-}" ] || IN_NAMESPACE=1 exec unshare --mount bash "$0" "$@"
	run "$2"
	;;
esac
