-- Documents as SELECT prints them.
CREATE DATABASE cap;
USE cap;
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, j JSON);
INSERT INTO t (j) VALUES (NULL), ('null'), ('true'), ('false'), ('0'), ('-1'), ('""'), ('[]'), ('{}'), ('[[]]'), ('{"": ""}');
INSERT INTO t (j) VALUES ('32767'), ('-32768'), ('32768'), ('65535'), ('65536'), ('-32769'), ('2147483647'), ('-2147483648'),
  ('2147483648'), ('4294967295'), ('4294967296'), ('9223372036854775807'), ('-9223372036854775808'), ('18446744073709551615'),
  ('18446744073709551616'), ('-9223372036854775809');
INSERT INTO t (j) VALUES ('1.0'), ('-0.0'), ('0.1'), ('1e20'), ('1e15'), ('1e14'), ('1e16'), ('123456789012345680'), ('1234567890123456.5'),
  ('0.00001'), ('1e-14'), ('1e-15'), ('1e-16'), ('1.5e-20'), ('1.7976931348623157e308'), ('4.9e-324'), ('2.2250738585072014e-308'),
  ('-1.25e300'), ('3.14159265358979'), ('100000.0'), ('1e5'), ('123456789.123456789'), ('-1.2345678901234567e-5'), ('-1.2345678901234567e-14'),
  ('0.3333333333333333'), ('1e100'), ('-123456789012345.67'), ('999999999999999.0'), ('9999999999999998.0'), ('99999999999999990.0');
INSERT INTO t (j) VALUES ('{"b": 1, "a": [1, 2.0, "x"], "aa": {"c": null}, "é": true}'), ('["a\\"b", "\\\\", "\\/", "\\b\\f\\n\\r\\t", "\\u0001\\u001f\\u007f", "é", "😀"]'),
  ('{"k\\"ey": 1, "new\\nline": 2, "日本": "語"}'), ('[1, [2, [3, [4, [5]]]], {"a": {"b": {"c": [true, false, null]}}}]'),
  ('{"a": 1, "a": 2}'), ('  [ 1 ,2 ]  ');
INSERT INTO t (j) VALUES (CAST(123.450 AS JSON)), (CAST(CAST(-0.5 AS DECIMAL(65,30)) AS JSON)), (CAST(99999999999999999999 AS JSON)),
  (CAST(CAST('2015-01-15' AS DATE) AS JSON)), (CAST(CAST('23:24:25.12' AS TIME(2)) AS JSON)), (CAST(CAST('-838:59:59' AS TIME) AS JSON)),
  (CAST(CAST('-00:00:00.5' AS TIME(1)) AS JSON)),
  (CAST(CAST('2015-01-15 23:24:25.123456' AS DATETIME(6)) AS JSON)), (CAST(TIMESTAMP'2015-01-15 23:24:25' AS JSON)), (CAST(UNIX_TIMESTAMP('2015-01-15 23:24:25') AS JSON)),
  (CAST(X'CAFEBABE' AS JSON)), (CAST(X'' AS JSON)), (CAST(X'01' AS JSON)), (CAST(X'0102' AS JSON)),
  (CAST(REPEAT(X'FF', 100) AS JSON)), (CAST(REPEAT(X'00', 57) AS JSON)), (CAST(REPEAT(X'00', 58) AS JSON)), (CAST(b'101' AS JSON)),
  (JSON_ARRAY(1, 1.5, 1e0, 'x', NULL, TRUE, NOW() - NOW(), CAST('12:00' AS TIME), X'00', 1.10)),
  (JSON_OBJECT('date', DATE'2020-02-29', 'ts', TIMESTAMP'2020-02-29 01:02:03.4', 'dec', 1.2300, 'year', CAST(2020 AS YEAR))),
  (JSON_OBJECT('geo', ST_GeomFromText('POINT(1 2)')));
INSERT INTO t (j) VALUES (JSON_ARRAY(REPEAT('x', 127), REPEAT('y', 128), REPEAT('z', 300))), (CONCAT('"', REPEAT('long', 20000), '"')),
  (CONCAT('[', REPEAT('123456, ', 12000), '1]')), (CONCAT('{"big": "', REPEAT('b', 70000), '", "i": 70000, "u": 4000000000, "n": null, "a": [1], "s": -5}'));
INSERT INTO t (j) SELECT CONCAT(REPEAT('[', 99), '1', REPEAT(']', 99));
CREATE TABLE bit_source (b BIT(9), e ENUM('x', 'y'), s SET('p', 'q'), y YEAR, v VARBINARY(3), bl BLOB, ts TIMESTAMP(3), t TIME(3), f FLOAT,
  c CHAR(3) CHARACTER SET latin1, PRIMARY KEY (y));
INSERT INTO bit_source VALUES (b'100000001', 'y', 'p,q', 2024, X'0102', X'FF', '2024-01-01 00:00:00.123', '01:02:03.456', 0.1, 'ü');
INSERT INTO t (j) SELECT JSON_ARRAY(b, e, s, y, v, bl, ts, t, f, c) FROM bit_source;
SET SESSION sql_mode = '';
CREATE TABLE required (id INT PRIMARY KEY, j JSON NOT NULL);
INSERT IGNORE INTO required VALUES (1, NULL), (2, '1');
UPDATE required SET j = NULL WHERE id = 2;
INSERT INTO required VALUES (3, '[-86469027727256.625, 631954996829229.25, 631954996829229.75, 9007199254740993.0, -15.082304077143815, 0.5, 2.5, 1e23, 9.5367431640625e-7]');
