//! What a table's new schema means for the rows that the lake holds already.

use std::sync::Arc;

use crate::{Column, ColumnType, Condition, StopReason, TableSchema};

/// A table's schema became another one in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// From here on.
    pub schema: Arc<TableSchema>,
    /// What became of rows that were there, where the log does not carry it: a column was added with a value for them, values
    /// were converted, the labels of an enum changed their meaning. In words, for a message.
    pub existing_rows: Option<String>,
}

impl SchemaChange {
    /// The stop that it is to a table that cannot go along.
    pub(crate) fn as_stop(&self) -> StopReason {
        let detail = self.existing_rows.as_deref().unwrap_or("its columns were altered");
        StopReason::schema_changed(&self.schema.table, detail)
    }
}

/// How a table goes on under its new schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evolution {
    /// Its rows in the lake stay as they are.
    Kept,
    /// Its rows in the lake cannot become what the source's are: they must be read again. In words, for a message.
    ReadAgain(String),
}

impl ColumnType {
    /// Whether every value of this type is one of the other under the same field, by Iceberg's rules of schema evolution.
    pub fn widens_to(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int, Self::Long) | (Self::Float, Self::Double) => true,
            (Self::Decimal { precision, scale }, Self::Decimal { precision: wider, scale: same }) => {
                precision <= wider && scale == same
            }
            (Self::List(element), Self::List(wider)) => element.widens_to(wider),
            _ => self == other,
        }
    }
}

impl Column {
    /// Whether both are the same column of one table, whatever it is called: by its number where both are known, else by name.
    pub fn is_same_as(&self, other: &Self) -> bool {
        if self.id != 0 && other.id != 0 { self.id == other.id } else { self.name == other.name }
    }
}

impl TableSchema {
    /// The column of this schema that `column` of another was or became.
    pub fn counterpart(&self, column: &Column) -> Option<&Column> {
        self.columns.iter().find(|own| own.is_same_as(column))
    }

    /// What it means that this schema became `next`.
    pub fn evolution(&self, next: &Self) -> Evolution {
        use Evolution::{Kept, ReadAgain};
        if self.table != next.table {
            return ReadAgain(format!("the table was renamed to {}", next.table));
        }
        if self.native_id != next.native_id {
            return ReadAgain("the table was dropped and created again".to_owned());
        }
        if let Some(why) = self.excerpt_changed(next) {
            return ReadAgain(why);
        }
        if let Some(column) = next.key_columns().find(|column| column.usage.is_left_out()) {
            return ReadAgain(format!("its key has column \"{}\" now, which is left out of the lake", column.name));
        }
        let next = &*next.kept();
        let same_key = self.key.len() == next.key.len()
            && self.key_columns().zip(next.key_columns()).all(|(a, b)| a.is_same_as(b) && a.ty == b.ty);
        if !same_key {
            return ReadAgain("its key changed".to_owned());
        }
        if let Some(name) = self
            .mode
            .added_columns()
            .find(|name| next.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name)))
        {
            return ReadAgain(format!("column \"{name}\" was added, which is what calve adds in mode {}", self.mode));
        }
        for column in &next.columns {
            match self.counterpart(column) {
                Some(before) if !before.ty.widens_to(&column.ty) => {
                    let (from, to) = (&before.native.name, &column.native.name);
                    return ReadAgain(format!("column \"{}\" changed from {from} to {to}", column.name));
                }
                None if self.left_out.contains(&column.id) => {
                    return ReadAgain(format!(
                        "column \"{}\" was not in the log until now, and rows that were there have a value in it",
                        column.name
                    ));
                }
                None if !column.nullable => {
                    return ReadAgain(format!(
                        "column \"{}\" was added, and rows that were there have a value in it",
                        column.name
                    ));
                }
                _ => {}
            }
        }
        Kept
    }

    /// Why the lake's rows are no excerpt of the source's any more, where `next` has it that way.
    fn excerpt_changed(&self, next: &Self) -> Option<String> {
        for column in &next.kept().columns {
            let name = &column.name;
            match self.counterpart(column) {
                Some(before) if before.usage == column.usage => {}
                Some(before) if before.usage.is_left_out() => {
                    return Some(format!(
                        "column \"{name}\" was left out as \"{}\", and rows that were there have a value in it",
                        before.name
                    ));
                }
                Some(before) => {
                    let what = if column.usage.is_values() { "has no mask" } else { "has a mask" };
                    return Some(format!("column \"{name}\", which was \"{}\", {what} under that name", before.name));
                }
                None => {}
            }
        }
        let condition: Condition = next.filter.as_ref()?.parse().ok()?;
        condition.columns().into_iter().find_map(|name| {
            let before = self.columns.iter().find(|column| column.name == name)?;
            let what = match next.counterpart(before) {
                None => "was dropped".to_owned(),
                Some(now) if now.name != name => format!("was renamed to \"{}\"", now.name),
                Some(now) if now.ty != before.ty || !now.usage.is_values() => {
                    format!("changed from {} to {}", before.native.name, now.native.name)
                }
                Some(_) => return None,
            };
            Some(format!("column \"{name}\", by which 'where' chooses rows, {what}; correct 'where' first"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NativeType, TableName};

    fn schema(columns: &[(u32, &str, ColumnType, bool)], key: &[usize]) -> TableSchema {
        let column = |(id, name, ty, nullable): &(u32, &str, ColumnType, bool)| Column {
            id: *id,
            name: (*name).to_owned(),
            ty: ty.clone(),
            nullable: *nullable,
            native: NativeType::new(1, -1, format!("{ty:?}")),
            usage: crate::ColumnUse::Values,
        };
        let columns = columns.iter().map(column).collect();
        TableSchema::new(TableName::new("shop", "t"), 1, columns, key.to_vec())
    }

    #[test]
    fn rows_stay_where_their_values_stay() {
        use ColumnType::{Int, Long, String};
        let before = schema(&[(1, "id", Long, false), (2, "a", Int, false), (3, "b", String, true)], &[0]);
        for (columns, kept) in [
            (vec![(1, "id", Long, false), (2, "a", Int, false), (3, "b", String, true), (4, "c", String, true)], true),
            (vec![(1, "id", Long, false), (2, "a", Int, false), (3, "b", String, true), (4, "c", Int, false)], false),
            (vec![(1, "id", Long, false), (3, "b", String, true)], true),
            (vec![(1, "key", Long, false), (2, "b", Int, true), (3, "a", String, true)], true),
            (vec![(1, "id", Long, false), (3, "b", String, true), (2, "a", Long, false)], true),
            (vec![(1, "id", Long, false), (2, "a", String, false), (3, "b", String, true)], false),
            // Another column under a name that was there.
            (vec![(1, "id", Long, false), (4, "a", String, true), (3, "b", String, true)], true),
            (vec![(1, "id", Int, false), (2, "a", Int, false), (3, "b", String, true)], false),
        ] {
            let next = schema(&columns, &[0]);
            assert_eq!(before.evolution(&next) == Evolution::Kept, kept, "{columns:?}");
        }
        let columns = [(1, "id", Long, false), (2, "a", Int, false), (3, "b", String, true)];
        // A column that was computed, and becomes one like any other.
        let before = TableSchema { left_out: vec![4], ..before };
        let column = |id| schema(&[(1, "id", Long, false), (id, "c", String, true)], &[0]);
        assert!(
            matches!(before.evolution(&column(4)), Evolution::ReadAgain(why) if why.contains("\"c\" was not in the log"))
        );
        assert_eq!(before.evolution(&column(5)), Evolution::Kept);
        for (key, kept) in [(&[0][..], true), (&[1], false), (&[0, 1], false), (&[], false)] {
            assert_eq!(before.evolution(&schema(&columns, key)) == Evolution::Kept, kept, "{key:?}");
        }
    }

    #[test]
    fn types_grow_by_the_rules_of_iceberg() {
        let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
        for (from, to, widens) in [
            (ColumnType::Int, ColumnType::Long, true),
            (ColumnType::Long, ColumnType::Int, false),
            (ColumnType::Float, ColumnType::Double, true),
            (ColumnType::Int, ColumnType::Double, false),
            (decimal(9, 2), decimal(18, 2), true),
            (decimal(9, 2), decimal(9, 3), false),
            (decimal(18, 2), decimal(9, 2), false),
            (ColumnType::Date, ColumnType::Timestamp, false),
            (ColumnType::Uuid, ColumnType::Uuid, true),
            (ColumnType::Int.list(), ColumnType::Long.list(), true),
            (ColumnType::Long.list(), ColumnType::Int.list(), false),
            (ColumnType::Int.list(), ColumnType::Int, false),
            (ColumnType::String, ColumnType::String.list(), false),
            (ColumnType::Map, ColumnType::Map, true),
            (ColumnType::Map, ColumnType::String, false),
        ] {
            assert_eq!(from.widens_to(&to), widens, "{from:?} to {to:?}");
        }
    }
}
