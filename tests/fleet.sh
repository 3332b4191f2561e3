#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A fleet: compare --by on simulated hosts with known differences, damaged runs among them, the page; hive.sh; the
# manifests by Kubernetes' own schemas; the rules of Prometheus by promtool and against a real scrape.
# tests/fleet/ has what takes minutes.
# beside: it measures nothing
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

venv=$REPOSITORY/target/tools/venv-fleet
[[ -e $venv/ready ]] || skip "duckdb and kubernetes-validate are not there: run scripts/install fleet"
command -v promtool >/dev/null || skip "needs promtool (of the package prometheus)"
started=()
trap 'for pid in "${started[@]}"; do kill -9 "$pid" 2>/dev/null || true; done' EXIT

# From a real run: 60 hosts of three kernels, of which one differs, and three types; two runs each.
passes bench fork-sweep --forks 3 --heap-bytes 1MiB,4MiB --write-fraction 0,1 --rounds 6 --output real
real=$(only_run real)
"$venv/bin/python" "$REPOSITORY/examples/fleet/simulate.py" fleet 60 "$real"

passes --json compare --by kernel fleet
json 'd.summary | .runs == 120 and .hosts == 60 and .without_key == 0 and .by == ["kernel"]' \
	'd.summary.groups | map(.name) | sort == ["sim-6.12", "sim-6.12.1", "sim-7.3"]' \
	'd.summary.different == (d.summary.figures | length)'
# Types differ by more than kernels do: within them the kernel that forks 10% dearer is found, in forks alone.
passes --json compare --by kernel --within instance_type fleet
json 'd.summary.figures | map(select(.group == "sim-7.3")) | length > 0 and all(.metric == "fork_ns")' \
	'd.summary.figures | map(select(.group == "sim-7.3")) | all(.ratio.value > 1.05 and .ratio.value < 1.15)' \
	'd.summary.figures | all(.ratio.low > 1 or .ratio.high < 1)' \
	'd.summary | .different > .different_by_chance'
# Nested otherwise, and by what run.json alone says.
mkdir flat
for run in fleet/*/*/*/*; do cp -r "$run" "flat/$(tr '/=' '__' <<<"$run")"; done
passes --json compare --by kernel fleet
cp out by_folders
passes --json compare --by kernel flat
cmp out by_folders || fail "expected the same of the same runs in other folders"
passes --json compare --by instance_type --all fleet
json 'd.summary.groups | length == 3' \
	'd.summary.figures | map(.group) | unique | length == 3' \
	'd.summary.figures[0] | .verdict == "different" and .against == "other-hosts"'
# Each host a group: with the spread of all.
passes --json compare --by host fleet
json 'd.summary.groups | length == 60' 'd.summary.different_by_chance == null' \
	'd.summary.figures | all(.against == "spread" and .hosts == 1)'
# Several keys; a folder of the data set; one bench.
passes --json compare --by instance_type,kernel --bench fork-sweep fleet
json 'd.summary.groups | map(.name) | index("sim-small, sim-7.3") != null'
COLUMNS=250 passes compare --by kernel --within instance_type fleet --output page.html
says out 'would differ if hosts were grouped at random'
says out 'how far the ratio would move with other hosts'
for expected in 'class="multiples"' 'id="outliers"' 'fork_ns' 'Plotly'; do
	grep -qE "$expected" page.html || fail "the page lacks $expected"
done

# Damaged ones are named, counted and left out, and the status says so.
cp -r fleet damaged
cut=$(find damaged -name samples.parquet | sort | sed -n 1p)
truncate -s 500 "$cut"
gone=$(find damaged -name run.json | sort | tail -n 1)
rm "$gone"
run --json compare --by kernel damaged
is_status 1
says err "$(dirname "$cut")"
says err "$(dirname "$gone")"
json 'd.summary.runs == 118' 'd.missing | length == 2 and all(.metric == "runs")'
run compare --by kernel damaged
is_status 1
says out '2 runs are damaged and left out'
mkdir unfinished && cp -r "$real" unfinished/.unfinished-abc
refuses 1 'unfinished holds no runs' compare --by host unfinished
refuses 1 'holds no runs' compare --by host "$REPOSITORY/docs"
refuses 1 'no folder nowhere' compare --by host nowhere
refuses 2 'no run in flat has nonsense: --by takes a fact of run.json' compare --by nonsense flat
refuses 2 'or a key of its folders \(host, instance_type, kernel\)' compare --by nonsense fleet
refuses 1 'nothing to compare: 1 group by cpus' compare --by cpus fleet
refuses 2 'cannot be used with' compare --by host fleet "$real"
refuses 2 'no run in flat has kernel and nonsense' compare --by kernel --within nonsense flat
refuses 2 'required|--by' compare fleet
refuses 2 '--by' compare fleet flat --within kernel
refuses 2 '--by' compare "$real" "$real" --output page.html
refuses 1 'cannot write' compare --by kernel fleet --output no/such/page.html

# hive.sh: what is asked for, links, and a folder that is no run.
"$REPOSITORY/examples/fleet/hive.sh" hive instance_type='big one' rack=r7 "$real"
[[ -e $(echo hive/instance_type=big_one/rack=r7/host=*/kernel=*/*/samples.parquet) ]] ||
	fail "expected a hive, saw $(find hive)"
"$REPOSITORY/examples/fleet/hive.sh" hive instance_type=other rack=r8 "$real"
run compare --by rack hive
# One host cannot differ from itself.
is_status 0
says out '2 groups'
! "$REPOSITORY/examples/fleet/hive.sh" hive "$REPOSITORY/docs" 2>err || fail "expected docs to be no run"
says err 'is not a run of cowlab'

# The manifests, by the API's schemas: whole, and with a name that they do not know.
for manifest in dist/kubernetes/daemonset.yaml examples/fleet/kubernetes.yaml; do
	"$venv/bin/kubernetes-validate" --strict "$REPOSITORY/$manifest" || fail "$manifest is refused"
	sed 's/automountServiceAccountToken/automountServiceAcountToken/' "$REPOSITORY/$manifest" >misspelt.yaml
	! "$venv/bin/kubernetes-validate" --strict misspelt.yaml &>said || fail "expected $manifest to be refused"
	grep -q automountServiceAcountToken said || fail "expected the wrong name, saw $(cat said)"
done
# What the pod runs puts a run where hive.sh and slurm.sh do.
mkdir bin
printf '#!/bin/sh\nprintf "%%s\\n" "$@"\n' >bin/cowlab
chmod +x bin/cowlab
"$venv/bin/python" - "$REPOSITORY/examples/fleet/kubernetes.yaml" >pod.sh <<'E2'
import sys, yaml
job = next(iter(yaml.safe_load_all(open(sys.argv[1]))))
container = job["spec"]["template"]["spec"]["containers"][0]
assert container["command"] == ["/bin/sh", "-ec"]
print(container["args"][0])
E2
PATH=$PWD/bin:$PATH INSTANCE_TYPE=m7i.large NODE_NAME=n1 sh -ec "$(cat pod.sh)" >said
[[ $(tail -n 1 said) == "/fleet/instance_type=m7i.large/host=n1/kernel=$(uname -r)" ]] || fail "saw $(cat said)"
run calibrate --help
while read -r flag; do
	[[ $flag != --* ]] || says out "$flag"
done <said

# Rules: by their own tests, and each metric that they name is in a real scrape.
rules=$REPOSITORY/dist/prometheus/cowlab.rules.yml
promtool check rules "$rules" >/dev/null || fail "promtool refuses the rules"
promtool test rules "$REPOSITORY/dist/prometheus/cowlab.test.yml" || fail "the rules fail their tests"
promtool check config "$REPOSITORY/dist/prometheus/federate.yml" >/dev/null || fail "promtool refuses federate.yml"
"$COWLAB" watch --listen 127.0.0.1:0 --interval-s 0.2 >out 2>err &
started+=($!)
wait_for 10 grep -q 'metrics at' err
url=$(grep -o 'http://[^ ]*' err)
scraped() {
	python3 "$REPOSITORY/tests/lib/scrape.py" "$url" >scrape
}
wait_for 5 scraped
promtool check metrics <scrape || fail "promtool refuses the metrics"
python3 "$REPOSITORY/tests/lib/rule_metrics.py" "$rules" <scrape || fail "a rule names what is not there"
for misspelt in s/cowlab_commit_room_bytes/cowlab_comit_room_bytes/ s/fleet:cowlab_fork_stop_seconds_bucket:rate5m\)/fleet:x:cowlab_y\)/; do
	sed "$misspelt" "$rules" >misspelt.yml
	! python3 "$REPOSITORY/tests/lib/rule_metrics.py" misspelt.yml <scrape 2>said || fail "$misspelt was not noticed"
done
kill "${started[@]}"
no_probes_left
