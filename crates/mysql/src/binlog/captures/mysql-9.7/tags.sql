-- GTIDs with tags. The file that follows this one begins with a set of them.
CREATE DATABASE cap;
USE cap;
CREATE TABLE t (id INT PRIMARY KEY);
SET SESSION gtid_next = 'AUTOMATIC:calve_tag';
INSERT INTO t VALUES (1);
INSERT INTO t VALUES (2);
SET SESSION gtid_next = 'AUTOMATIC';
INSERT INTO t VALUES (3);
