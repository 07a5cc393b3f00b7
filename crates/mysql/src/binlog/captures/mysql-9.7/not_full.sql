-- Rows without all of their columns.
CREATE DATABASE cap;
USE cap;
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100), b BLOB);
CREATE TABLE u (id INT PRIMARY KEY, v VARCHAR(100), b BLOB);
INSERT INTO t VALUES (1, 'one', 'b');
INSERT INTO u VALUES (1, 'one', 'b');
SET SESSION binlog_row_image = MINIMAL;
UPDATE t SET v = 'ONE' WHERE id = 1;
SET SESSION binlog_row_image = NOBLOB;
UPDATE u SET v = 'ONE' WHERE id = 1;
