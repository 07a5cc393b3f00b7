//! Cells as text, to name a row to people by its key.
//!
//! A cell's text is what Postgres prints for it, exact and never shortened; only in the key as a whole are long ones cut.

use std::fmt::Write;

use crate::{ColumnBuffer, ColumnType, TableSchema, Values};

const DAY_US: i64 = 86_400_000_000;

/// The text of a cell: None for NULL, and where there is no such cell.
pub fn cell_text(column: &ColumnBuffer, row: usize) -> Option<String> {
    if row >= column.len() || column.is_null(row) {
        return None;
    }
    Some(match column.values() {
        Values::Boolean(bits) => bits.get_bit(row).to_string(),
        Values::Int32(v) => match column.column_type() {
            ColumnType::Date => date(i64::from(*v.get(row)?)),
            _ => v.get(row)?.to_string(),
        },
        Values::Int64(v) => match (column.column_type(), *v.get(row)?) {
            (ColumnType::Time, time) => time_of_day(time),
            (ColumnType::Timestamp, instant) => timestamp(instant, ""),
            (ColumnType::TimestampTz, instant) => timestamp(instant, "+00"),
            (_, value) => value.to_string(),
        },
        Values::Float32(v) => v.get(row)?.to_string(),
        Values::Float64(v) => v.get(row)?.to_string(),
        Values::Decimal(v) => match column.column_type() {
            ColumnType::Decimal { scale, .. } => decimal(*v.get(row)?, usize::from(*scale)),
            _ => return None,
        },
        Values::Uuid(v) => uuid(v.get(row * 16..row * 16 + 16)?),
        Values::Bytes { offsets, data } => {
            let offset = |index: usize| offsets.get(index).and_then(|offset| usize::try_from(*offset).ok());
            let bytes = data.get(offset(row)?..offset(row + 1)?)?;
            match column.column_type() {
                ColumnType::Binary => format!("\\x{}", hex(bytes)),
                _ => String::from_utf8(bytes.to_vec()).ok()?,
            }
        }
        Values::List { offsets, elements } => {
            let shown =
                cells_of(offsets, row)?.map(|at| cell_text(elements, at).map_or_else(null, |text| quoted(&text)));
            format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
        }
        Values::Map { offsets, keys, values } => {
            let always = |text: String| format!("\"{}\"", escaped(&text));
            let entry = |at| {
                Some(format!("{}=>{}", always(cell_text(keys, at)?), cell_text(values, at).map_or_else(null, always)))
            };
            cells_of(offsets, row)?.map(entry).collect::<Option<Vec<_>>>()?.join(", ")
        }
    })
}

/// Where the parts of a list are.
fn cells_of(offsets: &[i32], row: usize) -> Option<std::ops::Range<usize>> {
    let offset = |index: usize| offsets.get(index).and_then(|offset| usize::try_from(*offset).ok());
    Some(offset(row)?..offset(row + 1)?)
}

fn null() -> String {
    "NULL".to_owned()
}

/// An element of an array as `array_out` writes it: in quotes where it would not be read back otherwise.
fn quoted(text: &str) -> String {
    let plain = |c: char| !matches!(c, '"' | '\\' | '{' | '}' | ',') && !c.is_ascii_whitespace() && c != '\u{b}';
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("\"{}\"", escaped(text))
}

fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"")
}

/// A key as people read it: `id = 5, region = 'eu'`, long texts cut. `columns` are those of the key, in its order, and the key
/// is that of their cells `row`; a `?` stands for one that is not there. `no key` where the table has none.
pub fn show_key<'a>(schema: &TableSchema, columns: impl Iterator<Item = &'a ColumnBuffer>, row: usize) -> String {
    const LONGEST: usize = 80;
    if schema.key.is_empty() {
        return "no key".to_owned();
    }
    let mut shown = String::new();
    for (column, buffer) in schema.key_columns().zip(columns) {
        let text = cell_text(buffer, row).unwrap_or_else(|| "?".to_owned());
        let comma = if shown.is_empty() { "" } else { ", " };
        let bare =
            matches!(column.ty, ColumnType::Boolean | ColumnType::Int | ColumnType::Long | ColumnType::Decimal { .. });
        let quote = if bare { "" } else { "'" };
        let cut = text.chars().take(LONGEST);
        // Control characters would garble a terminal.
        let cut: String =
            if column.ty == ColumnType::String { cut.flat_map(char::escape_debug).collect() } else { cut.collect() };
        let more = if text.chars().nth(LONGEST).is_some() { ".." } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(shown, "{comma}{} = {quote}{cut}{more}{quote}", column.name);
    }
    shown
}

fn decimal(unscaled: i128, scale: usize) -> String {
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let (sign, point) = (if unscaled < 0 { "-" } else { "" }, if scale > 0 { "." } else { "" });
    format!("{sign}{whole}{point}{fraction}")
}

fn date(days: i64) -> String {
    let (year, month, day) = civil(days);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    format!("{year:04}-{month:02}-{day:02}{era}")
}

fn time_of_day(time: i64) -> String {
    let seconds = time / 1_000_000;
    let whole = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match time % 1_000_000 {
        0 => whole,
        fraction => format!("{whole}.{fraction:06}").trim_end_matches('0').to_owned(),
    }
}

fn timestamp(instant: i64, zone: &str) -> String {
    let date = date(instant.div_euclid(DAY_US));
    let (day, era) = date.strip_suffix(" BC").map_or((date.as_str(), ""), |day| (day, " BC"));
    format!("{day} {}{zone}{era}", time_of_day(instant.rem_euclid(DAY_US)))
}

/// Year, month and day of a day since 1970-01-01, by years that begin with March in eras of 400.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, year) = (day - (153 * month + 2) / 5 + 1, era * 400 + year);
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

fn uuid(bytes: &[u8]) -> String {
    let digits = hex(bytes);
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|group| digits.get(group).unwrap_or_default());
    groups.join("-")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, NativeType, RowBuffer, RowOp, TableName, decode_key};
    use std::sync::Arc;

    type Push<'a> = &'a dyn Fn(&mut ColumnBuffer);

    #[test]
    fn lists_and_maps_are_shown_as_postgres_writes_them() {
        let mut list = ColumnBuffer::new(ColumnType::String.list());
        for elements in [
            vec![Some("a"), None, Some("null"), Some(""), Some("b c"), Some(r#"d"\"#), Some("{e,}"), Some("ü")],
            vec![],
        ] {
            let push = |out: &mut ColumnBuffer| {
                elements.iter().try_for_each(|element| {
                    let Some(text) = element else {
                        out.push_null();
                        return Ok(());
                    };
                    out.push_str(text)
                })
            };
            list.push_list(push).unwrap();
        }
        list.push_null();
        let texts: Vec<_> = (0..4).map(|row| cell_text(&list, row)).collect();
        let first = r#"{a,NULL,"null","","b c","d\"\\","{e,}",ü}"#;
        assert_eq!(texts, [Some(first.to_owned()), Some("{}".to_owned()), None, None]);
        let mut map = ColumnBuffer::new(ColumnType::Map);
        map.push_map(|keys, values| {
            keys.push_str("a\"").and_then(|()| values.push_str("1"))?;
            values.push_null();
            keys.push_str("b")
        })
        .unwrap();
        assert_eq!(cell_text(&map, 0).unwrap(), r#""a\""=>"1", "b"=>NULL"#);
    }

    #[test]
    fn keys_are_shown_as_people_write_them() {
        let decimal = ColumnType::Decimal { precision: 20, scale: 2 };
        let long = format!("it's\n{}", "x".repeat(100));
        let shown_long = format!("'it\\'s\\n{}..'", "x".repeat(75));
        let cells: [(ColumnType, Push<'_>, &str); 10] = [
            (ColumnType::Int, &|out| out.push_i32(-5), "-5"),
            (decimal, &|out| out.push_decimal(-5), "-0.05"),
            (ColumnType::Boolean, &|out| out.push_bool(true), "true"),
            (ColumnType::Timestamp, &|out| out.push_i64(-1_000), "'1969-12-31 23:59:59.999'"),
            (ColumnType::TimestampTz, &|out| out.push_i64(-1), "'1969-12-31 23:59:59.999999+00'"),
            (ColumnType::Date, &|out| out.push_i32(11_016), "'2000-02-29'"),
            (ColumnType::Time, &|out| out.push_i64(3_600_000_000), "'01:00:00'"),
            (ColumnType::String, &|out| out.push_str(&long).unwrap(), &shown_long),
            (ColumnType::Binary, &|out| out.push_bytes(&[0, 255]).unwrap(), "'\\x00ff'"),
            (ColumnType::Uuid, &|out| out.push_uuid([0x11; 16]), "'11111111-1111-1111-1111-111111111111'"),
        ];
        let columns = cells.iter().enumerate().map(|(at, (ty, ..))| Column {
            id: 0,
            name: format!("k{at}"),
            ty: ty.clone(),
            nullable: false,
            native: NativeType::new(0, 0, ""),
            usage: crate::ColumnUse::Values,
        });
        let (columns, key) = (columns.collect(), (0..cells.len()).collect());
        let schema = Arc::new(TableSchema::new(TableName::new("d", "t"), 0, columns, key));
        let mut buffer = RowBuffer::new(Arc::clone(&schema));
        for (at, (_, push, _)) in cells.iter().enumerate() {
            push(buffer.image(at));
        }
        buffer.finish_row(RowOp::Insert);
        let mut encoded = Vec::new();
        buffer.encode_image_key(0, &mut encoded);
        let (_, images, _) = buffer.into_parts();
        let parts = cells.iter().enumerate().map(|(at, (.., shown))| format!("k{at} = {shown}"));
        let expected = parts.collect::<Vec<_>>().join(", ");
        assert_eq!(show_key(&schema, images.iter(), 0), expected);
        // Bytes that are a key are that key.
        assert_eq!(show_key(&schema, decode_key(&schema, &encoded).unwrap().iter(), 0), expected);
        for cut in 0..encoded.len() {
            assert!(decode_key(&schema, &encoded[..cut]).is_none(), "{cut} bytes are no key");
        }
    }
}
