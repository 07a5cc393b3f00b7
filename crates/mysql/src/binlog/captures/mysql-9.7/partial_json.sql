-- Updates of which the log has what changed in the documents.
-- global: binlog_row_metadata=FULL
CREATE DATABASE cap;
USE cap;
SET SESSION binlog_row_value_options = PARTIAL_JSON;
CREATE TABLE t (id INT PRIMARY KEY, j JSON, n INT, k JSON);
INSERT INTO t VALUES
  (1, '{"a": 1, "b": [1, 2, 3], "c": {"d": "text", "e": null}, "long key": {"x": [[1]]}}', 1, '[1, 2]'),
  (2, '{"a": 1, "b": [1, 2, 3], "c": {"d": "text", "e": null}, "long key": {"x": [[1]]}}', 2, '{}'),
  (3, '[{"a": "some text to make partial updates worthwhile, some more of it and more"}, 2, 3]', 3, NULL),
  (4, '{"a": "some text to make partial updates worthwhile, some more of it and more"}', 4, '{"k": {"l": {"m": 1}}}'),
  (5, NULL, 5, '"scalar"'), (6, '{"a": {"b": "cccccccccccccccccccccccccccccccccccccc"}}', 6, '[]');
UPDATE t SET j = JSON_SET(j, '$.a', 2) WHERE id <= 2;
UPDATE t SET j = JSON_SET(j, '$.b[1]', 'changed', '$.c.d', CAST('{"deep": [1, 2]}' AS JSON)) WHERE id = 1;
UPDATE t SET j = JSON_REPLACE(j, '$.c.e', 1.5e0), n = n + 100 WHERE id = 2;
UPDATE t SET j = JSON_REMOVE(j, '$.b[0]') WHERE id = 1;
UPDATE t SET j = JSON_REMOVE(j, '$.c') WHERE id = 2;
UPDATE t SET j = JSON_SET(j, '$.new', TRUE, '$."key with \\"quotes\\""', 1, '$.zz', 'last', '$.z', 'first of its length') WHERE id = 1;
UPDATE t SET j = JSON_SET(j, '$.b[10]', 'appended', '$."long key".x[0][1]', 2) WHERE id = 2;
UPDATE t SET j = JSON_REMOVE(j, '$[0].a', '$[last]') WHERE id = 3;
UPDATE t SET j = JSON_SET(j, '$[0].n', 1, '$[last]', 'end') WHERE id = 3;
UPDATE t SET k = JSON_SET(k, '$.k.l.m', CAST(9.99 AS JSON)), j = JSON_SET(j, '$.a', 'x') WHERE id = 4;
UPDATE t SET k = JSON_SET(k, '$[0]', 1) WHERE id = 5;
UPDATE t SET k = JSON_SET(k, '$[0]', 1) WHERE id = 6;
UPDATE t SET j = JSON_SET(j, '$.a.b', DATE'2020-01-01') WHERE id = 6;
UPDATE t SET j = JSON_SET(j, '$.a.b[1]', 'wrapped') WHERE id = 6;
UPDATE t SET j = JSON_SET(j, '$.a.b[0]', JSON_OBJECT('x', JSON_ARRAY(1, 2, 3), 'é', 'ü')) WHERE id = 6;
UPDATE t SET j = JSON_SET(j, '$.a', 3), id = 20 WHERE id = 2;
UPDATE t SET j = '{"whole": 1}' WHERE id = 3;
UPDATE t SET j = JSON_SET(j, '$.whole', 1) WHERE id = 3;
UPDATE t SET n = NULL;
DELETE FROM t WHERE id = 4;
