-- Labels with characters that the catalog cannot show, without the log's own labels: rows that hold them must stop.
CREATE DATABASE cap;
USE cap;
CREATE TABLE known (id INT PRIMARY KEY, e ENUM('x','日本🧊') CHARACTER SET utf8mb4, s SET('p','q','🧊') CHARACTER SET utf8mb4, q ENUM('?') CHARACTER SET latin1);
INSERT INTO known VALUES (1, 'x', 'p,q', '?'), (2, NULL, '', NULL);
CREATE TABLE doubtful_enum (id INT PRIMARY KEY, e ENUM('x','日本🧊') CHARACTER SET utf8mb4);
INSERT INTO doubtful_enum VALUES (1, 'x'), (2, '日本🧊');
CREATE TABLE doubtful_set (id INT PRIMARY KEY, s SET('p','q','🧊') CHARACTER SET utf8mb4);
INSERT INTO doubtful_set VALUES (1, 'q'), (2, 'p,🧊');
