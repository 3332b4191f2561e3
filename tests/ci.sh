#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# .ci/run: a commit is tested in CI's own checkout, of which only target stays; anything else where it is. `make test` is a
# stand-in that tells its folder.
# beside: it runs git alone
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

export XDG_CACHE_HOME=$PWD/cache
own=$XDG_CACHE_HOME/cowlab/ci
mkdir -p bin clone/.ci
cat >bin/make <<'END'
#!/bin/sh
echo "in $PWD: $(cat word)"
echo "test result: ${RESULT:-ok. 1 passed; 0 failed;}"
END
chmod +x bin/make
cp "$REPOSITORY/.ci/run" clone/.ci
git init -q clone
# commit WORD: the clone's next, with a library of that version.
commit() {
	echo "$1" | tee clone/word >clone/Cargo.lock
	git -C clone add .
	git -C clone -c user.name=test -c user.email=test@example.org -c commit.gpgsign=false commit -qm "$1"
}
# ci FOLDER WORD: .ci/run in the clone tests that word in that folder.
ci() {
	called='.ci/run'
	status=0
	PATH=$PWD/bin:$PATH clone/.ci/run >out 2>err || status=$?
	is_status 0
	says out "^in $1: $2$"
	[[ $(tail -n 1 out) == '1 passed, 0 failed' ]] || fail "expected the count at last, saw: $(<out)"
}

commit first
ci "$own" first
touch "$own/left" "$own/target/compiled"
ci "$own" first
[[ ! -e $own/left && -e $own/target/compiled ]] || fail "expected target alone to stay, saw: $(ls -A "$own" "$own/target")"
# Other libraries.
commit second
ci "$own" second
[[ ! -e $own/target/compiled ]] || fail 'expected nothing that was compiled with other libraries'

exec 8>"$own.lock"
flock 8
ci "$PWD/clone" second
says out "not in $own: it is in use"
exec 8>&-
echo third >clone/word
ci "$PWD/clone" third
commit third
ci "$own" third

# What fails is a failure.
called='.ci/run of a failed test'
status=0
RESULT='FAILED. 1 passed; 1 failed;' PATH=$PWD/bin:$PATH clone/.ci/run >out 2>err || status=$?
is_status 1
says out '^1 passed, 1 failed$'
