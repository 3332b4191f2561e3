-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- What a fleet's runs say. The same text is DuckDB's and Spark's; only how each opens the data set is not:
--   duckdb    -c ".read examples/fleet/duckdb.sql" -c ".read examples/fleet/fleet.sql"
--   spark-sql -i examples/fleet/spark.sql -f examples/fleet/fleet.sql
-- in the folder that holds fleet/. Runs are those of `cowlab calibrate` or `study`.

-- The stop of a 10 GiB fork by instance type and kernel: what the largest heap's fork took, by its size, as
-- `cowlab predict --write-fraction 0 --written-before-fraction 0` has it (a parent that writes between forks pays
-- more). 95% of the hosts lie from low to high.
WITH forks AS (
    SELECT instance_type, kernel, host, CAST(params['heap_bytes'] AS BIGINT) AS heap_bytes, value
    FROM samples
    WHERE bench = 'calibrate-cycle' AND metric = 'fork_ns' AND params['writer'] = 'parent'
      AND params['threads'] = '0' AND params['write_fraction'] = '0' AND params['heap_bytes'] <> '0'
), largest AS (
    SELECT *, max(heap_bytes) OVER (PARTITION BY instance_type, kernel, host) AS largest_bytes FROM forks
), hosts AS (
    SELECT instance_type, kernel, host, median(value) * 10737418240 / max(heap_bytes) / 1e6 AS stop_ms
    FROM largest WHERE heap_bytes = largest_bytes GROUP BY instance_type, kernel, host
)
SELECT instance_type, kernel, count(*) AS hosts, round(median(stop_ms), 1) AS stop_of_10_gib_ms,
       round(percentile_cont(0.025) WITHIN GROUP (ORDER BY stop_ms), 1) AS low_ms,
       round(percentile_cont(0.975) WITHIN GROUP (ORDER BY stop_ms), 1) AS high_ms
FROM hosts GROUP BY instance_type, kernel ORDER BY instance_type, kernel;

-- Which hosts drift: of which the last run differs from the first by more than hosts do (3.5 robust
-- deviations) and by more than 5%, in how many of the primitive costs.
WITH runs AS (
    SELECT host, file, metric, ln(median(value)) AS cost, min(start) AS begun
    FROM samples WHERE bench = 'calibrate' AND value > 0
    GROUP BY host, file, metric
), changes AS (
    SELECT host, metric, count(*) AS runs, max_by(cost, begun) - min_by(cost, begun) AS change
    FROM runs GROUP BY host, metric HAVING count(*) > 1
), centres AS (
    SELECT metric, median(change) AS centre FROM changes GROUP BY metric
), spreads AS (
    SELECT c.metric, max(m.centre) AS centre, 1.4826 * median(abs(c.change - m.centre)) AS deviation
    FROM changes c JOIN centres m ON c.metric = m.metric GROUP BY c.metric
), drifts AS (
    SELECT c.host, c.runs, c.metric, c.change,
           abs(c.change - s.centre) > 3.5 * s.deviation AND abs(c.change) > ln(1.05) AS drifts
    FROM changes c JOIN spreads s ON c.metric = s.metric
)
SELECT host, max(runs) AS runs, sum(CASE WHEN drifts THEN 1 ELSE 0 END) AS costs_that_drift,
       count(*) AS costs, round(exp(median(change)), 3) AS last_to_first,
       max_by(metric, CASE WHEN drifts THEN abs(change) ELSE 0 END) AS worst
FROM drifts GROUP BY host HAVING sum(CASE WHEN drifts THEN 1 ELSE 0 END) > count(*) / 3
ORDER BY costs_that_drift DESC, host;

-- Which kernels differ beyond noise, on the same instance type: by more than four standard errors of the
-- medians over hosts (1.858 times the median distance from the median, by the root of their number) and by 1%.
WITH hosts AS (
    SELECT metric, instance_type, kernel, host, ln(median(value)) AS cost
    FROM samples WHERE bench = 'calibrate' AND value > 0
    GROUP BY metric, instance_type, kernel, host
), centres AS (
    SELECT metric, instance_type, kernel, median(cost) AS cost, count(*) AS hosts
    FROM hosts GROUP BY metric, instance_type, kernel HAVING count(*) >= 8
), errors AS (
    SELECT c.metric, c.instance_type, c.kernel, max(c.cost) AS cost, max(c.hosts) AS hosts,
           1.858 * median(abs(h.cost - c.cost)) / sqrt(max(c.hosts)) AS error
    FROM centres c JOIN hosts h
      ON h.metric = c.metric AND h.kernel = c.kernel
     AND h.instance_type IS NOT DISTINCT FROM c.instance_type
    GROUP BY c.metric, c.instance_type, c.kernel
)
SELECT a.instance_type, a.metric, a.kernel AS kernel, b.kernel AS other_kernel, a.hosts AS hosts,
       b.hosts AS other_hosts, round(exp(b.cost - a.cost), 3) AS other_to_kernel,
       round(abs(b.cost - a.cost) / sqrt(a.error * a.error + b.error * b.error), 1) AS standard_errors
FROM errors a JOIN errors b
  ON a.metric = b.metric AND a.kernel < b.kernel
 AND a.instance_type IS NOT DISTINCT FROM b.instance_type
WHERE abs(b.cost - a.cost) > 4 * sqrt(a.error * a.error + b.error * b.error)
  AND abs(b.cost - a.cost) > ln(1.01)
ORDER BY abs(b.cost - a.cost) DESC, instance_type, metric, kernel, other_kernel;
