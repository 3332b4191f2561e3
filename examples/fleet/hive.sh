#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Lay runs of many hosts out as a hive: hive.sh INTO RUN…
#
# INTO/host=NAME/kernel=RELEASE/RUN/samples.parquet, as DuckDB, Spark and others read it. Files are
# linked where that is possible, else copied.
set -euo pipefail
[[ $# -ge 2 ]] || { echo "usage: $0 INTO RUN..." >&2; exit 2; }
into=$1
shift
for run in "$@"; do
	# Whose it is: run.json's first environment.
	read -r host kernel < <(python3 - "$run/run.json" <<'E2'
import json, re, sys
environment = json.load(open(sys.argv[1]))["environments"][0]
print(*(re.sub(r"[^A-Za-z0-9._+-]", "_", environment[key]) or "unknown" for key in ("host", "kernel")))
E2
	)
	folder=$into/host=$host/kernel=$kernel/run=$(basename "$run")
	mkdir -p "$folder"
	ln -f "$run/samples.parquet" "$folder/" 2>/dev/null || cp "$run/samples.parquet" "$folder/"
done
