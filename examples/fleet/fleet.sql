-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- What a fleet's runs say. The same text is DuckDB's and Spark's; only how each opens the data set is not:
--   duckdb    -c ".read examples/fleet/duckdb.sql" -c ".read examples/fleet/fleet.sql"
--   spark-sql -i examples/fleet/spark.sql -f examples/fleet/fleet.sql
-- in the folder that holds fleet/. The first two need runs of `cowlab calibrate` or `study`.

-- The stop of a 10 GiB fork by instance type and kernel: what the largest heap's fork took, by its size, where nothing
-- was written since the fork before. A parent that has written all of it pays up to about twice as much, because each
-- page is protected again: `cowlab predict 10GiB` is for that one. 95% of the hosts lie from low to high.
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
    SELECT host, file, metric, ln(median(value)) AS cost, min(start_unix_ns) AS begun
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

-- Each figure of each host, by the median of its runs, each of which counts by the median of its rounds: a host
-- counts once, however many runs it has. A table: five views would each add it up again.
CREATE OR REPLACE TEMPORARY VIEW medians AS
SELECT bench, question, metric, instance_type, kernel, host, file, ln(median(value)) AS cost
FROM samples WHERE value > 0 GROUP BY bench, question, metric, instance_type, kernel, host, file;
DROP TABLE IF EXISTS hosts;
CREATE TABLE hosts AS
SELECT bench, question, metric, instance_type, kernel, host, median(cost) AS cost, min(cost) AS low, max(cost) AS high
FROM medians GROUP BY bench, question, metric, instance_type, kernel, host;

-- Kernels as they are (deal 0), and dealt at random to the hosts of each instance type, five times.
CREATE OR REPLACE TEMPORARY VIEW machines AS
SELECT instance_type, kernel, host, row_number() OVER (PARTITION BY instance_type ORDER BY kernel, host) AS seat
FROM hosts GROUP BY instance_type, kernel, host;
CREATE OR REPLACE TEMPORARY VIEW shuffled AS
SELECT deal, instance_type, kernel, host, row_number() OVER (
           PARTITION BY deal, instance_type
           ORDER BY CASE WHEN deal = 0 THEN kernel ELSE md5(concat(deal, host, kernel)) END, host) AS seat
FROM machines CROSS JOIN (VALUES (0), (1), (2), (3), (4), (5)) AS numbers(deal);
DROP TABLE IF EXISTS deals;
CREATE TABLE deals AS
SELECT h.deal, h.instance_type, h.kernel, h.host, s.kernel AS dealt
FROM shuffled h JOIN machines s ON h.seat = s.seat AND h.instance_type IS NOT DISTINCT FROM s.instance_type;

-- Pairs of kernels on the same instance type, in each figure and deal. They differ by more than noise where that is
-- more than four standard errors of the medians over hosts (1.858 times the median distance from the median, by the
-- root of their number) and more than 1%.
CREATE OR REPLACE TEMPORARY VIEW costs AS
SELECT d.deal, h.bench, h.question, h.metric, h.instance_type, d.dealt AS kernel, h.cost
FROM hosts h JOIN deals d
  ON h.host = d.host AND h.kernel = d.kernel AND h.instance_type IS NOT DISTINCT FROM d.instance_type;
CREATE OR REPLACE TEMPORARY VIEW centres AS
SELECT deal, bench, question, metric, instance_type, kernel, median(cost) AS cost, count(*) AS hosts
FROM costs GROUP BY deal, bench, question, metric, instance_type, kernel HAVING count(*) >= 8;
CREATE OR REPLACE TEMPORARY VIEW errors AS
SELECT c.deal, c.bench, c.question, c.metric, c.instance_type, c.kernel, max(c.cost) AS cost, max(c.hosts) AS hosts,
       1.858 * median(abs(h.cost - c.cost)) / sqrt(max(c.hosts)) AS error
FROM centres c JOIN costs h
  ON h.deal = c.deal AND h.bench = c.bench AND h.question = c.question AND h.metric = c.metric
 AND h.kernel = c.kernel AND h.instance_type IS NOT DISTINCT FROM c.instance_type
GROUP BY c.deal, c.bench, c.question, c.metric, c.instance_type, c.kernel;
CREATE OR REPLACE TEMPORARY VIEW pairs AS
SELECT a.deal, a.instance_type, a.bench, a.question, a.metric, a.kernel AS kernel, b.kernel AS other_kernel,
       a.hosts AS hosts, b.hosts AS other_hosts, b.cost - a.cost AS difference,
       sqrt(a.error * a.error + b.error * b.error) AS error,
       abs(b.cost - a.cost) > 4 * sqrt(a.error * a.error + b.error * b.error)
           AND abs(b.cost - a.cost) > ln(1.01) AS differs
FROM errors a JOIN errors b
  ON a.deal = b.deal AND a.bench = b.bench AND a.question = b.question AND a.metric = b.metric AND a.kernel < b.kernel
 AND a.instance_type IS NOT DISTINCT FROM b.instance_type;

-- Which kernels differ beyond noise.
SELECT instance_type, bench, question, metric, kernel, other_kernel, hosts, other_hosts,
       round(exp(difference), 3) AS other_to_kernel,
       CASE WHEN error > 0 THEN round(abs(difference) / error, 1) END AS standard_errors
FROM pairs WHERE deal = 0 AND differs
ORDER BY abs(difference) DESC, instance_type, bench, question, metric, kernel, other_kernel;

-- How many differences there are, and how many there would be by chance: the median of the deals.
WITH counts AS (
    SELECT deal, count(*) AS compared, sum(CASE WHEN differs THEN 1 ELSE 0 END) AS different FROM pairs GROUP BY deal
)
SELECT max(CASE WHEN deal = 0 THEN compared END) AS compared, max(CASE WHEN deal = 0 THEN different END) AS different,
       median(CASE WHEN deal > 0 THEN different END) AS different_by_chance
FROM counts;

-- Outliers: hosts of which all runs lie beyond what hosts of the same type and kernel differ by (3.5 robust
-- deviations) and beyond 5%, in how many figures. So one bad run does not make an outlier.
WITH centres AS (
    SELECT bench, question, metric, instance_type, kernel, median(cost) AS centre
    FROM hosts GROUP BY bench, question, metric, instance_type, kernel HAVING count(*) >= 8
), distances AS (
    SELECT h.*, c.centre, abs(h.cost - c.centre) AS distance
    FROM hosts h JOIN centres c
      ON h.bench = c.bench AND h.question = c.question AND h.metric = c.metric AND h.kernel = c.kernel
     AND h.instance_type IS NOT DISTINCT FROM c.instance_type
), spreads AS (
    SELECT bench, question, metric, instance_type, kernel, greatest(3.5 * 1.4826 * median(distance), ln(1.05)) AS spread
    FROM distances GROUP BY bench, question, metric, instance_type, kernel
), judged AS (
    SELECT d.host, d.instance_type, d.kernel, d.metric, d.cost - d.centre AS difference,
           d.low > d.centre + s.spread OR d.high < d.centre - s.spread AS is_outside
    FROM distances d JOIN spreads s
      ON d.bench = s.bench AND d.question = s.question AND d.metric = s.metric AND d.kernel = s.kernel
     AND d.instance_type IS NOT DISTINCT FROM s.instance_type
)
SELECT host, instance_type, kernel, sum(CASE WHEN is_outside THEN 1 ELSE 0 END) AS outside, count(*) AS figures,
       round(exp(median(CASE WHEN is_outside THEN difference END)), 3) AS to_others
FROM judged GROUP BY host, instance_type, kernel HAVING sum(CASE WHEN is_outside THEN 1 ELSE 0 END) > 0
ORDER BY outside DESC, host, kernel;
