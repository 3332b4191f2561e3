-- SPDX-License-Identifier: Apache-2.0 OR MIT
--
-- After duckdb.sql: thousands of small files become one, once, since opening them takes longer than asking them.
COPY (SELECT * FROM samples) TO 'fleet.parquet' (FORMAT parquet);
CREATE OR REPLACE VIEW samples AS SELECT * FROM read_parquet('fleet.parquet');
