#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# postgres.sh [COMMAND…]: a PostgreSQL server in a folder of its own, and one session that reads and
# updates a table. It prints the page tables of the session at its end. COMMAND, `cowlab footprint`,
# looks at the server's fork for that session: its other children have the same name.
set -euo pipefail

bin=$(echo /usr/lib/postgresql/*/bin)
bin=${bin##* }
[[ -x $bin/postgres ]] || { echo "postgres.sh: PostgreSQL is not installed: scripts/install footprints" >&2; exit 1; }
folder=$(mktemp -d)
server=
end() {
	[[ -z $server ]] || { kill -QUIT "$server" 2>/dev/null && wait "$server" 2>/dev/null || true; }
	rm -rf "$folder"
}
trap end EXIT

# The server refuses to run as root.
as=()
if [[ $(id -u) == 0 ]]; then
	chown postgres "$folder"
	as=(setpriv --reuid=postgres --regid="$(id -g postgres)" --clear-groups --pdeathsig KILL)
fi
cd "$folder"
"${as[@]}" "$bin/initdb" -D data -U postgres --auth=trust --no-sync >initdb.log
"${as[@]}" "$bin/postgres" -D data -k "$folder" -c listen_addresses= -c shared_buffers=1GB \
	-c autovacuum=off -c fsync=off -c max_parallel_workers_per_gather=0 >server.log 2>&1 &
server=$!
session() {
	"$bin/psql" -h "$folder" -U postgres -qtA -v ON_ERROR_STOP=1 "$@"
}
for _ in {1..100}; do
	[[ ! -S $folder/.s.PGSQL.5432 ]] || ! session -c 'SELECT 1' >/dev/null 2>&1 || break
	sleep 0.1
done
session -c "CREATE TABLE t AS SELECT n, repeat('x', 200) AS text FROM generate_series(1, 500000) n" \
	-c 'CREATE INDEX ON t (n)' -c 'SELECT count(*) FROM t' -c CHECKPOINT >/dev/null

looker=
if [[ $# -gt 0 ]]; then
	"$@" "$server" --forks 1 &
	looker=$!
	# It has to wait for the fork before the fork happens.
	sleep 1
fi
# The whole table through the shared buffers, and a part of it written.
session <<-'END' | tail -n 1 >tables
	SELECT sum(length(text)) FROM t;
	UPDATE t SET text = 'y' WHERE n % 100 = 0;
	SELECT substring(pg_read_file('/proc/' || pg_backend_pid() || '/status') FROM 'VmPTE:\s*(\d+)');
END
echo "page tables of the session: $(<tables) kB"
[[ -z $looker ]] || wait "$looker"
