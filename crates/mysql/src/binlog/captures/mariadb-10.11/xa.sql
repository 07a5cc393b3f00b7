-- Distributed transactions: committed, rolled back, in one phase, with names of bytes.
CREATE DATABASE cap;
USE cap;
CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100));
XA START 'committed', 'branch', 7;
INSERT INTO t VALUES (1, 'committed');
XA END 'committed', 'branch', 7;
XA PREPARE 'committed', 'branch', 7;
XA COMMIT 'committed', 'branch', 7;
XA START X'00FF';
INSERT INTO t VALUES (2, 'in one phase');
XA END X'00FF';
XA COMMIT X'00FF' ONE PHASE;
