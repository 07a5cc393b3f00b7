//! Source schemas as Iceberg and Arrow schemas, with field ids that stay with their columns.
//!
//! What becomes of a table's schema when the source's changes is in `fit`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{Field, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use calve_core::{Column, ColumnType, Error, ErrorKind, Result, TableName, TableSchema};
use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Schema, TableMetadata, TableMetadataBuilder, Type};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::error::iceberg_bug;

/// The Iceberg schema of a new table.
pub(crate) fn new_schema(source: &TableSchema) -> Result<Schema> {
    let mut fields = Vec::with_capacity(source.columns.len());
    for (id, column) in (1..).zip(&source.columns) {
        fields.push(field(source, column, id)?);
    }
    build(source, fields, 0)
}

/// The documentation of a field whose column the source dropped.
pub(crate) const DROPPED: &str = "dropped at the source; rows written before still have their values";

/// Whether a field is one that the source dropped, rather than somebody else's.
pub(crate) fn is_dropped(field: &NestedField) -> bool {
    field.doc.as_deref() == Some(DROPPED)
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
            b.field_by_id(f.id).is_some_and(|g| {
                let same = f.name == g.name && f.required == g.required && f.field_type == g.field_type;
                same && is_dropped(f) == is_dropped(g)
            })
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

pub(crate) fn build(source: &TableSchema, fields: Vec<NestedFieldRef>, schema_id: i32) -> Result<Schema> {
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

/// The table as it is once `schema` is its present one.
pub(crate) fn evolved(table: &TableName, metadata: &TableMetadata, schema: Schema) -> Result<TableMetadata> {
    let builder = metadata.clone().into_builder(None).add_current_schema(schema);
    let built = builder.and_then(TableMetadataBuilder::build);
    built
        .map(|built| built.metadata)
        .map_err(|e| iceberg_bug(format!("table {table}: its schema in the lake cannot become the source's"), e))
}

pub(crate) fn field(source: &TableSchema, column: &Column, id: i32) -> Result<NestedFieldRef> {
    let in_key = source.key_columns().any(|c| c.name == column.name);
    let ty = iceberg_type(&source.table, column)?;
    Ok(Arc::new(NestedField::new(id, &column.name, ty, in_key || !column.nullable)))
}

pub(crate) fn iceberg_type(table: &TableName, column: &Column) -> Result<Type> {
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

/// Whether a column of the one type may have the other under the same id: Iceberg's own rule (spec, "Schema Evolution").
pub(crate) fn widens(from: &Type, to: &Type) -> bool {
    match (from.as_primitive_type(), to.as_primitive_type()) {
        (Some(PrimitiveType::Int), Some(PrimitiveType::Long))
        | (Some(PrimitiveType::Float), Some(PrimitiveType::Double)) => true,
        (
            Some(PrimitiveType::Decimal { precision: p, scale: s }),
            Some(PrimitiveType::Decimal { precision: q, scale: t }),
        ) => s == t && p <= q,
        _ => from == to,
    }
}

#[cfg(test)]
mod tests {
    use calve_core::NativeType;

    use super::*;

    fn column(name: &str, ty: ColumnType, nullable: bool) -> Column {
        Column { id: 0, name: name.to_owned(), ty, nullable, native: NativeType::new(0, -1, "native") }
    }

    fn table(columns: Vec<Column>, key: Vec<usize>) -> TableSchema {
        TableSchema {
            table: TableName::new("public", "t"),
            native_id: 1,
            character_set: None,
            left_out: Vec::new(),
            mode: calve_core::TableMode::default(),
            columns,
            key,
        }
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
