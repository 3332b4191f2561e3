#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# watch: counts forks, copies and ends of programs that know their own, as JSON, text, metrics and on
# a terminal; refuses what cannot be watched; goes on without rights; leaves nothing when it is killed.
#
# alone: what is seen in a second is compared with what was done in it.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

started=()
trap 'for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done' EXIT


# start_forker: tests/lib/forker.py, its pid in $forker; tell WORD waits until it is done.
start_forker() {
	rm -f to from
	mkfifo to from
	python3 "$REPOSITORY/tests/lib/forker.py" <to >from &
	forker=$!
	started+=("$forker")
	exec 5>to 6<from
	read -r -u 6 _
}
tell() {
	echo "$1" >&5
	read -r -u 6 _
}


# has_lines FILE COUNT: until the file has so many lines.
has_lines() {
	wait_for 10 awk -v least="$2" 'END { exit NR < least }' "$1"
}

# is_gone PID: or a zombie.
is_gone() {
	[[ ! -d /proc/$1 || $(cut -d' ' -f3 "/proc/$1/stat" 2>/dev/null) == Z ]]
}

# ended_in_time PID: SIGTERM ends it at once, and in order.
ended_in_time() {
	local began=$SECONDS
	kill "$1"
	wait_for 10 is_gone "$1"
	((SECONDS - began <= 3)) || fail "SIGTERM did not end it in 3 s: $(cat err)"
	wait "$1" || fail "SIGTERM ended it with $?: $(cat err)"
}

# Bad input.
refuses 1 'there is no process 999999999' watch 999999999
refuses 1 'no process is named nobody-has-it' watch nobody-has-it
refuses 1 'not a control group' watch "$PWD"
refuses 1 'kernel thread or a zombie' watch 2
refuses 2 'from 0.1 to 3600' watch 1 --interval-s 0

# Forks, copies and ends as they are.
start_forker
"$COWLAB" watch "$forker" --json --interval-s 0.2 >json 2>err &
watch=$!
started+=("$watch")
has_lines json 2
bpf=true
grep -q 'not available: forks' err && bpf=false
tell fork
sleep 0.7
tell fork
sleep 0.5
tell none
sleep 0.3
tell exec & # nobody answers
sleep 0.5
kill "$forker"
wait "$watch" || fail "watch ended with $?: $(cat err)"
exec 5>&- 6<&-
holds json 'latest.ended' '$documents | all(.format == 1)' \
	'frames | last.own.rss_bytes < 50e6' \
	'latest.last_epoch != null' \
	'frames | map(.groups[0].totals.minor_faults) | ordered'
if $bpf; then
	# Half of 8192 pages, and some of Python's own.
	holds json 'latest.totals | .forks == 2 and .execs == 1 and .exits == 2' \
		'latest.last_epoch.copied_bytes / 4096 | 4096 <= . and . < 4096 + 900' \
		'latest.totals.copied_bytes / 4096 | 8000 <= . and . < 8192 + 1800' \
		'[frames[].processes[] | select(.epoch) | .epoch.regions | length] | max >= 16' \
		'if frames | last.sees.stops then latest.totals.stops.count == 2 else latest.totals.stops == null end'
fi

# Forks of a child that has ended when they are read count, too.
if $bpf; then
	start_forker
	"$COWLAB" watch "$forker" --json --interval-s 0.2 >double 2>err &
	watch=$!
	started+=("$watch")
	has_lines double 2
	for _ in {1..20}; do tell double; done
	sleep 1
	kill "$forker"
	wait "$watch" || fail "watch ended with $?: $(cat err)"
	exec 5>&- 6<&-
	holds double 'frames | last.groups | map(.totals.forks) | add == 40' \
		'frames | last.groups | map(.totals.exits) | add == 41' \
		'frames | last.own | .lost_events == 0 and .lost_processes == 0'
fi

# Without rights: what /proc tells, and why not more.
start_forker
run watch "$forker" --no-bpf --interval-s 0.1 --refreshes 3
is_status 0
says err 'not available: forks.*--no-bpf'
says out "forker \\($forker\\)"
! grep -q forks out || fail "expected nothing of forks that nobody saw: $(cat out)"
run watch "$forker" --no-bpf --json --interval-s 0.1 --refreshes 2
is_status 0
holds out 'latest.totals | all(.forks, .spawns, .execs, .exits, .stops; . == null)' \
	'frames | last.own.lost_events == null'
if [[ $(id -u) == 0 ]] && command -v setpriv >/dev/null; then
	status=0
	setpriv --bounding-set=-all --inh-caps=-all "$COWLAB" watch "$forker" --interval-s 0.1 \
		--refreshes 2 >out 2>err </dev/null || status=$?
	is_status 0
	says err 'needs root, or CAP_BPF and CAP_PERFMON'
	says out "forker \\($forker\\)"
fi

# With the rights that dist/systemd gives it, of another user: everything.
if [[ $(id -u) == 0 ]] && $bpf && command -v setpriv >/dev/null; then
	caps=$(sed -n 's/^AmbientCapabilities=//p' "$REPOSITORY/dist/systemd/cowlab-watch.service")
	caps=$(tr ' ' '\n' <<<"${caps,,}" | sed 's/^cap_/+/' | paste -sd ,)
	[[ $caps == +* ]] || fail "the unit gives no capabilities: '$caps'"
	# Another user cannot look up what is below this one's folders.
	exec 7<"$COWLAB"
	setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --inh-caps="-all,$caps" \
		--ambient-caps="$caps" --bounding-set="-all,$caps" \
		/proc/self/fd/7 watch "$forker" --json --interval-s 0.2 >unit 2>err </dev/null &
	watch=$!
	started+=("$watch")
	exec 7<&-
	has_lines unit 2
	tell fork
	sleep 0.6
	tell none
	sleep 0.5
	kill "$watch"
	wait "$watch" || true # its status is the signal's
	holds unit 'frames | last.sees.events' 'latest.totals.forks == 1' \
		'latest.totals.copied_bytes / 4096 | 4096 <= . and . < 4096 + 900'
fi

# Counting, and a name; killed, it leaves nothing.
"$COWLAB" watch forker --count --json --interval-s 0.2 >counted 2>err &
watch=$!
started+=("$watch")
has_lines counted 2
tell fork
sleep 0.6
if $bpf && grep -q '"counts":true' counted; then
	holds counted 'latest.totals.writes_to_present | 4096 <= . and . < 4096 + 900' \
		'latest.epoch.shared_bytes > 0'
	compgen -G "/proc/$watch/fd/*" >/dev/null
	ls -l /proc/$watch/fd | grep -q bpf || fail "expected BPF descriptors while it watches"
fi
kill -9 "$watch"
wait "$watch" 2>/dev/null || true # its status is the signal's
[[ ! -d /proc/$watch ]] || fail "expected the watch to be gone"
tell none

# Metrics: one format for those who ask for it, the older for others; sums never fall.
scrape() {
	python3 "$REPOSITORY/tests/lib/scrape.py" "$@"
}
"$COWLAB" watch forker --listen 127.0.0.1:0 --interval-s 0.2 >out 2>err &
watch=$!
started+=("$watch")
wait_for 10 grep -q 'metrics at' err
url=$(grep -o 'http://[^ ]*' err)
metrics_come() {
	scrape "$url" '*/*' >metrics
}
wait_for 5 metrics_come
tell fork
sleep 0.6
scrape "$url" 'application/openmetrics-text' >metrics
[[ $(tail -n 1 metrics) == '# EOF' ]] || fail "expected an end: $(tail -n 3 metrics)"
scrape "$url" '*/*' >metrics
if $bpf; then
	grep -qx 'cowlab_forks_total{process="forker"} 1' metrics || fail "one fork: $(cat metrics)"
	grep -qx 'cowlab_watch_lost_processes_total 0' metrics || fail "losses: $(cat metrics)"
fi
grep -q '^cowlab_epoch_copied_bytes{process="forker"} ' metrics || fail "copies: $(cat metrics)"
if command -v promtool >/dev/null; then
	promtool check metrics <metrics || fail "promtool refuses the metrics"
fi
kill "$forker"
wait "$forker" 2>/dev/null || true # its status is the signal's
sleep 0.6
scrape "$url" '*/*' >after
if $bpf; then
	grep -qx 'cowlab_forks_total{process="forker"} 1' after || fail "sums stay: $(cat after)"
fi
grep -qx 'cowlab_processes{process="forker"} 0' after || fail "it has ended: $(cat after)"
# What a client promises or leaves out holds up neither the next one nor the end.
port=${url#*127.0.0.1:} port=${port%/metrics}
exec 9<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /metrics HTTP/1.1\r\nContent-Length: 9000000000000000000\r\n\r\n' >&9
read -r -t 10 -u 9 line || fail "nobody answers who promises a body: $(cat err)"
[[ $line == 'HTTP/1.1 200 OK'* ]] || fail "who promises a body is told $line"
exec 9<&-
if command -v prlimit >/dev/null; then
	# No descriptor is free for a while.
	files=$(prlimit --pid "$watch" --nofile --noheadings --output SOFT)
	prlimit --pid "$watch" --nofile=3:
	exec 9<>"/dev/tcp/127.0.0.1/$port"
	sleep 0.5
	prlimit --pid "$watch" --nofile="$files:"
	exec 9<&-
	scrape "$url" '*/*' >after || fail "it does not answer after a time without descriptors: $(cat err)"
fi
exec 9<>"/dev/tcp/127.0.0.1/$port"
ended_in_time "$watch"
exec 9<&-

# Lines end with their reader.
start_forker
for format in --json ""; do
	# shellcheck disable=SC2086 # none is no word
	timeout 20 "$COWLAB" watch "$forker" $format --interval-s 0.2 2>err | head -n 1 >first ||
		fail "watch $format goes on without a reader, or ended with $?: $(cat err)"
	[[ $(wc -l <first) == 1 ]] || fail "expected a line, saw $(cat first err)"
done
kill "$forker"
exec 5>&- 6<&-

# On a terminal, at several widths; the keys.
if command -v tmux >/dev/null; then
	export TMUX_TMPDIR=$PWD
	start_forker
	for width in 40 80 200; do
		tmux -f /dev/null new-session -d -x $width -y 40 -s t$width \
			"'$COWLAB' watch $forker --interval-s 0.2 2>tmux.err"
	done
	tell fork
	sleep 1
	for width in 40 80 200; do
		tmux capture-pane -p -t t$width >screen
		grep -q "forker ($forker)" screen || fail "width $width: $(cat screen tmux.err)"
		grep -q 'Children alive (1)' screen || fail "width $width: $(cat screen)"
		tmux send-keys -t t$width ' '
	done
	sleep 0.4
	tmux capture-pane -p -t t80 | grep -q PAUSED || fail "expected a pause"
	for width in 40 80 200; do tmux send-keys -t t$width q; done
	# It ends with its last session, as each of them has been told to quit.
	has_no_session() {
		! tmux has-session
	}
	wait_for 5 has_no_session
	kill "$forker"
fi

# A server that saves under load, by its own account: the longer comparison is scripts/watch-redis.
if command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null; then
	"$REPOSITORY/scripts/watch-redis" --cowlab "$COWLAB" --records 60000 --snapshots 2 --loose \
		>redis.out 2>&1 || fail "redis: $(tail -n 20 redis.out)"
fi
