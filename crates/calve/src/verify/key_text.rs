//! The bytes of a key as text, for reports.

use std::fmt::Write;

use calve_core::{ColumnType, TableSchema};

use crate::show;

/// Longest text of one cell that is shown whole.
const MAX_TEXT: usize = 80;

/// `id=5, region='eu'`.
pub(super) fn key_text(schema: &TableSchema, mut key: &[u8]) -> String {
    let mut out = String::new();
    for column in schema.key_columns() {
        let Some((cell, rest)) = cell(key) else { break };
        key = rest;
        let comma = if out.is_empty() { "" } else { ", " };
        let value = value(&column.ty, cell).unwrap_or_else(|| "?".to_owned());
        let _ = write!(out, "{comma}{}={value}", column.name);
    }
    out
}

fn cell(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)
}

fn value(ty: &ColumnType, cell: &[u8]) -> Option<String> {
    let int = || cell.try_into().ok().map(i32::from_le_bytes);
    let long = || cell.try_into().ok().map(i64::from_le_bytes);
    Some(match ty {
        ColumnType::Boolean => (cell != [0]).to_string(),
        ColumnType::Int => int()?.to_string(),
        ColumnType::Long => long()?.to_string(),
        ColumnType::Float => cell.try_into().ok().map(f32::from_le_bytes)?.to_string(),
        ColumnType::Double => cell.try_into().ok().map(f64::from_le_bytes)?.to_string(),
        ColumnType::Decimal { scale, .. } => {
            decimal(cell.try_into().ok().map(i128::from_le_bytes)?, usize::from(*scale))
        }
        ColumnType::String => text(std::str::from_utf8(cell).ok()?),
        ColumnType::Binary => format!("'\\x{}'", hex(&cell[..cell.len().min(MAX_TEXT / 2)])),
        ColumnType::Date => show::date(i64::from(int()?)),
        ColumnType::Time => show::time_of_day(long()?),
        ColumnType::Timestamp => format!("'{}'", show::timestamp(long()?)),
        ColumnType::TimestampTz => format!("'{}+00'", show::timestamp(long()?)),
        ColumnType::Uuid => uuid::Uuid::from_slice(cell).ok()?.to_string(),
    })
}

fn decimal(unscaled: i128, scale: usize) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

fn text(text: &str) -> String {
    let shown: String = text.chars().take(MAX_TEXT).collect();
    let more = if shown.len() < text.len() { "..." } else { "" };
    // Control characters would garble a terminal.
    let plain: String =
        shown.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect();
    format!("'{}'{more}", plain.replace('\'', "''"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}
