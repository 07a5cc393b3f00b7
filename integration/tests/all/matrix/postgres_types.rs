//! The types of Postgres.

use calve_testkit::servers::Kind;

use super::types::{Key, Listed, text, ty};

/// Made before the tables.
pub(super) const OWN_TYPES: &str = "
    create type mood as enum ('sad', 'it''s \"ok\"', 'ä', '', 'unused');
    create domain short as varchar(5) check (value <> 'xxxxx');
    create domain shorter as short check (length(value) < 5);
    create domain cents as numeric(9,2);
    create domain tags as text[];
    create domain attributes as hstore;
    create domain moment as timestamptz(3);
    create domain humour as mood;
    create type pair as (n int, t text);
    create type nest as (p pair, many int[], at timestamptz, r real, b bytea, i interval);
    create type span as range (subtype = float8, subtype_diff = float8mi);
    create table a_table (id int primary key);";

fn since_16(_: Kind, version: &str) -> bool {
    version >= "16"
}

fn since_17(_: Kind, version: &str) -> bool {
    version >= "17"
}

/// Debian 12, from which the servers of version 15 are, has no pgvector.
pub(super) fn has_vectors(_: Kind, version: &str) -> bool {
    version > "15"
}

/// Types of which there is no value that a statement could write.
pub(super) const WITHOUT_VALUES: &[&str] = &[
    "gtsvector",
    "pg_node_tree",
    "pg_ndistinct",
    "pg_dependencies",
    "pg_mcv_list",
    "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary",
    // What indexes of extensions keep.
    "ghstore",
    "ltree_gist",
];

const FLOAT: Key = Key::RefusedByCalve;
const LIST: Key = Key::RefusedByCalve;
const NO_INDEX: Key = Key::RefusedByServer;
const NO_CLOCK: &str = "Spark has no type for a time of day, and refuses a table with one";

/// An array of each is made of them by the test.
pub(super) const TYPES: &[Listed] = &[
    ty("boolean", &["false", "true"]),
    ty("smallint", &["-32768", "32767", "0", "-1"]),
    ty("integer", &["-2147483648", "2147483647", "0", "-1"]),
    ty("bigint", &["-9223372036854775808", "9223372036854775807", "0", "9007199254740993", "9007199254740992"]),
    ty("oid", &["0", "4294967295", "2147483648"]),
    ty(
        "real",
        &[
            "'-3.4028235e38'",
            "'3.4028235e38'",
            "'0'",
            "'-0'",
            "'1.4e-45'",
            "'-1.4e-45'",
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "0.1",
            "'0.100000009'",
            "16777216",
            "16777215",
            "1e6",
            "999999.9",
            "1e-4",
            "9.9999e-5",
        ],
    )
    .key(FLOAT),
    ty(
        "double precision",
        &[
            "'-1.7976931348623157e308'",
            "'1.7976931348623157e308'",
            "'0'",
            "'-0'",
            "'5e-324'",
            "'-5e-324'",
            "'NaN'",
            "'Infinity'",
            "'-Infinity'",
            "0.1",
            "'0.10000000000000002'",
            "1e15",
            "999999999999999.9",
            "123456.789",
            "1e-4",
            "9.999e-5",
        ],
    )
    .key(FLOAT),
    ty("numeric(12,3)", &["-999999999.999", "999999999.999", "0", "0.001", "-0.5", "0.5", "-0.001"]),
    ty(
        "numeric(38,0)",
        &[
            "-99999999999999999999999999999999999999",
            "99999999999999999999999999999999999999",
            "0",
            "10000",
            "9999",
            "100000000",
        ],
    ),
    ty(
        "numeric(38,38)",
        &[
            "-0.99999999999999999999999999999999999999",
            "0.99999999999999999999999999999999999999",
            "0",
            "0.00000000000000000000000000000000000001",
        ],
    ),
    ty("numeric(18,17)", &["-9.99999999999999999", "9.99999999999999999", "0", "0.00000000000000001"]),
    ty("numeric(19,1)", &["-999999999999999999.9", "999999999999999999.9", "0", "0.1"]),
    ty("numeric(1)", &["-9", "9", "0"]),
    ty("numeric(4)", &["-9999", "9999", "0"]),
    ty(
        "numeric",
        &[
            "'-Infinity'",
            "'Infinity'",
            "0",
            "'NaN'",
            "'1e40'",
            "'-1e-40'",
            "1.1",
            "12345678901234567890123456789012345678901234567890.5",
            "10000",
            "0.0001",
            "100000000.00000001",
        ],
    )
    .equal(["7.0", "7.00"]),
    // What is too long for an index, and what it takes for the same.
    ty("numeric", &["'1e-16383'", "'1e131071'", "0", "0.00", "1.10", "1.1", "0.0001", "0.00010"])
        .key(Key::SameAs("numeric")),
    ty(
        "numeric(50,20)",
        &[
            "-999999999999999999999999999999.99999999999999999999",
            "999999999999999999999999999999.99999999999999999999",
            "0",
            "'NaN'",
            "-0.00000000000000000001",
        ],
    ),
    ty("numeric(5,-2)", &["-9999900", "9999900", "0", "100"]),
    ty("numeric(3,5)", &["-0.00999", "0.00999", "0", "0.00001"]),
    ty(
        "text",
        &[
            "''",
            "' '",
            "'NULL'",
            "'null'",
            "' spaces '",
            "' spaces'",
            "E'tab\\tnew\\nline\\rquote''back\\\\slash\"\\x01\\x7f'",
            "'äöü ✓ 𝄞 日本語'",
            "U&'\\00e9'",
            "U&'e\\0301'",
            "chr(1114111)",
            "chr(65279) || 'x'",
            "repeat('long ', 1000)",
            "'{\"a\"}'",
            "'a'",
            "'A'",
        ],
    ),
    ty("varchar(20)", &["''", "repeat('𝄞', 20)", "'exactly twenty chars'", "'trailing  '", "'trailing '"]),
    ty("varchar", &["''", "'x'"]),
    ty("character(6)", &["''", "'ab'", "'sixsix'", "' lead'"]),
    ty("character", &["''", "'𝄞'"]),
    ty("name", &["''", "repeat('n', 63)", "'a_name'"]),
    text("\"char\"", &["''", "'x'", "' '"]),
    text("\"char\"", &["'\\200'", "'\\377'"]).of(since_16),
    ty(
        "bytea",
        &["''", "'\\x00'", "'\\x0000'", "'\\xdeadbeef00ff'", "decode(repeat('00ff', 5000), 'hex')", "'\\x5c78'"],
    ),
    ty(
        "date",
        &[
            "'4714-11-24 BC'",
            "'5874897-12-31'",
            "'1970-01-01'",
            "'1969-12-31'",
            "'0001-01-01'",
            "'0001-12-31 BC'",
            "'2000-02-29'",
            "'1900-02-28'",
            "'9999-12-31'",
            "'10000-01-01'",
            "'1582-10-04'",
            "'1582-10-15'",
        ],
    ),
    ty("time", &["'00:00:00'", "'23:59:59.999999'", "'12:30:00.5'", "'00:00:00.000001'"]).not_by_spark(NO_CLOCK),
    ty("time(0)", &["'00:00:00'", "'23:59:59'", "'12:00'"]).not_by_spark(NO_CLOCK),
    text(
        "timetz",
        &[
            "'00:00:00+15:59:59'",
            "'24:00:00-15:59:59'",
            "'00:00:00+00'",
            "'23:59:59.999999+14'",
            "'12:00+05:30'",
            "'12:00+05:30:15'",
        ],
    ),
    text("timetz(3)", &["'00:00:00+00'", "'12:00:00.123-01'"]),
    ty(
        "timestamp",
        &[
            "'4714-11-24 00:00:00 BC'",
            "'294247-01-10 04:00:54.775806'",
            "'1970-01-01'",
            "'1969-12-31 23:59:59.999999'",
            "'1970-01-01 00:00:00.000001'",
            "'0001-01-01 00:00:00'",
            "'0001-12-31 23:59:59.999999 BC'",
            "'9999-12-31 23:59:59.999999'",
            "'10000-01-01'",
            "'2024-02-29 12:30:15.1'",
            "'2024-02-29 12:30:15.100001'",
            "'1582-10-10 12:00'",
        ],
    ),
    ty("timestamp(0)", &["'0044-03-15 12:00 BC'", "'2024-12-31 23:59:59'", "'1970-01-01'"]),
    ty(
        "timestamptz",
        &[
            "'4714-11-24 00:00:00+00 BC'",
            "'294247-01-10 04:00:54.775806+00'",
            "'1970-01-01 00:00:00+00'",
            "'1969-12-31 23:59:59.999999+00'",
            "'0001-01-01 00:00:00+00'",
            "'2024-03-31 02:30:00+02'",
            "'9999-12-31 23:59:59.999999+00'",
            "'2024-06-01 12:00:00.000001-11:30'",
            "'1880-01-01 00:00:00 Europe/Amsterdam'",
        ],
    ),
    ty(
        "uuid",
        &[
            "'00000000-0000-0000-0000-000000000000'",
            "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
            "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
        ],
    ),
    ty(
        "json",
        &[
            "'null'",
            "'0'",
            "'-0'",
            "'{\"b\": 1, \"a\" : 2, \"a\": 3}'",
            "'123456789012345678901234567890.5e10'",
            "'[\"\\u00e9\", \"/\"]'",
            "'[\"é\", \"\\/\"]'",
            "'  [1 ,2]  '",
            "'\"\\ud834\\udd1e\"'",
        ],
    )
    .key(NO_INDEX),
    ty(
        "jsonb",
        &[
            "'null'",
            "'0'",
            "'{\"b\": 1, \"a\" : 2, \"a\": 3}'",
            "'123456789012345678901234567890.5'",
            "'[1.10, \"x\", {}]'",
            "'\"\\u00e9 \\u001f \\\\ \\/ \\\" 𝄞\"'",
            "'{}'",
            "'[]'",
            "'true'",
            "'1e400'",
            "'1e-400'",
        ],
    )
    .equal(["'[2.0]'", "'[2.00]'"]),
    ty("jsonb", &["'[1.10]'", "'[1.1]'", "'-0.0'", "'0'"]).key(Key::SameAs("jsonb")),
    text("mood", &["'sad'", "'it''s \"ok\"'", "'ä'", "''"]),
    text("humour", &["'sad'", "'ä'"]),
    text(
        "inet",
        &[
            "'0.0.0.0'",
            "'255.255.255.255'",
            "'192.168.0.1/24'",
            "'192.168.0.1'",
            "'::1'",
            "'::ffff:1.2.3.4/96'",
            "'ffff::/0'",
        ],
    ),
    text("cidr", &["'0.0.0.0/0'", "'255.255.255.255/32'", "'10.0.0.0/8'", "'2001:db8::/32'", "'::/128'"]),
    text("macaddr", &["'00:00:00:00:00:00'", "'ff:ff:ff:ff:ff:ff'", "'08:00:2b:01:02:03'"]),
    text("macaddr8", &["'00:00:00:00:00:00:00:00'", "'ff:ff:ff:ff:ff:ff:ff:ff'", "'08:00:2b:01:02:03:04:05'"]),
    text(
        "interval",
        &[
            "'-178000000 years'",
            "'178000000 years'",
            "'0'",
            "'1 year 2 months -3 days 04:05:06.789'",
            "'-1 year -2 months 3 days -04:05:06.789'",
            "'-1 microsecond'",
            "'1 microsecond'",
            "'1 day'",
            "'25:00:00'",
            "'2562047788:00:54.775807'",
            "'1 week'",
        ],
    )
    .equal(["'1 month 2 days'", "'32 days'"]),
    text("interval", &["'-infinity'", "'infinity'"]).of(since_17),
    text("interval hour to minute", &["'01:02'", "'-01:02'", "'24:00'"]),
    text("money", &["'-92233720368547758.08'", "'92233720368547758.07'", "'0'", "12.34", "'-0.01'"]),
    text("bit(1)", &["B'0'", "B'1'"]),
    text("bit(9)", &["B'000000000'", "B'111111111'", "B'100000001'"]),
    text("bit(64)", &["0::bit(64)", "(-1)::bigint::bit(64)", "1::bit(64)"]),
    text(
        "bit varying",
        &["B''", "B'0'", "B'00'", "B'1'", "B'1000000000000000000000000000000000000000000000000000000000000000001'"],
    ),
    text("bit varying(5)", &["B''", "B'11111'"]),
    text("xml", &["''", "'<a b=\"c\">d &amp; é</a>'", "'<?xml version=\"1.0\"?><a/>'", "'text'"]).key(NO_INDEX),
    text(
        "point",
        &["'(-1.7976931348623157e308,1.7976931348623157e308)'", "'(0,-0)'", "'(1.5,-2)'", "'(NaN,Infinity)'"],
    )
    .key(NO_INDEX),
    text("line", &["'{1,2,3}'", "'{0,1,0}'"]).key(NO_INDEX),
    text("lseg", &["'[(0,0),(1,1)]'", "'[(1,1),(0,0)]'"]).key(NO_INDEX),
    text("box", &["'(1,1),(0,0)'", "'(3,3),(2,2)'"]).key(NO_INDEX),
    text("path", &["'[(0,0),(1,1)]'", "'((0,0),(1,1))'", "'((0,0))'"]).key(NO_INDEX),
    text("polygon", &["'((0,0),(1,1),(2,0))'", "'((0,0))'"]).key(NO_INDEX),
    text("circle", &["'<(0,0),0>'", "'<(1,2),3.5>'"]).key(NO_INDEX),
    text("int4range", &["'(,)'", "'[-2147483648,2147483647)'", "'empty'", "'[1,5)'", "'[1,)'", "'(,5)'"]),
    text("int8range", &["'(,)'", "'[-9223372036854775808,9223372036854775807)'", "'empty'"]),
    text("numrange", &["'(,)'", "'empty'", "'(1.50,2]'", "'(1.51,2]'", "'[NaN,NaN]'"])
        .equal(["'[7.0,8)'", "'[7.00,8)'"]),
    text(
        "daterange",
        &["'(,)'", "'[4714-11-24 BC,5874897-12-31)'", "'empty'", "'[-infinity,infinity]'", "'[2024-01-01,2024-02-01)'"],
    ),
    text(
        "tsrange",
        &[
            "'(,)'",
            "'empty'",
            "'[\"2024-01-01 00:00:00.5\",infinity)'",
            "'[\"2024-01-01 00:00:00\",\"2024-01-02 00:00:00\"]'",
        ],
    ),
    text("tstzrange", &["'(,)'", "'empty'", "'[\"2024-01-01 00:00:00+05:30\",)'"]),
    text("span", &["'(,)'", "'empty'", "'[0.1,0.2)'", "'[-Infinity,NaN]'"]),
    text("int4multirange", &["'{}'", "'{(,)}'", "'{[1,5),[7,9)}'"]),
    text("int8multirange", &["'{}'", "'{[1,5)}'"]),
    text("nummultirange", &["'{}'", "'{[1.50,5)}'", "'{[1.51,5)}'"]),
    text("datemultirange", &["'{}'", "'{[2024-01-01,2024-01-02)}'"]),
    text("tsmultirange", &["'{}'", "'{[\"2024-01-01 00:00:00\",\"2024-01-02 00:00:00.5\")}'"]),
    text("tstzmultirange", &["'{}'", "'{[\"2024-01-01 00:00:00+01\",)}'"]),
    text("span_multirange", &["'{}'", "'{[0.1,0.2)}'"]),
    text("tsvector", &["''", "'a:1 fat:2'", "'a:1A,16383 ''it''''s'':3'", "'b'"]),
    text("tsquery", &["''", "'fat & (rat | !cat:*A)'", "'a <-> b'"]),
    text("jsonpath", &["'$'", "'lax $.\"a\"[*] ? (@ > 1.50)'"]).key(NO_INDEX),
    text("pg_lsn", &["'0/0'", "'FFFFFFFF/FFFFFFFF'", "'16/B374D848'"]),
    text("xid", &["'0'", "'4294967295'"]).key(NO_INDEX),
    text("cid", &["'0'", "'4294967295'"]).key(NO_INDEX),
    text("xid8", &["'0'", "'18446744073709551615'", "'9223372036854775808'"]),
    text("tid", &["'(0,0)'", "'(4294967295,65535)'", "'(0,1)'"]),
    text("txid_snapshot", &["'1:1:'", "'10:20:10,14,15'"]).key(NO_INDEX),
    text("pg_snapshot", &["'1:1:'", "'10:20:10,14,15'"]).key(NO_INDEX),
    text("refcursor", &["''", "'a cursor'"]).key(NO_INDEX),
    text("aclitem", &["makeaclitem(10, 10, 'SELECT', false)", "makeaclitem(0, 10, 'SELECT', true)"]).key(NO_INDEX),
    text("regproc", &["0", "'pg_catalog.now'", "4294967295::oid"]),
    text("regprocedure", &["0", "'pg_catalog.abs(integer)'"]),
    text("regoper", &["0", "'pg_catalog.||/'"]),
    text("regoperator", &["0", "'pg_catalog.+(integer,integer)'"]),
    text("regclass", &["0", "'pg_catalog.pg_class'", "'public.a_table'", "4294967295::oid"]),
    text("regcollation", &["0", "'pg_catalog.\"C\"'"]),
    text("regtype", &["0", "'integer'", "'public.mood'", "'timestamp with time zone[]'"]),
    text("regrole", &["0", "'pg_monitor'"]),
    text("regnamespace", &["0", "'pg_catalog'"]),
    text("regconfig", &["0", "'pg_catalog.english'"]),
    text("regdictionary", &["0", "'pg_catalog.simple'"]),
    text("information_schema.cardinal_number", &["0", "2147483647"]),
    text("information_schema.character_data", &["''", "'x'"]),
    text("information_schema.sql_identifier", &["''", "'x'"]),
    ty("information_schema.time_stamp", &["'1970-01-01 00:00:00+00'", "'2024-01-01 00:00:00.12+00'"]),
    text("information_schema.yes_or_no", &["'NO'", "'YES'"]),
    text("short", &["''", "'abc'", "'abc '"]),
    text("shorter", &["''", "'abc'"]),
    ty("cents", &["-9999999.99", "9999999.99", "0", "0.01"]),
    ty("moment", &["'1970-01-01 00:00:00+00'", "'2024-01-01 00:00:00.123+00'"]),
    text("pair", &["'(,)'", "'(1,\"a b\")'", "'(1,\"\")'", "'(1,)'", "'(-2147483648,\"quo\"\"te, back\\\\slash\")'"]),
    text(
        "nest",
        &[
            "row(row(1, 'a b'), array[1,null,2], '2024-01-01 00:00:00.5+01', 0.1, '\\x00ff', '1 year')::nest",
            "'(,,,,,)'",
            "row(row(1, 'a b'), array[1,null,2], '2024-01-01 00:00:00.5+01', '0.100000009', '\\x00ff', '1 year')::nest",
        ],
    ),
    text("citext", &["''", "'Case'", "'ä'"]).equal(["'same'", "'SAME'"]),
    text("ltree", &["''", "'a.b_c.D'"]),
    text("lquery", &["'*'", "'a.*{1,2}.b|c'"]).key(NO_INDEX),
    text("ltxtquery", &["'a'", "'a & !b*'"]).key(NO_INDEX),
    text("cube", &["'(0)'", "'(1,-2.5),(3,0.1)'", "'(1,2)'"]),
    text("halfvec(2)", &["'[-65504,65504]'", "'[0,0]'", "'[1,2.5]'"]).of(has_vectors),
    text("sparsevec(5)", &["'{}/5'", "'{1:1,3:-2.5}/5'"]).of(has_vectors),
];

/// Arrays, whose values are more than those of their elements, and other types of many values.
pub(super) const OF_MANY: &[Listed] = &[
    ty("integer[]", &["'{}'", "'[-1:1]={1,2,3}'", "'{-2147483648,NULL,2147483647}'", "'{NULL}'", "'{NULL,NULL}'"])
        .key(LIST),
    ty("integer[2][2]", &["'{}'", "'{1}'"]).key(LIST),
    ty(
        "text[]",
        &[
            r#"'{a,NULL,"NULL","","b c","it''s","{x,y}","back\\slash","quo\"te"}'"#,
            r#"'{"äöü ✓ 𝄞 日本語","tab\t"," "}'"#,
            "'[5:6]={x,y}'",
            r#"'{""}'"#,
            "'{NULL}'",
        ],
    )
    .key(LIST),
    ty("tags", &["'{}'", r#"'{one,NULL,"two, three"}'"#]).key(LIST),
    ty("int2vector", &["''", "'1 2 -3'", "'0'"]).key(LIST),
    ty("oidvector", &["''", "'1 4294967295'"]).key(LIST),
    ty("short[]", &["'{abc,NULL,\"\"}'", "'{}'"]).key(LIST),
    text("mood[]", &[r#"'{sad,"it''s \"ok\"",NULL,ä}'"#, r#"'{""}'"#]).key(LIST),
    text("box[]", &["'{(1,1),(0,0);(3,3),(2,2)}'", "'{NULL;(1,1),(0,0)}'"]).key(LIST),
    text("pair[]", &[r#"'{"(1,\"a b\")",NULL,"(,)"}'"#, "'{}'"]).key(LIST),
    ty(
        "hstore",
        &[
            "''",
            "'a=>1, \"b c\"=>NULL, \"quo\\\"te\"=>\"back\\\\slash\", ü=>\"\", \"NULL\"=>\"NULL\"'",
            "'a=>1'",
            "'a=>NULL'",
            "'a=>\"NULL\"'",
        ],
    )
    .key(LIST),
    ty("attributes", &["''", "'x=>y'"]).key(LIST),
    ty("vector(3)", &["'[-3.4e+38,3.4e+38,0]'", "'[0,0,0]'", "'[1,-2.5,1e-07]'", "'[1,-2.5,1.0000001e-07]'"])
        .key(LIST)
        .of(has_vectors),
    text("hstore[]", &[r#"'{"\"a\"=>\"1\"",NULL}'"#, "'{}'"]).key(LIST),
    text("attributes[]", &["'{x=>y,NULL}'", "'{}'"]).key(LIST),
    text("tags[]", &[r#"'{"{one,NULL}",NULL,"{}"}'"#, "'{}'"]).key(LIST),
    text("int2vector[]", &[r#"'{"1 2",NULL}'"#, "'{}'"]).key(LIST),
    text("vector(2)[]", &[r#"'{"[1,2.5]",NULL}'"#, "'{}'"]).key(LIST).of(has_vectors),
];
