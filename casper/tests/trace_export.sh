#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# trace export: what others decode from it is what the report counts.
# beside: it measures nothing
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"
COWLAB=$CASPER_TRACE

# A program with recursion, a longjmp, threads, a fork, events, and functions that never return.
make -s -C "$REPOSITORY/casper/libcasper" BUILD="$PWD/lib" "$PWD/lib/libcasper.a" >&2
cc -O1 -g -D_GNU_SOURCE -finstrument-functions -I"$REPOSITORY/casper/libcasper/include" -o program \
	"$REPOSITORY/casper/tests/programs/program.c" lib/libcasper.a -pthread
passes record --output t.casper -- ./program 200

passes --json export t.casper -o trace.json.gz
cp out exported.json
passes --json report t.casper
cp out reported.json
python3 "$REPOSITORY/casper/tests/lib/check_export.py" || fail "see above"

# Only its owner may read it, and nothing is replaced.
[[ $(stat -c %a trace.json.gz) == 600 ]] || fail "expected mode 600, saw: $(ls -l trace.json.gz)"
refuses 1 "trace.json.gz exists: give another -o" export t.casper -o trace.json.gz

# Nothing is left of what failed: no trace, a damaged one, no folder, a full disk.
echo nonsense >nonsense
refuses 1 'nonsense is not a CASPER trace' export nonsense -o none
refuses 1 'there is no nowhere: .casper-trace record' export nowhere -o none
refuses 1 'cannot write the export no/such/folder' export t.casper -o no/such/folder
refuses 2 'out' export t.casper
[[ ! -e none ]] || fail "expected nothing, saw: $(ls -A)"
if [[ $(id -u) == 0 ]] && unshare -m true 2>/dev/null; then
	mkdir disk
	cat >full_disk <<'END'
mount -t tmpfs -o size=16k none disk
status=0
"$COWLAB" export t.casper -o disk/export 2>err || status=$?
echo "$status, left: $(ls -A disk)"
END
	unshare -m bash full_disk >out
	[[ $(cat out) == "1, left: " ]] || fail "a full disk: expected errors and nothing left, saw: $(cat out err)"
	grep -q 'No space left' err || fail "a full disk: expected that to be said, saw: $(cat err)"
else
	echo "a full disk was not tried: mounting one needs root"
fi
[[ -z $(find . -name '.unfinished-*') ]] || fail "left: $(find . -name '.unfinished-*')"
