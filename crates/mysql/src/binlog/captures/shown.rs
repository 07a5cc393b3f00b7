//! What a server says of its tables, and whether a cell of the lake is the value that it shows.

use std::fmt::Write;
use std::sync::Arc;

use calve_core::{Column, ColumnBuffer, ColumnType, NativeType, TableName, TableSchema, Values};

use crate::binlog::native::DeclaredType;

/// A table at the end of a capture.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) schema: Arc<TableSchema>,
    /// In the order of the key; None is NULL.
    pub(super) rows: Vec<Vec<Option<String>>>,
}

/// A table as far as it was read: its key as place in the key and column, its rows.
type Described = (TableSchema, Vec<(usize, usize)>, Vec<Vec<Option<String>>>);

/// Reads what `make.py` wrote.
pub(super) fn tables(text: &str) -> Vec<Table> {
    let mut tables: Vec<Described> = Vec::new();
    for line in text.lines() {
        let mut fields = line.split('\t').map(unescape);
        let tag = fields.next().flatten().unwrap();
        let fields: Vec<Option<String>> = fields.collect();
        if tag == "table" {
            let table = TableName::new("cap", fields[0].clone().unwrap());
            tables.push((TableSchema::new(table, 0, Vec::new(), Vec::new()), vec![], vec![]));
            continue;
        }
        let (schema, key, rows) = tables.last_mut().unwrap();
        match tag.as_str() {
            "column" => {
                let [name, full, charset, nullable, place] = <[Option<String>; 5]>::try_from(fields).unwrap();
                if let Some(place) = &place {
                    key.push((place.parse().unwrap(), schema.columns.len()));
                }
                schema.columns.push(column(&name.unwrap(), &full.unwrap(), charset, nullable.unwrap() == "YES"));
            }
            "row" => rows.push(fields),
            other => panic!("{other}"),
        }
    }
    let finish = |(mut schema, mut key, rows): Described| {
        key.sort_unstable();
        schema.key = key.into_iter().map(|(_, column)| column).collect();
        Table { schema: Arc::new(schema), rows }
    };
    tables.into_iter().map(finish).collect()
}

fn unescape(field: &str) -> Option<String> {
    if field == "\\N" {
        return None;
    }
    let mut text = String::new();
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next().unwrap() {
                't' => '\t',
                'n' => '\n',
                other => other,
            },
            c => c,
        });
    }
    Some(text)
}

fn column(name: &str, full: &str, character_set: Option<String>, nullable: bool) -> Column {
    let declared = DeclaredType::parse(full).unwrap();
    let ty = lake_type(&declared);
    // A zero date becomes NULL.
    let dated = matches!(ty, ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz);
    let native =
        NativeType { id: 0, modifier: -1, name: full.to_owned(), character_set, attributes: Vec::new(), element: None };
    Column {
        id: 0,
        name: name.to_owned(),
        ty,
        nullable: nullable || dated,
        native,
        usage: calve_core::ColumnUse::Values,
    }
}

/// The table of types, written down once more.
fn lake_type(declared: &DeclaredType) -> ColumnType {
    let number = |index: usize| declared.numbers.get(index).copied().unwrap_or(0);
    match declared.base.as_str() {
        "tinyint" | "smallint" | "mediumint" | "year" => ColumnType::Int,
        "int" if !declared.unsigned => ColumnType::Int,
        "int" => ColumnType::Long,
        "bigint" if !declared.unsigned => ColumnType::Long,
        "bigint" => ColumnType::Decimal { precision: 20, scale: 0 },
        "float" => ColumnType::Float,
        "double" => ColumnType::Double,
        "decimal" if number(0) <= 38 => {
            ColumnType::Decimal { precision: u8::try_from(number(0)).unwrap(), scale: u8::try_from(number(1)).unwrap() }
        }
        "bit" => match number(0) {
            1 => ColumnType::Boolean,
            64 => ColumnType::Decimal { precision: 20, scale: 0 },
            _ => ColumnType::Long,
        },
        "date" => ColumnType::Date,
        "time" => ColumnType::Time,
        "datetime" => ColumnType::Timestamp,
        "timestamp" => ColumnType::TimestampTz,
        "uuid" => ColumnType::Uuid,
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" | "geometry" | "point"
        | "linestring" | "polygon" | "multipoint" | "multilinestring" | "multipolygon" | "geometrycollection"
        | "geomcollection" => ColumnType::Binary,
        _ => ColumnType::String,
    }
}

/// The cell as the server shows it; floating-point numbers in a form that reads back exactly.
pub(super) fn show(column: &Column, buffer: &ColumnBuffer, row: usize) -> Option<String> {
    if buffer.is_null(row) {
        return None;
    }
    let declared = DeclaredType::parse(&column.native.name).unwrap();
    let decimals = declared.numbers.first().copied().unwrap_or(0);
    Some(match (&column.ty, buffer.values()) {
        (ColumnType::Boolean, Values::Boolean(bits)) => u8::from(bits.get_bit(row)).to_string(),
        (ColumnType::Int, Values::Int32(v)) => v[row].to_string(),
        (ColumnType::Date, Values::Int32(v)) => date(v[row].into()),
        (ColumnType::Long, Values::Int64(v)) => v[row].to_string(),
        (ColumnType::Time, Values::Int64(v)) => time(v[row], decimals),
        (ColumnType::Timestamp | ColumnType::TimestampTz, Values::Int64(v)) => {
            let (day, of_day) = (v[row].div_euclid(86_400_000_000), v[row].rem_euclid(86_400_000_000));
            format!("{} {}", date(day), time(of_day, decimals))
        }
        (ColumnType::Float, Values::Float32(v)) => format!("{:?}", f64::from(v[row])),
        (ColumnType::Double, Values::Float64(v)) => format!("{:?}", v[row]),
        (ColumnType::Decimal { scale, .. }, Values::Decimal(v)) => decimal(v[row], usize::from(*scale)),
        (ColumnType::Uuid, Values::Uuid(v)) => uuid::Uuid::from_slice(&v[row * 16..row * 16 + 16]).unwrap().to_string(),
        (ColumnType::String, Values::Bytes { offsets, data }) => {
            String::from_utf8(cell(offsets, data, row).to_vec()).unwrap()
        }
        (ColumnType::Binary, Values::Bytes { offsets, data }) => {
            cell(offsets, data, row).iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02X}").unwrap();
                hex
            })
        }
        other => panic!("{declared:?}: {other:?}"),
    })
}

/// What the server shows, in the form of [`show`].
pub(super) fn normal(column: &Column, shown: Option<&str>) -> Option<String> {
    let shown = shown?;
    let declared = DeclaredType::parse(&column.native.name).unwrap();
    match &column.ty {
        ColumnType::Float | ColumnType::Double => Some(format!("{:?}", shown.parse::<f64>().unwrap())),
        ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz => {
            let (month, day) = (&shown[5..7], &shown[8..10]);
            (month != "00" && day != "00").then(|| shown.to_owned())
        }
        ColumnType::Int | ColumnType::Long if declared.zerofill && declared.base != "year" => {
            Some(shown.trim_start_matches('0').to_owned()).map(|text| if text.is_empty() { "0".into() } else { text })
        }
        ColumnType::Int if declared.base == "year" => Some(shown.parse::<i32>().unwrap().to_string()),
        _ => Some(shown.to_owned()),
    }
}

fn cell<'a>(offsets: &[i32], data: &'a [u8], row: usize) -> &'a [u8] {
    &data[usize::try_from(offsets[row]).unwrap()..usize::try_from(offsets[row + 1]).unwrap()]
}

fn decimal(unscaled: i128, scale: usize) -> String {
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A day, counted from 1970 by going through the years.
fn date(mut days: i64) -> String {
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = |year: i64| if leap(year) { 366 } else { 365 };
    let mut year = 1970;
    while days < 0 {
        year -= 1;
        days += length(year);
    }
    while days >= length(year) {
        days -= length(year);
        year += 1;
    }
    let months = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= months[month] {
        days -= months[month];
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, days + 1)
}

fn time(microseconds: i64, decimals: u32) -> String {
    let seconds = microseconds / 1_000_000;
    let text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if decimals == 0 {
        return text;
    }
    let fraction = format!("{:06}", microseconds % 1_000_000);
    format!("{text}.{}", &fraction[..decimals as usize])
}
