-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- The data set in fleet/ as `samples`, for Spark. Folders named KEY=VALUE are columns.
SET spark.sql.legacy.parquet.nanosAsLong = true;
SET spark.sql.sources.partitionColumnTypeInference.enabled = false;
CREATE OR REPLACE TEMPORARY VIEW runs USING parquet OPTIONS (path 'fleet', pathGlobFilter 'samples.parquet');
CREATE OR REPLACE TEMPORARY VIEW samples AS SELECT *, input_file_name() AS file FROM runs;
