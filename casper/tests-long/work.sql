-- SPDX-License-Identifier: Apache-2.0 OR MIT
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL, kind INTEGER, data BLOB);
CREATE TABLE kind(id INTEGER PRIMARY KEY, name TEXT UNIQUE, parent INTEGER REFERENCES kind(id));
CREATE INDEX item_kind ON item(kind, price);
CREATE INDEX item_cheap ON item(name) WHERE price < 100;
CREATE TABLE log(what TEXT, at INTEGER);
CREATE TRIGGER item_gone AFTER DELETE ON item BEGIN INSERT INTO log VALUES(old.name, old.id); END;
CREATE VIEW dear AS SELECT name, price FROM item WHERE price > 900;
PRAGMA foreign_keys = ON;
BEGIN;
INSERT INTO kind WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
	SELECT i, 'kind ' || i, CASE WHEN i > 1 THEN i / 2 END FROM n;
INSERT INTO item WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
	SELECT i, printf('item %05d', (i * 7919) % 3001), (i * 31) % 1000 + 0.5, i % 20 + 1,
	zeroblob(i % 50) FROM n;
COMMIT;
SELECT k.name, count(*), sum(price), min(i.name), max(i.name), avg(length(data))
	FROM item i JOIN kind k ON k.id = i.kind GROUP BY k.id HAVING count(*) > 10 ORDER BY 3 DESC;
SELECT name, price, rank() OVER (PARTITION BY kind ORDER BY price DESC, id) AS r,
	lag(price, 1, 0) OVER (ORDER BY id) FROM item WHERE id % 97 = 0;
SELECT * FROM dear ORDER BY name LIMIT 20 OFFSET 5;
SELECT name FROM item WHERE name LIKE 'item 001%' UNION SELECT name FROM kind EXCEPT
	SELECT name FROM kind WHERE id IN (SELECT parent FROM kind);
SAVEPOINT s;
DELETE FROM item WHERE kind = 3 AND price BETWEEN 100 AND 500;
SELECT count(*), total(at) FROM log;
ROLLBACK TO s;
UPDATE item SET price = price * 1.1, name = upper(name) WHERE id % 3 = 0;
DELETE FROM item WHERE id > 2900;
RELEASE s;
SELECT group_concat(what, ',') FROM (SELECT what FROM log ORDER BY at LIMIT 10);
CREATE VIRTUAL TABLE text USING fts5(body);
INSERT INTO text SELECT 'the ' || name || ' costs ' || CAST(price AS INTEGER) FROM item WHERE id < 400;
SELECT rowid, highlight(text, 0, '[', ']') FROM text WHERE text MATCH 'costs AND 31' ORDER BY rank;
CREATE VIRTUAL TABLE box USING rtree(id, x0, x1, y0, y1);
INSERT INTO box SELECT id, id % 50, id % 50 + 2, id / 50, id / 50 + 3 FROM item WHERE id < 800;
SELECT count(*), max(id) FROM box WHERE x0 > 10 AND x1 < 20 AND y0 > 3;
SELECT json_extract('{"a":[1,2,{"b":3}]}', '$.a[2].b'), json_group_array(name) FROM kind WHERE id < 5;
SELECT value FROM json_each('[1,"two",null,4.5]');
SELECT date('2024-02-29', '+1 year'), strftime('%Y-%j', 1e9, 'unixepoch'), julianday('2000-01-01');
SELECT quote(x'00ff'), hex('abc'), round(2.567, 2), abs(-5), typeof(1.0), 7 % 3, 1 << 4, ~5, 5 / 2.0,
	substr('hello', 2, 3), replace('aXbX', 'X', '-'), trim('  x '), instr('hello', 'l'), 'a' GLOB '[a-c]';
EXPLAIN QUERY PLAN SELECT * FROM item WHERE kind = 3 AND price > 5 ORDER BY price;
ALTER TABLE item ADD COLUMN extra TEXT DEFAULT 'none';
ALTER TABLE item RENAME COLUMN extra TO more;
ALTER TABLE item DROP COLUMN more;
ANALYZE;
SELECT tbl, idx, stat FROM sqlite_stat1 ORDER BY 1, 2;
REINDEX;
VACUUM;
PRAGMA integrity_check;
PRAGMA page_count;
DROP TABLE text;
