//! Rows of MySQL and MariaDB, in the text that the readers show for the value each must become in the lake.
//!
//! Every value is asked of the server as text (bytes in hex, 32-bit floats widened, since their own text has six digits)
//! and translated by the column's type. What a type cannot become is left as it is, so that it differs: the policies for
//! such values are for the tests that set them. Zero dates are NULL, which is the default of theirs.

use anyhow::{Context, bail, ensure};

use super::{Pair, SourceRows, number};
use crate::sql::Sql;

/// What a column's text has to go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Translation {
    /// None: the server's text is the readers'.
    Same,
    /// A bit of one: `true` and `false`.
    Boolean,
    Float,
    Double,
    /// Hex of bytes.
    Binary,
    /// Hex of a spatial value: its SRID, then its WKB.
    Geometry,
    /// Hex of 32-bit floats, least byte first.
    Vector,
    Date,
    /// A date and a clock; of an instant where it ends in a zone.
    Timestamp {
        zone: &'static str,
    },
    /// A clock.
    Time,
}

/// A column by its name, how the server is asked for it and what becomes of the answer.
struct Column {
    name: String,
    asked: String,
    translation: Translation,
}

impl Column {
    /// By `data_type` and `column_type` of `information_schema.columns`.
    fn new(name: String, quoted: &str, data_type: &str, column_type: &str) -> anyhow::Result<Self> {
        let (asked, translation) = match data_type {
            // Without the zeros of ZEROFILL.
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" => {
                (format!("{quoted} + 0"), Translation::Same)
            }
            // What is a number in the lake too; a longer one is the text.
            "decimal" if digits_of(column_type) <= 38 => (format!("{quoted} + 0"), Translation::Same),
            "decimal" | "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum" | "set"
            | "json" | "uuid" | "inet4" | "inet6" => (quoted.to_owned(), Translation::Same),
            "float" => (format!("cast({quoted} as double)"), Translation::Float),
            "double" => (quoted.to_owned(), Translation::Double),
            "bit" if column_type == "bit(1)" => (format!("{quoted} + 0"), Translation::Boolean),
            "bit" => (format!("{quoted} + 0"), Translation::Same),
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => {
                (format!("hex({quoted})"), Translation::Binary)
            }
            "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon"
            | "geometrycollection" | "geomcollection" => (format!("hex({quoted})"), Translation::Geometry),
            "vector" => (format!("hex({quoted})"), Translation::Vector),
            "date" => (quoted.to_owned(), Translation::Date),
            "datetime" => (quoted.to_owned(), Translation::Timestamp { zone: "" }),
            "timestamp" => (quoted.to_owned(), Translation::Timestamp { zone: "+00" }),
            "time" => (quoted.to_owned(), Translation::Time),
            other => bail!("{name} is of the type {other}, whose text nobody has looked at"),
        };
        Ok(Self { name, asked, translation })
    }
}

/// Of `decimal(10,2) unsigned` the 10.
fn digits_of(column_type: &str) -> u32 {
    let digits = column_type.split(['(', ',', ')']).nth(1);
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(u32::MAX)
}

/// Reads them in one statement.
pub(super) fn read(sql: &mut Sql, pair: &Pair) -> anyhow::Result<SourceRows> {
    let (schema, table) = (sql.literal(&pair.source.0), sql.literal(&pair.source.1));
    let described = sql.rows(&format!(
        "select column_name, data_type, column_type, column_key = 'PRI' from information_schema.columns
         where table_schema = {schema} and table_name = {table} order by ordinal_position"
    ))?;
    ensure!(!described.is_empty(), "the source has no table {pair}");
    let text = |row: &[Option<String>], at: usize| row[at].clone().unwrap_or_default();
    let columns = described.iter().map(|row| {
        let name = text(row, 0);
        let quoted = sql.identifier(&name);
        Column::new(name, &quoted, &text(row, 1), &text(row, 2))
    });
    let columns: Vec<Column> = columns.collect::<anyhow::Result<_>>()?;
    let key = (0..columns.len()).filter(|&at| text(&described[at], 3) == "1").collect();
    let list = columns.iter().map(|column| column.asked.as_str()).collect::<Vec<_>>().join(", ");
    let from = format!("{}.{}", sql.identifier(&pair.source.0), sql.identifier(&pair.source.1));
    let mut rows = sql.rows(&format!("select {list} from {from}"))?;
    for row in &mut rows {
        for (column, value) in columns.iter().zip(row) {
            if let Some(text) = value.take() {
                let translated = translate(column.translation, text);
                *value = translated.with_context(|| format!("{pair}, column {}", column.name))?;
            }
        }
    }
    Ok(SourceRows { columns: columns.into_iter().map(|column| column.name).collect(), key, rows })
}

/// The readers' text for a value.
fn translate(translation: Translation, text: String) -> anyhow::Result<Option<String>> {
    let translated = match translation {
        Translation::Same => text,
        Translation::Boolean => if text == "0" { "false" } else { "true" }.to_owned(),
        Translation::Float => {
            // Widened by the server, so that nothing is cut off here.
            #[expect(clippy::cast_possible_truncation, reason = "it was a 32-bit number")]
            let narrow = text.parse::<f64>()? as f32;
            number::float(narrow)
        }
        Translation::Double => number::double(text.parse()?),
        Translation::Binary => format!("\\x{}", text.to_lowercase()),
        Translation::Geometry => format!("\\x{}", ewkb(&text)?.to_lowercase()),
        Translation::Vector => vector(&text)?,
        Translation::Date => return Ok(date(&text)),
        Translation::Timestamp { zone } => return Ok(timestamp(&text, zone)),
        Translation::Time => without_zeros(&text).to_owned(),
    };
    Ok(Some(translated))
}

/// `2020-02-01`; NULL where the month or the day is zero. The year 0 is 1 BC.
fn date(text: &str) -> Option<String> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if month == "00" || day == "00" {
        return None;
    }
    Some(if year == "0000" { format!("0001-{month}-{day} BC") } else { text.to_owned() })
}

fn timestamp(text: &str, zone: &str) -> Option<String> {
    let (day, clock) = text.split_once(' ')?;
    let day = date(day)?;
    let (day, era) = day.strip_suffix(" BC").map_or((day.as_str(), ""), |day| (day, " BC"));
    Some(format!("{day} {}{zone}{era}", without_zeros(clock)))
}

/// A clock without the zeros that its column's precision adds.
fn without_zeros(clock: &str) -> &str {
    if clock.contains('.') { clock.trim_end_matches('0').trim_end_matches('.') } else { clock }
}

/// The flag in an EWKB's type that says that a SRID follows.
const HAS_SRID: u32 = 0x2000_0000;

/// EWKB in hex of a spatial value as the servers store it: four bytes of SRID, least first, then WKB.
fn ewkb(hex: &str) -> anyhow::Result<String> {
    let bytes = unhex(hex)?;
    let (srid, wkb) = bytes.split_first_chunk::<4>().context("a spatial value without a SRID")?;
    let (order, rest) = wkb.split_first().context("a spatial value without WKB")?;
    let (kind, coordinates) = rest.split_first_chunk::<4>().context("WKB without a type")?;
    ensure!(*order == 1, "WKB with its greatest bytes first, which the servers do not store");
    if u32::from_le_bytes(*srid) == 0 {
        return Ok(to_hex(wkb));
    }
    let kind = u32::from_le_bytes(*kind) | HAS_SRID;
    Ok(to_hex(&[&[*order][..], &kind.to_le_bytes(), srid, coordinates].concat()))
}

/// A list in JSON of the numbers' texts, as the readers show lists.
fn vector(hex: &str) -> anyhow::Result<String> {
    let bytes = unhex(hex)?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    ensure!(rest.is_empty(), "a vector of {} bytes", bytes.len());
    let texts: Vec<String> = numbers.iter().map(|bytes| number::float(f32::from_le_bytes(*bytes))).collect();
    Ok(serde_json::to_string(&texts)?)
}

fn unhex(hex: &str) -> anyhow::Result<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair)?, 16).with_context(|| format!("{hex} is not hex")))
        .collect()
}

fn to_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02X}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use calve_testkit::servers::{BINLOG_SERVERS, Kind, Server};

    use super::*;

    /// A column's type, a value in SQL, and the text that a reader must show for it. Without a kind: both have it.
    const VALUES: &[(Option<Kind>, &str, &str, Option<&str>)] = &[
        (None, "tinyint", "-128", Some("-128")),
        (None, "int(5) unsigned zerofill", "42", Some("42")),
        (None, "bigint unsigned", "18446744073709551615", Some("18446744073709551615")),
        (None, "int", "null", None),
        (None, "decimal(65,30)", "-1.5", Some("-1.500000000000000000000000000000")),
        (None, "decimal(6,2) unsigned zerofill", "1.5", Some("1.50")),
        (None, "decimal(39,1) unsigned zerofill", "1.5", Some("00000000000000000000000000000000000001.5")),
        (None, "float", "0.1", Some("0.1")),
        (None, "float", "3.40282e38", Some("3.40282e+38")),
        (None, "float", "1.17549435e-38", Some("1.1754944e-38")),
        (None, "float", "16777216", Some("1.6777216e+07")),
        (Some(Kind::MySql), "float", "-1e-300", Some("-0")),
        (Some(Kind::MariaDb), "float", "-1e-300", Some("0")),
        (Some(Kind::MySql), "double", "-0e0", Some("-0")),
        (None, "double", "0", Some("0")),
        (None, "double", "0.1e0 + 0.2e0", Some("0.30000000000000004")),
        (None, "double", "-1.7976931348623157e308", Some("-1.7976931348623157e+308")),
        (None, "double", "2.2250738585072014e-308", Some("2.2250738585072014e-308")),
        (None, "bit(1)", "b'1'", Some("true")),
        (None, "bit(1)", "b'0'", Some("false")),
        (None, "bit(64)", "0xffffffffffffffff", Some("18446744073709551615")),
        (None, "year", "0000", Some("0")),
        (None, "date", "'2024-02-29'", Some("2024-02-29")),
        (None, "date", "'0000-00-00'", None),
        (None, "date", "'2024-00-00'", None),
        (None, "datetime(6)", "'2024-02-29 01:02:03.120000'", Some("2024-02-29 01:02:03.12")),
        (None, "datetime", "'0000-00-00 00:00:00'", None),
        (None, "timestamp(3)", "'2024-02-29 01:02:03.000'", Some("2024-02-29 01:02:03+00")),
        (None, "time(6)", "'23:59:59.500000'", Some("23:59:59.5")),
        (None, "time", "'-838:59:59'", Some("-838:59:59")),
        (None, "char(5)", "'a  '", Some("a")),
        (None, "varchar(20) character set latin1", "'caf\u{e9}'", Some("caf\u{e9}")),
        (None, "text character set utf8mb4", "'\u{1f600}'", Some("\u{1f600}")),
        (None, "enum('a','b')", "'b'", Some("b")),
        (None, "set('a','b','c')", "'c,a'", Some("a,c")),
        (None, "binary(4)", "0x01", Some("\\x01000000")),
        (None, "varbinary(4)", "0xabcd", Some("\\xabcd")),
        (None, "blob", "''", Some("\\x")),
        (Some(Kind::MySql), "json", "'{\"b\": 1, \"a\": null}'", Some("{\"a\": null, \"b\": 1}")),
        (Some(Kind::MariaDb), "json", "'{\"b\": 1, \"a\": null}'", Some("{\"b\": 1, \"a\": null}")),
        (None, "point", "st_geomfromtext('POINT(1 2)')", Some("\\x0101000000000000000000f03f0000000000000040")),
        (
            None,
            "geometry",
            "st_geomfromtext('POINT(1 2)', 3857)",
            Some("\\x0101000020110f0000000000000000f03f0000000000000040"),
        ),
        (Some(Kind::MySql), "vector(2)", "string_to_vector('[1,0.5]')", Some("[\"1\",\"0.5\"]")),
        (Some(Kind::MariaDb), "inet6", "'2001:DB8::1'", Some("2001:db8::1")),
        (
            Some(Kind::MariaDb),
            "uuid",
            "'123E4567-e89b-12d3-a456-426614174000'",
            Some("123e4567-e89b-12d3-a456-426614174000"),
        ),
    ];

    #[test]
    fn values_are_read_as_the_readers_show_them() -> anyhow::Result<()> {
        for (kind, version) in BINLOG_SERVERS {
            let server = Server::shared(kind, version)?;
            let database = server.create_database("texts")?;
            let mut sql = Sql::connect(&database.url(kind.superuser())?)?;
            sql.run("set session sql_mode = ''")?;
            let known: Vec<_> = VALUES.iter().filter(|(only, ..)| only.is_none_or(|only| only == kind)).collect();
            let columns: Vec<String> = (0..known.len()).map(|at| format!("c{at} {} null", known[at].1)).collect();
            let values: Vec<&str> = known.iter().map(|(_, _, value, _)| *value).collect();
            sql.run(&format!("create table t (id int primary key, {})", columns.join(", ")))?;
            sql.run(&format!("insert into t values (7, {})", values.join(", ")))?;
            let found = SourceRows::read(&mut sql, &Pair::named(&format!("{}.t", database.name())))?;
            assert_eq!((found.key.as_slice(), found.rows.len(), found.rows[0][0].as_deref()), (&[0][..], 1, Some("7")));
            for (at, (_, column, value, expected)) in known.iter().enumerate() {
                assert_eq!(found.rows[0][at + 1].as_deref(), *expected, "{kind} {version}: {value} as {column}");
            }
        }
        Ok(())
    }
}
