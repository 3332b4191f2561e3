#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The service units: systemd takes them, rates them at 2.5 of 10 or less, and their filters of system calls
# admit what watch and tend do, and neither reading nor writing another process's memory.
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

command -v systemd-analyze >/dev/null || skip "needs systemd-analyze (of the package systemd)"
command -v strace >/dev/null || skip "needs strace"
[[ $(id -u) == 0 ]] || skip "needs root: what is called depends on rights"

started=()
trap 'for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done' EXIT
sleep 300 &
target=$!
started+=("$target")
becomes "$target" sleep

for unit in cowlab-watch cowlab-tend; do
	sed "s,/usr/bin/cowlab,$COWLAB," "$REPOSITORY/dist/systemd/$unit.service" >"$unit.service"
	systemd-analyze --man=no verify "./$unit.service" >verified 2>&1 || fail "$unit: $(cat verified)"
	! grep -q "$unit" verified || fail "$unit: $(cat verified)"
	systemd-analyze --no-pager security --offline=true --threshold=25 "./$unit.service" >rated 2>&1 ||
		fail "$unit is rated worse than 2.5: $(tail -n 1 rated; grep ✗ rated)"
	tail -n 1 rated
done

# The manifest: beside what it asks for stands why, and Prometheus alone reaches it.
manifest=$REPOSITORY/dist/kubernetes/daemonset.yaml
for asked in 'hostPID: true' 'runAsUser: 0' 'add: .*SYS_PTRACE' appArmorProfile: seLinuxOptions:; do
	grep -B 1 -E "^ *$asked" "$manifest" | head -n 1 | grep -q '^ *#' ||
		fail "the manifest does not have '$asked' with a reason above it"
done
grep -A 30 '^kind: NetworkPolicy' "$manifest" | grep -A 1 'policyTypes: \["Ingress", "Egress"\]' | grep -q 'ingress:' ||
	fail "the manifest has no NetworkPolicy that lets scrapers in and nothing out"

# What they call, traced.
strace -f -qq -o watch.trace "$COWLAB" watch "$target" --listen 127.0.0.1:0 --count --interval-s 0.2 \
	--refreshes 4 2>err >out
strace -f -qq -o tend.trace "$COWLAB" tend "$target" --listen 127.0.0.1:0 --duration-s 2 2>err >out
for verb in watch tend; do
	grep -q 'exit_group' $verb.trace || fail "$verb was not traced: $(cat err)"
	refused=$(python3 "$REPOSITORY/tests/lib/refused_calls.py" cowlab-$verb.service $verb.trace)
	[[ -z $refused ]] || fail "cowlab-$verb.service refuses what $verb calls: $refused"
	printf '1 %s()\n' process_vm_writev process_vm_readv ptrace kcmp >bad.trace
	[[ $(python3 "$REPOSITORY/tests/lib/refused_calls.py" cowlab-$verb.service bad.trace | wc -l) == 4 ]] ||
		fail "cowlab-$verb.service admits one of: $(cat bad.trace)"
done
