#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# kernel build, boot and test. The plain kernel is in the cache (`make kernels`), or
# is built here first.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

export COWLAB_KERNEL=$REPOSITORY/kernel
# What this test makes must not go into the cache that it uses.
boot() {
	run kernel boot --variant plain --guest "${guest:-time_limit_s=240}" "$@"
}

# Wrong usage.
refuses 2 'a shell needs a terminal: give a command after --' kernel boot
refuses 2 "unknown variant 'fast': choose one of plain, upstream, patched, debug, kcsan, traced" kernel build --variant fast
refuses 2 'cannot be used with' kernel boot --variant plain --image x -- true
refuses 2 'invalid value' kernel boot --guest time_limit_s=-1 -- true

refuses 2 'the pages of next:PAGES must be in 1..512' kernel test --policy next:513
refuses 2 "policy next: kernels without research's patches have no policies: add patched" \
	kernel test --policy next --variant plain,upstream
refuses 1 "no test in .*/tests/kernel has 'cwo' in its name" kernel test --filter cwo
refuses 2 'cpus=9 is not in 1\.\.8' kernel boot --guest cpus=9 -- true
refuses 2 'cpus=9 is not in 1\.\.8' bench cow-faults --kernel patched --guest cpus=9
refuses 2 "'spoon': memory, cpus, accelerator, time_limit_s or boots" kernel boot --guest spoon -- true

# Sources that are none; nothing of them stays.
echo 'no archive' >x.tar
COWLAB_CACHE=own refuses 1 'cannot unpack x.tar' kernel build --source x.tar
[[ -z $(ls -A own/source) ]] || fail "expected no source, saw: $(ls -A own/source)"
COWLAB_CACHE=own refuses 1 "no-such.tar" kernel build --source no-such.tar
COWLAB_CACHE=/proc/none refuses 1 'COWLAB_CACHE=DIR' kernel build --source x.tar
COWLAB_KERNEL=own refuses 1 'has no config' kernel build
# A release that no package list has: the machine's own, and no other where it does not use Debian's archive.
mkdir apt
printf '#!/bin/sh\n' >apt/apt-cache
printf '#!/bin/sh\necho "$@" >>asked\necho "Other|http://other.example/"\n' >apt/apt-get
chmod +x apt/*
COWLAB_CACHE=own PATH=$PWD/apt:$PATH refuses 1 \
	"apt knows no linux-source-9\.9: run scripts/install kernel, or .* --source FILE: none of .* Debian's archive" \
	kernel build --variant plain --source 9.9
# Debian's archive is asked, by lists in the cache.
printf '#!/bin/sh\necho "$@" >>asked\necho "Debian Backports|http://no.example/"\necho "Debian|http://yes.example/"\n' \
	>apt/apt-get
COWLAB_CACHE=own PATH=$PWD/apt:$PATH refuses 1 "linux-source-9\.9: .*: nor does Debian's trixie-backports" \
	kernel build --source 9.9
grep -q 'Dir::State::lists=.*/own/.* update$' asked || fail "expected apt to use lists of its own, saw: $(<asked)"
[[ ! -e own/source/current-9.9 ]] || fail 'expected no source of a release that there is not'

# Without QEMU.
mkdir bin
for program in setpriv gcc make sh; do
	ln -s "$(command -v $program)" bin/
done
status=0
PATH=$PWD/bin "$COWLAB" kernel boot -- true >out 2>err </dev/null || status=$?
called='cowlab kernel boot without QEMU'
is_status 1
says err 'without qemu-system-x86_64: run scripts/install kernel'
# Without what a build needs: all of it in one message.
status=0
PATH=$PWD/bin "$COWLAB" kernel build >out 2>err </dev/null || status=$?
called='cowlab kernel build without flex and bison'
is_status 1
says err 'without ld, flex, bison, bc, .*: run scripts/install kernel'

# The kernel, which `make kernels` has put into the cache.
passes kernel build --json --variant plain
json 'd.summary.kernels[0] | .variant == "plain" and .patches == []'

# A patch that does not fit this source: the patch, the file, the line and the hunk are named.
mkdir -p misfit/upstream/6.12
cp "$COWLAB_KERNEL/config" misfit/
cat >misfit/upstream/6.12/0001-misfit.patch <<'END'
diff --git a/mm/memory.c b/mm/memory.c
--- a/mm/memory.c
+++ b/mm/memory.c
@@ -1,4 +1,4 @@
 // SPDX-License-Identifier: GPL-2.0-only
 /*
- *  another file's text
+ *  linux/mm/memory.c
  *
END
COWLAB_KERNEL=misfit refuses 1 '0001-misfit.patch does not fit this source' kernel build
says err 'patch failed: mm/memory.c:1$'
says err '^ \*  another file'
# An option that the configuration does not take.
mkdir wrong
{
	cat "$COWLAB_KERNEL/config"
	echo CONFIG_NO_SUCH_OPTION=y
} >wrong/config
COWLAB_KERNEL=wrong refuses 1 'CONFIG_NO_SUCH_OPTION=y is not set' kernel build --variant plain

# A command's input, output, messages and status; the host's files, which nothing writes to.
echo 'seen by the guest' >seen
status=0
# shellcheck disable=SC2016 # The guest's shell expands it.
printf 'three\nlines\nhere\n' | "$COWLAB" kernel boot --variant plain -- \
	sh -c 'uname -r; wc -l; cat seen; echo message >/dev/stderr; echo x >written && cat written
		ls /proc/sys/vm/overcommit_memory; echo "$0 $1"; exit 7' "it's" '$HOME' \
	>out 2>err || status=$?
called='cowlab kernel boot'
is_status 7
says out '^6\.12\.[0-9]+-cowlab-plain$'
says out '^3$'
says out '^seen by the guest$'
says out '^x$'
says out "^it's \\\$HOME$"
says err '^message$'
says err 'accelerator: (KVM|TCG)'
[[ ! -e written ]] || fail 'expected the host to be left alone, saw a file that the guest wrote'
wait_for 5 none our_guests

# Input that is not taken: output comes all the same, before, and after nobody can take it any more.
head -c 1000000 /dev/zero >zeros
status=0
"$COWLAB" kernel boot --measured --variant plain --guest time_limit_s=240 -- \
	sh -c 'seq 30000; head -c 500000 | wc -c; exec <&-; seq 40000' >out 2>err <zeros || status=$?
called='cowlab kernel boot with much input'
is_status 0
says out '^30000$'
says out '^500000$'
[[ $(tail -n 1 out) == 40000 ]] || fail "expected 40000 at last, saw: $(tail -n 1 out)"

# A folder that both can write to. What is in it is the user's, whatever the guest's files are called.
mkdir share
for name in init run status console.log; do
	echo "mine: $name" >share/$name
done
boot --json --share share -- sh -c "echo data >$PWD/share/data; kill -9 \$\$"
is_status 137
[[ $(cat share/data) == data ]] || fail 'expected the guest to write to the shared folder'
for name in init run status console.log; do
	[[ $(cat share/$name) == "mine: $name" ]] ||
		fail "expected share/$name to be left alone, saw: $(head -c 100 share/$name)"
done
[[ $(LC_ALL=C ls share | xargs) == 'console.log data init run status' ]] ||
	fail "expected nothing else in the shared folder, saw: $(ls share)"
json 'd.summary.status == 137' 'd.summary.complaints == []' 'd.summary.duration_s > 0'

# The log is looked at.
boot -- sh -c 'echo "<4>WARNING: CPU: 0 PID: 1 at mm/none.c:1" >/dev/kmsg'
is_status 0
says err "the guest's log, line [0-9]+: .*WARNING: CPU: 0 PID: 1 at mm/none.c:1"

# A guest that panics, hangs, or does not fit.
boot --kernel-argument rootfstype=none -- true
is_status 1
says err 'the guest panicked; its log, .*console.log, ends:'
says err 'Kernel panic - not syncing: VFS'
# An old QEMU's kernel that dies at boot of its own breakpoint is booted once more, any other death is final.
mkdir -p old
cat >old/qemu-system-x86_64 <<'END'
#!/bin/sh
[ "$1" != --version ] || { echo 'QEMU emulator version 7.2.22'; exit; }
echo boot >>"$BOOTS"
for word; do case $word in *file:*console.log*)
	printf '%s\nKernel panic - not syncing\n' "$OOPS" >"/${word#*file:/}" ;; esac
done
END
chmod +x old/qemu-system-x86_64
for expected in '2 Oops: int3: 0000' '1 Oops: 0002'; do
	rm -f boots
	BOOTS=$PWD/boots OOPS=${expected#* } PATH=$PWD/old:$PATH run kernel boot --image old/qemu-system-x86_64 \
		--guest accelerator=tcg,memory=256MiB -- true
	says err 'the guest panicked'
	[[ $(wc -l <boots) == "${expected%% *}" ]] || fail "booted $(wc -l <boots) times: $expected"
done

run kernel boot --variant plain --guest time_limit_s=2 -- sleep 1000
is_status 1
says err 'did not end within 2 s \(--guest time_limit_s=SECONDS\) and was killed'
wait_for 5 none our_guests
guest=memory=4000000GiB boot -- true
is_status 1
says err 'MiB on this machine, where .* give it less with --guest memory'
# What was never booted leaves no folder in the cache.
COWLAB_CACHE=own refuses 1 'there is no kernel none' kernel boot \
	--image none --guest accelerator=tcg,memory=256MiB -- true
[[ -z $(ls -A own/boot) ]] || fail "expected no folder of a refused boot, saw: $(ls -A own/boot)"

# Nothing outlives cowlab, however it ends.
for signal in KILL INT; do
	"$COWLAB" kernel boot --variant plain -- sleep 1000 \
		>out 2>err </dev/null &
	pid=$!
	wait_for 30 some our_guests
	# An interactive shell's background job would ignore INT from its terminal, but not this one.
	kill -"$signal" "$pid"
	wait "$pid" || true # its status is the signal's; whether a guest is left is what is asked
	called="cowlab kernel boot, ended by $signal"
	wait_for 5 none our_guests
done

# Tests: a pass, a skip, a failing case, a warning in the log, a hang.
mkdir guest-tests
test_program() {
	printf '#!/bin/sh\n%s\n' "$2" >"guest-tests/$1"
	chmod +x "guest-tests/$1"
}
test_program passes 'echo 1..2; echo "ok 1 a"; echo "ok 2 b # SKIP no KSM"'
test_program skips 'echo needs a second node; exit 4'
test_program fails 'echo 1..2; echo "ok 1 a"; echo "not ok 2 wrong"'
test_program warns 'echo "<4>BUG: KASAN: use-after-free in x" >/dev/kmsg'
test_program hangs 'sleep 1000'
echo 'int main(void) { return 0; }' >guest-tests/compiled.c
tested() {
	run kernel test --variant plain --tests guest-tests \
		--guest time_limit_s=5 "$@"
}
tested
is_status 1
says out '^ok [0-9]+ plain compiled$'
says out '^ok [0-9]+ plain passes$'
says out '^# passes: b skipped: no KSM$'
says out '^ok [0-9]+ plain skips # SKIP needs a second node$'
says out '^# fails: 1 of 2 cases failed: wrong$'
says out "^# warns: the kernel's log: .*BUG: KASAN"
says out '^# hangs: ran longer than its limit$'
says out '^# plain: 3 cases passed, 3 failed, 2 skipped$'
says err '3 tests failed'
tested --filter compiled --json
is_status 0
json 'd.summary.passed == 1' 'd.summary.failed == 0' 'd.summary.skipped == 0'
refuses 1 "no test in .* has 'none' in its name" kernel test --variant plain \
	--tests guest-tests --filter none
