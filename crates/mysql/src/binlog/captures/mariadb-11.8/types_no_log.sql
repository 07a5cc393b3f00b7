-- Every type, at its extremes, as binlog_row_metadata = NO_LOG describes the tables.
-- global: binlog_row_metadata=NO_LOG
CREATE DATABASE cap;
USE cap;

CREATE TABLE ints (
  id INT PRIMARY KEY, t TINYINT, tu TINYINT UNSIGNED, s SMALLINT, su SMALLINT UNSIGNED, m MEDIUMINT, mu MEDIUMINT UNSIGNED,
  i INT, iu INT UNSIGNED, b BIGINT, bu BIGINT UNSIGNED, t1 TINYINT(1), z INT(8) UNSIGNED ZEROFILL, y YEAR
);
INSERT INTO ints VALUES
  (1, -128, 0, -32768, 0, -8388608, 0, -2147483648, 0, -9223372036854775808, 0, 0, 0, 0),
  (2, 127, 255, 32767, 65535, 8388607, 16777215, 2147483647, 4294967295, 9223372036854775807, 18446744073709551615, 1, 42, 1901),
  (3, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 99999999, 2155),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE floats (id INT PRIMARY KEY, f FLOAT, d DOUBLE, fu FLOAT UNSIGNED, fp FLOAT(7,3), dp DOUBLE(12,4));
INSERT INTO floats VALUES (1, 0, 0, 0, 0, 0), (2, -1.5, -1.5, 1.5, -1.25, -1.25),
  (3, 3.4028234e38, 1.7976931348623157e308, 1e-40, 1234.567, 12345678.9012),
  (4, 1.17549435e-38, 4.9406564584124654e-324, 0.1, 0.1, 0.1), (5, -0.0, -0.0, NULL, NULL, NULL);

CREATE TABLE decimals (
  id INT PRIMARY KEY, a DECIMAL(10,2), b DECIMAL(38,10), c DECIMAL(65,30), d DECIMAL(65,0), e DECIMAL(5,5),
  f DECIMAL(1,0) UNSIGNED, g DECIMAL(39,1), h DECIMAL(18,9), i DECIMAL(40,2) UNSIGNED ZEROFILL
);
INSERT INTO decimals VALUES
  (1, 0, 0, 0, 0, 0, 0, 0, 0, 0),
  (2, 99999999.99, 9999999999999999999999999999.9999999999, 99999999999999999999999999999999999.999999999999999999999999999999,
   99999999999999999999999999999999999999999999999999999999999999999, 0.99999, 9, 99999999999999999999999999999999999999.9,
   999999999.999999999, 12345678901234567890123456789012345678.90),
  (3, -99999999.99, -9999999999999999999999999999.9999999999, -99999999999999999999999999999999999.999999999999999999999999999999,
   -99999999999999999999999999999999999999999999999999999999999999999, -0.99999, 1, -0.1, -0.000000001, 1.5),
  (4, -0.01, 0.0000000001, 0.000000000000000000000000000001, -1, 0.00001, NULL, 10, -123456789.987654321, NULL);

CREATE TABLE bits (id INT PRIMARY KEY, b1 BIT(1), b2 BIT(2), b8 BIT(8), b9 BIT(9), b63 BIT(63), b64 BIT(64), bd BIT);
INSERT INTO bits VALUES (1, 0, 0, 0, 0, 0, 0, 1), (2, 1, 3, 255, 511, 9223372036854775807, 18446744073709551615, 0),
  (3, 1, 1, 128, 256, 4611686018427387904, 9223372036854775808, NULL), (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

SET sql_mode = 'ALLOW_INVALID_DATES';
CREATE TABLE dates (
  id INT PRIMARY KEY, d DATE, dn DATE NOT NULL, dt DATETIME, dt1 DATETIME(1), dt3 DATETIME(3), dt4 DATETIME(4), dt6 DATETIME(6) NOT NULL,
  ts TIMESTAMP NULL, ts2 TIMESTAMP(2) NULL, ts5 TIMESTAMP(5) NULL, ts6 TIMESTAMP(6) NOT NULL DEFAULT '2000-01-01'
);
INSERT INTO dates VALUES
  (1, '1000-01-01', '9999-12-31', '1000-01-01 00:00:00', '2000-02-29 23:59:59.9', '1969-12-31 23:59:59.999', '1970-01-01 00:00:00.0001',
   '9999-12-31 23:59:59.999999', '1970-01-01 00:00:01', '2038-01-19 03:14:07.99', '2001-09-09 01:46:40.12345', '2024-02-29 12:34:56.654321'),
  (2, '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00',
   '0000-00-00', '0000-00-00'),
  (3, '2004-00-00', '2004-05-00', '2004-00-00 00:00:00', '2004-05-00 01:02:03.4', NULL, NULL, '0000-00-00 01:02:03', NULL, NULL, NULL,
   '2020-01-01'),
  (4, NULL, '0001-01-01', NULL, '0001-01-01', '0000-01-01', '0000-12-31', '2020-01-01', NULL, NULL, NULL, '2020-01-01 00:00:00.000001');
SET SESSION time_zone = '+08:00';
INSERT INTO dates (id, dn, dt, dt6, ts, ts6) VALUES (5, '2020-01-01', '2020-01-01', '2020-01-01', '2020-01-01', '2020-01-01 07:59:59.5');
SET SESSION time_zone = '+00:00';
SET sql_mode = DEFAULT;

CREATE TABLE times (id INT PRIMARY KEY, t TIME, t1 TIME(1), t2 TIME(2), t3 TIME(3), t4 TIME(4), t5 TIME(5), t6 TIME(6));
INSERT INTO times VALUES (1, '00:00:00', '00:00:00.1', '00:00:00.01', '00:00:00.001', '00:00:00.0001', '00:00:00.00001', '00:00:00.000001'),
  (2, '23:59:59', '23:59:59.9', '23:59:59.99', '23:59:59.999', '23:59:59.9999', '23:59:59.99999', '23:59:59.999999'),
  (3, '12:34:56', NULL, '12:34:56', NULL, '12:34:56', NULL, '01:02:03.040506');

CREATE TABLE texts (
  id INT PRIMARY KEY, c CHAR(10), c255 CHAR(255), v VARCHAR(20), v300 VARCHAR(300), tt TINYTEXT, tx TEXT, mt MEDIUMTEXT, lt LONGTEXT,
  l1 VARCHAR(20) CHARACTER SET latin1, cl1 CHAR(100) CHARACTER SET latin1, lt1 TEXT CHARACTER SET latin1,
  a CHAR(5) CHARACTER SET ascii, u3 VARCHAR(90) CHARACTER SET utf8mb3, vb VARCHAR(10) COLLATE utf8mb4_bin, c0 CHAR(0)
);
INSERT INTO texts VALUES
  (1, '', '', '', '', '', '', '', '', '', '', '', '', '', '', ''),
  (2, 'trail   ', REPEAT('€', 255), 'trail  ', REPEAT('é', 300), REPEAT('x', 255), REPEAT('y', 300), REPEAT('z', 300), 'a\tb\nc\\d',
   'naïve €', 'ÿ', 'Œuvre', 'ascii', REPEAT('ü', 90), 'Bin', NULL),
  (3, '𝄞clef', '  lead', '日本語 ', 'emoji 😀', '😀', '', 'м', 'ü', 'ü', 'ü ', 'ü', 'A', '日本', 'ÄÖ', ''),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE bytes_ (
  id INT PRIMARY KEY, b BINARY(4), b255 BINARY(255), vb VARBINARY(20), vb300 VARBINARY(300), tb TINYBLOB, bl BLOB, mb MEDIUMBLOB, lb LONGBLOB
);
INSERT INTO bytes_ VALUES
  (1, '', '', '', '', '', '', '', ''),
  (2, X'01020000', X'FF00', X'0000', REPEAT(X'FE', 300), X'00', X'2000', REPEAT('m', 70), X'0A0D5C00'),
  (3, X'00000001', X'00', X'20', X'20', X'20', X'20', X'20', X'20'),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

SET sql_mode = '';
CREATE TABLE labels (
  id INT PRIMARY KEY, e ENUM('a','b','it''s','comma,','é','back\\slash','new\nline','日本'), s SET('x','y','z','ü'),
  el ENUM('ä','ö') CHARACTER SET latin1, sl SET('ä','ö') CHARACTER SET latin1, en ENUM('no','yes') NOT NULL,
  s9 SET('1','2','3','4','5','6','7','8','9'),
  s64 SET('1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16','17','18','19','20','21','22','23','24','25','26','27','28',
    '29','30','31','32','33','34','35','36','37','38','39','40','41','42','43','44','45','46','47','48','49','50','51','52','53','54','55',
    '56','57','58','59','60','61','62','63','64')
);
INSERT INTO labels VALUES (1, 'a', 'x', 'ä', 'ä', 'no', '1', '1'), (2, 'it''s', 'x,y,z,ü', 'ö', 'ä,ö', 'yes', '1,9', '1,32,33,64'),
  (3, 'invalid', '', 'invalid', 'invalid', 'invalid', '', ''), (4, NULL, NULL, NULL, NULL, 'yes', NULL, NULL),
  (5, 'back\\slash', 'ü', NULL, NULL, 'no', '9', '64'), (6, 'new\nline', 'z,x', NULL, NULL, 'no', NULL, NULL),
  (7, '日本', 'y', NULL, NULL, 'no', NULL, NULL), (8, 'comma,', 'y', NULL, NULL, 'no', NULL, NULL);
SET sql_mode = DEFAULT;
CREATE TABLE large_enum (id INT PRIMARY KEY, e
ENUM('v1','v2','v3','v4','v5','v6','v7','v8','v9','v10','v11','v12','v13','v14','v15','v16','v17','v18','v19','v20','v21','v22','v23','v24','v25','v26','v27','v28','v29','v30','v31','v32','v33','v34','v35','v36','v37','v38','v39','v40','v41','v42','v43','v44','v45','v46','v47','v48','v49','v50','v51','v52','v53','v54','v55','v56','v57','v58','v59','v60','v61','v62','v63','v64','v65','v66','v67','v68','v69','v70','v71','v72','v73','v74','v75','v76','v77','v78','v79','v80','v81','v82','v83','v84','v85','v86','v87','v88','v89','v90','v91','v92','v93','v94','v95','v96','v97','v98','v99','v100','v101','v102','v103','v104','v105','v106','v107','v108','v109','v110','v111','v112','v113','v114','v115','v116','v117','v118','v119','v120','v121','v122','v123','v124','v125','v126','v127','v128','v129','v130','v131','v132','v133','v134','v135','v136','v137','v138','v139','v140','v141','v142','v143','v144','v145','v146','v147','v148','v149','v150','v151','v152','v153','v154','v155','v156','v157','v158','v159','v160','v161','v162','v163','v164','v165','v166','v167','v168','v169','v170','v171','v172','v173','v174','v175','v176','v177','v178','v179','v180','v181','v182','v183','v184','v185','v186','v187','v188','v189','v190','v191','v192','v193','v194','v195','v196','v197','v198','v199','v200','v201','v202','v203','v204','v205','v206','v207','v208','v209','v210','v211','v212','v213','v214','v215','v216','v217','v218','v219','v220','v221','v222','v223','v224','v225','v226','v227','v228','v229','v230','v231','v232','v233','v234','v235','v236','v237','v238','v239','v240','v241','v242','v243','v244','v245','v246','v247','v248','v249','v250','v251','v252','v253','v254','v255','v256','v257','v258','v259','v260','v261','v262','v263','v264','v265','v266','v267','v268','v269','v270','v271','v272','v273','v274','v275','v276','v277','v278','v279','v280','v281','v282','v283','v284','v285','v286','v287','v288','v289','v290','v291','v292','v293','v294','v295','v296','v297','v298','v299','v300'));
INSERT INTO large_enum VALUES (1,'v1'),(2,'v255'),(3,'v256'),(4,'v300'),(5,NULL);

CREATE TABLE geometries (id INT PRIMARY KEY, g GEOMETRY, p POINT, l LINESTRING, y POLYGON, mp MULTIPOINT, ml MULTILINESTRING, my MULTIPOLYGON, gc GEOMETRYCOLLECTION);
INSERT INTO geometries VALUES
  (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POINT(-1.5 2.25)', 4326), ST_GeomFromText('LINESTRING(0 0,1 1,2 2)'),
   ST_GeomFromText('POLYGON((0 0,0 4,4 4,4 0,0 0),(1 1,1 2,2 2,2 1,1 1))'), ST_GeomFromText('MULTIPOINT((0 0),(1 1))', 4326),
   ST_GeomFromText('MULTILINESTRING((0 0,1 1),(2 2,3 3))'), ST_GeomFromText('MULTIPOLYGON(((0 0,0 1,1 1,0 0)))'),
   ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))', 4326)),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE keys_ (a BIGINT UNSIGNED, b VARCHAR(10), c INT, d DATE NOT NULL, v INT, PRIMARY KEY (c, a, b(4)));
INSERT INTO keys_ VALUES (18446744073709551615, 'key', -1, '2020-01-01', 1), (0, '', 0, '2020-01-01', 2);

CREATE TABLE generated_ (id INT PRIMARY KEY, a INT, s INT GENERATED ALWAYS AS (a * 2) STORED, t VARCHAR(20) GENERATED ALWAYS AS (CONCAT('<', a, '>')) STORED, h INT INVISIBLE DEFAULT 7);
INSERT INTO generated_ (id, a) VALUES (1, 21), (2, NULL);

CREATE TABLE addresses (id INT PRIMARY KEY, u UUID, i6 INET6, i4 INET4);
INSERT INTO addresses VALUES
  (1, '00000000-0000-0000-0000-000000000000', '::', '0.0.0.0'),
  (2, '123e4567-e89b-12d3-a456-426655440000', '::1', '1.2.3.4'),
  (3, 'ffffffff-ffff-ffff-ffff-ffffffffffff', '::ffff:1.2.3.4', '255.255.255.255'),
  (4, '01890a5d-ac96-774b-bcce-b302099a8057', 'fe80::', '10.0.0.0'),
  (5, '6ccd780c-baba-1026-9564-5b8c656024db', '2001:db8::ff00:42:8329', '127.0.0.1'),
  (6, '123e4567-e89b-42d3-a456-426655440001', '::2.3.4.5', NULL),
  (7, '123e4567-e89b-52d3-a456-426655440100', '1:0:0:4:0:0:0:8', NULL),
  (8, NULL, NULL, NULL),
  (9, '00000001-0000-0000-0000-000000000000', '1:0:3:4:5:6:7:8', '1.0.0.0'),
  (10, '123e4567-e89b-62d3-0456-426655440000', '::ffff:0:1', NULL),
  (11, '123e4567-e89b-12d3-a456-426655440000', '1::', NULL),
  (12, '123e4567-e89b-12d3-a456-426655440000', '::1:2', NULL),
  (13, '123e4567-e89b-12d3-a456-426655440000', '::1:2:3', NULL),
  (14, '123e4567-e89b-12d3-a456-426655440000', '0:0:0:0:0:abcd:102:304', NULL);

CREATE TABLE compressed_ (
  id INT PRIMARY KEY, v VARCHAR(300) COMPRESSED, t TEXT COMPRESSED, b BLOB COMPRESSED, vb VARBINARY(100) COMPRESSED,
  l VARCHAR(200) COMPRESSED CHARACTER SET latin1, tt TINYTEXT COMPRESSED, mt MEDIUMTEXT COMPRESSED, lb LONGBLOB COMPRESSED
);
INSERT INTO compressed_ VALUES
  (1, '', '', '', '', '', '', '', ''),
  (2, REPEAT('é', 300), REPEAT('text', 500), REPEAT(X'00', 1000), REPEAT(X'FF', 100), REPEAT('ü', 200), REPEAT('t', 200), REPEAT('m', 9999), REPEAT('l', 9999)),
  (3, 'x', 'short', X'00', X'01', 'ä', 'y', 'z', X'0102'), (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
SET SESSION column_compression_zlib_wrap = ON;
INSERT INTO compressed_ (id, t, b) VALUES (5, REPEAT('wrapped', 100), REPEAT('w', 1000));
SET SESSION column_compression_zlib_level = 0;
INSERT INTO compressed_ (id, t, b) VALUES (6, REPEAT('plain', 10), REPEAT('p', 100));

CREATE TABLE documents (id INT PRIMARY KEY, j JSON);
INSERT INTO documents VALUES (1, '{"a": [1, 2.50, "x"]}'), (2, '  [ ]  '), (3, NULL);

SET GLOBAL mysql56_temporal_format = OFF;
CREATE TABLE old_times (id INT PRIMARY KEY, t TIME, dt DATETIME, ts TIMESTAMP NULL, d DATE);
SET GLOBAL mysql56_temporal_format = ON;
INSERT INTO old_times VALUES (1, '23:59:59', '9999-12-31 23:59:59', '2038-01-19 03:14:07', '2020-02-29'),
  (2, '00:00:00', '1000-01-01 00:00:00', '1970-01-01 00:00:01', '1000-01-01'), (3, NULL, NULL, NULL, NULL);

CREATE TABLE signs (y YEAR PRIMARY KEY, i INT, u INT UNSIGNED, b BIT(3), j INT, v INT UNSIGNED, e ENUM('x'), f FLOAT, t TIME, g FLOAT UNSIGNED,
  ts TIMESTAMP NULL, d DECIMAL(5,1), du DECIMAL(5,1) UNSIGNED, c CHAR(3), s SMALLINT);
INSERT INTO signs VALUES (2000, -1, 1, 7, -1, 1, 'x', -1, '1:00', 1, '2000-01-01', -1, 1, 'c', -1);
