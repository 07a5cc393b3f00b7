-- In compressed transactions: inserts, updates, deletes and changes of keys, alone and together.
-- global: binlog_transaction_compression=ON
CREATE DATABASE cap;
SET SESSION binlog_transaction_compression = ON;
USE cap;
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100), n INT) ;
INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3), (4, 'four', 4), (5, 'five', 5);
UPDATE t SET v = 'ONE' WHERE id = 1;
UPDATE t SET id = 10 WHERE id = 2;
DELETE FROM t WHERE id = 3;
REPLACE INTO t VALUES (4, 'replaced', 44);
INSERT INTO t VALUES (5, 'x', 0) ON DUPLICATE KEY UPDATE n = n + 50;
BEGIN;
UPDATE t SET id = -1 WHERE id = 1;
UPDATE t SET id = 1 WHERE id = 10;
UPDATE t SET id = 10 WHERE id = -1;
INSERT INTO t VALUES (6, 'six', NULL);
SAVEPOINT s;
INSERT INTO t VALUES (7, 'seven', 7);
ROLLBACK TO s;
DELETE FROM t WHERE id = 5;
COMMIT;
UPDATE t SET v = REPEAT('long', 25), n = NULL;

CREATE TABLE pair (a VARCHAR(10), b BIGINT UNSIGNED, c DATE, v BINARY(3), PRIMARY KEY (b, a, c));
INSERT INTO pair VALUES ('x', 1, '2020-01-01', 'a'), ('y', 18446744073709551615, '2020-01-01', 'b'), ('Z', 3, '2020-02-29', NULL);
UPDATE pair SET a = 'X' WHERE b = 1;
UPDATE pair SET c = '2021-01-01' WHERE b = 3;
UPDATE pair SET b = b - 1 WHERE a = 'y';
DELETE FROM pair WHERE a = 'x';

CREATE TABLE empty_ (id INT PRIMARY KEY);
INSERT INTO empty_ VALUES (1), (2);
DELETE FROM empty_;

CREATE TABLE parts (id INT PRIMARY KEY, v INT) PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN
  (100));
INSERT INTO parts VALUES (1, 1), (50, 50), (2, 2);
UPDATE parts SET v = v + 1;
UPDATE parts SET id = id + 40 WHERE id = 1;
DELETE FROM parts WHERE id = 2;

BEGIN;
UPDATE t, parts SET t.n = 1, parts.v = 99 WHERE t.id = 4 AND parts.id = 50;
INSERT INTO empty_ SELECT id FROM t WHERE id < 5;
COMMIT;

CREATE TABLE wide (id INT PRIMARY KEY, c1 INT, c2 INT, c3 INT, c4 INT, c5 INT, c6 INT, c7 INT, c8 INT, c9 INT, c10 INT, c11 INT, c12 INT,
  c13 INT, c14 INT, c15 INT, c16 INT, c17 INT, c18 INT, c19 INT, c20 INT, c21 INT, c22 INT, c23 INT, c24 INT, c25 INT, c26 INT, c27 INT, c28
  INT, c29 INT, c30 INT, c31 INT, c32 INT, c33 INT, c34 INT, c35 INT, c36 INT, c37 INT, c38 INT, c39 INT, c40 INT, c41 INT, c42 INT, c43
  INT, c44 INT, c45 INT, c46 INT, c47 INT, c48 INT, c49 INT, c50 INT, c51 INT, c52 INT, c53 INT, c54 INT, c55 INT, c56 INT, c57 INT, c58
  INT, c59 INT, c60 INT, c61 INT, c62 INT, c63 INT, c64 INT, c65 INT, c66 INT, c67 INT, c68 INT, c69 INT, c70 INT, c71 INT, c72 INT, c73
  INT, c74 INT, c75 INT, c76 INT, c77 INT, c78 INT, c79 INT, c80 INT, c81 INT, c82 INT, c83 INT, c84 INT, c85 INT, c86 INT, c87 INT, c88
  INT, c89 INT, c90 INT, c91 INT, c92 INT, c93 INT, c94 INT, c95 INT, c96 INT, c97 INT, c98 INT, c99 INT);
INSERT INTO wide (id, c1, c99) VALUES (1, 1, 99), (2, NULL, NULL);
UPDATE wide SET c50 = 50;
CREATE TABLE copied (PRIMARY KEY (id)) SELECT id, v FROM t;
