#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# trace export: what others decode from it is what the report counts.
# beside: it measures nothing
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

python=$REPOSITORY/target/tools/venv-trace/bin/python
[[ -e $REPOSITORY/target/tools/venv-trace/ready ]] || skip "the decoders are not there: run scripts/install trace-export"

# A program with recursion, a longjmp, threads, a fork, events, and functions that never return.
make -s -C "$REPOSITORY/casper/libcasper" BUILD="$PWD/lib" "$PWD/lib/libcasper.a" >&2
cc -O1 -g -D_GNU_SOURCE -finstrument-functions -I"$REPOSITORY/casper/libcasper/include" -o program \
	"$REPOSITORY/casper/tests/programs/program.c" lib/libcasper.a -pthread
passes trace record --output t.casper -- ./program 200

passes --json trace export t.casper -o t.perfetto
cp out exported.json
passes --json trace report t.casper
cp out reported.json
"$python" "$REPOSITORY/casper/tests/lib/decode_perfetto.py" t.perfetto >decoded.json
"$python" "$REPOSITORY/casper/tests/lib/check_perfetto.py" || fail "see above"

# The same as tables, read by Python's csv and by DuckDB.
passes trace export t.casper --format csv -o t.csv
passes trace export t.casper --format parquet -o t.parquet
"$python" "$REPOSITORY/casper/tests/lib/check_tables.py" || fail "see above"

# Only its owner may read it, and nothing is replaced.
for file in t.perfetto t.csv/calls.csv t.parquet/calls.parquet; do
	[[ $(stat -c %a "$file") == 600 ]] || fail "expected mode 600, saw: $(ls -l "$file")"
done
for format in perfetto csv parquet; do
	refuses 1 "t.$format exists: give another -o" trace export t.casper --format $format -o t.$format
done

# Nothing is left of what failed: no trace, a damaged one, no folder, a full disk.
echo nonsense >nonsense
refuses 1 'nonsense is not a CASPER trace' trace export nonsense -o none
refuses 1 'there is no nowhere: .cowlab trace record' trace export nowhere -o none
refuses 1 'cannot write the export no/such/folder' trace export t.casper -o no/such/folder
refuses 2 'out' trace export t.casper
[[ ! -e none ]] || fail "expected nothing, saw: $(ls -A)"
if [[ $(id -u) == 0 ]] && unshare -m true 2>/dev/null; then
	mkdir disk
	cat >full_disk <<'END'
mount -t tmpfs -o size=16k none disk
for format in perfetto csv parquet; do
	status=0
	"$COWLAB" trace export t.casper --format $format -o disk/export 2>>err || status=$?
	echo "$format: $status, left: $(ls -A disk)"
done
END
	: >err
	unshare -m bash full_disk >out
	[[ $(cat out) == "perfetto: 1, left: 
csv: 1, left: 
parquet: 1, left: " ]] || fail "a full disk: expected errors and nothing left, saw: $(cat out err)"
	[[ $(grep -c 'No space left' err) == 3 ]] || fail "a full disk: expected that to be said, saw: $(cat err)"
else
	echo "a full disk was not tried: mounting one needs root"
fi
[[ -z $(find . -name '.unfinished-*') ]] || fail "left: $(find . -name '.unfinished-*')"
