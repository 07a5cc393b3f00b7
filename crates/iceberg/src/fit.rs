//! A source schema that meets a table: under which schema are its rows written, and does the table have it yet?
//!
//! Rows that stay keep their columns: a field id goes with its column through renames, and where a type grows by Iceberg's
//! rules. A column that the source dropped stays, optional and with its old values, unless the schema says that it goes; one that
//! comes anew is optional, under an id of its own, whatever was called so before. A load replaces all rows, so it goes by names alone and leaves nothing behind.
//! Columns that only the table in the lake has (somebody else added them) stay where they are, and calve's rows leave them NULL.

use std::sync::Arc;

use calve_core::{Column, Error, ErrorKind, Onto, Result, TableSchema};
use iceberg::spec::{NestedField, NestedFieldRef, Schema, Type};

use crate::schema::{DROPPED, build, field, grown_type, iceberg_type, is_dropped, same_shape};

/// How a source schema relates to a table's present one.
#[derive(Debug, PartialEq)]
pub(crate) enum Fit {
    /// Rows of the source schema can be written under the table's present schema.
    Present,
    /// They cannot; this is the schema that holds them, for their commit to give to the table.
    Evolved(Box<Schema>),
}

/// Compares `source` with the table's `current` schema. `stamped` is the source schema that the table recorded last: what
/// it does not name was put there by somebody else. Ids of new columns begin after `last_column_id`. Those `held` are of columns
/// that stay whatever becomes of them at the source, since partitions are by them.
pub(crate) fn fit(
    source: &TableSchema,
    current: &Schema,
    stamped: Option<&TableSchema>,
    last_column_id: i32,
    held: &[i32],
    onto: Onto,
) -> Result<Fit> {
    let table = Fitting { source, current, stamped, held };
    let mut ids = last_column_id + 1..;
    let mut next_id = || ids.next().unwrap_or(i32::MAX);
    let fields = match onto {
        Onto::Load => table.replaced(&mut next_id)?,
        Onto::Table => table.kept(&mut next_id)?,
    };
    let wanted = build(source, fields, current.schema_id())?;
    Ok(if same_shape(&wanted, current) { Fit::Present } else { Fit::Evolved(Box::new(wanted)) })
}

struct Fitting<'a> {
    source: &'a TableSchema,
    current: &'a Schema,
    stamped: Option<&'a TableSchema>,
    held: &'a [i32],
}

impl<'a> Fitting<'a> {
    /// Fields of a table all of whose rows are replaced.
    fn replaced(&self, next_id: &mut dyn FnMut() -> i32) -> Result<Vec<NestedFieldRef>> {
        let mut fields = Vec::with_capacity(self.source.columns.len());
        for column in &self.source.columns {
            let table = &self.source.table;
            let present = self.present(&column.name);
            let grown = present.map(|present| grown_type(table, column, &present.field_type)).transpose()?.flatten();
            let (id, ty) = match present.zip(grown) {
                Some((present, ty)) => (present.id, ty),
                None => (next_id(), iceberg_type(table, column, None, next_id)?),
            };
            fields.push(field(self.source, column, id, ty));
        }
        for present in self.current.as_struct().fields() {
            let named = self.source.columns.iter().chain(self.stamped.iter().flat_map(|s| &s.columns));
            if named.into_iter().any(|column| column.name == present.name) || is_dropped(present) {
                continue;
            }
            fields.push(self.foreign(present)?);
        }
        Ok(fields)
    }

    /// Fields of a table whose rows stay.
    fn kept(&self, next_id: &mut dyn FnMut() -> i32) -> Result<Vec<NestedFieldRef>> {
        let mut fields = Vec::with_capacity(self.current.as_struct().fields().len());
        let mut kept = Vec::with_capacity(self.source.columns.len());
        for column in &self.source.columns {
            let present = self.present_of(column)?;
            kept.extend(present.map(|present| present.id));
            let Some(present) = present else {
                let id = next_id();
                let ty = iceberg_type(&self.source.table, column, None, next_id)?;
                fields.push(Arc::new(NestedField::new(id, &column.name, ty, false)));
                continue;
            };
            let required = present.required && (self.in_key(column) || !column.nullable);
            let ty = self.grown(column, present)?;
            let renewed = NestedField::new(present.id, &column.name, ty, required);
            let described = |doc: &String| renewed.clone().with_doc(doc);
            fields.push(Arc::new(present.doc.as_ref().map_or_else(|| renewed.clone(), described)));
        }
        for present in self.current.as_struct().fields() {
            if kept.contains(&present.id) {
                continue;
            }
            let taken = self.source.columns.iter().any(|column| column.name == present.name);
            let was_dropped = is_dropped(present);
            if !was_dropped && !self.stamped.is_some_and(|s| has_name(s, &present.name)) {
                fields.push(self.foreign(present)?);
                continue;
            }
            // Its values are of a column that is gone; the name is another's now, or the field is to go with it.
            let goes = taken || (self.source.drops_columns && !was_dropped);
            if goes && !self.held.contains(&present.id) {
                continue;
            }
            let name = if taken { format!("{}_dropped_{}", present.name, present.id) } else { present.name.clone() };
            let optional = NestedField::optional(present.id, name, (*present.field_type).clone());
            fields.push(Arc::new(optional.with_doc(DROPPED)));
        }
        Ok(fields)
    }

    /// The field that a column's values have been in so far; for a column that comes anew, one that somebody prepared.
    fn present_of(&self, column: &Column) -> Result<Option<&'a NestedFieldRef>> {
        let before = match self.stamped {
            Some(stamped) => stamped.counterpart(column).map(|before| before.name.as_str()),
            None => Some(column.name.as_str()),
        };
        let present =
            self.present(before.unwrap_or(&column.name)).filter(|present| before.is_some() || !is_dropped(present));
        let present = match (present, before) {
            (Some(present), None) if self.stamped.is_some_and(|s| has_name(s, &present.name)) => return Ok(None),
            (Some(present), _) => present,
            (None, None) => return Ok(None),
            (None, Some(before)) => {
                return Err(self.changed_there(&format!("column \"{before}\" was dropped or renamed")));
            }
        };
        self.grown(column, present)?;
        Ok(Some(present))
    }

    /// The type under which a column's values go on in their field.
    fn grown(&self, column: &Column, present: &NestedFieldRef) -> Result<Type> {
        grown_type(&self.source.table, column, &present.field_type)?
            .ok_or_else(|| self.changed_there(&format!("column \"{}\" is {}", present.name, present.field_type)))
    }

    fn present(&self, name: &str) -> Option<&'a NestedFieldRef> {
        self.current.as_struct().fields().iter().find(|field| field.name == *name)
    }

    fn in_key(&self, column: &Column) -> bool {
        self.source.key_columns().any(|key| key.name == column.name)
    }

    /// A field of somebody else's stays as it is.
    fn foreign(&self, present: &NestedFieldRef) -> Result<NestedFieldRef> {
        if present.required {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "table {}: somebody added the required column \"{}\" to it in the lake, which the source cannot fill; \
                     drop that column in the lake or make it optional",
                    self.source.table, present.name
                ),
            ));
        }
        Ok(Arc::clone(present))
    }

    fn changed_there(&self, why: &str) -> Error {
        let table = &self.source.table;
        Error::new(
            ErrorKind::Config,
            format!(
                "table {table}: somebody changed its schema in the lake: {why}; change it back, or have it loaded again \
                 (calve reload {table})"
            ),
        )
    }
}

fn has_name(schema: &TableSchema, name: &str) -> bool {
    schema.columns.iter().any(|column| column.name == name)
}

#[cfg(test)]
mod tests {
    use arrow_schema::SchemaRef;
    use calve_core::{ColumnType, NativeType, TableName};
    use iceberg::spec::PrimitiveType;
    use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

    use super::*;
    use crate::schema::{arrow_schema, incompatibility, new_schema};

    fn fit(
        source: &TableSchema,
        current: &Schema,
        stamped: Option<&TableSchema>,
        last: i32,
        onto: Onto,
    ) -> Result<Fit> {
        super::fit(source, current, stamped, last, &[], onto)
    }

    fn column(id: u32, name: &str, ty: ColumnType, nullable: bool) -> Column {
        Column {
            id,
            name: name.to_owned(),
            ty,
            nullable,
            native: NativeType::new(0, -1, "native"),
            usage: calve_core::ColumnUse::Values,
        }
    }

    fn table(columns: Vec<Column>) -> TableSchema {
        let key = columns.iter().position(|column| column.id == 1).into_iter().collect();
        TableSchema::new(TableName::new("public", "t"), 1, columns, key)
    }

    fn base() -> TableSchema {
        table(vec![
            column(1, "id", ColumnType::Long, false),
            column(2, "name", ColumnType::String, true),
            column(3, "n", ColumnType::Int, false),
        ])
    }

    fn ids(schema: &Schema) -> Vec<(&str, i32, bool)> {
        schema.as_struct().fields().iter().map(|f| (f.name.as_str(), f.id, f.required)).collect()
    }

    fn evolved(source: &TableSchema, current: &Schema, stamped: &TableSchema, onto: Onto) -> Schema {
        match fit(source, current, Some(stamped), current.highest_field_id(), onto).unwrap() {
            Fit::Evolved(schema) => *schema,
            Fit::Present => panic!("it changed"),
        }
    }

    #[test]
    fn what_is_inside_of_a_column_keeps_its_id() {
        let list = |id, name, ty: ColumnType| column(id, name, ty.list(), true);
        let source = table(vec![column(1, "id", ColumnType::Long, false), list(2, "a", ColumnType::Int)]);
        let current = new_schema(&source).unwrap();
        let name = |schema: &Schema, id| schema.name_by_field_id(id).unwrap_or("-").to_owned();
        for onto in [Onto::Load, Onto::Table] {
            assert_eq!(fit(&source, &current, Some(&source), 3, onto).unwrap(), Fit::Present);
            let grown = table(vec![
                column(1, "id", ColumnType::Long, false),
                list(2, "b", ColumnType::Long),
                column(3, "m", ColumnType::Map, true),
                list(4, "c", ColumnType::Date),
            ]);
            let grown = if onto == Onto::Load {
                let mut named = grown;
                named.columns[1].name = "a".to_owned();
                named
            } else {
                grown
            };
            let schema = evolved(&grown, &current, &source, onto);
            let renamed = &grown.columns[1].name;
            let names: Vec<_> = (2..=8).map(|id| name(&schema, id)).collect();
            let (column, element) = (renamed.clone(), format!("{renamed}.element"));
            assert_eq!(names, [&column, &element, "m", "m.key", "m.value", "c", "c.element"], "{onto:?}");
            assert_eq!(schema.field_by_id(3).unwrap().field_type.to_string(), "long");
        }
        // Elements of another kind are another column's.
        let retyped = table(vec![column(1, "id", ColumnType::Long, false), list(2, "a", ColumnType::String)]);
        let schema = evolved(&retyped, &current, &source, Onto::Load);
        assert_eq!(
            (name(&schema, 2), name(&schema, 4), name(&schema, 5)),
            ("-".into(), "a".into(), "a.element".into())
        );
        assert!(fit(&retyped, &current, Some(&source), 3, Onto::Table).is_err());
    }

    #[test]
    fn a_load_goes_by_names() {
        let source = base();
        let current = new_schema(&source).unwrap();
        assert_eq!(fit(&source, &current, Some(&source), 3, Onto::Load).unwrap(), Fit::Present);
        let changed = table(vec![
            column(4, "added", ColumnType::Boolean, true),
            column(1, "id", ColumnType::Long, false),
            column(3, "n", ColumnType::Long, false),
        ]);
        // "n" grew under its id, "name" went, "added" came.
        let schema = evolved(&changed, &current, &source, Onto::Load);
        assert_eq!(ids(&schema), [("added", 4, false), ("id", 1, true), ("n", 3, true)]);
        let retyped = table(vec![column(1, "id", ColumnType::Long, false), column(3, "n", ColumnType::String, false)]);
        assert_eq!(ids(&evolved(&retyped, &current, &source, Onto::Load)), [("id", 1, true), ("n", 4, true)]);
    }

    #[test]
    fn rows_that_stay_keep_their_columns() {
        let source = base();
        let current = new_schema(&source).unwrap();
        assert_eq!(fit(&source, &current, Some(&source), 3, Onto::Table).unwrap(), Fit::Present);

        // Added although NOT NULL, dropped, grown, renamed and reordered.
        let changed = table(vec![
            column(4, "added", ColumnType::Boolean, false),
            column(3, "number", ColumnType::Long, false),
            column(1, "key", ColumnType::Long, false),
        ]);
        let first = evolved(&changed, &current, &source, Onto::Table);
        assert_eq!(ids(&first), [("added", 4, false), ("number", 3, true), ("key", 1, true), ("name", 2, false)]);
        assert_eq!(first.identifier_field_ids().collect::<Vec<_>>(), [1]);
        assert_eq!(fit(&changed, &first, Some(&changed), 4, Onto::Table).unwrap(), Fit::Present);

        // Nothing but a mark changes where an optional column goes, so that it is not taken for somebody else's later.
        let mut fewer = source.clone();
        fewer.columns.remove(1);
        let marked = evolved(&fewer, &current, &source, Onto::Table);
        assert_eq!(ids(&marked), [("id", 1, true), ("n", 3, true), ("name", 2, false)]);
        assert_eq!(fit(&fewer, &marked, Some(&fewer), 3, Onto::Table).unwrap(), Fit::Present);
        fewer.columns.push(column(4, "name", ColumnType::Date, true));
        let schema = evolved(&fewer, &marked, &table(fewer.columns[..2].to_vec()), Onto::Table);
        assert_eq!(ids(&schema), [("id", 1, true), ("n", 3, true), ("name", 4, false)]);

        // The name comes again for another column; the old one's values are not its.
        let mut again = changed.clone();
        again.columns.push(column(5, "name", ColumnType::String, true));
        let second = evolved(&again, &first, &changed, Onto::Table);
        assert_eq!(ids(&second), [("added", 4, false), ("number", 3, true), ("key", 1, true), ("name", 5, false)]);

        // But where partitions are by it, it stays under another one.
        let Fit::Evolved(held) = super::fit(&again, &first, Some(&changed), 4, &[2], Onto::Table).unwrap() else {
            panic!("it changed");
        };
        assert_eq!(ids(&held)[3..], [("name", 5, false), ("name_dropped_2", 2, false)]);
        assert_eq!(super::fit(&again, &held, Some(&again), 5, &[2], Onto::Table).unwrap(), Fit::Present);

        // Dropped and added in one step, and two names swapped.
        let both = table(vec![
            column(1, "id", ColumnType::Long, false),
            column(4, "name", ColumnType::String, true),
            column(3, "n", ColumnType::Int, true),
        ]);
        let schema = evolved(&both, &current, &source, Onto::Table);
        assert_eq!(ids(&schema), [("id", 1, true), ("name", 4, false), ("n", 3, false)]);
        let swapped = table(vec![
            column(1, "id", ColumnType::Long, false),
            column(2, "n", ColumnType::String, true),
            column(3, "name", ColumnType::Int, false),
        ]);
        let schema = evolved(&swapped, &current, &source, Onto::Table);
        assert_eq!(ids(&schema), [("id", 1, true), ("n", 2, false), ("name", 3, true)]);

        // A load leaves nothing behind of what was dropped.
        let plain = evolved(&changed, &first, &changed, Onto::Load);
        assert_eq!(ids(&plain), [("added", 4, true), ("number", 3, true), ("key", 1, true)]);
    }

    #[test]
    fn dropped_columns_go_where_that_is_asked_for() {
        let source = base();
        let current = new_schema(&source).unwrap();
        let without = |names: &[&str]| {
            let columns = source.columns.iter().filter(|column| !names.contains(&column.name.as_str())).cloned();
            TableSchema { drops_columns: true, ..table(columns.collect()) }
        };
        let schema = evolved(&without(&["name"]), &current, &source, Onto::Table);
        assert_eq!(ids(&schema), [("id", 1, true), ("n", 3, true)]);
        assert_eq!(fit(&without(&["name"]), &schema, Some(&without(&["name"])), 3, Onto::Table).unwrap(), Fit::Present);
        // What stayed once stays, and so does what partitions are by.
        let mut fewer = source.clone();
        fewer.columns.remove(1);
        let marked = evolved(&fewer, &current, &source, Onto::Table);
        let schema = evolved(&without(&["name", "n"]), &marked, &fewer, Onto::Table);
        assert_eq!(ids(&schema), [("id", 1, true), ("name", 2, false)]);
        let Fit::Evolved(held) =
            super::fit(&without(&["name"]), &current, Some(&source), 3, &[2], Onto::Table).unwrap()
        else {
            panic!("it changed");
        };
        assert_eq!(ids(&held), [("id", 1, true), ("n", 3, true), ("name", 2, false)]);
    }

    #[test]
    fn columns_of_others_stay_and_are_left_null() {
        let source = base();
        let current = new_schema(&source).unwrap();
        let extra = Arc::new(NestedField::optional(9, "comment", Type::Primitive(PrimitiveType::String)));
        let foreign = current.clone().into_builder().with_fields([extra]).build().unwrap();
        for onto in [Onto::Table, Onto::Load] {
            assert_eq!(fit(&source, &foreign, Some(&source), 9, onto).unwrap(), Fit::Present);
        }
        assert_eq!(incompatibility(&current, &foreign), None);
        let arrow: SchemaRef = arrow_schema(&source, &foreign).unwrap();
        assert_eq!(arrow.fields().len(), 3);
        assert_eq!(arrow.field(1).metadata()[PARQUET_FIELD_ID_META_KEY], "2");
        // Prepared by somebody before the source had it: it is theirs and the source's from then on.
        let mut more = source.clone();
        more.columns.push(column(4, "comment", ColumnType::String, true));
        assert_eq!(fit(&more, &foreign, Some(&source), 9, Onto::Table).unwrap(), Fit::Present);
        more.columns[3].ty = ColumnType::Date;
        let error = fit(&more, &foreign, Some(&source), 9, Onto::Table).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("column \"comment\" is string"), "{error}");
    }

    #[test]
    fn a_column_that_somebody_took_away_is_named() {
        let source = base();
        let now = new_schema(&table(vec![column(1, "id", ColumnType::Long, false)])).unwrap();
        let error = fit(&source, &now, Some(&source), 3, Onto::Table).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("\"name\" was dropped or renamed"), "{error}");
    }
}
