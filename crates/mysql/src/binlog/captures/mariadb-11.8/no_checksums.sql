-- Without checksums.
-- global: binlog_checksum=NONE
CREATE DATABASE cap;
USE cap;
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100));
INSERT INTO t VALUES (1, 'one'), (2, 'two');
UPDATE t SET v = 'TWO' WHERE id = 2;
DELETE FROM t WHERE id = 1;
