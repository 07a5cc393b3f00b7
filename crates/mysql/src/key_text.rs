//! Cells of a key as MySQL would print them: to name a row to people.
//!
//! What stands here is exact; only the key as it is shown to people is cut.

use std::fmt::Write;

use calve_core::{ColumnBuffer, ColumnType, TableSchema, Values};

const DAY_US: i64 = 86_400_000_000;

/// The text of a cell that is not NULL.
pub(crate) fn cell_text(column: &ColumnBuffer, row: usize) -> Option<String> {
    if row >= column.len() || column.is_null(row) {
        return None;
    }
    Some(match column.values() {
        Values::Boolean(bits) => u8::from(bits.get_bit(row)).to_string(),
        Values::Int32(v) => match column.column_type() {
            ColumnType::Date => date(i64::from(*v.get(row)?)),
            _ => v.get(row)?.to_string(),
        },
        Values::Int64(v) => match (column.column_type(), *v.get(row)?) {
            (ColumnType::Time, time) => time_of_day(time),
            (ColumnType::Timestamp | ColumnType::TimestampTz, instant) => timestamp(instant),
            (_, value) => value.to_string(),
        },
        Values::Float32(v) => v.get(row)?.to_string(),
        Values::Float64(v) => v.get(row)?.to_string(),
        Values::Decimal(v) => match column.column_type() {
            ColumnType::Decimal { scale, .. } => decimal(*v.get(row)?, usize::from(*scale)),
            _ => return None,
        },
        Values::Uuid(v) => uuid::Uuid::from_slice(v.get(row * 16..row * 16 + 16)?).ok()?.to_string(),
        Values::Bytes { offsets, data } => {
            let offset = |index: usize| offsets.get(index).and_then(|offset| usize::try_from(*offset).ok());
            let bytes = data.get(offset(row)?..offset(row + 1)?)?;
            match column.column_type() {
                ColumnType::Binary => format!("0x{}", hex(bytes)),
                _ => String::from_utf8(bytes.to_vec()).ok()?,
            }
        }
    })
}

/// A key as people read it: `id = 5, region = 'eu'`, long texts cut. `columns` are those of the key, in its order.
pub(crate) fn show_key<'a>(
    schema: &TableSchema,
    columns: impl Iterator<Item = &'a ColumnBuffer>,
    row: usize,
) -> String {
    const LONGEST: usize = 80;
    let mut shown = String::new();
    for (column, buffer) in schema.key_columns().zip(columns) {
        let text = cell_text(buffer, row).unwrap_or_else(|| "?".to_owned());
        let comma = if shown.is_empty() { "" } else { ", " };
        let bare = matches!(
            column.ty,
            ColumnType::Boolean | ColumnType::Int | ColumnType::Long | ColumnType::Decimal { .. } | ColumnType::Binary
        );
        let quote = if bare { "" } else { "'" };
        let cut: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
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
    format!("{year:04}-{month:02}-{day:02}")
}

/// With a fraction only where there is one.
fn time_of_day(time: i64) -> String {
    let seconds = time / 1_000_000;
    let whole = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match time % 1_000_000 {
        0 => whole,
        fraction => format!("{whole}.{fraction:06}").trim_end_matches('0').to_owned(),
    }
}

fn timestamp(instant: i64) -> String {
    format!("{} {}", date(instant.div_euclid(DAY_US)), time_of_day(instant.rem_euclid(DAY_US)))
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

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use calve_core::{Column, NativeType, RowBuffer, RowOp, TableName};

    use super::*;

    #[test]
    fn keys_are_shown_as_the_server_prints_them() {
        let types = [
            ColumnType::Decimal { precision: 20, scale: 2 },
            ColumnType::Timestamp,
            ColumnType::Date,
            ColumnType::String,
            ColumnType::Binary,
        ];
        let column = |(at, ty): (usize, &ColumnType)| Column {
            id: 0,
            name: format!("k{at}"),
            ty: ty.clone(),
            nullable: false,
            native: NativeType::new(0, 0, ""),
        };
        let columns: Vec<Column> = types.iter().enumerate().map(column).collect();
        let key = (0..columns.len()).collect();
        let schema = Arc::new(TableSchema { table: TableName::new("d", "t"), native_id: 0, columns, key });
        let mut buffer = RowBuffer::new(Arc::clone(&schema));
        buffer.image(0).push_decimal(-5);
        buffer.image(1).push_i64(-1_000);
        buffer.image(2).push_i32(11_016);
        buffer.image(3).push_str(&format!("it's\n{}", "x".repeat(100))).unwrap();
        buffer.image(4).push_bytes(&[0, 255]).unwrap();
        buffer.finish_row(RowOp::Insert);
        let (_, images, _) = buffer.into_parts();
        let shown = show_key(&schema, images.iter(), 0);
        let long = format!("it\\'s\\n{}..", "x".repeat(75));
        assert_eq!(
            shown,
            format!("k0 = -0.05, k1 = '1969-12-31 23:59:59.999', k2 = '2000-02-29', k3 = '{long}', k4 = 0x00ff")
        );
    }
}
