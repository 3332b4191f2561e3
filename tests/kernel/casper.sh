#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# CASPER in the kernel, from user space: who may record, one at a time, nothing is left of a recorder
# that was killed, and, on the kernel `traced`, what is recorded of forks whose number is known. Runs
# as root in a guest. Exit status 0: passed, 1: failed, 4: skipped.
set -euo pipefail

: "${COWLAB:?is the program under test}"
REPOSITORY=${REPOSITORY:-$(cd "$(dirname "$0")/../.." && pwd)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() {
	echo "not ok: $*"
	exit 1
}
CASPER_TRACE=${COWLAB%/*}/casper-trace
if [[ ! -x $CASPER_TRACE ]]; then
	echo "no casper-trace beside cowlab"
	exit 4
fi
if [[ ! -c /dev/casper ]]; then
	echo "no /dev/casper: this kernel has no CONFIG_CASPER"
	exit 4
fi

[[ $(stat -c '%a %U' /dev/casper) == "600 root" ]] ||
	fail "expected /dev/casper to be root's, mode 600; saw $(stat -c '%a %U' /dev/casper)"

# Who may not open it may not trace.
chmod 755 "$folder"
status=0
setpriv --reuid=65534 --regid=65534 --clear-groups "$CASPER_TRACE" record --kernel \
	-o /tmp/nobody.casper -- true 2>err || status=$?
[[ $status == 1 ]] && grep -q 'permission denied' err ||
	fail "expected nobody to be refused; saw status $status, $(cat err)"

# Nor who may open it by accident.
chmod 666 /dev/casper
status=0
setpriv --reuid=65534 --regid=65534 --clear-groups "$CASPER_TRACE" record --kernel \
	-o /tmp/nobody.casper -- true 2>err || status=$?
chmod 600 /dev/casper
[[ $status == 1 ]] && grep -q 'CAP_PERFMON' err ||
	fail "expected nobody to be refused for want of CAP_PERFMON; saw status $status, $(cat err)"

# Its memory is charged to the reader: 64 buffers of 1 MiB to begin with.
group=/sys/fs/cgroup/casper_reader
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir "$group"
sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" \
	"$CASPER_TRACE" record --kernel --duration-s 60 -o charged.casper 2>err &
reader=$!
for _ in {1..100}; do
	charged_bytes=$(awk '$1 == "vmalloc" { print $2 }' "$group/memory.stat")
	((charged_bytes < 64 << 20)) || break
	sleep 0.1
done
kill "$reader"
wait "$reader" || fail "record: $(<err)"
((charged_bytes >= 64 << 20)) ||
	fail "expected 64 MiB to be charged to the reader; saw $charged_bytes bytes of vmalloc"
rmdir "$group"

# A reader that /proc/kallsyms shows no addresses to finds none in its trace: where the text begins and ends.
shown=$(</proc/sys/kernel/kptr_restrict)
for kptr_restrict in 0 2; do
	echo $kptr_restrict >/proc/sys/kernel/kptr_restrict
	"$CASPER_TRACE" record --kernel --force -o text.casper -- true 2>err || fail "record: $(<err)"
	at=$(LC_ALL=C grep -abo -m 1 vmlinux text.casper | head -n 1 | cut -d: -f1)
	text=$(od -An -v -tx8 -j $((at - 48)) -N 16 text.casper | xargs)
	symbol=$(grep ' _stext$' /proc/kallsyms | cut -d' ' -f1)
	[[ ${text% *} == "$symbol" && ($kptr_restrict == 0 || $text == "$symbol $symbol") ]] ||
		fail "expected the text at $symbol with kptr_restrict=$kptr_restrict; saw $text"
done
echo "$shown" >/proc/sys/kernel/kptr_restrict

# A kernel cannot wait for its reader.
status=0
"$CASPER_TRACE" record --kernel --when-full wait -- true 2>err || status=$?
[[ $status == 2 || $status == 1 ]] && grep -q 'cannot wait' err ||
	fail "expected --when-full wait to be refused; saw status $status, $(cat err)"

# Forks whose number is known.
cc -O2 -static -nostdlib -ffreestanding -fno-stack-protector -fno-pie -no-pie -o fork_small \
	"$REPOSITORY/probes/fork_small.c" || fail "fork_small does not compile"
if "$CASPER_TRACE" record --kernel --function copy_process -o probe.casper -- true 2>err; then
	"$CASPER_TRACE" record --kernel --json -o forks.casper --function copy_process \
		--function 'dup_*' --function copy_files --function copy_signal -- \
		sh -c './fork_small 100 0 >/dev/null' >out 2>err ||
		fail "record: $(cat err)"
	"$CASPER_TRACE" report --json forks.casper >report.json
	# 100 forks, the one that settles, and the shell's, which may be more; the recorder's own start of it shares
	# its memory. The buffers are large enough.
	jq -en --slurpfile record out --slurpfile report report.json '
		$record[0] as $record |
		($report[0].functions | map({key: .name, value: .calls}) | from_entries) as $calls |
		$record.stored_events > 101 * 2 * 5 and $record.dropped_events + $record.no_buffer_events == 0 and
		$calls.copy_process >= 102 and
		all($calls["dup_task_struct", "copy_files", "copy_signal"]; . == $calls.copy_process) and
		($calls.dup_mmap | . == 101 or . == 102)' >whole ||
		fail "the trace of 100 forks is not what it should be: $(<out) $(head -c 2000 report.json)"
else
	# The kernel `patched`: casrecord(), and no function that is instrumented.
	grep -q 'no instrumented function' err || fail "record --function: $(cat err)"
	echo "# forks are not counted: no function of this kernel is instrumented"
fi

# One reader at a time.
"$CASPER_TRACE" record --kernel --duration-s 60 -o one.casper 2>/dev/null &
first=$!
for _ in {1..100}; do
	[[ ! -s one.casper ]] || break
	sleep 0.1
done
status=0
"$CASPER_TRACE" record --kernel -o two.casper -- true 2>err || status=$?
[[ $status == 1 ]] && grep -q 'in use' err ||
	fail "expected a second reader to be refused; saw status $status, $(cat err)"

# Of a reader that was killed nothing is left, and the next may begin.
kill -KILL "$first"
wait "$first" 2>/dev/null || true # its status is that of the KILL above
for _ in {1..100}; do
	grep -q casper_core /proc/vmallocinfo || break
	sleep 0.1
done
! grep -q casper_core /proc/vmallocinfo || fail "memory is left: $(grep casper_core /proc/vmallocinfo)"
"$CASPER_TRACE" report one.casper >/dev/null || fail "the killed recorder's trace is not readable"
"$CASPER_TRACE" record --kernel -o three.casper -- true || fail "nobody may record any more"

# More than fits: counted, and said.
"$CASPER_TRACE" record --kernel --json --buffer-bytes 64KiB -o small.casper -- \
	sh -c './fork_small 400 0 >/dev/null' >out 2>err || fail "record: $(cat err)"
"$CASPER_TRACE" report small.casper >report || fail "report of a trace with losses"
echo "ok: casper"
