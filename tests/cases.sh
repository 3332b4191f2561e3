#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# explain on the situations of public reports: each is played by a small program with a known truth
# (tests/cases/situations.c), and the screen must answer what was asked there. With COWLAB_CASES=FILE it appends a row of
# docs/results' table for each.
# beside: it looks at programs of its own alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

[[ $(id -u) == 0 ]] || skip 'needs root'
command -v gcc >/dev/null || skip 'needs gcc'
gcc -O1 -w -pthread -o situations "$REPOSITORY/tests/cases/situations.c"
pid=
trap '[[ -z $pid ]] || kill -9 $pid 2>/dev/null || true' EXIT

# All cases are played, and each that fails is told.
failed=0
wrong() {
	echo "WRONG: $*"
	failed=$((failed + 1))
}

# begin NAME: plays it, and waits until it is there; false where this machine cannot have it.
begin() {
	rm -f ready
	(exec -a "$1" ./situations "$1") &
	pid=$!
	for ((tries = 0; tries < 200; tries++)); do
		[[ ! -e ready ]] || return 0
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	wait "$pid" || [[ $? == 77 ]] || fail "$1 has ended with $?"
	echo "not here: $1"
	pid=
	return 1
}

end() {
	# It has children that end with it.
	kill -9 "$pid"
	wait "$pid" 2>/dev/null || true # it was killed
	pid=
}

# asks QUESTION TRUTH PATTERN...: the screen has each pattern, whatever its lines, within 40 lines; a pattern
# that begins with ! is nowhere on it.
asks() {
	local question=$1 truth=$2 answer=$3 began=$SECONDS pattern
	shift 2
	COLUMNS=100 passes explain "$pid" --duration-s 2
	local took=$((SECONDS - began))
	[[ $(wc -l <out) -le 40 ]] || wrong "$question: expected 40 lines at most, saw $(wc -l <out): $(<out)"
	tr -s '\n ' ' ' <out >joined
	for pattern; do
		case $pattern in
		!*) ! grep -qiE -- "${pattern#!}" joined || wrong "$question: expected no '${pattern#!}', saw: $(<out)" ;;
		*) grep -qiE -- "$pattern" joined || wrong "$question: expected '$pattern', saw: $(<out)" ;;
		esac
	done
	[[ -z ${COWLAB_CASES:-} ]] ||
		printf '| %s | %s | %s… | %s | %s s |\n' "$(tr '\0' '\n' <"/proc/$pid/cmdline" | tail -n 1)" "$question" \
			"$(grep -oiE -- "[^•─]{0,70}${answer#!}[^•─]{0,90}" joined | head -n 1)" "$truth" "$took" >>"$COWLAB_CASES"
}

if begin pieces; then
	asks 'Why does mmap fail, and fork take so long?' '60,0xx mappings of 65,530, half of them DONTFORK pieces of 4 KiB' \
		'situations has 60,[0-9]{3} mappings of at most 65,530 \(vm.max_map_count\); 30,000 of them are left out' \
		'4.00 KiB each' 'the next mmap, .* fails with ENOMEM' 'do now .*MADV_DOFORK' '!would make the stop'
	end
fi
if begin left_out; then
	asks 'Why do all children die?' 'each child is killed at a page that is left out of forks' \
		'of [0-9]+ child(ren)? that situations forked were ended by SIGSEGV, [0-9]+ at memory that is left out' \
		'whole pages are left out' 'do now .*pages of their own' '!would make the stop'
	end
fi
if begin pinned; then
	asks 'Why does fork take so long, and would huge pages help?' '128 MiB are pinned and copied in fork' \
		'128 MiB of situations are pinned' 'copies pinned pages at once' 'do now .*unregister the buffers' \
		'!would make the stop'
	end
fi
if begin doubled; then
	asks 'Why does it use twice its memory?' '128 MiB twice: memfd and private copies' \
		'128 MiB of situations are copies of pages of a memory file \(memfd\), which holds 128 MiB' \
		'each page is there twice' 'do now .*MAP_SHARED' '!would make the stop'
	end
fi
if begin stuck; then
	asks 'Why do the workers do nothing?' '2 of 2 children wait for a lock that a thread held' \
		'2 children of situations hang' 'another thread of situations held the lock when it forked' \
		'do now kill them'
	end
fi
if begin queue; then
	asks 'Do the workers hang?' 'no: they wait for a lock in shared memory' '2 workers and their parent' '!hang'
	end
fi
if begin descriptors; then
	asks 'Why is starting a command slow: is it fork?' 'fork is innocent: 300,000 calls of close()' \
		'From fork to exec children of situations take [0-9.]+ ms' 'the fork is innocent' \
		'about [23][0-9]{2},[0-9]{3} calls of close' 'do now close with close_range' '!would make the stop'
	end
fi
if begin spawns; then
	asks 'Fork or vfork?' 'posix_spawn only' 'situations started [0-9]+ programs by vfork or posix_spawn' \
		'forked none: nothing of it was copied' '!next fork of situations stops' '!cowlab tend' \
		'do now nothing'
	asks 'Why is ru_maxrss of a small command 130 MiB?' "its parent's peak, 129 MiB" \
		"ru_maxrss of programs that situations starts says at least 1[0-9]{2} MiB" "it is the parent's memory"
	end
fi
# The last of four forks may not have copied yet.
if begin huge; then
	asks 'Are huge pages good or bad here?' 'a write copies 4 KiB and splits a huge page, which fork pays from then on' \
		'256 MiB of situations may be huge pages, and [0-9.]+ [KM]?i?B are' 'copies [45][0-9]{2} KiB' \
		'do now cowlab tend .* makes them whole again' '!transparent huge pages \('
	end
fi
if begin reuse; then
	asks 'Does it copy 64 MiB after the child has ended?' 'no: its pages are its own again' \
		'Each fork stops situations for [0-9.]+ ms, as measured, and copies [0-9]{2}\.[0-9] KiB' \
		'After each fork 1[0-6],[0-9]{3} pages were written whose child had gone: a fault each, and no copy'
	end
fi
if begin mixed; then
	asks 'Which starts fork?' 'half of them' \
		'[0-9]+ of the [0-9]+ programs that situations started were forked, the other [0-9]+ by vfork or posix_spawn' \
		'do now start them by posix_spawn' '!worker'
	end
fi
if begin vfork_alone; then
	asks 'Does CLONE_VFORK help?' 'no: without CLONE_VM the page tables are copied' \
		'Each fork stops situations for [0-9.]+ .s, as measured' 'so does CLONE_VFORK without CLONE_VM' '!by vfork or posix_spawn, which copies nothing'
	end
fi
if begin short_lives; then
	asks 'Why does a limit on RSS kill each worker at birth?' 'they live 0.1 s and own 0.25 of 129 MiB' \
		'Its children live for 1[0-9]{2} ms and have [0-9]+ KiB of their own' 'beside 1[23][0-9] MiB' \
		'max_memory_per_child'
	end
fi
if begin pool; then
	asks 'How many workers fit?' 'each adds 1.1 MiB and 0.5 MiB of page tables; 256 MiB are there once' \
		'Each more worker adds about 1\.[5-9][0-9]* MiB' '(5[0-9]{2}|6[0-9]{2}) KiB of page tables' \
		'25[67] MiB of shared memory are there once' 'more would fit'
	end
fi
if begin zombies; then
	asks 'What are its children?' '3 zombies' 'situations has 3 children that ended and that it has not waited for' \
		'!executed another program'
	end
fi
if [[ $(</proc/sys/vm/overcommit_memory) == 0 ]]; then
	# First: the kernel's log has ten such lines in 5 s at most.
	if begin merged_before; then
		asks 'Why did a fork fail a minute ago?' 'refused once, for 1.4 times the RAM' \
			'The kernel has refused situations 1 promise of memory so far, the largest [0-9.]+ GiB' \
			'do now set vm.overcommit_memory to 1'
		end
	fi
	if begin merged; then
		asks 'Why ENOMEM with memory free?' 'one mapping of 1.4 times the RAM' \
			'The next fork of situations .* will fail' 'refuses only a mapping larger than RAM and swap' \
			'do now .*vm.overcommit_memory'
		end
	fi
fi
if begin no_init; then
	asks 'Why ENOMEM with memory free?' 'the pid namespace for its children has no init' \
		'pid namespace for children of situations has no init' 'each of its forks fails with ENOMEM' \
		'do now restart situations' '!will not be refused'
	end
fi
if begin executes; then
	asks 'What do its forks copy?' '40 KiB and a few pages' 'copies [0-9.]{4,5} KiB' '!a tenth' '!workers'
	end
fi
if begin serves; then
	asks 'Would posix_spawn help?' 'no child executes a program' 'it forked [0-9]+ times' '!posix_spawn'
	end
fi

# A group with room for 12 tasks that refused some; now there is room.
pids=$(awk '$3 == "cgroup" && /pids/ { print $2; exit } $3 == "cgroup2" { print $2; exit }' /proc/mounts)/cowlab-cases$$
if mkdir "$pids" 2>/dev/null && [[ -e $pids/pids.max ]]; then
	trap '[[ -z $pid ]] || kill -9 $pid 2>/dev/null || true; sleep 0.2; rmdir "$pids" 2>/dev/null || true' EXIT
	echo 12 >"$pids/pids.max"
	# The shell fails when a fork of it is refused, which is what is wanted; the answer below tells whether one was.
	(echo "$BASHPID" >"$pids/cgroup.procs" && for ((i = 0; i < 20; i++)); do sleep 0.2 & done; wait) 2>/dev/null || true
	begin forks
	echo "$pid" >"$pids/cgroup.procs"
	asks 'Which limit said EAGAIN?' "pids.max of its group, 12" "$pids/pids.max has refused [0-9]+ forks? (and|or) thread" \
		'it allows 12 tasks' 'do now raise .*/pids.max'
	end
	rmdir "$pids"
fi
# The same CPU, a tenth of it.
cpu=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ { print $2; exit }' /proc/mounts)/cowlab-cases$$
if mkdir "$cpu" 2>/dev/null && [[ -e $cpu/cpu.cfs_quota_us ]]; then
	trap '[[ -z $pid ]] || kill -9 $pid 2>/dev/null || true; sleep 0.2; rmdir "$cpu" 2>/dev/null || true' EXIT
	begin forks
	echo 2000 >"$cpu/cpu.cfs_quota_us"
	echo "$pid" >"$cpu/cgroup.procs"
	asks 'Is the stop fork, or my CPU quota?' '2 ms of CPU in each 100 ms' "The CPU quota held situations's control group back for" \
		'allows 2.00 ms of CPU time in each 100 ms' '!% less'
	end
	rmdir "$cpu"
fi
# Workers in a control group of 32 MiB, whose parent has 64 MiB to copy and no limit.
memory=$(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ { print $2; exit }' /proc/mounts)/cowlab-cases$$
if mkdir "$memory" 2>/dev/null && [[ -e $memory/memory.limit_in_bytes ]]; then
	trap '[[ -z $pid ]] || kill -9 $pid 2>/dev/null || true; sleep 0.2; rmdir "$memory" 2>/dev/null || true' EXIT
	begin workers
	echo 32M >"$memory/memory.limit_in_bytes"
	for child in $(cat /proc/$pid/task/$pid/children); do echo "$child" >"$memory/cgroup.procs"; done
	asks 'Do the workers have room for their copies?' 'their group has 32 MiB, and each may copy 64' \
		"Its workers are in another control group, $memory/memory.limit_in_bytes of which is 32.0 MiB" \
		'what a worker copies counts there, at most 6[0-9.]+ MiB each' 'do now raise'
	# By that group: the workers stand for their parent.
	passes explain "$memory" --quick
	says out "^situations \\($pid\\), explained"
	end
	sleep 0.2
	rmdir "$memory"
fi
# RLIMIT_NPROC of a user, which root has not.
if command -v setpriv >/dev/null; then
	chmod 755 . situations
	rm -f ready
	chmod 777 .
	(ulimit -u 3; exec setpriv --reuid 64999 --clear-groups ./situations workers) &
	pid=$!
	wait_for 20 test -e ready
	asks 'Which limit says EAGAIN?' 'RLIMIT_NPROC of its user, 3' 'will fail: fork fails with EAGAIN' \
		'RLIMIT_NPROC of uid 64999: 3 of 3 tasks' 'do now .*raise RLIMIT_NPROC'
	end
fi
# What the stop is made of; and every command on the page runs, where two processes have the same name.
begin forks
other=$pid
begin forks
trap 'kill -9 $pid $other 2>/dev/null || true' EXIT
asks 'What is the stop made of?' '65,536 entries; 128 huge pages' '65,[0-9]{3} page-table entries, [0-9]+(\.[0-9]+)? ns each' \
	'huge pages would leave 1[23][0-9]' "$pid"
cp joined screen
passes explain "$pid" --duration-s 1 --tables
cat out screen | tr -s '\n ' ' ' >joined
! grep -qE 'cowlab [a-z]+ situations' joined || fail "expected no command by a name that two have, saw: $(<joined)"
grep -oE "cowlab [a-z]+ $pid( --[a-z-]+( [0-9]+)?)*" joined | sort -u >commands
# tend is among them where the stop is long enough to be shortened.
[[ $(wc -l <commands) -ge 2 ]] || fail "expected some commands on the page, saw: $(<commands)"
while read -r _ verb rest; do
	read -ra words <<<"$rest"
	status=0
	timeout --signal INT 5 "$COWLAB" "$verb" "${words[@]}" >out 2>err </dev/null || status=$?
	[[ $status == 0 || $status == 124 || $status == 130 ]] ||
		wrong "cowlab $verb $rest: expected that it runs, saw: $(seen)"
done <commands
kill -9 "$other"
end

# Two private huge pages of a pool of two: the child's first write is its end.
if [[ $(</proc/sys/vm/nr_hugepages) == 0 ]] && echo 2 >/proc/sys/vm/nr_hugepages; then
	trap '[[ -z $pid ]] || kill -9 $pid 2>/dev/null || true; echo 0 >/proc/sys/vm/nr_hugepages' EXIT
	if [[ $(</proc/sys/vm/nr_hugepages) == 2 ]] && begin hugetlb; then
		asks 'Why do all children die?' 'SIGBUS: the hugetlb pool is empty' 'forked were ended by SIGBUS' \
			'the pool had none left' 'do now raise vm.nr_hugepages' '!copies( expected)? fit'
		end
	fi
	echo 0 >/proc/sys/vm/nr_hugepages
fi
((failed == 0)) || fail "$failed of the above"
