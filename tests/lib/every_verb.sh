#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# every_verb.sh BUILT: as root, on the kernel that runs here, what each verb makes of programs whose pages are known
# (programs_of_verbs built them into BUILT). A line each: the verb; "works", "lacks" or "wrong"; and what it counted or
# said. Tabs are between them.
set -uo pipefail

: "${COWLAB:?is the program under test}" "${REPOSITORY:?is the folder with tests/lib}"
profile=$REPOSITORY/tests/fixtures/profile.json
cd "$(mktemp -d)" || exit 1
echo madvise >/sys/kernel/mm/transparent_hugepage/enabled
PAGES=2000 STEP=4 WRITTEN=500
built=$1
truth=$built/truth planted=$built/planted

# verdict VERB COMMAND...: COMMAND says what it counted, and whether that is right. Nothing counted, and a reason: it
# lacks something here.
verdict() {
	local verb=$1 said is=works
	shift
	said=$("$@" 2>err) || is=wrong
	if [[ $is == wrong ]]; then
		[[ ${said:-null} != null ]] || ! grep -q '^cowlab: ' err || is=lacks
		said="$said $({ grep '^cowlab: ' err || grep . err; } | tail -n 1)"
	fi
	printf '%s\t%s\t%s\n' "$verb" $is "$(tr -s '\n\t ' ' ' <<<"$said" | sed 's/^ //; s/ $//; s/null //; s/cowlab: //')"
}

# counted EXPRESSION LOW HIGH: of the document on standard input; it is in the output, and within these.
counted() {
	jq -r --argjson low "$2" --argjson high "$3" --slurp '. as $documents | $documents[0] as $d |
		('"$1"') as $is | ($is | tostring), (if $is == null or $is < $low or $is > $high then error("not from \($low) to \($high)") else empty end)'
}

# running PROGRAM...: in $pid, until `stop`. It reads what is written to 9.
mkfifo told
exec 9<>told
running() {
	"$@" <&9 >/dev/null 2>&1 &
	pid=$!
	sleep 1
}
stop() {
	kill -9 "$pid"
	wait "$pid" || :
} 2>/dev/null

copies='[$d.samples[] | select(.metric == "cow_pages" and .params.span == "fork-to-exit" and .params.writer == "child"
	and .params.mapping == "anonymous" and .params.region == null)] | map(.value) | add'
footprint() {
	"$COWLAB" --json footprint "$@" -- "$truth" child $PAGES $STEP | counted "$copies" $((WRITTEN - 3)) $((WRITTEN + 3))
}
by_forks() {
	"$COWLAB" --json footprint "$pid" --forks 1 | counted "${copies//child/parent}" $((WRITTEN - 3)) $((WRITTEN + 20))
}
blame() {
	"$COWLAB" --json blame --every 1 -- "$planted" 100 |
		counted '[$d.summary.places[] | select(.functions[0] | test("^fifth"))] | map(.pages) | add' 490 510
}
watch() {
	"$COWLAB" watch "$pid" --json --interval-s 0.5 >frames 2>watched &
	local watch=$!
	sleep 12
	kill $watch
	wait $watch || return
	counted '$documents | last | .summary.processes[0].last_epoch.copied_bytes / 4096' 500 530 <frames
}
stops() {
	grep stop watched >&2
	counted '$documents | last | .summary.processes[0].totals.stops.count' 2 20 <frames
}
sharing() {
	"$COWLAB" --json sharing every_verb | counted '[$d.summary.workers[].copied_bytes] | max / 4096' 4950 5100
}
tend() {
	local tended=$pid
	"$COWLAB" tend "$tended" --once --profile "$profile" >tended || return
	# Whether it pays depends on what a huge page costs where an emulator runs it.
	if grep -q ': 0 regions were collapsed' tended; then
		sed -n '/that do not pay/s/^/cowlab: /p' tended >&2
		return 1
	fi
	awk '$1 == "AnonHugePages:" { print $2 / 2048 }' "/proc/$tended/smaps_rollup" | counted '$documents[0]' 3 40
}
explain() {
	"$COWLAB" --json explain "$pid" >explained || return
	jq -r '.missing[] | "cowlab: " + .reason' explained >&2
	counted '$d.summary.seen_forks.forks' 1 12 <explained
}
overview() { "$COWLAB" --json | counted '[$d.summary | .. | objects | select(.name? == "every_verb")] | length' 1 1; }
quick() { "$COWLAB" --json explain "$pid" --quick | counted '[$d.summary | .. | .private_bytes? // empty] | first / 4096' 20000 20100; }
bench() {
	"$COWLAB" --json bench fork-sweep --rounds 1 --forks 3 --heap-bytes 1MiB --write-fraction 0.5 --writer child --threads 0 |
		counted '[$d.samples[] | select(.metric == "fork_ns")] | length' 1 1000
}

printf 'kernel\tworks\t%s\n' "$(uname -r)"
verdict 'bench fork-sweep' bench
for method in faults exclusive snapshot; do
	verdict "footprint --method $method" footprint --method $method
done
verdict footprint footprint
verdict blame blame
running "$truth" forks $PAGES $STEP 1000
verdict 'footprint PID --forks' by_forks
verdict 'watch: copies' watch
verdict 'watch: stops' stops
verdict explain explain
stop
echo 'fork 5000 0' >&9
running "$built/family" every_verb "$truth"
sleep 4
verdict overview overview
verdict 'explain --quick' quick
verdict sharing sharing
stop
# Not what is in PATH, which may be a script that takes its time.
running /usr/bin/python3 -c "
import mmap, time
memory = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
memory.write(b'x' * len(memory))
memory.madvise(mmap.MADV_HUGEPAGE)
open('ready', 'w')
time.sleep(600)"
wait_for 30 test -e ready
verdict tend tend
stop
