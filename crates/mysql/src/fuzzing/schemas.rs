//! Schemas for table maps: those of the captures, those made of them by small changes, and those made to fit a map.

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use calve_core::{Column, ColumnType, TableName, TableSchema};

use super::captured::captures;
use super::input::Choices;
use super::shown;
use crate::binlog::native::DeclaredType;
use crate::binlog::table_map::{Shape, TableMap, code};
use crate::charset::Charset;

/// All tables of the captures, in the order of the captures.
pub(super) fn captured() -> &'static [Arc<TableSchema>] {
    static SCHEMAS: OnceLock<Vec<Arc<TableSchema>>> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let tables = captures().iter().flat_map(|capture| &capture.tables);
        tables.map(|table| Arc::clone(&table.schema)).collect()
    })
}

/// A schema of the captures after as many changes as the choices name.
pub(super) fn changed(choices: &mut Choices<'_>) -> Arc<TableSchema> {
    let captured = captured();
    let mut schema = TableSchema::clone(choices.among::<Arc<TableSchema>>(captured));
    loop {
        let change = choices.byte();
        let at = usize::from(choices.byte()) % schema.columns.len().max(1);
        let other = |choices: &mut Choices<'_>| {
            let columns = &choices.among(captured).columns;
            columns.get(at % columns.len().max(1)).cloned()
        };
        match change % 9 {
            0 => break,
            1 if schema.columns.len() > 1 => {
                schema.columns.remove(at);
                schema.key.retain(|key| *key != at);
                schema.key.iter_mut().filter(|key| **key > at).for_each(|key| *key -= 1);
            }
            2 => schema.columns[at].nullable ^= true,
            3 => {
                let with = usize::from(choices.byte()) % schema.columns.len();
                schema.columns.swap(at, with);
            }
            4 => match schema.key.iter().position(|key| *key == at) {
                Some(place) => drop(schema.key.remove(place)),
                None => schema.key.push(at),
            },
            5 => {
                if let Some(Column { ty, native, .. }) = other(choices) {
                    (schema.columns[at].ty, schema.columns[at].native) = (ty, native);
                }
            }
            6 => schema.columns[at].native.character_set = Some(choices.among(CHARSETS).0.to_owned()),
            7 => {
                if let Some(Column { ty, .. }) = other(choices) {
                    schema.columns[at].ty = ty;
                }
            }
            8 => schema.columns[at].name.push('x'),
            _ => {}
        }
    }
    Arc::new(schema)
}

/// Character sets of every form, with the bytes of a character at most.
const CHARSETS: &[(&str, u16)] = &[
    ("utf8mb4", 4),
    ("latin1", 1),
    ("gbk", 2),
    ("sjis", 2),
    ("utf16", 4),
    ("utf16le", 4),
    ("utf32", 4),
    ("ucs2", 2),
    ("big5", 2),
    ("gb18030", 4),
    ("cp932", 2),
    ("ujis", 3),
    ("euckr", 2),
    ("utf8mb3", 3),
    ("ascii", 1),
    ("cp1251", 1),
    ("tis620", 1),
];

/// A schema that the map fits, as far as types that fit can be found.
pub(super) fn fitting(map: &TableMap<'_>, choices: &mut Choices<'_>) -> Arc<TableSchema> {
    let optional = &map.optional;
    let mut columns = Vec::new();
    for (place, shape) in map.columns.iter().enumerate() {
        let logged = optional.collation.get(place).copied().flatten().and_then(|id| u32::try_from(id).ok());
        let logged = logged.and_then(Charset::by_collation_id).map(Charset::name);
        let (mut charset, mut width) = *choices.among(CHARSETS);
        if let Some(logged) = logged {
            let known = CHARSETS.iter().find(|(name, _)| *name == logged);
            (charset, width) = known.copied().unwrap_or((logged, 1));
        }
        let choice = choices.byte();
        let unsigned = optional.unsigned.get(place).copied().flatten().unwrap_or(choice & 1 == 1);
        let labels = optional.labels.get(place).and_then(Option::as_ref);
        let mut full = declared(*shape, unsigned, width, choice, labels.map(Vec::as_slice));
        if DeclaredType::parse(&full).is_none() {
            "int".clone_into(&mut full);
        }
        let name = optional.names.get(place).map_or_else(|| format!("c{place}"), |name| (*name).to_owned());
        let mut column = column(&name, &full, charset, map.nullable.get(place));
        if full.starts_with("tinyint") && choice & 2 == 2 {
            column.ty = ColumnType::Boolean;
        }
        columns.push(column);
    }
    let key = match &optional.primary_key {
        Some(key) => key.iter().map(|(place, _)| *place).collect(),
        None if optional.names.is_empty() && !columns.is_empty() => vec![usize::from(choices.byte()) % columns.len()],
        None => Vec::new(),
    };
    Arc::new(TableSchema::new(TableName::new(map.database, map.table), 0, columns, key))
}

/// A column as the catalog has it.
fn column(name: &str, full: &str, charset: &str, nullable: bool) -> Column {
    let escaped = |text: &str| text.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n");
    let nullable = if nullable { "YES" } else { "NO" };
    let text = format!("table\tt\ncolumn\tc\t{}\t{charset}\t{nullable}\t\\N\n", escaped(full));
    let table = shown::tables(&text).pop().expect("one table is written");
    Column { name: name.to_owned(), ..table.schema.columns[0].clone() }
}

/// A type whose rows have this shape, as a catalog writes it.
fn declared(shape: Shape, unsigned: bool, width: u16, choice: u8, labels: Option<&[&[u8]]>) -> String {
    let Shape { code, modifier } = shape;
    let sign = if unsigned { " unsigned" } else { "" };
    let characters = modifier / width.max(1);
    let is_text = choice & 4 == 0;
    match code {
        code::TINY => format!("tinyint{sign}"),
        code::SHORT => format!("smallint{sign}"),
        code::INT24 => format!("mediumint{sign}"),
        code::LONG => format!("int{sign}"),
        code::LONGLONG => format!("bigint{sign}"),
        code::FLOAT => format!("float{sign}"),
        code::DOUBLE => format!("double{sign}"),
        code::NEWDECIMAL => {
            let [precision, scale] = modifier.to_be_bytes();
            let zerofill = if unsigned && choice & 8 == 8 { " zerofill" } else { "" };
            format!("decimal({precision},{scale}){sign}{zerofill}")
        }
        code::BIT => format!("bit({modifier})"),
        code::YEAR => "year".to_owned(),
        code::DATE | code::NEWDATE => "date".to_owned(),
        code::TIME => "time".to_owned(),
        code::TIME2 => format!("time({modifier})"),
        code::DATETIME => "datetime".to_owned(),
        code::DATETIME2 => format!("datetime({modifier})"),
        code::TIMESTAMP => "timestamp".to_owned(),
        code::TIMESTAMP2 => format!("timestamp({modifier})"),
        code::ENUM => labelled("enum", labels, if modifier == 1 { 3 } else { 300 }),
        code::SET => labelled("set", labels, usize::from(modifier.min(8)) * 8),
        code::JSON => "json".to_owned(),
        code::GEOMETRY => "geometry".to_owned(),
        code::STRING if modifier == 16 && choice & 8 == 8 => if is_text { "uuid" } else { "inet6" }.to_owned(),
        code::STRING if modifier == 4 && choice & 8 == 8 => "inet4".to_owned(),
        code::STRING if is_text => format!("char({characters})"),
        code::STRING => format!("binary({modifier})"),
        code::VARCHAR | code::VAR_STRING if is_text => format!("varchar({characters})"),
        code::VARCHAR | code::VAR_STRING => format!("varbinary({modifier})"),
        code::VARCHAR_COMPRESSED if is_text => format!("varchar({characters}) /*M!100301 COMPRESSED*/"),
        code::VARCHAR_COMPRESSED => format!("varbinary({modifier}) /*M!100301 COMPRESSED*/"),
        code::BLOB | code::BLOB_COMPRESSED => {
            let size = match modifier {
                1 => "tiny",
                3 => "medium",
                4 => "long",
                _ => "",
            };
            let comment = if code == code::BLOB { "" } else { " /*M!100301 COMPRESSED*/" };
            format!("{size}{}{comment}", if is_text { "text" } else { "blob" })
        }
        _ => format!("other{code}"),
    }
}

fn labelled(base: &str, logged: Option<&[&[u8]]>, count: usize) -> String {
    let labels: Vec<String> = match logged {
        Some(labels) => labels.iter().map(|label| String::from_utf8_lossy(label).into_owned()).collect(),
        None => (0..count).map(|number| format!("l{number}")).collect(),
    };
    let mut text = format!("{base}(");
    for (index, label) in labels.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(text, "{comma}'{}'", label.replace('\'', "''")).expect("text takes text");
    }
    text.push(')');
    text
}
