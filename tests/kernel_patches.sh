#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The patches in kernel/ are what kernel engineers expect: git am takes both series on the files of their release, and
# checkpatch, the kernel's own, finds no error in upstream's (in make test-kernel-long, nor in research's).
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

export COWLAB_KERNEL=$REPOSITORY/kernel GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=cowlab GIT_AUTHOR_EMAIL=cowlab@example.org
export GIT_COMMITTER_NAME=cowlab GIT_COMMITTER_EMAIL=cowlab@example.org

passes kernel build --json --variant plain
source=$(jq -r '.summary.kernels[0] | (.image | sub("/kernel/plain-[^/]*/bzImage$"; "/source/")) + .source.id + "/tree"' out)
checked=("$COWLAB_KERNEL"/upstream/6.12/000[1-9]-*)
[[ -z ${COWLAB_TEST_LONG:-} ]] || checked+=("$COWLAB_KERNEL"/research/000[1-9]-*)

# applies TREE PATCH...: to what the patches touch of a clean tree.
applies() {
	rm -rf linux
	git init --quiet linux
	git apply --numstat "${@:2}" | cut -f 3 | sort -u >touched
	# What the patches add is not there: git am and diff below fail if anything else is missing.
	(cd "$1" && xargs ls -d 2>/dev/null) <touched >there || true
	(cd "$1" && xargs cp --parents --target-directory="$OLDPWD/linux") <there
	git -C linux add --force . && git -C linux commit --quiet --message clean
	git -C linux am --quiet --no-3way "${@:2}" || fail "expected git am to apply ${*:2}"
	[[ $(git -C linux rev-list --count HEAD) == "$#" ]] || fail "expected a commit a patch, saw: $(git -C linux log --oneline)"
	# What is new is there, and nothing else.
	diff <(git -C linux ls-files) touched
}
applies "$source" "$COWLAB_KERNEL"/upstream/6.12/000[1-9]-* "$COWLAB_KERNEL"/research/000[1-9]-*
# Another release's, where its source is in the cache.
newer=$(cat "${source%/*/tree}/current-7.3" 2>/dev/null || true)
[[ -z $newer ]] || applies "${source%/*/tree}/$newer/tree" "$COWLAB_KERNEL"/upstream/7.3/000[1-9]-*

# Whoever mails them signs them off. It keeps a list of names where it runs, and fails for warnings, too: only errors count,
# and each patch must have its total.
(cd linux && perl "$source/scripts/checkpatch.pl" --strict --terse --no-color --no-signoff --root "$source" \
	"${checked[@]}") >said 2>/dev/null || true
! grep ': ERROR: ' said || fail 'checkpatch has errors'
[[ $(grep -c '^total: ' said) == "${#checked[@]}" ]] || fail "checkpatch said of ${#checked[@]} patches: $(<said)"
