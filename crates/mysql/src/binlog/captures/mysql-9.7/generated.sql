-- Columns that are computed, stored or not, and hidden ones, in rows that come and change.
-- global: binlog_row_metadata=FULL
CREATE DATABASE cap;
USE cap;
CREATE TABLE stored_ (id INT PRIMARY KEY, a INT, s INT GENERATED ALWAYS AS (a * 2) STORED, j INT INVISIBLE DEFAULT 7);
INSERT INTO stored_ (id, a) VALUES (1, 21), (2, NULL), (3, 3);
UPDATE stored_ SET a = 22 WHERE id = 1;
UPDATE stored_ SET j = 8;
DELETE FROM stored_ WHERE id = 3;
CREATE TABLE computed (id INT PRIMARY KEY, a INT, v INT GENERATED ALWAYS AS (a + 1) VIRTUAL, b INT, INDEX (v));
INSERT INTO computed (id, a, b) VALUES (1, 21, 1), (2, NULL, 2), (3, 3, 3);
UPDATE computed SET a = 22 WHERE id = 1;
UPDATE computed SET b = 9;
DELETE FROM computed WHERE id = 3;
CREATE TABLE indexed (id INT PRIMARY KEY, a VARCHAR(10), j JSON, INDEX ((LOWER(a))), INDEX ((CAST(j AS UNSIGNED ARRAY))));
INSERT INTO indexed VALUES (1, 'A', '[1, 2]'), (2, 'B', '[]');
UPDATE indexed SET a = 'C';
SET SESSION sql_generate_invisible_primary_key = ON;
CREATE TABLE keyless (a VARCHAR(10));
INSERT INTO keyless VALUES ('x'), ('y');
UPDATE keyless SET a = 'z' WHERE a = 'y';
