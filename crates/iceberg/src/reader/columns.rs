//! Columns of a Parquet file as columns of the table: found by field id, NULL where the file lacks them, and given the type
//! that the table has now where it grew since.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, RecordBatch, StructArray, new_null_array};
use arrow_schema::{DataType, TimeUnit};
use iceberg::spec::{PrimitiveType, Schema};
use parquet::arrow::ProjectionMask;
use parquet::schema::types::SchemaDescriptor;

/// A column to read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableColumn {
    pub(crate) field_id: i32,
    /// For messages.
    pub(crate) name: String,
    /// The type wanted.
    pub(crate) arrow: DataType,
}

impl TableColumn {
    /// The schema's column of this id, as it is read; None where there is none that can be.
    pub(crate) fn of(schema: &Schema, field_id: i32) -> Option<Self> {
        let field = schema.field_by_id(field_id)?;
        let arrow = arrow_type(field.field_type.as_primitive_type()?)?;
        Some(Self { field_id, name: field.name.clone(), arrow })
    }
}

/// How the columns wanted are read from one file.
pub(crate) struct FileColumns {
    pub(crate) mask: ProjectionMask,
    /// For each column wanted, its place among those read.
    places: Vec<(TableColumn, Option<usize>)>,
}

impl FileColumns {
    /// Finds the columns in the file's schema. The error says why that cannot be.
    pub(crate) fn find(file: &SchemaDescriptor, wanted: &[TableColumn]) -> Result<Self, String> {
        let fields = file.root_schema().get_fields();
        if !fields.iter().any(|field| field.get_basic_info().has_id()) {
            return Err("its columns have no field ids, so it was not written as a file of an Iceberg table".to_owned());
        }
        let find = |id: i32| {
            fields.iter().position(|field| {
                let info = field.get_basic_info();
                info.has_id() && info.id() == id
            })
        };
        let roots: Vec<Option<usize>> = wanted.iter().map(|column| find(column.field_id)).collect();
        let mut read: Vec<usize> = roots.iter().copied().flatten().collect();
        read.sort_unstable();
        read.dedup();
        let place = |root: &Option<usize>| root.and_then(|root| read.binary_search(&root).ok());
        let places = wanted.iter().cloned().zip(roots.iter().map(place)).collect();
        Ok(Self { mask: ProjectionMask::roots(file, read.iter().copied()), places })
    }

    /// The columns wanted, from a batch that was read with [`mask`](Self::mask).
    pub(crate) fn of(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>, String> {
        let columns =
            self.places.iter().map(|(wanted, place)| match place.and_then(|place| batch.columns().get(place)) {
                None => Ok(new_null_array(&wanted.arrow, batch.num_rows())),
                Some(column) => grown(column, &wanted.arrow)
                    .ok_or_else(|| format!("its column \"{}\" is of type {}", wanted.name, column.data_type())),
            });
        columns.collect()
    }
}

/// The same values in the type that the column has by now. None where that is no growth that Iceberg knows.
fn grown(column: &ArrayRef, to: &DataType) -> Option<ArrayRef> {
    Some(match (column.data_type(), to) {
        (from, to) if from == to => Arc::clone(column),
        (DataType::Int32, DataType::Int64) => {
            Arc::new(column.as_primitive::<Int32Type>().unary::<_, Int64Type>(i64::from))
        }
        (DataType::Float32, DataType::Float64) => {
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float64Type>(f64::from))
        }
        (DataType::Decimal128(precision, scale), DataType::Decimal128(wider, same))
            if precision <= wider && scale == same =>
        {
            Arc::new(column.as_primitive::<Decimal128Type>().clone().with_data_type(to.clone()))
        }
        // Parquet says that an instant is meant; how UTC is spelled is the reader's.
        (
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)),
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)),
        ) => Arc::new(column.as_primitive::<TimestampMicrosecondType>().clone().with_timezone(Arc::clone(zone))),
        (DataType::List(_), DataType::List(element)) => {
            let list = column.as_list::<i32>();
            let elements = grown(list.values(), element.data_type())?;
            Arc::new(
                ListArray::try_new(Arc::clone(element), list.offsets().clone(), elements, list.nulls().cloned())
                    .ok()?,
            )
        }
        (DataType::Map(..), DataType::Map(entry, sorted)) => {
            let map = column.as_map();
            let DataType::Struct(parts) = entry.data_type() else { return None };
            let columns = parts.iter().zip([map.keys(), map.values()]);
            let columns = columns.map(|(part, column)| grown(column, part.data_type())).collect::<Option<_>>()?;
            let entries = StructArray::try_new(parts.clone(), columns, None).ok()?;
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Arc::new(MapArray::try_new(Arc::clone(entry), offsets, entries, nulls, *sorted).ok()?)
        }
        _ => return None,
    })
}

/// The Arrow type that values of an Iceberg type are read as: for the types that calve writes, the one of their
/// `ColumnType`. None where a column of the type cannot be read here.
fn arrow_type(ty: &PrimitiveType) -> Option<DataType> {
    Some(match ty {
        PrimitiveType::Boolean => DataType::Boolean,
        PrimitiveType::Int => DataType::Int32,
        PrimitiveType::Long => DataType::Int64,
        PrimitiveType::Float => DataType::Float32,
        PrimitiveType::Double => DataType::Float64,
        PrimitiveType::Decimal { precision, scale } => {
            DataType::Decimal128(u8::try_from(*precision).ok()?, i8::try_from(*scale).ok()?)
        }
        PrimitiveType::Date => DataType::Date32,
        PrimitiveType::Time => DataType::Time64(TimeUnit::Microsecond),
        PrimitiveType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        PrimitiveType::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        PrimitiveType::String => DataType::Utf8,
        PrimitiveType::Uuid => DataType::FixedSizeBinary(16),
        PrimitiveType::Fixed(length) => DataType::FixedSizeBinary(i32::try_from(*length).ok()?),
        PrimitiveType::Binary => DataType::Binary,
        PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs => return None,
    })
}
