-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- The data set in fleet/ as `samples`, for Spark. Folders named KEY=VALUE are columns.
SET spark.sql.sources.partitionColumnTypeInference.enabled = false;
CREATE OR REPLACE TEMPORARY VIEW runs (
    environment INT, bench STRING, params MAP<STRING, STRING>, metric STRING, unit STRING, value DOUBLE, rep INT,
    start_unix_ns BIGINT, histogram STRING
) USING json OPTIONS (path 'fleet', pathGlobFilter 'samples.ndjson.gz');
CREATE OR REPLACE TEMPORARY VIEW samples AS
SELECT *, array_join(transform(map_entries(params), e -> concat(e.key, '=', e.value)), ' ') AS question,
       input_file_name() AS file
FROM runs;
