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
CREATE TABLE versioned (id INT PRIMARY KEY, a INT) WITH SYSTEM VERSIONING;
INSERT INTO versioned VALUES (1, 1), (2, 2), (3, 3);
UPDATE versioned SET a = 10 WHERE id = 1;
DELETE FROM versioned WHERE id = 3;
