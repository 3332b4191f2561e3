#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# advise: of a stored machine profile, so that its figures are known; of a footprint made here; and
# tried. doctor: the copies expected.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

profile=$REPOSITORY/tests/fixtures/profile.json

# A program with 16 MiB, of which it writes a quarter beside a child.
cat >writer.py <<'END'
import mmap, os, sys, time
PAGES = 4096
m = mmap.mmap(-1, PAGES * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for page in range(PAGES):
    m[page * 4096] = 1
if len(sys.argv) > 1:
    print(os.getpid(), flush=True)
    time.sleep(60)
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
for page in range(0, PAGES, 4):
    m[page * 4096] = 2
os.close(writing)
os.waitpid(pid, 0)
END

# Of a live process: a share of its memory that is said to be written.
python3 writer.py wait >pid &
waiting=$!
trap 'kill $waiting 2>/dev/null || true' EXIT
for _ in {1..100}; do [[ ! -s pid ]] || break; sleep 0.1; done
passes --json advise "$(<pid)" --write-fraction 0.25 --profile "$profile"
json "d['summary']['sentence'].startswith('A fork stops python3')" \
	"4096 <= d['summary']['application']['pages'] < 8192" \
	"d['summary']['advice'][0]['choice'] == 'as_it_is'" \
	"{'as-it-is', 'thp', 'hugetlb', 'freeze', 'posix-spawn'} <= {r['params']['choice'] for r in rows}" \
	"all(one(choice=c, metric=m, figure='low') <= one(choice=c, metric=m, figure='predicted')
	     <= one(choice=c, metric=m, figure='high')
	     for c in {r['params']['choice'] for r in rows} for m in ('stop_ns', 'writes_ns', 'extra_bytes'))" \
	"one(choice='posix-spawn', metric='writes_ns', figure='predicted') == 0" \
	"all(m['reason'] for m in d['missing'])" \
	"not any(r['params']['choice'].startswith('dontfork:') for r in rows)"
# What tend would make of this heap is what tend itself says of it.
if [[ $(id -u) == 0 ]]; then
	passes --json advise "$(<pid)" --writer child --profile "$profile"
	stop=$(python3 -c 'import json; print(next(r["value"] for r in json.load(open("out"))["samples"]
		if r["metric"] == "stop_ns" and r["params"] == {"choice": "tend", "figure": "predicted"}))')
	passes --json tend "$(<pid)" --dry-run --profile "$profile"
	json "abs(one(metric='fork_ns', state='after') / $stop - 1) < 0.02, (values(metric='fork_ns', state='after'), $stop)"
fi
# With another running thread the writes are dearer, and letting it sleep is a choice.
passes --json advise "$(<pid)" --write-fraction 0.25 --threads 1 --profile "$profile"
json "one(choice='fewer-threads', metric='writes_ns', figure='predicted')
	< one(choice='as-it-is', metric='writes_ns', figure='predicted')"
passes doctor "$(<pid)"
says out 'The next fork of python3 .* will not be refused'
passes --json advise "$(<pid)" --profile "$profile" --verify --rounds 2 --output of_pid
json "values(choice='posix-spawn', metric='copied_bytes') == [], 'what a spawned child writes is not counted'" \
	"len(values(choice='posix-spawn', metric='stop_ns', figure='measured')) == 2"
kill $waiting
wait $waiting || true # it was killed above

# Of a footprint.
run footprint --output runs --method exclusive -- python3 writer.py
is_status 0
footprint=$(only_run runs)
passes --json advise "$footprint" --profile "$profile" --program python3
json "1024 <= d['summary']['application']['written'] < 1400, d['summary']['application']['written']" \
	"d['summary']['application']['pages'] > 4096" \
	"d['summary']['application']['regions']" \
	"one(choice='tend', metric='stop_ns', figure='predicted') > 0" \
	"one(choice='policy:ccow:80', metric='writes_ns', figure='predicted') > 0" \
	"not any(r['params']['choice'].startswith('dontfork:') for r in rows), 'its child would be killed'" \
	"not any(r['params']['choice'] == 'posix-spawn' for r in rows)"
passes advise "$footprint" --profile "$profile"
says out 'A fork stops python3 for'
says out 'works from outside'

# predict of the same.
passes --json predict "$footprint" --profile "$profile" --page-size-bytes 4096,2MiB
json "len(values(metric='fork_ns')) == 2" \
	"1024 <= float(rows[0]['params']['write_fraction']) * float(rows[0]['params']['pages']) < 1400"
refuses 2 'cannot be used with' predict "$footprint" --size-bytes 20KiB --profile "$profile"

# Tried: the figures are measured here, so only counts are asserted.
passes --json advise "$footprint" --output tried --profile "$profile" --verify --rounds 2
json "len(values(choice='as-it-is', metric='stop_ns', figure='measured')) == 2" \
	"all(0.98 * e <= v <= 1.15 * e for e in [d['summary']['application']['written'] * 4096]
	     for v in values(choice='as-it-is', metric='copied_bytes', figure='measured'))" \
	"any('trial of posix-spawn' == m['metric'] for m in d['missing'])" \
	"any('trial of hugetlb' == m['metric'] for m in d['missing'])" \
	"d['run']['name'] == 'advise'"
says "$(only_run tried)/report.html" 'What a fork costs python3'
no_probes_left

# doctor knows what to expect of a process whose footprint it has.
python3 writer.py wait >again &
waiting=$!
for _ in {1..100}; do [[ ! -s again ]] || break; sleep 0.1; done
passes --json doctor "$(<again)" --footprint "$footprint"
json "1024 * 4096 <= d['summary']['fork']['expected_bytes'] <= d['summary']['fork']['worst_case_bytes']" \
	"any('copies expected' in f['what'] for f in d['summary']['fork']['findings'])" \
	"d['summary']['fork']['sentence']"
kill $waiting
wait $waiting || true # it was killed above

# Redis: its last snapshot, its replicas.
if command -v redis-server >/dev/null; then
	redis-server --port 0 --unixsocket "$PWD/socket" --dir "$PWD" --save '' --daemonize no >/dev/null &
	server=$!
	trap 'kill -9 $server 2>/dev/null || true' EXIT
	for _ in {1..100}; do [[ ! -S socket ]] || break; sleep 0.1; done
	passes --json doctor --redis "unix://$PWD/socket"
	json "any('full synchronisation' in f['what'] for f in d['summary']['fork']['findings'])" \
		"'redis-server ($server)' in d['summary']['fork']['sentence']"
	kill -9 $server
fi
refuses 1 'no Redis answers at unix:///nowhere' doctor --redis unix:///nowhere

# What makes no sense.
refuses 2 'RUN' advise --profile "$profile"
refuses 2 "unexpected argument '1'" advise "$footprint" 1 --profile "$profile"
refuses 1 'no process 0' advise 0 --profile "$profile"
refuses 1 'nowhere is not a run' advise ./nowhere --profile "$profile"
refuses 1 'holds no footprint' advise "$(only_run tried)" --profile "$profile"
refuses 1 'no program vi: it has' advise "$footprint" --program vi --profile "$profile"
refuses 1 'machine profile' advise "$footprint" --profile empty
sed 's/"page_size_bytes": 4096/"page_size_bytes": 16384/' "$profile" >large.json
refuses 1 'same base page' advise "$footprint" --profile large.json
