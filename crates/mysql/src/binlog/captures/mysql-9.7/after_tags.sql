-- What was executed before comes with tags.
CREATE DATABASE cap;
USE cap;
CREATE TABLE t (id INT PRIMARY KEY);
INSERT INTO t VALUES (1);
