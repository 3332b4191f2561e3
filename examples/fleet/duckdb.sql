-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- The data set in fleet/ as `samples`, for DuckDB. Folders named KEY=VALUE are columns. From some
-- thousand runs on, .read pack.sql after this.
CREATE OR REPLACE VIEW samples AS
SELECT *, filename AS file
FROM read_parquet('fleet/**/samples.parquet', hive_partitioning = true, hive_types_autocast = false, filename = true)
WHERE NOT contains(filename, '/.unfinished-');
