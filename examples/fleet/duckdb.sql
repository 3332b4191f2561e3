-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- The data set in fleet/ as `samples`, for DuckDB. Folders named KEY=VALUE are columns. From some
-- thousand runs on, .read pack.sql after this.
SET memory_limit = '4GB';
SET preserve_insertion_order = false;
CREATE OR REPLACE VIEW samples AS
SELECT *, array_to_string(list_transform(map_entries(params), lambda e: concat(e.key, '=', e.value)), ' ') AS question,
       filename AS file
FROM read_ndjson('fleet/**/samples.ndjson.gz',
                 columns = {environment: 'UINTEGER', bench: 'VARCHAR', params: 'MAP(VARCHAR, VARCHAR)', metric: 'VARCHAR',
                            unit: 'VARCHAR', value: 'DOUBLE', rep: 'UINTEGER', start_unix_ns: 'BIGINT', histogram: 'VARCHAR'},
                 hive_partitioning = true, hive_types_autocast = false, filename = true)
WHERE NOT contains(filename, '/.unfinished-');
