#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A run: passwords of its command line are in none of its files, it is its owner's alone, it is on the disk before
# it has its name, and the copy for others names neither the host nor the command.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# Where everybody may read what is made.
umask 022
passes footprint --output runs -- sh -c "true & wait" redis://me:pa55w0rd1@h --requirepass pa55w0rd2 --auth=pa55w0rd3
run=$(echo runs/2*)
grep -q 'redis://…@h' "$run/run.json" || fail "expected the command line: $(cat "$run/run.json")"
! grep -rl pa55w0rd runs || fail "a password is in the files above"
[[ $(stat -c %a "$run") == 700 ]] || fail "others may read the run: $(stat "$run")"

passes report "$run" --share given
[[ $(stat -c %a given) == 755 && -r given/report.html ]] || fail "others may not read the copy: $(ls -l given)"
passes report given --json
json 'd.run.command == []' 'd.run.environments[0].host == "withheld"' 'rows != []'
refuses 1 'is there already: choose a new folder' report "$run" --share given

command -v strace >/dev/null || skip "all but the order of syncing passed: that needs strace"
strace -f -y -qq -e trace=fsync,rename,renameat,renameat2 -o trace \
	"$COWLAB" bench command --rounds 1 --output synced -- true >out 2>err || fail "$(cat err)"
# Files, the folders that hold them, the name, and the folder that holds that.
line() {
	grep -nE -- "$1" trace | tail -n 1 | cut -d: -f1
}
last_file=$(line 'fsync\(.*/\.unfinished-[^/>]*/.*\.part>')
tables=$(line 'fsync\(.*/\.unfinished-[^/>]*/tables>')
folder=$(line 'fsync\(.*/\.unfinished-[^/>]*>')
renamed=$(line 'rename.*/\.unfinished-[^/"]*", ')
parent=$(line 'fsync\(.*/synced>')
((last_file < tables && tables < folder && folder < renamed && renamed < parent)) ||
	fail "files $last_file, tables $tables, folder $folder, name $renamed, parent $parent: $(cat trace)"
