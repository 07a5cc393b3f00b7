//! Source schemas as Iceberg and Arrow schemas, with field ids that stay with their columns.
//!
//! A column keeps its id as long as its name and type stay. Columns that only the table in the lake has (somebody else
//! added them) stay where they are, and calve's rows leave them NULL.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{Field, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use calve_core::{Column, ColumnType, Error, ErrorKind, Result, TableName, TableSchema};
use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Schema, Type};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::error::iceberg_bug;

/// How a source schema relates to a table's present one.
#[derive(Debug, PartialEq)]
pub(crate) enum Fit {
    /// Rows of the source schema can be written under the table's present schema.
    Present,
    /// They cannot; this is the schema that holds them, for a commit that replaces all rows.
    Evolved(Box<Schema>),
}

/// The Iceberg schema of a new table.
pub(crate) fn new_schema(source: &TableSchema) -> Result<Schema> {
    let mut fields = Vec::with_capacity(source.columns.len());
    for (id, column) in (1..).zip(&source.columns) {
        fields.push(field(source, column, id)?);
    }
    build(source, fields, 0)
}

/// Compares `source` with the table's `current` schema. `stamped` is the source schema that the table recorded last: what
/// it does not name was put there by somebody else. Ids of new columns begin after `last_column_id`.
pub(crate) fn fit(
    source: &TableSchema,
    current: &Schema,
    stamped: Option<&TableSchema>,
    last_column_id: i32,
) -> Result<Fit> {
    let mut next_id = last_column_id;
    let mut fields = Vec::with_capacity(source.columns.len());
    for column in &source.columns {
        let present = current.as_struct().fields().iter().find(|f| f.name == column.name);
        let ty = iceberg_type(&source.table, column)?;
        let id = match present {
            Some(present) if *present.field_type == ty => present.id,
            Some(present) if widens(&present.field_type, &ty) => present.id,
            _ => {
                next_id += 1;
                next_id
            }
        };
        fields.push(field(source, column, id)?);
    }
    for present in current.as_struct().fields() {
        let named =
            source.columns.iter().chain(stamped.iter().flat_map(|s| &s.columns)).any(|c| c.name == present.name);
        if named {
            continue;
        }
        if present.required {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "table {}: somebody added the required column \"{}\" to it in the lake, which the source cannot fill; \
                     drop that column in the lake or make it optional",
                    source.table, present.name
                ),
            ));
        }
        fields.push(Arc::clone(present));
    }
    let wanted = build(source, fields, current.schema_id())?;
    Ok(if same_shape(&wanted, current) { Fit::Present } else { Fit::Evolved(Box::new(wanted)) })
}

/// Whether two schemas hold the same fields and the same key, in whatever order the fields stand.
pub(crate) fn same_shape(a: &Schema, b: &Schema) -> bool {
    let key = |s: &Schema| {
        let mut ids: Vec<_> = s.identifier_field_ids().collect();
        ids.sort_unstable();
        ids
    };
    let (left, right) = (a.as_struct().fields(), b.as_struct().fields());
    left.len() == right.len()
        && key(a) == key(b)
        && left.iter().all(|f| {
            b.field_by_id(f.id)
                .is_some_and(|g| f.name == g.name && f.required == g.required && f.field_type == g.field_type)
        })
}

/// Why rows staged under `staged` cannot be committed to a table whose schema is now `current`; None when they can.
pub(crate) fn incompatibility(staged: &Schema, current: &Schema) -> Option<String> {
    for field in staged.as_struct().fields() {
        match current.field_by_id(field.id) {
            None => return Some(format!("column \"{}\" was dropped", field.name)),
            Some(now) if now.field_type != field.field_type => {
                return Some(format!("column \"{}\" became {}", field.name, now.field_type));
            }
            Some(now) if now.required && !field.required => {
                return Some(format!("column \"{}\" became required", field.name));
            }
            Some(now) if now.name != field.name => {
                return Some(format!("column \"{}\" was renamed to \"{}\"", field.name, now.name));
            }
            Some(_) => {}
        }
    }
    let foreign = |f: &&NestedFieldRef| f.required && staged.field_by_id(f.id).is_none();
    current.as_struct().fields().iter().find(foreign).map(|f| format!("the required column \"{}\" was added", f.name))
}

/// The Arrow schema of rows of `source`, in the source's order, each field with its id in `schema`.
pub(crate) fn arrow_schema(source: &TableSchema, schema: &Schema) -> Result<ArrowSchemaRef> {
    let fields = source.columns.iter().map(|column| arrow_field(source, column, schema)).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ArrowSchema::new(fields)))
}

/// The Arrow schema of equality deletes: the key's columns in the key's order, and their field ids.
pub(crate) fn arrow_key_schema(source: &TableSchema, schema: &Schema) -> Result<(ArrowSchemaRef, Vec<i32>)> {
    let fields = source.key_columns().map(|column| arrow_field(source, column, schema)).collect::<Result<Vec<_>>>()?;
    let ids = source.key_columns().map(|column| field_id(source, column, schema)).collect::<Result<Vec<_>>>()?;
    Ok((Arc::new(ArrowSchema::new(fields)), ids))
}

fn arrow_field(source: &TableSchema, column: &Column, schema: &Schema) -> Result<Field> {
    let id = field_id(source, column, schema)?;
    let required = schema.field_by_id(id).is_some_and(|f| f.required);
    let metadata = HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]);
    Ok(Field::new(&column.name, column.ty.arrow_type(), !required).with_metadata(metadata))
}

fn field_id(source: &TableSchema, column: &Column, schema: &Schema) -> Result<i32> {
    let field = schema.as_struct().fields().iter().find(|f| f.name == column.name);
    field.map(|f| f.id).ok_or_else(|| {
        Error::new(
            ErrorKind::Bug,
            format!("table {}: column \"{}\" has no field in the schema chosen for it", source.table, column.name),
        )
    })
}

fn build(source: &TableSchema, fields: Vec<NestedFieldRef>, schema_id: i32) -> Result<Schema> {
    let mut key = Vec::with_capacity(source.key.len());
    for column in source.key_columns() {
        if !column.ty.can_be_key() {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "table {}: column \"{}\" of the key is a floating-point number, on which equality is not identity; \
                     choose another unique index with ALTER TABLE ... REPLICA IDENTITY USING INDEX",
                    source.table, column.name
                ),
            ));
        }
        key.extend(fields.iter().find(|f| f.name == column.name).map(|f| f.id));
    }
    Schema::builder()
        .with_schema_id(schema_id)
        .with_fields(fields)
        .with_identifier_field_ids(key)
        .build()
        .map_err(|e| iceberg_bug(format!("table {}: its columns make no Iceberg schema", source.table), e))
}

fn field(source: &TableSchema, column: &Column, id: i32) -> Result<NestedFieldRef> {
    let in_key = source.key_columns().any(|c| c.name == column.name);
    let ty = iceberg_type(&source.table, column)?;
    Ok(Arc::new(NestedField::new(id, &column.name, ty, in_key || !column.nullable)))
}

fn iceberg_type(table: &TableName, column: &Column) -> Result<Type> {
    Ok(Type::Primitive(match column.ty {
        ColumnType::Boolean => PrimitiveType::Boolean,
        ColumnType::Int => PrimitiveType::Int,
        ColumnType::Long => PrimitiveType::Long,
        ColumnType::Float => PrimitiveType::Float,
        ColumnType::Double => PrimitiveType::Double,
        ColumnType::Decimal { precision, scale } => {
            return Type::decimal(precision.into(), scale.into()).map_err(|e| {
                iceberg_bug(format!("table {table}: column \"{}\" makes no Iceberg decimal", column.name), e)
            });
        }
        ColumnType::String => PrimitiveType::String,
        ColumnType::Binary => PrimitiveType::Binary,
        ColumnType::Date => PrimitiveType::Date,
        ColumnType::Time => PrimitiveType::Time,
        ColumnType::Timestamp => PrimitiveType::Timestamp,
        ColumnType::TimestampTz => PrimitiveType::Timestamptz,
        ColumnType::Uuid => PrimitiveType::Uuid,
    }))
}

/// Iceberg's own rule of which types a column may grow into under one id (spec, "Schema Evolution").
fn widens(from: &Type, to: &Type) -> bool {
    match (from.as_primitive_type(), to.as_primitive_type()) {
        (Some(PrimitiveType::Int), Some(PrimitiveType::Long))
        | (Some(PrimitiveType::Float), Some(PrimitiveType::Double)) => true,
        (
            Some(PrimitiveType::Decimal { precision: p, scale: s }),
            Some(PrimitiveType::Decimal { precision: q, scale: t }),
        ) => s == t && p <= q,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use calve_core::NativeType;

    use super::*;

    fn column(name: &str, ty: ColumnType, nullable: bool) -> Column {
        Column { name: name.to_owned(), ty, nullable, native: NativeType::new(0, -1, "native") }
    }

    fn table(columns: Vec<Column>, key: Vec<usize>) -> TableSchema {
        TableSchema { table: TableName::new("public", "t"), native_id: 1, columns, key }
    }

    fn base() -> TableSchema {
        table(
            vec![
                column("id", ColumnType::Long, false),
                column("name", ColumnType::String, true),
                column("n", ColumnType::Int, false),
            ],
            vec![0],
        )
    }

    fn ids(schema: &Schema) -> Vec<(String, i32, bool)> {
        schema.as_struct().fields().iter().map(|f| (f.name.clone(), f.id, f.required)).collect()
    }

    #[test]
    fn keys_become_required_identifier_fields() {
        let mut source = base();
        source.columns[0].nullable = true;
        let schema = new_schema(&source).unwrap();
        assert_eq!(ids(&schema), [("id".into(), 1, true), ("name".into(), 2, false), ("n".into(), 3, true)]);
        assert_eq!(schema.identifier_field_ids().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_floating_point_key_is_refused() {
        let source = table(vec![column("x", ColumnType::Double, false)], vec![0]);
        let error = new_schema(&source).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("\"x\""), "{error}");
    }

    #[test]
    fn ids_stay_with_name_and_type() {
        let source = base();
        let current = new_schema(&source).unwrap();
        assert_eq!(fit(&source, &current, Some(&source), 3).unwrap(), Fit::Present);

        let changed = table(
            vec![
                column("added", ColumnType::Boolean, true),
                column("id", ColumnType::Long, false),
                column("n", ColumnType::Long, false),
            ],
            vec![1],
        );
        let Fit::Evolved(evolved) = fit(&changed, &current, Some(&source), 3).unwrap() else { panic!("it changed") };
        // "n" grew under its id, "name" went, "added" came.
        assert_eq!(ids(&evolved), [("added".into(), 4, false), ("id".into(), 1, true), ("n".into(), 3, true)]);

        let retyped =
            table(vec![column("id", ColumnType::Long, false), column("n", ColumnType::String, false)], vec![0]);
        let Fit::Evolved(evolved) = fit(&retyped, &current, Some(&source), 3).unwrap() else { panic!("it changed") };
        assert_eq!(ids(&evolved), [("id".into(), 1, true), ("n".into(), 4, true)]);
    }

    #[test]
    fn columns_of_others_stay_and_are_left_null() {
        let source = base();
        let current = new_schema(&source).unwrap();
        let extra = Arc::new(NestedField::optional(9, "comment", Type::Primitive(PrimitiveType::String)));
        let foreign = current.clone().into_builder().with_fields([extra]).build().unwrap();
        assert_eq!(fit(&source, &foreign, Some(&source), 9).unwrap(), Fit::Present);
        assert_eq!(incompatibility(&current, &foreign), None);
        let arrow = arrow_schema(&source, &foreign).unwrap();
        assert_eq!(arrow.fields().len(), 3);
        assert_eq!(arrow.field(1).metadata()[PARQUET_FIELD_ID_META_KEY], "2");
    }

    #[test]
    fn a_schema_changed_under_staged_rows_is_named() {
        let source = base();
        let staged = new_schema(&source).unwrap();
        let now = table(vec![column("id", ColumnType::Long, false), column("name", ColumnType::String, true)], vec![0]);
        let dropped = new_schema(&now).unwrap();
        let why = incompatibility(&staged, &dropped).unwrap();
        assert!(why.contains("\"n\" was dropped"), "{why}");
    }

    #[test]
    fn key_columns_stand_in_the_keys_order() {
        let source =
            table(vec![column("a", ColumnType::Int, false), column("b", ColumnType::String, false)], vec![1, 0]);
        let (arrow, ids) = arrow_key_schema(&source, &new_schema(&source).unwrap()).unwrap();
        assert_eq!(ids, [2, 1]);
        assert_eq!(arrow.field(0).name(), "b");
    }
}
