//! Cells of a key as Postgres would print them: to name a row to people, and to ask the server for it.
//!
//! What stands here must read back as the same value, so it is exact and never shortened.

use std::fmt::Write;

use calve_core::{ColumnBuffer, ColumnType, TableSchema, Values};

const DAY_US: i64 = 86_400_000_000;

/// The text of a cell that is not NULL.
pub(crate) fn cell_text(column: &ColumnBuffer, row: usize) -> Option<String> {
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
        let number = matches!(column.ty, ColumnType::Int | ColumnType::Long | ColumnType::Decimal { .. });
        let quote = if number { "" } else { "'" };
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

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
