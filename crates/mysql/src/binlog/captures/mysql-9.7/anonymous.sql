-- Without GTIDs, on a server of gtid_mode = OFF.
CREATE DATABASE cap;
USE cap;
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100));
INSERT INTO t VALUES (1, 'one'), (2, 'two');
UPDATE t SET v = 'TWO' WHERE id = 2;
