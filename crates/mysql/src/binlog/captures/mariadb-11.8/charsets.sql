-- Text of every character set, in columns of every length and in labels.
-- global: binlog_row_metadata=FULL
CREATE DATABASE cap;
USE cap;
CREATE TABLE ascii (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','plain'), s SET('x','plain')) CHARACTER SET ascii;
INSERT INTO ascii VALUES (1, '', '', '', '', '', 'x', ''), (2, 'plain', 'plain ', 'plain ', ' plain', REPEAT('plain', 50), 'plain', 'x,plain'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE big5 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','中文'), s SET('x','中文')) CHARACTER SET big5;
INSERT INTO big5 VALUES (1, '', '', '', '', '', 'x', ''), (2, '中文', '中文 ', '中文 ', ' 中文', REPEAT('中文', 50), '中文', 'x,中文'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE cp1250 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','žluť'), s SET('x','žluť')) CHARACTER SET cp1250;
INSERT INTO cp1250 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'žluť', 'žluť ', 'žluť ', ' žluť', REPEAT('žluť', 50), 'žluť', 'x,žluť'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE cp1251 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','Привет'), s SET('x','Привет')) CHARACTER SET cp1251;
INSERT INTO cp1251 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'Привет', 'Привет ', 'Привет ', ' Привет', REPEAT('Привет', 50), 'Привет', 'x,Привет'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE cp1256 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','مرحبا'), s SET('x','مرحبا')) CHARACTER SET cp1256;
INSERT INTO cp1256 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'مرحبا', 'مرحبا ', 'مرحبا ', ' مرحبا', REPEAT('مرحبا', 50), 'مرحبا', 'x,مرحبا'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE cp1257 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','ąžuolas'), s SET('x','ąžuolas')) CHARACTER SET cp1257;
INSERT INTO cp1257 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'ąžuolas', 'ąžuolas ', 'ąžuolas ', ' ąžuolas', REPEAT('ąžuolas', 50), 'ąžuolas', 'x,ąžuolas'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE cp850 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','éà'), s SET('x','éà')) CHARACTER SET cp850;
INSERT INTO cp850 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'éà', 'éà ', 'éà ', ' éà', REPEAT('éà', 50), 'éà', 'x,éà'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE cp852 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','žluť'), s SET('x','žluť')) CHARACTER SET cp852;
INSERT INTO cp852 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'žluť', 'žluť ', 'žluť ', ' žluť', REPEAT('žluť', 50), 'žluť', 'x,žluť'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE cp866 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','Привет'), s SET('x','Привет')) CHARACTER SET cp866;
INSERT INTO cp866 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'Привет', 'Привет ', 'Привет ', ' Привет', REPEAT('Привет', 50), 'Привет', 'x,Привет'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE cp932 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本①ｱ'), s SET('x','日本①ｱ')) CHARACTER SET cp932;
INSERT INTO cp932 VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本①ｱ', '日本①ｱ ', '日本①ｱ ', ' 日本①ｱ', REPEAT('日本①ｱ', 50), '日本①ｱ', 'x,日本①ｱ'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE dec8 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','éÿ'), s SET('x','éÿ')) CHARACTER SET dec8;
INSERT INTO dec8 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'éÿ', 'éÿ ', 'éÿ ', ' éÿ', REPEAT('éÿ', 50), 'éÿ', 'x,éÿ'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE eucjpms (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本①ｱ'), s SET('x','日本①ｱ')) CHARACTER SET eucjpms;
INSERT INTO eucjpms VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本①ｱ', '日本①ｱ ', '日本①ｱ ', ' 日本①ｱ', REPEAT('日本①ｱ', 50), '日本①ｱ', 'x,日本①ｱ'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE euckr (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','한국'), s SET('x','한국')) CHARACTER SET euckr;
INSERT INTO euckr VALUES (1, '', '', '', '', '', 'x', ''), (2, '한국', '한국 ', '한국 ', ' 한국', REPEAT('한국', 50), '한국', 'x,한국'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE gb2312 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','中文'), s SET('x','中文')) CHARACTER SET gb2312;
INSERT INTO gb2312 VALUES (1, '', '', '', '', '', 'x', ''), (2, '中文', '中文 ', '中文 ', ' 中文', REPEAT('中文', 50), '中文', 'x,中文'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE gbk (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','中文'), s SET('x','中文')) CHARACTER SET gbk;
INSERT INTO gbk VALUES (1, '', '', '', '', '', 'x', ''), (2, '中文', '中文 ', '中文 ', ' 中文', REPEAT('中文', 50), '中文', 'x,中文'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE geostd8 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','გამარჯობა'), s SET('x','გამარჯობა')) CHARACTER SET geostd8;
INSERT INTO geostd8 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'გამარჯობა', 'გამარჯობა ', 'გამარჯობა ', ' გამარჯობა', REPEAT('გამარჯობა', 50), 'გამარჯობა', 'x,გამარჯობა'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE greek (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','Γειά'), s SET('x','Γειά')) CHARACTER SET greek;
INSERT INTO greek VALUES (1, '', '', '', '', '', 'x', ''), (2, 'Γειά', 'Γειά ', 'Γειά ', ' Γειά', REPEAT('Γειά', 50), 'Γειά', 'x,Γειά'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE hebrew (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','שלום'), s SET('x','שלום')) CHARACTER SET hebrew;
INSERT INTO hebrew VALUES (1, '', '', '', '', '', 'x', ''), (2, 'שלום', 'שלום ', 'שלום ', ' שלום', REPEAT('שלום', 50), 'שלום', 'x,שלום'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE hp8 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','éà'), s SET('x','éà')) CHARACTER SET hp8;
INSERT INTO hp8 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'éà', 'éà ', 'éà ', ' éà', REPEAT('éà', 50), 'éà', 'x,éà'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE keybcs2 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','žluť'), s SET('x','žluť')) CHARACTER SET keybcs2;
INSERT INTO keybcs2 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'žluť', 'žluť ', 'žluť ', ' žluť', REPEAT('žluť', 50), 'žluť', 'x,žluť'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE koi8r (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','Привет'), s SET('x','Привет')) CHARACTER SET koi8r;
INSERT INTO koi8r VALUES (1, '', '', '', '', '', 'x', ''), (2, 'Привет', 'Привет ', 'Привет ', ' Привет', REPEAT('Привет', 50), 'Привет', 'x,Привет'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE koi8u (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','Привіт'), s SET('x','Привіт')) CHARACTER SET koi8u;
INSERT INTO koi8u VALUES (1, '', '', '', '', '', 'x', ''), (2, 'Привіт', 'Привіт ', 'Привіт ', ' Привіт', REPEAT('Привіт', 50), 'Привіт', 'x,Привіт'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE latin1 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','Œuvre €'), s SET('x','Œuvre €')) CHARACTER SET latin1;
INSERT INTO latin1 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'Œuvre €', 'Œuvre € ', 'Œuvre € ', ' Œuvre €', REPEAT('Œuvre €', 50), 'Œuvre €', 'x,Œuvre €'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE latin2 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','žluť łódź'), s SET('x','žluť łódź')) CHARACTER SET latin2;
INSERT INTO latin2 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'žluť łódź', 'žluť łódź ', 'žluť łódź ', ' žluť łódź', REPEAT('žluť łódź', 50), 'žluť łódź', 'x,žluť łódź'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE latin5 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','İstanbul'), s SET('x','İstanbul')) CHARACTER SET latin5;
INSERT INTO latin5 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'İstanbul', 'İstanbul ', 'İstanbul ', ' İstanbul', REPEAT('İstanbul', 50), 'İstanbul', 'x,İstanbul'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE latin7 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','ąžuolas'), s SET('x','ąžuolas')) CHARACTER SET latin7;
INSERT INTO latin7 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'ąžuolas', 'ąžuolas ', 'ąžuolas ', ' ąžuolas', REPEAT('ąžuolas', 50), 'ąžuolas', 'x,ąžuolas'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE macce (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','žluť'), s SET('x','žluť')) CHARACTER SET macce;
INSERT INTO macce VALUES (1, '', '', '', '', '', 'x', ''), (2, 'žluť', 'žluť ', 'žluť ', ' žluť', REPEAT('žluť', 50), 'žluť', 'x,žluť'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE macroman (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','éà'), s SET('x','éà')) CHARACTER SET macroman;
INSERT INTO macroman VALUES (1, '', '', '', '', '', 'x', ''), (2, 'éà', 'éà ', 'éà ', ' éà', REPEAT('éà', 50), 'éà', 'x,éà'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE sjis (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本ｱ'), s SET('x','日本ｱ')) CHARACTER SET sjis;
INSERT INTO sjis VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本ｱ', '日本ｱ ', '日本ｱ ', ' 日本ｱ', REPEAT('日本ｱ', 50), '日本ｱ', 'x,日本ｱ'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE swe7 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','ÅÄÖ'), s SET('x','ÅÄÖ')) CHARACTER SET swe7;
INSERT INTO swe7 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'ÅÄÖ', 'ÅÄÖ ', 'ÅÄÖ ', ' ÅÄÖ', REPEAT('ÅÄÖ', 50), 'ÅÄÖ', 'x,ÅÄÖ'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE tis620 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','สวัสดี'), s SET('x','สวัสดี')) CHARACTER SET tis620;
INSERT INTO tis620 VALUES (1, '', '', '', '', '', 'x', ''), (2, 'สวัสดี', 'สวัสดี ', 'สวัสดี ', ' สวัสดี', REPEAT('สวัสดี', 50), 'สวัสดี', 'x,สวัสดี'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE ucs2 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本 é'), s SET('x','日本 é')) CHARACTER SET ucs2;
INSERT INTO ucs2 VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本 é', '日本 é ', '日本 é ', ' 日本 é', REPEAT('日本 é', 50), '日本 é', 'x,日本 é'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE ujis (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本ｱ'), s SET('x','日本ｱ')) CHARACTER SET ujis;
INSERT INTO ujis VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本ｱ', '日本ｱ ', '日本ｱ ', ' 日本ｱ', REPEAT('日本ｱ', 50), '日本ｱ', 'x,日本ｱ'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE utf16 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本🧊'), s SET('x','日本🧊')) CHARACTER SET utf16;
INSERT INTO utf16 VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本🧊', '日本🧊 ', '日本🧊 ', ' 日本🧊', REPEAT('日本🧊', 50), '日本🧊', 'x,日本🧊'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE utf16le (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本🧊'), s SET('x','日本🧊')) CHARACTER SET utf16le;
INSERT INTO utf16le VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本🧊', '日本🧊 ', '日本🧊 ', ' 日本🧊', REPEAT('日本🧊', 50), '日本🧊', 'x,日本🧊'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE utf32 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本🧊'), s SET('x','日本🧊')) CHARACTER SET utf32;
INSERT INTO utf32 VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本🧊', '日本🧊 ', '日本🧊 ', ' 日本🧊', REPEAT('日本🧊', 50), '日本🧊', 'x,日本🧊'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE utf8mb3 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本é'), s SET('x','日本é')) CHARACTER SET utf8mb3;
INSERT INTO utf8mb3 VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本é', '日本é ', '日本é ', ' 日本é', REPEAT('日本é', 50), '日本é', 'x,日本é'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
CREATE TABLE utf8mb4 (id INT PRIMARY KEY, c CHAR(20), c200 CHAR(200), v VARCHAR(20), v300 VARCHAR(300), t TEXT, e ENUM('x','日本🧊'), s SET('x','日本🧊')) CHARACTER SET utf8mb4;
INSERT INTO utf8mb4 VALUES (1, '', '', '', '', '', 'x', ''), (2, '日本🧊', '日本🧊 ', '日本🧊 ', ' 日本🧊', REPEAT('日本🧊', 50), '日本🧊', 'x,日本🧊'),
  (3, 'a ', NULL, 'z', NULL, NULL, NULL, NULL);
