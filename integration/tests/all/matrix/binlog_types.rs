//! The types of MySQL and MariaDB.

use calve_testkit::servers::Kind;

use super::types::{Key, Listed, ty};

fn mysql(kind: Kind, _: &str) -> bool {
    kind == Kind::MySql
}

fn mariadb(kind: Kind, _: &str) -> bool {
    kind == Kind::MariaDb
}

fn mariadb_11(kind: Kind, version: &str) -> bool {
    kind == Kind::MariaDb && version.starts_with("11")
}

const FLOAT: Key = Key::RefusedByCalve;
/// A key of such a column has no end without a length, and what such an index takes for the same may differ.
const NO_LENGTH: Key = Key::RefusedByServer;
const IN_TEXT: Key = Key::SameAs("varchar(9) character set utf8mb4");
const NO_CLOCK: &str = "Spark has no type for a time of day, and refuses a table with one";

const POINTS: &[&str] = &[
    "st_geomfromtext('POINT(-1.7976931348623157e308 1e-300)')",
    "st_geomfromtext('POINT(1.5 -2)')",
    "st_geomfromtext('POINT(0 0)')",
];

/// Columns of a session with `sql_mode = ''`.
pub(super) const TYPES: &[Listed] = &[
    ty("tinyint", &["-128", "127", "0", "-1"]),
    ty("tinyint unsigned", &["0", "255", "128", "127"]),
    ty("tinyint(1)", &["-128", "127", "0", "1"]),
    ty("boolean", &["false", "true"]),
    ty("smallint", &["-32768", "32767", "0", "-1"]),
    ty("smallint unsigned", &["0", "65535", "32768"]),
    ty("mediumint", &["-8388608", "8388607", "0", "-1"]),
    ty("mediumint unsigned", &["0", "16777215", "8388608"]),
    ty("int", &["-2147483648", "2147483647", "0", "-1"]),
    ty("integer unsigned", &["0", "4294967295", "2147483648"]),
    ty("int(7) unsigned zerofill", &["0", "4294967295", "42"]),
    ty("bigint", &["-9223372036854775808", "9223372036854775807", "0", "-1", "9007199254740993", "9007199254740992"]),
    ty("bigint unsigned", &["0", "18446744073709551615", "9223372036854775808", "9223372036854775807"]),
    ty("bigint(20) unsigned zerofill", &["0", "18446744073709551615", "7"]),
    ty(
        "float",
        &["-3.4028234e38", "3.4028234e38", "0", "1.17549435e-38", "1.4e-45", "0.1", "0.10000001", "16777216", "16777215", "1e6", "1e-5"],
    )
    .key(FLOAT),
    // MariaDB shows no zero with a sign.
    ty("float", &["-1e-300", "0", "1e-38"]).key(FLOAT).of(mysql),
    ty("float", &["1e-38", "-1e-300"]).key(FLOAT).of(mariadb),
    ty("double", &["-0e0", "0", "-5e-324 / 2e0"]).key(FLOAT).of(mysql),
    ty("float unsigned", &["0", "3.4028234e38", "0.5"]).key(FLOAT),
    ty("float(7,4) zerofill", &["0", "999.9999", "1.5"]).key(FLOAT),
    ty(
        "double",
        &[
            "-1.7976931348623157e308", "1.7976931348623157e308", "0", "2.2250738585072014e-308", "5e-324", "0.1e0", "0.10000000000000002e0",
            "1e15", "999999999999999.9e0", "123456.789", "1e-5",
        ],
    )
    .key(FLOAT),
    ty("double precision unsigned", &["0", "1.7976931348623157e308"]).key(FLOAT),
    ty("double(10,2)", &["-99999999.99", "99999999.99", "0", "0.01"]).key(FLOAT),
    ty("real", &["-1e0", "0.3e0"]).key(FLOAT),
    ty("decimal(12,3)", &["-999999999.999", "999999999.999", "0", "0.001", "-0.5", "0.5"]),
    ty("decimal(12,2)", &["-0.01", "'-0.001'", "0.01"]),
    ty("decimal(38,0)", &["-99999999999999999999999999999999999999", "99999999999999999999999999999999999999", "0", "1"]),
    ty("decimal(38,30)", &["-99999999.999999999999999999999999999999", "99999999.999999999999999999999999999999", "0", "0.000000000000000000000000000001"]),
    ty("decimal(30,30)", &["-0.999999999999999999999999999999", "0.999999999999999999999999999999", "0"]),
    ty("decimal(18,9)", &["-999999999.999999999", "999999999.999999999", "0", "0.000000001"]),
    ty("decimal(19,1)", &["-999999999999999999.9", "999999999999999999.9", "0"]),
    ty("dec(5,5) unsigned", &["0", "0.99999", "0.00001"]),
    ty("decimal(6,2) zerofill", &["0", "9999.99", "1.5"]),
    ty(
        "decimal(65,30)",
        &[
            "-99999999999999999999999999999999999.999999999999999999999999999999", "99999999999999999999999999999999999.999999999999999999999999999999", "0",
            "-0.000000000000000000000000000001", "0.000000000000000000000000000001", "-0.5",
        ],
    ),
    ty("decimal(65,0)", &["-99999999999999999999999999999999999999999999999999999999999999999", "99999999999999999999999999999999999999999999999999999999999999999", "0", "1"]),
    ty("decimal(39,2) unsigned zerofill", &["0", "9999999999999999999999999999999999999.99", "1.5"]),
    ty("bit(1)", &["0", "1"]),
    ty("bit(2)", &["0", "3", "1"]),
    ty("bit(8)", &["0", "255", "128"]),
    ty("bit(9)", &["0", "511", "b'100000001'", "255"]),
    ty("bit(33)", &["0", "0x1ffffffff", "0x100000000"]),
    ty("bit(63)", &["0", "0x7fffffffffffffff", "1"]),
    ty("bit(64)", &["0", "0xffffffffffffffff", "0x8000000000000000", "0x7fffffffffffffff"]),
    ty("year", &["1901", "2155", "0", "2024", "'00'"]),
    // A date with a zero in it is NULL in the lake.
    ty("date", &["'0001-01-01'", "'9999-12-31'", "'0000-00-00'", "'1000-01-01'", "'2024-00-00'", "'2024-02-29'", "'2024-02-00'", "'1582-10-10'", "'1969-12-31'", "'0000-01-01'"])
        .key(Key::SameAs("date")),
    ty("date", &["'1000-01-01'", "'9999-12-31'", "'1970-01-01'", "'1969-12-31'", "'0000-01-01'"]),
    ty(
        "datetime",
        &["'0000-01-01 00:00:00'", "'9999-12-31 23:59:59'", "'0000-00-00 00:00:00'", "'2024-03-31 02:30:00'", "'2024-00-10 01:02:03'", "'1000-01-01 00:00:00'"],
    )
    .key(Key::SameAs("datetime(6)")),
    ty("datetime(1)", &["'1000-01-01 00:00:00.1'", "'9999-12-31 23:59:59.9'", "'1969-12-31 23:59:59.9'"]),
    ty("datetime(2)", &["'1000-01-01 00:00:00.01'", "'9999-12-31 23:59:59.99'"]),
    ty("datetime(3)", &["'1000-01-01 00:00:00.001'", "'9999-12-31 23:59:59.999'", "'2024-02-29 12:30:15.120'"]),
    ty("datetime(4)", &["'1000-01-01 00:00:00.0001'", "'9999-12-31 23:59:59.9999'"]),
    ty("datetime(5)", &["'1000-01-01 00:00:00.00001'", "'9999-12-31 23:59:59.99999'"]),
    ty(
        "datetime(6)",
        &["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1970-01-01'", "'1969-12-31 23:59:59.999999'", "'2024-02-29 00:00:00.000001'", "'0000-12-31 23:59:59.999999'"],
    ),
    ty("timestamp", &["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'", "'2024-10-27 01:30:00'"]).key(Key::SameAs("timestamp(6)")),
    ty("timestamp(1)", &["'1970-01-01 00:00:01.1'", "'2038-01-19 03:14:07.9'"]),
    ty("timestamp(2)", &["'1970-01-01 00:00:01.01'", "'2038-01-19 03:14:07.99'"]),
    ty("timestamp(3)", &["'1970-01-01 00:00:01.001'", "'2038-01-19 03:14:07.999'"]),
    ty("timestamp(4)", &["'1970-01-01 00:00:01.0001'", "'2038-01-19 03:14:07.9999'"]),
    ty("timestamp(5)", &["'1970-01-01 00:00:01.00001'", "'2038-01-19 03:14:07.99999'"]),
    ty("timestamp(6)", &["'1970-01-01 00:00:01.000001'", "'2038-01-19 03:14:07.999999'", "'2024-10-27 01:30:00.5'", "'2024-10-27 01:30:00.500001'"]),
    ty("timestamp(6)", &["'2038-01-19 03:14:08'", "'2106-02-07 06:28:15.999999'", "'2038-01-19 03:14:07.999999'"]).of(mariadb_11),
    ty("time", &["'00:00:00'", "'23:59:59'", "'12:30:01'"]).not_by_spark(NO_CLOCK),
    ty("time(1)", &["'00:00:00'", "'23:59:59.9'", "'00:00:00.1'"]).not_by_spark(NO_CLOCK),
    ty("time(2)", &["'00:00:00'", "'23:59:59.99'", "'00:00:00.01'"]).not_by_spark(NO_CLOCK),
    ty("time(3)", &["'00:00:00'", "'23:59:59.999'", "'00:00:00.001'"]).not_by_spark(NO_CLOCK),
    ty("time(4)", &["'00:00:00'", "'23:59:59.9999'", "'00:00:00.0001'"]).not_by_spark(NO_CLOCK),
    ty("time(5)", &["'00:00:00'", "'23:59:59.99999'", "'00:00:00.00001'"]).not_by_spark(NO_CLOCK),
    ty("time(6)", &["'00:00:00'", "'23:59:59.999999'", "'00:00:00.000001'", "'12:30:00.5'"]).not_by_spark(NO_CLOCK),
    ty("char(6)", &["''", "'\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}\u{1f600}'", "'ab'", "'sixsix'", "' lead'"]),
    ty("char(0)", &["''"]).key(Key::RefusedByServer),
    ty("char(255)", &["''", "repeat('x', 255)"]),
    ty("nchar(4)", &["''", "'\u{e4}\u{65e5}'"]),
    ty(
        "varchar(40)",
        &[
            "''", "' '", "'NULL'", "'  spaces  '", "'  spaces '", "'tab\\tnewline\\nquote''backslash\\\\ nul\\0'", "'tab\\tnewline\\nquote''backslash\\\\ nul'",
            "'\u{e4}\u{f6}\u{fc} \u{2713} \u{1d11e} \u{65e5}'", "'\u{e9}'", "'e\u{301}'", "'a'", "'A'", "'\u{fb01}'", "'\u{feff}x'",
        ],
    )
    .key(IN_TEXT),
    ty("varchar(9) character set utf8mb4", &["''", "'a'", "'b '", "'\u{e4}b'", "'\u{1f600}'", "'a''b'", "'x\\ny'"]).equal(["'same'", "'SAME'"]),
    ty("varchar(9) character set utf8mb4 collate utf8mb4_bin", &["''", "'a'", "'A'", "'\u{e4}'", "'\u{c4}'"]),
    ty("nvarchar(9)", &["''", "'\u{e4}'"]),
    ty("varchar(300)", &["''", "repeat('\u{1f600}', 300)", "'\u{1f600}'"]).key(IN_TEXT),
    ty("tinytext", &["''", "repeat('t', 255)"]).key(NO_LENGTH),
    ty("text", &["''", "repeat('text ', 2000)", "'\u{1f600}\u{1f468}\u{200d}\u{1f469}'"]).key(NO_LENGTH),
    ty("mediumtext", &["''", "repeat('\u{e4}', 40000)"]).key(NO_LENGTH),
    ty("longtext", &["''", "repeat('long', 30000)"]).key(NO_LENGTH),
    ty("binary(4)", &["''", "0xffffffff", "0x00000001", "0xdeadbeef", "0x20202020", "0xff00"]),
    ty("char(4) byte", &["''", "0xffffffff", "'a'"]),
    ty("varbinary(40)", &["''", "0x00", "0x0000", "0xff00", "'a'", "'a '", "0x5c78"]),
    ty("varbinary(300)", &["''", "repeat(0x00ff, 150)", "0xdeadbeef00ff"]),
    ty("tinyblob", &["''", "repeat(0xff, 255)", "0x00"]).key(NO_LENGTH),
    ty("blob", &["''", "repeat(0x00ff, 20000)", "0x00"]).key(NO_LENGTH),
    ty("mediumblob", &["''", "repeat(0x80, 70000)"]).key(NO_LENGTH),
    ty("longblob", &["''", "repeat(0x01, 70000)"]).key(NO_LENGTH),
    ty("enum('sad', 'it''s \"ok\"', '\u{e4}', '', 'a,b', ' lead')", &["'sad'", "' lead'", "'it''s \"ok\"'", "'\u{e4}'", "''", "'a,b'"]),
    // What is none of its labels is an empty text.
    ty("enum('x', 'y')", &["'x'", "'y'", "'no such'"]),
    ty("set('red', 'green', '\u{e9}', 'it''s')", &["''", "'red,green,\u{e9},it''s'", "'red'", "'green,red'", "'it''s'", "'none,green'"])
        .key(Key::SameAs("set of eight")),
    ty("set('a','b','c','d','e','f','g','h')", &["''", "'a,b,c,d,e,f,g,h'", "'h'", "'a,c'"]),
    ty("set('a','b','c','d','e','f','g','h','i','j','k','l','m','n','o','p','q')", &["''", "'a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q'", "'q'", "'a,q,i'"]),
    ty("point", POINTS).key(NO_LENGTH).of(mysql),
    // MariaDB takes the length for granted.
    ty("point", POINTS).of(mariadb),
    ty("point srid 4326", &["st_geomfromtext('POINT(1 2)', 4326)", "st_geomfromtext('POINT(-90 180)', 4326)"]).key(NO_LENGTH).of(mysql),
    ty("linestring", &["st_geomfromtext('LINESTRING(0 0,1 1)')", "st_geomfromtext('LINESTRING(1 2,3 4,5 6)', 3857)"]).key(NO_LENGTH),
    ty("polygon", &["st_geomfromtext('POLYGON((0 0,4 0,4 4,0 0))')", "st_geomfromtext('POLYGON((0 0,9 0,9 9,0 0),(5 1,6 1,6 2,5 1))')"]).key(NO_LENGTH),
    ty("multipoint", &["st_geomfromtext('MULTIPOINT(0 0,1 1)')", "st_geomfromtext('MULTIPOINT(0 0)')"]).key(NO_LENGTH),
    ty("multilinestring", &["st_geomfromtext('MULTILINESTRING((0 0,1 1),(2 2,3 3))')", "st_geomfromtext('MULTILINESTRING((0 0,1 1))')"]).key(NO_LENGTH),
    ty("multipolygon", &["st_geomfromtext('MULTIPOLYGON(((0 0,4 0,4 4,0 0)),((5 5,6 5,6 6,5 5)))')", "st_geomfromtext('MULTIPOLYGON(((0 0,4 0,4 4,0 0)))')"]).key(NO_LENGTH),
    ty("geometrycollection", &["st_geomfromtext('GEOMETRYCOLLECTION EMPTY')", "st_geomfromtext('GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))')"]).key(NO_LENGTH),
    ty("geomcollection", &["st_geomfromtext('GEOMETRYCOLLECTION EMPTY', 4326)", "st_geomfromtext('GEOMETRYCOLLECTION(GEOMETRYCOLLECTION(POINT(1 2)))')"]).key(NO_LENGTH).of(mysql),
    ty(
        "geometry",
        &[
            "st_geomfromtext('POLYGON((0 0,4 0,4 4,0 0))')", "st_geomfromtext('LINESTRING(1 2,3 4)', 3857)", "st_geomfromtext('POINT(1 2)', 4326)",
            "st_geomfromtext('POINT(1 2)')", "st_geomfromtext('GEOMETRYCOLLECTION EMPTY')",
        ],
    )
    .key(NO_LENGTH),
    ty(
        "json",
        &[
            "'null'", "'{\"b\": 1, \"a\" : 2, \"a\": 3, \"\u{e9}\": \"\u{1f600}\"}'",
            "'[0, -0, -0.0, 1, -1, 1.5, 1e100, 18446744073709551615, 18446744073709551616, -9223372036854775808, -9223372036854775809, true, false, null, \"\"]'",
            "'123456789012345678901234567890'", "'\"\\\\u00e9 \\\\\" \\\\n / \\\\\\\\ \\\\u0001 \\\\u007f\"'",
            "json_array(cast('2024-02-29 01:02:03.5' as datetime(6)), cast('01:02:03' as time), cast('2024-02-29' as date), cast(1.50 as decimal(5,2)), x'ff00')",
            "json_array(timestamp'0000-00-00 00:00:00', cast('-838:59:59' as time(6)), cast('00:00:00.000001' as time(6)), date'0001-01-01', cast('9999-12-31 23:59:59.999999' as datetime(6)))",
            "json_array(cast(-0.00 as decimal(5,2)), cast(99999999999999999999999999999999999.999999999999999999999999999999 as decimal(65,30)), cast(-0.5 as decimal(65,30)), cast(7 as decimal(65,0)), cast(99999999999999999999999999999999999999999999999999999999999999999 as decimal(65,0)))",
            "json_array(0.1e0, 1e15, 1e16, 1e17, 1e20, 1e21, 1e22, 123456789012345680000e0, 1e-4, 1e-5, 1e-6, 1e-7, 1.7976931348623157e308, 2.2250738585072014e-308, 5e-324, 100e0, 0.30000000000000004e0, 1.0e0, -0e0, 123456.789e0)",
            "json_array(b'101', _binary'x', cast('x' as binary), cast(2024 as year), st_geomfromtext('POINT(1 2)'))",
            "concat('[', repeat('{\"key\": [1, 2.5, \"value\"]}, ', 3000), '0]')", "'{}'", "'[]'", "'{\"\": {\"\": []}}'", "'[[[[[[[[[1]]]]]]]]]'", "'true'",
        ],
    )
    .key(NO_LENGTH)
    .of(mysql),
    ty("json", &["'null'", "'{\"b\": 1, \"a\" : 2, \"a\": 3}'", "'[1.10,  \"\\\\u00e9\", {}]'", "'123456789012345678901234567890.5e10'"]).key(NO_LENGTH).of(mariadb),
    ty("vector(3)", &["string_to_vector('[-3.4e38,3.4e38,0]')", "string_to_vector('[0,0,0]')", "string_to_vector('[-0,1,0.1]')", "string_to_vector('[1]')"]).key(NO_LENGTH).of(mysql),
    ty("vector(3)", &["vec_fromtext('[-16777216,16777216,0]')", "vec_fromtext('[0,0,0]')", "vec_fromtext('[1,-2.5,0.1]')"]).key(Key::RefusedByCalve).of(mariadb_11),
    ty("uuid", &["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'", "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "'01890a5d-ac96-774b-bcce-b302099a8057'"]).of(mariadb),
    ty("inet6", &["'::'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'", "'2001:db8::1'", "'::ffff:192.0.2.1'", "'::1.2.3.4'", "'1::'", "'0:0:1::'"]).of(mariadb),
    ty("inet4", &["'0.0.0.0'", "'255.255.255.255'", "'192.0.2.1'"]).of(mariadb),
    ty("varchar(200) compressed", &["''", "repeat('abc', 60)", "'\u{1f600}'"]).key(Key::RefusedByServer).of(mariadb),
    ty("varbinary(200) compressed", &["''", "repeat(0x00ff, 60)", "0x00"]).key(Key::RefusedByServer).of(mariadb),
    ty("text compressed character set latin1", &["''", "repeat('\u{e9}t\u{e9} ', 3000)"]).key(NO_LENGTH).of(mariadb),
    ty("blob compressed", &["''", "repeat(0x0001, 3000)", "0x00"]).key(NO_LENGTH).of(mariadb),
];

/// Words of the server's help about types that are none of a column.
pub(super) const NO_TYPES: &[&str] =
    &["AUTO_INCREMENT", "BLOB AND TEXT DATA TYPES", "FLOATING-POINT ACCURACY", "NUMERIC DATA TYPE OVERVIEW", "ROW"];

/// Character sets and texts that they can hold.
pub(super) const SETS: &[(&str, &[&str])] = &[
    ("latin1", &["caf\u{e9} \u{20ac}\u{152}", "\u{fc}"]),
    ("latin2", &["za\u{17c}\u{f3}\u{142}\u{107}"]),
    ("latin5", &["\u{131}\u{15f}\u{11f}"]),
    ("latin7", &["\u{101}\u{17e}\u{16b}"]),
    ("ascii", &["plain"]),
    ("dec8", &["\u{e9}\u{153}"]),
    ("hp8", &["\u{e9}\u{c0}"]),
    ("swe7", &["sm\u{f6}rg\u{e5}s"]),
    ("cp850", &["\u{e9}\u{2592}"]),
    ("cp852", &["\u{142}\u{2591}"]),
    ("cp866", &["\u{43f}\u{440}\u{2593}"]),
    ("cp1250", &["\u{17c}\u{20ac}"]),
    ("cp1251", &["\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442} \u{20ac}"]),
    ("cp1256", &["\u{645}\u{631}\u{62d}"]),
    ("cp1257", &["\u{101}\u{17e}"]),
    ("keybcs2", &["\u{10d}\u{159}"]),
    ("macce", &["\u{10d}\u{2020}"]),
    ("macroman", &["\u{e9}\u{2020}"]),
    ("armscii8", &["\u{561}\u{562}"]),
    ("geostd8", &["\u{10d0}\u{10d1}"]),
    ("koi8r", &["\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}"]),
    ("koi8u", &["\u{457}\u{491}"]),
    ("greek", &["\u{3b1}\u{3b2}\u{3b3}"]),
    ("hebrew", &["\u{5e9}\u{5dc}\u{5d5}\u{5dd}"]),
    ("tis620", &["\u{e2a}\u{e27}\u{e31}\u{e2a}"]),
    ("utf8mb3", &["\u{e4}\u{65e5}\u{672c}"]),
    ("utf8mb4", &["\u{65e5}", "\u{1f600}\u{1f468}\u{200d}\u{1f469}"]),
    ("ucs2", &["\u{e4}\u{65e5}"]),
    ("utf16", &["\u{65e5} x", "\u{1f600}\u{65e5}"]),
    ("utf16le", &["\u{65e5}", "\u{1f600}\u{65e5}"]),
    ("utf32", &["\u{65e5}", "\u{1f600}\u{65e5}"]),
    ("gbk", &["\u{4e2d}\u{6587}\u{7e41}", "\u{4e02}"]),
    ("gb2312", &["\u{4e2d}\u{6587}"]),
    ("gb18030", &["\u{4e2d}\u{6587}", "\u{1f600}\u{e9}"]),
    ("big5", &["\u{4e2d}\u{6587}\u{8a31}\u{529f}"]),
    ("sjis", &["\u{65e5}\u{672c}\u{8868}\u{30bd}"]),
    ("cp932", &["\u{2460}\u{65e5}\u{ff76}"]),
    ("ujis", &["\u{65e5}\u{672c}\u{ff76}"]),
    ("eucjpms", &["\u{65e5}\u{672c}\u{2460}"]),
    ("euckr", &["\u{d55c}\u{ae00}"]),
];
