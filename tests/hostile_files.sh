#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs, profiles and recordings that somebody changed: they are read or refused, in a second
# or two and bounded memory, never with a panic. What reads without the program around it is fuzzed by
# `make fuzz-reader` and `make fuzz-insert`. More inputs with COWLAB_TEST_LONG=1 (make test-long).
# beside: it times nothing
set -euo pipefail
# shellcheck source=tests/lib/common.sh
. "$REPOSITORY/tests/lib/common.sh"

inputs=40
[[ -z ${COWLAB_TEST_LONG:-} ]] || inputs=5000
seed=${COWLAB_TEST_SEED:-$RANDOM}
old=$REPOSITORY/crates/report/tests/old_runs
cp -r "$old/study" "$old/footprint" "$old/snapshot" .
cp -r study whole
cp "$REPOSITORY/tests/fixtures/profile.json" .

# changed FILE ARGUMENT...
changed() {
	called="cowlab ${*:2}, of a changed $1"
	python3 "$REPOSITORY/tests/lib/mutated.py" "$seed" "$inputs" "$1" "$COWLAB" "${@:2}" || fail "see above"
}
for run in study footprint snapshot; do
	changed $run/samples.ndjson.gz report $run --tables
	changed $run/run.json report $run --json
done
changed study/samples.ndjson.gz compare whole study
changed profile.json predict --profile profile.json 1GiB --threads 0,1
