//! How rows of a table map become rows of a schema, and whether the one is still the shape of the other.
//!
//! The log says little of a table (see [`table_map`](super::table_map)); labels, signs and character sets come from the
//! schema where it does not. So the two must agree in everything that both say, or the values would be wrong: what does
//! not fit is a [`Mismatch`], never a guess.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use calve_core::{CellRule, Column, TableSchema};

use super::Flavour;
use super::cell::{Kind, Length};
use super::fit;
use super::native::DeclaredType;
use super::table_map::{TableMap, code};
use super::value::Labels;
use crate::charset::Charset;
use crate::conversions::{Conversions, ZeroDates};

/// The log's shape of a table is not that of its schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub(crate) struct Mismatch {
    /// Names the column, and both sides.
    pub(crate) what: String,
}

pub(super) fn mismatch<T>(what: String) -> Result<T, Mismatch> {
    Err(Mismatch { what })
}

/// How rows of one table map are decoded into rows of one schema.
#[derive(Debug)]
pub(crate) struct RowPlan {
    /// That rows are decoded for. A buffer of another one needs a plan of its own.
    pub(crate) schema: Arc<TableSchema>,
    /// As the table map has them.
    pub(super) columns: Vec<ColumnPlan>,
    /// JSON columns among them, each of which has a bit in rows of partial updates.
    pub(super) documents: usize,
    pub(super) zero_dates: ZeroDates,
    /// Of a member of a merged table.
    pub(super) filling: Option<Filling>,
}

/// What rows of a member of a merged table have beside the member's own cells.
#[derive(Debug)]
pub(super) struct Filling {
    /// The value of the merged table's first column, which is the first of its key too.
    pub(super) origin: Box<str>,
    /// Columns that the member does not have, which are NULL.
    pub(super) absent: Vec<usize>,
}

/// How the cells of one column are decoded.
#[derive(Debug)]
pub(super) struct ColumnPlan {
    pub(super) length: Length,
    /// Where the cells go; None: the schema or the lake leaves the column out.
    pub(super) target: Option<Target>,
    pub(super) is_json: bool,
}

/// A column of the schema.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) index: usize,
    pub(super) kind: Kind,
    /// Its place in the key.
    pub(super) key: Option<usize>,
    pub(super) nullable: bool,
    /// What becomes of a value that its type in the lake cannot hold.
    pub(super) rule: CellRule,
    /// A zero date of it became NULL.
    had_zero_date: AtomicBool,
}

impl RowPlan {
    /// Matches a table map with a schema.
    ///
    /// Columns correspond in order. Where the map names them the schema may leave some out; of columns that the lake does not get
    /// no cell goes anywhere.
    pub(crate) fn new(flavour: Flavour, map: &TableMap<'_>, schema: &Arc<TableSchema>) -> Result<Self, Mismatch> {
        if let Some(code) = map.unknown {
            let place = map.columns.len() + 1;
            return mismatch(format!("column number {place} has type {code} in the log, which is not understood"));
        }
        let targets = targets(map, schema)?;
        let mut columns = Vec::with_capacity(map.columns.len());
        for (place, (shape, target)) in map.columns.iter().zip(&targets).enumerate() {
            let Some(length) = Length::of(*shape) else {
                let name = map.optional.names.get(place).copied().unwrap_or("?");
                return mismatch(format!(
                    "column {name} (number {place}) has type {} with modifier {} in the log, which is not understood",
                    shape.code, shape.modifier
                ));
            };
            let kept = |index: &&usize| schema.columns.get(**index).is_none_or(|column| !column.usage.is_left_out());
            let target = match target.as_ref().filter(kept) {
                Some(index) => Some(Self::target(flavour, map, schema, place, *index)?),
                None => None,
            };
            columns.push(ColumnPlan { length, target, is_json: shape.code == code::JSON });
        }
        check_key(map, schema, &targets)?;
        let documents = columns.iter().filter(|column| column.is_json).count();
        Ok(Self { schema: Arc::clone(schema), columns, documents, zero_dates: ZeroDates::default(), filling: None })
    }

    /// The same for rows of a merged table, in which the schema's columns are at these `places` and others are absent.
    #[must_use]
    pub(crate) fn merged(
        mut self,
        schema: &Arc<TableSchema>,
        places: &[usize],
        absent: Vec<usize>,
        origin: &str,
    ) -> Self {
        for target in self.columns.iter_mut().filter_map(|column| column.target.as_mut()) {
            if let Some(place) = places.get(target.index) {
                target.index = *place;
                target.key = schema.key.iter().position(|key| key == place);
            }
        }
        Self { schema: Arc::clone(schema), filling: Some(Filling { origin: origin.into(), absent }), ..self }
    }

    /// With the pipeline's rules. Without, zero dates become NULL, and nothing else takes the place of a value.
    #[must_use]
    pub(crate) fn with_conversions(mut self, conversions: &Conversions) -> Self {
        let mut rules = conversions.rules.cells(&self.schema);
        for target in self.columns.iter_mut().filter_map(|column| column.target.as_mut()) {
            if let Some(rule) = rules.get_mut(target.index) {
                target.rule = std::mem::take(rule);
            }
        }
        Self { zero_dates: conversions.zero_dates.clone(), ..self }
    }

    /// A zero date of the column became NULL.
    pub(super) fn tell_zero_date(&self, target: &Target) {
        if !target.had_zero_date.swap(true, Ordering::Relaxed)
            && let Some(column) = self.schema.columns.get(target.index)
        {
            self.zero_dates.tell(&self.schema.table, &column.name);
        }
    }

    fn target(
        flavour: Flavour,
        map: &TableMap<'_>,
        schema: &TableSchema,
        place: usize,
        index: usize,
    ) -> Result<Target, Mismatch> {
        let (Some(column), Some(shape)) = (schema.columns.get(index), map.columns.get(place)) else {
            return mismatch(format!("there is no column {index}"));
        };
        let name = &column.name;
        let Some(declared) = DeclaredType::parse(&column.native.name) else {
            return mismatch(format!("the type {} of column {name} is not understood", column.native.name));
        };
        // What may be NULL in the log must be so in the lake. The other way round nothing is lost.
        if map.nullable.get(place) && !column.nullable {
            return mismatch(format!("column {name} may be NULL in the log and not in the schema"));
        }
        check_sign(map, place, column, &declared)?;
        let mut kind = fit::kind(flavour, column, &declared, *shape)?;
        if let Some(charset) = check_charset(map, place, column, &kind)?
            && let Some(Some(logged)) = map.optional.labels.get(place)
        {
            let labels = Labels::logged(check_labels(logged, charset, column, &declared)?);
            kind = if shape.code == code::SET { Kind::Labels(labels) } else { Kind::Label(labels) };
        }
        Ok(Target {
            index,
            kind,
            key: schema.key.iter().position(|key| *key == index),
            nullable: column.nullable,
            rule: CellRule::default(),
            had_zero_date: AtomicBool::new(false),
        })
    }
}

/// For each column of the map the schema's.
fn targets(map: &TableMap<'_>, schema: &TableSchema) -> Result<Vec<Option<usize>>, Mismatch> {
    let names = &map.optional.names;
    if map.columns.is_empty() {
        return mismatch("the log has no columns".to_owned());
    }
    if names.is_empty() {
        let (found, expected) = (map.columns.len(), schema.columns.len());
        if found != expected {
            return mismatch(format!("the log has {found} columns and the schema {expected}"));
        }
        return Ok((0..found).map(Some).collect());
    }
    let mut expected = schema.columns.iter().enumerate().peekable();
    let mut targets = Vec::with_capacity(names.len());
    for name in names {
        let next = expected.next_if(|(_, column)| column.name == **name);
        targets.push(next.map(|(index, _)| index));
    }
    match expected.next() {
        None => Ok(targets),
        Some((_, column)) => mismatch(format!(
            "column {} is not in the log where the schema has it: the columns there are {}",
            column.name,
            names.join(", ")
        )),
    }
}

fn check_sign(map: &TableMap<'_>, place: usize, column: &Column, declared: &DeclaredType) -> Result<(), Mismatch> {
    match map.optional.unsigned.get(place).copied().flatten() {
        // YEAR has no sign in any sense that its type would say.
        Some(unsigned) if unsigned != declared.unsigned && declared.base != "year" => {
            let side = |unsigned| if unsigned { "unsigned" } else { "signed" };
            mismatch(format!(
                "column {} is {} in the log and {} in the schema",
                column.name,
                side(unsigned),
                side(declared.unsigned)
            ))
        }
        _ => Ok(()),
    }
}

/// Collations of one character set differ in order only. Another character set has other bytes for the same text. Returns the
/// one that was logged.
fn check_charset(
    map: &TableMap<'_>,
    place: usize,
    column: &Column,
    kind: &Kind,
) -> Result<Option<&'static str>, Mismatch> {
    let name = &column.name;
    let is_text =
        matches!(kind, Kind::Text { .. } | Kind::Bytes { .. } | Kind::Padded(_) | Kind::Label(_) | Kind::Labels(_));
    let Some(collation) = map.optional.collation.get(place).copied().flatten().filter(|_| is_text) else {
        return Ok(None);
    };
    let Some(logged) = charset_of(collation) else {
        return mismatch(format!("column {name} has collation {collation} in the log, which is unknown"));
    };
    let declared = column.native.character_set.as_deref().unwrap_or(BINARY);
    let expected = Charset::by_name(declared).map_or(declared, |charset| charset.name());
    if logged != expected {
        return mismatch(format!("column {name} has character set {logged} in the log and {expected} in the schema"));
    }
    Ok(Some(logged))
}

/// The labels that were logged, as text. The catalog shows `?` for each of their characters beyond U+FFFF.
fn check_labels(
    logged: &[&[u8]],
    charset: &str,
    column: &Column,
    declared: &DeclaredType,
) -> Result<Vec<Box<str>>, Mismatch> {
    let labels = logged.iter().map(|label| label_text(label, charset)).collect::<Option<Vec<Box<str>>>>();
    let shown = |c: char| if c > '\u{ffff}' { '?' } else { c };
    // A label that a statement of the log has brought is as it was written.
    let same = |logged: &str, declared: &str| logged.chars().map(shown).eq(declared.chars().map(shown));
    match labels {
        Some(labels)
            if labels.len() == declared.labels.len()
                && labels.iter().zip(&declared.labels).all(|(a, b)| same(a, b)) =>
        {
            Ok(labels)
        }
        _ => mismatch(format!(
            "the labels of column {} in the log are not those of {} in the schema",
            column.name, column.native.name
        )),
    }
}

/// `binary` is no character set that text could be decoded from, but has a collation like one.
const BINARY: &str = "binary";

fn charset_of(collation: u64) -> Option<&'static str> {
    match u32::try_from(collation).ok()? {
        63 => Some(BINARY),
        id => Charset::by_collation_id(id).map(Charset::name),
    }
}

fn label_text(label: &[u8], charset: &str) -> Option<Box<str>> {
    let mut text = Vec::new();
    if charset == BINARY {
        text.extend_from_slice(label);
    } else {
        Charset::by_name(charset)?.decode(label, &mut text).ok()?;
    }
    String::from_utf8(text).ok().map(String::into_boxed_str)
}

/// The primary key is sent together with the names.
fn check_key(map: &TableMap<'_>, schema: &TableSchema, targets: &[Option<usize>]) -> Result<(), Mismatch> {
    if map.optional.names.is_empty() {
        return Ok(());
    }
    let key = map.optional.primary_key.as_deref().unwrap_or_default();
    let found = key.iter().map(|(place, _)| targets.get(*place).copied().flatten());
    if found.eq(schema.key.iter().map(|index| Some(*index))) {
        return Ok(());
    }
    let names = |places: &mut dyn Iterator<Item = &str>| places.collect::<Vec<_>>().join(", ");
    let found = names(&mut key.iter().map(|(place, _)| map.optional.names.get(*place).copied().unwrap_or("?")));
    let expected = names(&mut schema.key_columns().map(|column| column.name.as_str()));
    mismatch(format!("the primary key is ({found}) in the log and ({expected}) in the schema"))
}
