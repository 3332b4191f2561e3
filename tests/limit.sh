#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A limit on processes: one clear error, and no child left. Needs root, to become a user who has
# no other processes.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ $(id -u) == 0 ]] || skip "needs root, to become a user without processes"
command -v setpriv >/dev/null || skip "needs setpriv (util-linux)"
user=65432
! grep -qsE "^Uid:[[:space:]]$user" /proc/[0-9]*/status || skip "user $user has processes"

# The test's own folder may be closed to that user.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cp "$COWLAB" "$folder/cowlab"
mkdir "$folder/runs"
chown $user "$folder/runs"

# limited PROCESSES ARGUMENT...: cowlab as that user.
limited() {
	local processes=$1
	shift
	called="cowlab $* under ulimit -u $processes"
	status=0
	# shellcheck disable=SC2016 # That bash expands it.
	setpriv --reuid $user --regid $user --clear-groups bash -c \
		'ulimit -u "$1" && cd "$2" && shift 2 && exec ./cowlab "$@"' \
		- "$processes" "$folder" "$@" >out 2>err </dev/null || status=$?
	no_panic
}
nothing_runs() {
	no_probes_left
	local left
	left=$(grep -lsE "^Uid:[[:space:]]$user" /proc/[0-9]*/status || true)
	[[ -z $left ]] || fail "$called: expected no process of that user, saw: $left"
}
limited 100 doctor
[[ $status != 126 && $status != 127 ]] || skip "temporary files cannot be executed here"
is_status 0

# Without root everything is measured all the same.
limited 100 --json bench fork-sweep --forks 3 --heap-bytes 1MiB --rounds 1
is_status 0
json 'values("real_ns") | length == 1'
rm -r "$folder/runs/"*

# Too few for what is asked, from none at all to fewer than the children: the error is about
# processes and names the limit, and nothing is kept.
for processes in 1 2 3; do
	limited $processes --json bench cow-faults --children 8 --size-bytes 1MiB --rounds 1
	is_status 1
	[[ ! -s out ]] || fail "$called: expected no document, saw: $(seen)"
	[[ $(wc -l <err) -le 2 ]] || fail "$called: expected one message, saw: $(seen)"
	says err 'ulimit -u|RLIMIT_NPROC|limit.* process|process.* limit'
	nothing_runs
	nothing_kept "$folder/runs"
done
for bench in 'cow-check --children 8' 'fork-sweep --heap-bytes 0 --write-fraction 0 --threads 20'; do
	# shellcheck disable=SC2086 # A bench and its flags on purpose.
	limited 6 --json bench $bench
	is_status 1
	says err 'ulimit -u|RLIMIT_NPROC|limit.* process|process.* limit'
	nothing_runs
	nothing_kept "$folder/runs"
done

# As published, running out of processes means waiting for one.
for reap in never 50; do
	limited 12 --json bench fork-sweep --forks 200 --heap-bytes 1MiB --rounds 1 \
		--set reap=$reap --set pinned=false
	is_status 0
	json 'one("real_ns") > 0'
	nothing_runs
done
