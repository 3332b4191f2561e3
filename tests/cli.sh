#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The command line as a whole: help, version, completions, man pages, wrong usage, closed outputs.
# beside: it measures nothing
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

# verbs_of WORD...: the verbs that the help of these words lists.
verbs_of() {
	"$COWLAB" "$@" --help | awk '/^(Commands|Measurements):/ { on = 1; next } /^$/ { on = 0 }
		on && /^  [a-z]/ && $1 != "help" { print $1 }'
}

passes --version
says out '^cowlab [0-9]+\.[0-9]+\.[0-9]+$'
COLUMNS=80 passes --help
[[ $(wc -l <out) -le 24 ]] || fail "expected one screen of 24 lines, saw $(wc -l <out): $(<out)"
mapfile -t verbs < <(verbs_of)
# The list is the program's own; what the pages name as "cowlab VERB" is in it.
while read -r verb; do
	[[ " ${verbs[*]} " == *" $verb "* ]] || fail "README.md or docs/ has $verb, --help has ${verbs[*]}"
done < <(grep -oh '`cowlab [a-z][a-z]*' "$REPOSITORY"/README.md "$REPOSITORY"/docs/{,tutorials/,how-to/,reference/,explanation/}*.md | sed 's/.*cowlab //' | sort -u)
all=()
for verb in "${verbs[@]}"; do
	all+=("$verb")
	mapfile -t inner < <(verbs_of "$verb")
	for one in "${inner[@]}"; do all+=("$verb $one"); done
done
((${#all[@]} > 20)) || fail "expected more than 20 verbs, saw ${#all[@]}: ${all[*]}"

# Each says what it is, has --json, and refuses a flag that it does not know by its name.
passes man --output pages
for verb in "${all[@]}"; do
	read -ra words <<<"$verb"
	for flag in --help -h; do
		passes "${words[@]}" $flag
		says out "^Usage: cowlab $verb"
		says out '--json'
	done
	refuses 2 "'--spoon'" "${words[@]}" --spoon
	page=pages/cowlab-${verb// /-}.1
	[[ -s $page ]] || fail "expected a man page of $verb, saw: $(ls pages)"
	grep -q '^\.TH' "$page" || fail "$page is no man page"
done
# A destination is --output: no other flag's value is a file or folder that is written.
for verb in "${all[@]}"; do
	read -ra words <<<"$verb"
	! "$COWLAB" "${words[@]}" --help | grep -E -- '--(file|out|output-dir|to|record|metrics-file|pid|kernel-dir|cache)\b' |
		grep -v -- '--file <GLOB>' || fail "$verb has a name of before"
done
passes --json completions bash
json 'd.format == 1 and d.summary.shell == "bash" and rows == [] and d.missing == []'

for shell in bash zsh fish; do
	passes completions "$shell"
	says out 'fork-sweep'
done
bash -n <("$COWLAB" completions bash) || fail "bash cannot read its completions"
refuses 2 'possible values' completions tcsh

# man(1) shows each page, and has nothing to say about it.
for page in pages/*.1; do
	man --warnings --encoding=UTF-8 --local-file "$page" >shown 2>warnings || fail "man cannot show $page: $(cat warnings)"
	[[ -s shown && ! -s warnings ]] || fail "$page: $(cat warnings)"
done

# help is --help: of all, and of a verb.
COLUMNS=80 passes --help
cp out whole
COLUMNS=80 passes help
cmp -s out whole || fail "expected help to print what --help does, saw: $(diff whole out)"
passes help kernel build
says out '^Usage: cowlab kernel build'
refuses 2 "unrecognized subcommand 'spoon'" help spoon

[[ -s pages/cowlab.1 ]] || fail "expected cowlab.1, saw: $(ls pages)"
echo text >file
refuses 1 'file/pages' man --output file/pages

# Wrong usage: status 2, and what is known.
refuses 2 "unrecognized subcommand 'spoon'" spoon
refuses 2 "unrecognized subcommand 'spoon'" bench spoon
refuses 2 "unexpected argument '--spoon'" doctor --spoon
refuses 2 '--seed' --seed minus doctor
refuses 2 'cannot be used with' study --quick --full

# A reader that goes away is not an error of cowlab's, and an output that is full is one.
for verb in doctor --help 'completions bash' '--json doctor'; do
	called="cowlab $verb"
	# shellcheck disable=SC2086 # Several words on purpose.
	"$COWLAB" $verb 2>err | true
	status=${PIPESTATUS[0]}
	: >out
	no_panic
	[[ $status == 0 || $status == 141 ]] || fail "$called | true: saw: $(seen)"
done
"$COWLAB" --json doctor 2>err | head -n 1 >out
says out '^\{$'
called='cowlab doctor >/dev/full'
status=0
"$COWLAB" doctor >/dev/full 2>err || status=$?
no_panic
is_status 1
says err 'standard output.*No space left on device|No space left on device.*standard output'

# Where messages go may be full or gone as well: the exit status still tells.
called='cowlab predict 2>/dev/full'
status=0
"$COWLAB" predict --profile nowhere 20KiB >out 2>/dev/full || status=$?
: >err
is_status 1
called='cowlab predict 2>&-'
status=0
"$COWLAB" predict --profile nowhere 20KiB >out 2>&- || status=$?
is_status 1
