//! Partitions of a table: which of them each row of a batch belongs to.

mod transform;

use std::collections::HashMap;

use arrow_array::ArrayRef;
use iceberg::spec::{
    Literal, NestedField, PartitionSpec, PrimitiveLiteral, PrimitiveType, Schema, Struct, Transform, Type,
};

use crate::reader::KeyCells;
use transform::{literal, transform};

/// How rows, or keys, are put into partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Partitioning {
    fields: Vec<Field>,
}

/// What a partition is made by.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    transform: Transform,
    /// Of what comes out.
    ty: PrimitiveType,
    /// The column's place; None where rows have it no more, so that its values are NULL.
    column: Option<usize>,
}

/// Rows of one partition.
#[derive(Debug, PartialEq)]
pub(crate) struct Group {
    /// The values of the spec's fields.
    pub(crate) partition: Struct,
    /// Ascending.
    pub(crate) rows: Vec<u32>,
}

impl Partitioning {
    /// By `spec`, of batches whose columns have these field ids. The error says why that cannot be.
    pub(crate) fn of(spec: &PartitionSpec, schema: &Schema, columns: &[i32]) -> Result<Self, String> {
        let types = spec.partition_type(schema).map_err(|error| error.message().to_owned())?;
        let field = |(by, result): (&iceberg::spec::PartitionField, &std::sync::Arc<NestedField>)| {
            let ty = result.field_type.as_primitive_type().cloned();
            let ty = ty.ok_or_else(|| format!("\"{}\" is a partition by more than one value", by.name))?;
            let column = columns.iter().position(|id| *id == by.source_id);
            Ok(Field { transform: by.transform, ty, column })
        };
        let fields = spec.fields().iter().zip(types.fields()).map(field).collect::<Result<_, String>>()?;
        Ok(Self { fields })
    }

    /// Whether all rows are of one partition.
    pub(crate) fn is_one(&self) -> bool {
        self.fields.is_empty()
    }

    /// The rows by partition, in the order in which these come first. The error says which values do not fit.
    pub(crate) fn groups(&self, columns: &[ArrayRef], rows: usize) -> Result<Vec<Group>, String> {
        let count = u32::try_from(rows).map_err(|_| format!("{rows} rows are too many for one batch"))?;
        let mut values = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let column = field.column.map(|at| columns.get(at).ok_or("a column is missing")).transpose()?;
            values.push(column.map(|column| transform(field.transform, column)).transpose()?);
        }
        let present: Vec<ArrayRef> = values.iter().flatten().cloned().collect();
        let mut cells = KeyCells::new(&present).ok_or("a partition is by values of no order")?;
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        for row in 0..count {
            let at = row as usize;
            let key = cells.key(at);
            let place = if let Some(place) = places.get(key) {
                *place
            } else {
                let place = groups.len();
                places.insert(key.to_vec(), place);
                groups.push(Group { partition: self.partition(&values, at)?, rows: Vec::new() });
                place
            };
            groups[place].rows.push(row);
        }
        Ok(groups)
    }

    fn partition(&self, values: &[Option<ArrayRef>], row: usize) -> Result<Struct, String> {
        let value = |(field, values): (&Field, &Option<ArrayRef>)| match values {
            Some(values) => literal(values, row, &field.ty),
            None => Ok(None),
        };
        self.fields.iter().zip(values).map(value).collect::<Result<Vec<_>, _>>().map(Struct::from_iter)
    }
}

/// A partition's values in the types that a schema has for them by now: those of a column that grew are of the wider type.
pub(crate) fn under(spec: &PartitionSpec, schema: &Schema, partition: &Struct) -> Struct {
    let Ok(types) = spec.partition_type(schema) else { return partition.clone() };
    let grown = |(value, field): (Option<&Literal>, &std::sync::Arc<NestedField>)| {
        Some(match (value?, &*field.field_type) {
            (Literal::Primitive(PrimitiveLiteral::Int(value)), Type::Primitive(PrimitiveType::Long)) => {
                Literal::long(i64::from(*value))
            }
            (value, _) => value.clone(),
        })
    };
    partition.iter().zip(types.fields()).map(grown).collect()
}

/// A partition's values in the widest types, so that two of the same partition are equal whenever they were written.
pub(crate) fn widest(partition: &Struct) -> Struct {
    let widest = |value: Option<&Literal>| {
        Some(match value? {
            Literal::Primitive(PrimitiveLiteral::Int(value)) => Literal::long(i64::from(*value)),
            value => value.clone(),
        })
    };
    partition.iter().map(widest).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, Int64Array, StringArray};

    use super::*;

    fn schema() -> Schema {
        let field = |id, name: &str, ty| Arc::new(NestedField::optional(id, name, Type::Primitive(ty)));
        let fields = [
            field(1, "id", PrimitiveType::Long),
            field(2, "city", PrimitiveType::String),
            field(3, "n", PrimitiveType::Int),
        ];
        Schema::builder().with_fields(fields).build().unwrap()
    }

    fn spec(schema: &Schema, by: &[(&str, Transform)]) -> PartitionSpec {
        by.iter()
            .fold(PartitionSpec::builder(schema.clone()), |builder, (column, transform)| {
                builder.add_partition_field(column, format!("{column}_part"), *transform).unwrap()
            })
            .build()
            .unwrap()
    }

    #[test]
    fn rows_are_grouped_by_all_fields_and_null_is_a_value() {
        let schema = schema();
        let spec = spec(
            &schema,
            &[("city", Transform::Truncate(1)), ("id", Transform::Truncate(10)), ("n", Transform::Identity)],
        );
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from(vec![Some("ab"), None, Some("ax"), Some("b"), None])),
            Arc::new(Int64Array::from(vec![1, 2, 9, 1, 3])),
        ];
        // The third field's column is no longer among those written.
        let groups = Partitioning::of(&spec, &schema, &[2, 1]).unwrap().groups(&columns, 5).unwrap();
        let partition =
            |city: Option<&str>| Struct::from_iter([city.map(Literal::string), Some(Literal::long(0)), None]);
        let expected = [(Some("a"), vec![0, 2]), (None, vec![1, 4]), (Some("b"), vec![3])];
        let expected: Vec<Group> =
            expected.into_iter().map(|(city, rows)| Group { partition: partition(city), rows }).collect();
        assert_eq!(groups, expected);
        let wrong: Vec<ArrayRef> = vec![Arc::clone(&columns[1]), Arc::new(Int32Array::from(vec![1; 5]))];
        assert!(Partitioning::of(&spec, &schema, &[2, 1]).unwrap().groups(&wrong, 5).is_err());
        assert!(Partitioning::of(&spec, &schema, &[2, 1]).unwrap().groups(&columns, 0).unwrap().is_empty());
    }

    #[test]
    fn values_of_a_column_that_grew_are_the_same_partition() {
        let schema = schema();
        let by_id =
            spec(&schema, &[("id", Transform::Identity), ("n", Transform::Identity), ("city", Transform::Bucket(4))]);
        let written = Struct::from_iter([Some(Literal::int(7)), Some(Literal::int(8)), None]);
        let now = Struct::from_iter([Some(Literal::long(7)), Some(Literal::int(8)), None]);
        assert_eq!(under(&by_id, &schema, &written), now);
        assert_eq!(widest(&written), widest(&now));
        assert_ne!(widest(&written), widest(&Struct::from_iter([Some(Literal::int(8)), Some(Literal::int(7)), None])));
    }
}
