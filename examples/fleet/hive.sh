#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Lay runs of many hosts out as a data set: hive.sh INTO [KEY=VALUE...] RUN...
#
# INTO/KEY=VALUE/host=NAME/kernel=RELEASE/RUN/, as DuckDB and Spark read it, and as the jobs beside
# this file write it: DuckDB wants the same keys of all. Without an instance_type=... it is unknown. Files are
# linked where that is possible, else copied.
set -euo pipefail
usage() {
	echo "usage: $0 INTO [KEY=VALUE...] RUN..." >&2
	exit 2
}
[[ $# -ge 2 ]] || usage
into=$1
shift
given=
while [[ ${1:-} == *=* && ! -e $1 ]]; do
	given+=/${1%%=*}=$(tr -c 'A-Za-z0-9._+\n-' _ <<<"${1#*=}")
	shift
done
[[ $given == */instance_type=* ]] || given=/instance_type=__HIVE_DEFAULT_PARTITION__$given
(($#)) || usage
for run in "$@"; do
	# Whose it is: run.json's first environment.
	read -r host kernel < <(python3 - "$run/run.json" <<-'E2'
		import json, re, sys
		environment = json.load(open(sys.argv[1]))["environments"][0]
		print(*(re.sub(r"[^A-Za-z0-9._+-]", "_", environment[key]) or "unknown" for key in ("host", "kernel")))
	E2
	) || { echo "$0: $run is not a run of cowlab" >&2; exit 1; }
	folder=$into$given/host=$host/kernel=$kernel/$(basename "$run")
	mkdir -p "$folder"
	for file in "$run"/{run.json,samples.ndjson.gz}; do
		ln -f "$file" "$folder/" 2>/dev/null || cp "$file" "$folder/"
	done
done
