#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A fleet: fleet.sql on simulated hosts with known differences; damaged files are named; hive.sh; the manifests by Kubernetes' own schemas; the rules of Prometheus by promtool and against a real scrape.
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

# From a real run: 200 hosts of three kernels, of which one differs, and three types; two runs each.
passes bench fork-sweep --forks 3 --heap-bytes 1MiB,4MiB --write-fraction 0,1 --rounds 6 --output real
real=$(only_run real)
"$venv/bin/python" "$REPOSITORY/examples/fleet/simulate.py" fleet 200 "$real"

# Of the questions, those that need no calibration: pairs, how many by chance, and outliers.
"$venv/bin/python" "$REPOSITORY/tests/lib/fleet_sql.py" packed "$REPOSITORY/examples/fleet" >out
called=fleet.sql
json 'd.rows | length == 5'
# Types differ by more than kernels do: within them the kernel that forks 10% dearer is found, in forks alone.
json 'd.rows[2] | length > 0 and all(.[3] == "fork_ns" and .[5] == "sim-7.3")' \
	'd.rows[2] | all(.[8] > 1.05 and .[8] < 1.15)' \
	'd.rows[3] | length == 1 and .[0][0] > 100' \
	'd.rows[3][0][1] == (d.rows[2] | length) and d.rows[3][0][1] > d.rows[3][0][2]'
# The host that is slower on both days is one; one that is on the second day only is none.
json 'd.rows[4] | .[0][0] == "slow-00011" and (map(.[0]) | index("drifts-00007")) == null' \
	'd.rows[4] | length < 20'
# What names a damaged file.
cut=$(find fleet -name samples.ndjson.gz | sort | sed -n 1p)
truncate -s 500 "$cut"
! find fleet -name samples.ndjson.gz -exec gzip --test {} + 2>err || fail "expected damage"
says err "$cut"
# A run that a host of the fleet made is one of cowlab's.
passes compare fleet/*/host=sim-00001/*/simulated-*

# hive.sh: what is asked for, links, and a folder that is no run.
"$REPOSITORY/examples/fleet/hive.sh" hive instance_type='big one' rack=r7 "$real"
[[ -e $(echo hive/instance_type=big_one/rack=r7/host=*/kernel=*/*/samples.ndjson.gz) ]] ||
	fail "expected a hive, saw $(find hive)"
"$REPOSITORY/examples/fleet/hive.sh" hive instance_type=other rack=r8 "$real"
[[ -e $(echo hive/instance_type=other/rack=r8/host=*/kernel=*/*/run.json) ]] || fail "expected two racks, saw $(find hive)"
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
