#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# bench redis: every update is served, by the server's own count; snapshots are taken; a server that
# is absent, dies or finds its port taken is one clear error; nothing is left, running or on disk.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# The servers' folders are made here.
mkdir tmp
export TMPDIR=$PWD/tmp

# Servers of this test that run: their pids. Redis writes its title over its environment, so they are
# known by their folder.
our_servers() {
	local cwd
	for cwd in /proc/[0-9]*/cwd; do
		[[ $(readlink "$cwd" 2>/dev/null) != "$TMPDIR"/* ]] || basename "${cwd%/cwd}"
	done
}

nothing_left() {
	[[ -z $(our_servers) ]] || fail "a redis-server is left: $(our_servers)"
	[[ -z $(ls -A tmp) ]] || fail "expected nothing in TMPDIR, saw: $(ls -AR tmp)"
}

# Without a server: how to get it.
printf '#!/bin/bash\nPATH=/nonexistent exec "%s" "$@"\n' "$COWLAB" >bare
chmod +x bare
COWLAB=$PWD/bare refuses 1 'not installed.*apt-get install redis-server' bench redis
nothing_kept runs
command -v redis-server >/dev/null || skip "needs redis-server: scripts/install redis"

refuses 2 'share above 0' bench redis --load 1.5
refuses 2 'two records' bench redis --size-bytes 1KiB
refuses 1 'largest heap that fits' bench redis --size-bytes 1TiB
nothing_kept runs

small=(bench redis --size-bytes 8MiB --rounds 1)
passes --json "${small[@]}" --turnovers 14 --snapshots 2 --load 0.6
json 'values("served_updates") == values("updates") and (values("updates") | length == 5)' \
	'values("records")[0] as $records | values("updates") | all(. == $records * 14)' \
	'pick({metric: "updates"}) | map([.params.load, .params.snapshots]) | sort == [["0.6", "bgsave"],
		["0.6", "none"], ["closed", "aof-rewrite"], ["closed", "bgsave"], ["closed", "none"]]' \
	'values("fork_ns"; {snapshots: "none"}) == []' \
	'values("fork_ns") + values("cow_bytes") | all(. > 0)' \
	'(values("fork_ns") | length == 3) and (values("snapshots") | all(. == 2))' \
	'all("closed", "0.6"; quantiles("latency_ns"; {part: "all", load: ., snapshots: "bgsave"}) | ordered)' \
	'{load: "0.6", snapshots: "none"} as $cell |
		one("throughput_per_s"; $cell) < 1.05 * one("intended_per_s"; $cell)' \
	'values("used_bytes")[0] > 8e6'
nothing_left
rm -r runs

# Requests of several updates, of which the last has fewer.
passes --json "${small[@]}" --turnovers 40 --snapshots 1 --load 1 --set pipeline=7 --clients 3
json 'values("served_updates") == values("updates") and (values("updates") | length == 5)' \
	'values("records")[0] as $records | values("updates") | all(. == $records * 40 and . % 7 != 0)'
rm -r runs

# In a guest: what the kernel counted in the server itself, and its report. In make test kernel_ccow.sh asks that.
if [[ -n ${COWLAB_TEST_LONG:-} ]]; then
	COWLAB_KERNEL=$REPOSITORY/kernel run --json bench --kernel patched --guest memory=1GiB,accelerator=tcg redis \
		--policy off,next:16 --size-bytes 2MiB --turnovers 4 --snapshots 1 --load 1 --rounds 1
	is_status 0
	json 'd.run.environments | distinct("accelerator") == ["tcg"]' \
		'(values("updates") | length == 2 * 5) and values("served_updates") == values("updates")' \
		'values("precopy_pages"; {policy: "off"}) | all(. == 0)' \
		'all("cow_faults", "precopy_pages", "fork_ns";
			one(.; {policy: "next:16", load: "closed", snapshots: "bgsave"}) > 0)' \
		'one("cow_faults"; {policy: "off", load: "closed", snapshots: "bgsave"}) >
			one("cow_faults"; {policy: "off", load: "closed", snapshots: "none"})'
	says "$(only_run runs)/report.html" 'Emulated \(TCG\)'
	rm -r runs
fi

# A port that somebody has.
python3 "$REPOSITORY/tests/lib/peer.py" silent >port &
holder=$!
wait_for 10 test -s port
refuses 1 "port $(<port) cannot be had" "${small[@]}" --set "port=$(<port)"
kill $holder
wait $holder || true # its status is that of the signal above
nothing_left
nothing_kept runs

# The server dies in the middle, and this program is stopped in the middle.
for how in server cowlab; do
	"$COWLAB" bench redis --size-bytes 32MiB --turnovers 200 --rounds 1 >out 2>err </dev/null &
	run=$!
	trap 'kill -9 "$run" 2>/dev/null || true' EXIT
	wait_for 10 some our_servers
	sleep 1
	wait_for 10 some our_servers
	if [[ $how == server ]]; then kill -9 "$(our_servers | head -n 1)"; else kill -INT $run; fi
	status=0
	wait $run || status=$?
	no_panic
	if [[ $how == server ]]; then
		is_status 1
		says err 'redis-server ended: signal: 9 .*out of memory'
	else
		is_status 130
	fi
	nothing_left
	nothing_kept runs
done
