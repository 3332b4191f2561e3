-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- Runs of many hosts as one data set: duckdb -c ".read examples/fleet/stops.sql", in the folder that
-- holds hive/. Folders become columns (host, kernel, run); Spark reads the same layout by
-- spark.read.option("basePath", "hive").parquet("hive/*/*/*").

-- What each host's forks cost, by size of the heap.
SELECT host, kernel, params['heap_bytes']::BIGINT AS heap_bytes, count(*) AS measurements,
       median(value) AS fork_ns, quantile_cont(value, 0.95) AS p95_ns
FROM read_parquet('hive/*/*/*/samples.parquet', hive_partitioning = true, hive_types_autocast = false)
WHERE metric = 'fork_ns' AND params['heap_bytes'] IS NOT NULL
GROUP BY ALL ORDER BY heap_bytes, host, kernel;

-- A machine's price of a copy beside the others'.
SELECT host, kernel, median(value) AS copy_ns,
       round(median(value) / min(median(value)) OVER (), 2) AS to_cheapest
FROM read_parquet('hive/*/*/*/samples.parquet', hive_partitioning = true, hive_types_autocast = false)
WHERE metric IN ('cow_fault_ns', 'fault_ns') AND coalesce(params['watcher'], 'alone') = 'alone'
GROUP BY host, kernel ORDER BY copy_ns;
