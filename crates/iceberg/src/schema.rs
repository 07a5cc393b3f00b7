//! Source schemas as Iceberg and Arrow schemas, with field ids that stay with their columns.
//!
//! What becomes of a table's schema when the source's changes is in `fit`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema as ArrowSchema, SchemaRef as ArrowSchemaRef};
use calve_core::{Column, ColumnType, Error, ErrorKind, Result, TableName, TableSchema};
use iceberg::spec::{ListType, MapType, NestedField, NestedFieldRef, PrimitiveType, Schema, Type};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use crate::error::iceberg_bug;

/// The Iceberg schema of a new table.
pub(crate) fn new_schema(source: &TableSchema) -> Result<Schema> {
    let mut fields = Vec::with_capacity(source.columns.len());
    // As Iceberg's own libraries count: the columns, then what is inside of them.
    let mut inner = 1 + i32::try_from(source.columns.len()).unwrap_or(i32::MAX - 1)..;
    let mut next_id = || inner.next().unwrap_or(i32::MAX);
    for (id, column) in (1..).zip(&source.columns) {
        let ty = iceberg_type(&source.table, column, None, &mut next_id)?;
        fields.push(field(source, column, id, ty));
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
    let field = field_of(source, column, schema)?;
    let ty = with_ids(column.ty.arrow_type(), &field.field_type);
    Ok(numbered(Field::new(&column.name, ty, !field.required), field.id))
}

fn field_id(source: &TableSchema, column: &Column, schema: &Schema) -> Result<i32> {
    field_of(source, column, schema).map(|field| field.id)
}

fn field_of<'a>(source: &TableSchema, column: &Column, schema: &'a Schema) -> Result<&'a NestedFieldRef> {
    schema.as_struct().fields().iter().find(|f| f.name == column.name).ok_or_else(|| {
        Error::new(
            ErrorKind::Bug,
            format!("table {}: column \"{}\" has no field in the schema chosen for it", source.table, column.name),
        )
    })
}

fn numbered(field: Field, id: i32) -> Field {
    field.with_metadata(HashMap::from([(PARQUET_FIELD_ID_META_KEY.to_owned(), id.to_string())]))
}

/// The type with the field ids of what is inside of it.
fn with_ids(arrow: DataType, ty: &Type) -> DataType {
    match (arrow, ty) {
        (DataType::List(element), Type::List(list)) => {
            DataType::List(Arc::new(numbered((*element).clone(), list.element_field.id)))
        }
        (DataType::Map(entry, sorted), Type::Map(map)) => {
            let ids = [map.key_field.id, map.value_field.id];
            let parts = leaves(&DataType::Map(Arc::clone(&entry), sorted));
            let parts = parts.iter().zip(ids).map(|(part, id)| numbered((**part).clone(), id));
            let parts = DataType::Struct(parts.collect());
            DataType::Map(Arc::new((*entry).clone().with_data_type(parts)), sorted)
        }
        (arrow, _) => arrow,
    }
}

/// The type without field ids of what is inside of it, as cells are in memory.
pub(crate) fn without_ids(arrow: &DataType) -> DataType {
    let bare = |field: &Field| field.clone().with_metadata(HashMap::new());
    match arrow {
        DataType::List(element) => DataType::List(Arc::new(bare(element))),
        DataType::Map(entry, sorted) => {
            let parts: Fields = leaves(arrow).iter().map(|part| bare(part)).collect();
            DataType::Map(Arc::new(bare(entry).with_data_type(DataType::Struct(parts))), *sorted)
        }
        other => other.clone(),
    }
}

/// The fields inside of a list or a map that hold its values; none of any other type.
pub(crate) fn leaves(arrow: &DataType) -> Fields {
    match arrow {
        DataType::List(element) => vec![Arc::clone(element)].into(),
        DataType::Map(entry, _) => match entry.data_type() {
            DataType::Struct(parts) => parts.clone(),
            _ => Fields::empty(),
        },
        _ => Fields::empty(),
    }
}

pub(crate) fn build(source: &TableSchema, fields: Vec<NestedFieldRef>, schema_id: i32) -> Result<Schema> {
    let mut key = Vec::with_capacity(source.key.len());
    for column in source.key_columns() {
        if let Some(why) = column.ty.no_key_because() {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "table {}: column \"{}\" is of the key, and {why}; choose another unique index with ALTER TABLE ... \
                     REPLICA IDENTITY USING INDEX",
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

pub(crate) fn field(source: &TableSchema, column: &Column, id: i32, ty: Type) -> NestedFieldRef {
    let in_key = source.key_columns().any(|c| c.name == column.name);
    Arc::new(NestedField::new(id, &column.name, ty, in_key || !column.nullable))
}

/// The type of a column in the lake. What is inside of it keeps the ids that it has where the column is `present`, and else gets
/// the next ones.
pub(crate) fn iceberg_type(
    table: &TableName,
    column: &Column,
    present: Option<&Type>,
    next_id: &mut dyn FnMut() -> i32,
) -> Result<Type> {
    Ok(match &column.ty {
        ColumnType::List(element) => {
            let id = match present {
                Some(Type::List(list)) => list.element_field.id,
                _ => next_id(),
            };
            let element = Type::Primitive(primitive_type(table, column, element)?);
            Type::List(ListType::new(Arc::new(NestedField::list_element(id, element, false))))
        }
        ColumnType::Map => {
            let (key, value) = match present {
                Some(Type::Map(map)) => (map.key_field.id, map.value_field.id),
                _ => (next_id(), next_id()),
            };
            let text = || Type::Primitive(PrimitiveType::String);
            let key = NestedField::map_key_element(key, text());
            Type::Map(MapType::new(Arc::new(key), Arc::new(NestedField::map_value_element(value, text(), false))))
        }
        single => Type::Primitive(primitive_type(table, column, single)?),
    })
}

/// The type under which values of `column` go on where its field is `present`, if they can.
pub(crate) fn grown_type(table: &TableName, column: &Column, present: &Type) -> Result<Option<Type>> {
    // No id is asked for where it can.
    let ty = iceberg_type(table, column, Some(present), &mut || i32::MAX)?;
    Ok(widens(present, &ty).then_some(ty))
}

fn primitive_type(table: &TableName, column: &Column, ty: &ColumnType) -> Result<PrimitiveType> {
    let bug = |what: &str| Error::new(ErrorKind::Bug, format!("table {table}: column \"{}\" {what}", column.name));
    Ok(match ty {
        ColumnType::Boolean => PrimitiveType::Boolean,
        ColumnType::Int => PrimitiveType::Int,
        ColumnType::Long => PrimitiveType::Long,
        ColumnType::Float => PrimitiveType::Float,
        ColumnType::Double => PrimitiveType::Double,
        ColumnType::Decimal { precision, scale } => match Type::decimal((*precision).into(), (*scale).into()) {
            Ok(Type::Primitive(decimal)) => decimal,
            _ => return Err(bug("makes no Iceberg decimal")),
        },
        ColumnType::String => PrimitiveType::String,
        ColumnType::Binary => PrimitiveType::Binary,
        ColumnType::Date => PrimitiveType::Date,
        ColumnType::Time => PrimitiveType::Time,
        ColumnType::Timestamp => PrimitiveType::Timestamp,
        ColumnType::TimestampTz => PrimitiveType::Timestamptz,
        ColumnType::Uuid => PrimitiveType::Uuid,
        ColumnType::List(_) | ColumnType::Map => return Err(bug("is a list of lists or maps")),
    })
}

/// Whether a column of the one type may have the other under the same id: Iceberg's own rule (spec, "Schema Evolution").
pub(crate) fn widens(from: &Type, to: &Type) -> bool {
    if let (Type::List(from), Type::List(to)) = (from, to) {
        let (from, to) = (&from.element_field, &to.element_field);
        return from.id == to.id && from.required == to.required && widens(&from.field_type, &to.field_type);
    }
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
        Column {
            id: 0,
            name: name.to_owned(),
            ty,
            nullable,
            native: NativeType::new(0, -1, "native"),
            usage: calve_core::ColumnUse::Values,
        }
    }

    fn table(columns: Vec<Column>, key: Vec<usize>) -> TableSchema {
        TableSchema::new(TableName::new("public", "t"), 1, columns, key)
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
    fn lists_and_maps_are_numbered_after_all_columns() {
        let source = table(
            vec![
                column("id", ColumnType::Long, false),
                column("tags", ColumnType::String.list(), true),
                column("attributes", ColumnType::Map, true),
                column("last", ColumnType::Int, true),
            ],
            vec![0],
        );
        let schema = new_schema(&source).unwrap();
        let names: Vec<_> = (1..=7).map(|id| schema.name_by_field_id(id).unwrap()).collect();
        assert_eq!(names, ["id", "tags", "attributes", "last", "tags.element", "attributes.key", "attributes.value"]);
        let arrow = arrow_schema(&source, &schema).unwrap();
        let ids = |column: usize| {
            let parts = leaves(arrow.field(column).data_type());
            parts.iter().map(|part| part.metadata()[PARQUET_FIELD_ID_META_KEY].clone()).collect::<Vec<_>>()
        };
        assert_eq!((ids(0), ids(1), ids(2)), (vec![], vec!["5".to_owned()], vec!["6".to_owned(), "7".to_owned()]));
    }

    #[test]
    fn lists_and_maps_are_refused_in_keys() {
        for ty in [ColumnType::Int.list(), ColumnType::Map] {
            let error = new_schema(&table(vec![column("x", ty, false)], vec![0])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("\"x\""), "{error}");
        }
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
