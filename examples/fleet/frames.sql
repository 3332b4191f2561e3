-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- Recordings of `cowlab watch --json` of many hosts, gathered as frames/host=NAME/*.json.
-- duckdb -c ".read examples/fleet/frames.sql"

-- Of each process the stops of its forks, and what its children copied.
WITH frames AS (
    SELECT host, to_timestamp(summary.time_unix_ns / 1e9) AS time, unnest(summary.processes) AS process
    FROM read_json('frames/*/*.json', format = 'newline_delimited', hive_partitioning = true,
                   hive_types_autocast = false, maximum_object_size = 67108864)
)
SELECT host, process.name AS name, max(process.totals.forks) AS forks,
       max(process.totals.stops.max_ns) / 1e6 AS longest_stop_ms,
       max(process.totals.copied_bytes) / 1e6 AS copied_mb,
       round(avg(process.minor_faults_per_s)) AS minor_faults_per_s
FROM frames GROUP BY host, name ORDER BY longest_stop_ms DESC NULLS LAST;
