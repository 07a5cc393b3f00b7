//! How files are written: the defaults, and the table properties that change them.
//!
//! The properties are those that other Iceberg writers obey too, so that one setting on the table serves all of them.

use std::collections::{BTreeSet, HashMap};
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, SchemaRef as ArrowSchemaRef};
use calve_core::{Error, ErrorKind, Result, TableName};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::{Compression, LogicalType, Type as PhysicalType, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type, TypePtr};

use super::dictionaries::Dictionaries;
use super::series::Content;
use crate::placement::BLOOM_FILTER;
use crate::schema;

const CODEC: &str = "write.parquet.compression-codec";
const LEVEL: &str = "write.parquet.compression-level";
const FILE_BYTES: &str = "write.target-file-size-bytes";
const ROW_GROUP_BYTES: &str = "write.parquet.row-group-size-bytes";

/// A row group is held in memory, encoded, until it is complete; so this bounds what an open file costs.
const DEFAULT_ROW_GROUP_BYTES: usize = 32 << 20;
const DEFAULT_FILE_BYTES: usize = 128 << 20;

/// Of values of this many bytes a dictionary is not tried.
const LARGE_VALUE: usize = 16 << 10;

/// Of values of this many bytes no bounds are kept.
const HUGE_VALUE: usize = 1 << 20;

/// Bytes of text and binary statistics kept. A truncated maximum is rounded up, so bounds stay true.
const STATISTIC_BYTES: usize = 64;

/// Of values that are not there, Bloom filters say of this part that they may be, as Iceberg's own writers have it.
const BLOOM_FILTER_ERRORS: f64 = 0.01;

/// Of this many values a filter holds what they are, in 1 MB; where a row group has fewer it becomes smaller when it is complete.
const BLOOM_FILTER_VALUES: u64 = 800_000;

/// The same where many partitions have an open file, and small row groups: 32 KB.
const BLOOM_FILTER_VALUES_OF_PARTITION: u64 = BLOOM_FILTER_VALUES / 32;

/// Settings of one table's files.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FileFormat {
    compression: Compression,
    /// A file is complete once it has this many bytes.
    pub(crate) file_bytes: usize,
    /// A row group is, once it takes this many bytes in memory.
    pub(super) row_group_bytes: usize,
    /// Names of columns with a Bloom filter.
    bloom_filters: BTreeSet<String>,
}

impl FileFormat {
    /// From the table's properties.
    pub(crate) fn of(table: &TableName, properties: &HashMap<String, String>) -> Result<Self> {
        let codec = properties.get(CODEC).map_or("zstd", String::as_str);
        let compression = match codec.to_ascii_lowercase().as_str() {
            "zstd" => {
                let level = match properties.get(LEVEL) {
                    Some(text) => number(table, LEVEL, text)?,
                    // Smaller files than level 1 for less time: its dictionary pages compress that much better.
                    None => 3,
                };
                let level = ZstdLevel::try_new(level).map_err(|error| wrong(table, LEVEL, &error.to_string()))?;
                Compression::ZSTD(level)
            }
            "snappy" => Compression::SNAPPY,
            "lz4" | "lz4_raw" => Compression::LZ4_RAW,
            "none" | "uncompressed" => Compression::UNCOMPRESSED,
            other => {
                let what = format!("'{other}' is not a codec known here: use zstd, snappy, lz4 or uncompressed");
                return Err(wrong(table, CODEC, &what));
            }
        };
        let bytes = |key, default: usize| match properties.get(key) {
            Some(text) => match number(table, key, text)? {
                0 => Err(wrong(table, key, "it must be at least 1")),
                bytes => Ok(bytes),
            },
            None => Ok(default),
        };
        Ok(Self {
            compression,
            file_bytes: bytes(FILE_BYTES, DEFAULT_FILE_BYTES)?,
            row_group_bytes: bytes(ROW_GROUP_BYTES, DEFAULT_ROW_GROUP_BYTES)?,
            bloom_filters: properties
                .iter()
                .filter(|(_, value)| value.eq_ignore_ascii_case("true"))
                .filter_map(|(key, _)| key.strip_prefix(BLOOM_FILTER).map(ToOwned::to_owned))
                .collect(),
        })
    }

    /// For a file that begins with `rows`, of whose columns those named `key` identify a row.
    pub(crate) fn writer_properties(
        &self,
        rows: &RecordBatch,
        key: &[&str],
        content: Content,
        dictionaries: &Dictionaries,
        partitioned: bool,
    ) -> WriterProperties {
        let mut properties = WriterProperties::builder()
            // What every reader of Parquet understands.
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_created_by(concat!("calve version ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(self.compression)
            .set_max_row_group_row_count(None)
            .set_max_row_group_bytes(Some(self.row_group_bytes))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_statistics_truncate_length(Some(STATISTIC_BYTES));
        let schema = rows.schema_ref();
        let leaves = schema.fields().iter().zip(rows.columns()).flat_map(|(field, column)| leaves(field, column));
        for (path, leaf, column) in leaves {
            let size = value_size(&column);
            // Of large values it would be given up after a few, each of which it holds once more.
            if !dictionaries.are_tried(&leaf) || size >= LARGE_VALUE {
                properties = properties.set_column_dictionary_enabled(path.clone(), false);
            }
            if size >= HUGE_VALUE {
                // So do bounds, until the row group is complete.
                properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
            }
        }
        for field in schema.fields().iter().filter(|field| key.contains(&field.name().as_str())) {
            let path = ColumnPath::new(vec![field.name().clone()]);
            // Rows are looked up by key.
            properties = properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Page);
            if key.len() == 1 {
                // No value comes twice, so a dictionary is work for nothing.
                properties = properties.set_column_dictionary_enabled(path, false);
            }
        }
        let filtered = if partitioned { BLOOM_FILTER_VALUES_OF_PARTITION } else { BLOOM_FILTER_VALUES };
        let columns = schema.fields().iter().filter(|field| self.bloom_filters.contains(field.name()));
        // Nobody looks for a key among deletes: all of them are read.
        for field in columns.filter(|field| content == Content::Rows && !field.data_type().is_nested()) {
            let path = ColumnPath::new(vec![field.name().clone()]);
            properties = properties
                .set_column_bloom_filter_fpp(path.clone(), BLOOM_FILTER_ERRORS)
                .set_column_bloom_filter_ndv(path, filtered);
        }
        properties.build()
    }
}

/// Bytes of a column's values, on average; 0 where they are of fixed width.
pub(super) fn value_size(column: &ArrayRef) -> usize {
    varying_bytes(column) / column.len().max(1)
}

fn varying_bytes(column: &ArrayRef) -> usize {
    let within = |offsets: &[i32]| {
        let offset = |at: Option<&i32>| at.and_then(|at| usize::try_from(*at).ok()).unwrap_or(0);
        (offset(offsets.first()), offset(offsets.last()).saturating_sub(offset(offsets.first())))
    };
    let part = |part: &ArrayRef, (from, count): (usize, usize)| {
        let width = part.data_type().primitive_width().unwrap_or(size_of::<i32>());
        count * width + varying_bytes(&part.slice(from, count))
    };
    match column.data_type() {
        DataType::Utf8 => within(column.as_string::<i32>().value_offsets()).1,
        DataType::Binary => within(column.as_binary::<i32>().value_offsets()).1,
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            part(list.values(), within(list.value_offsets()))
        }
        DataType::Map(..) => {
            let map = column.as_map();
            let range = within(map.value_offsets());
            part(map.keys(), range) + part(map.values(), range)
        }
        _ => 0,
    }
}

/// The columns that Parquet makes of one: their paths, fields and values.
fn leaves(field: &FieldRef, column: &ArrayRef) -> Vec<(ColumnPath, FieldRef, ArrayRef)> {
    let (group, values) = match field.data_type() {
        DataType::List(_) => ("list", vec![Arc::clone(column.as_list::<i32>().values())]),
        DataType::Map(..) => {
            ("key_value", vec![Arc::clone(column.as_map().keys()), Arc::clone(column.as_map().values())])
        }
        _ => return vec![(ColumnPath::new(vec![field.name().clone()]), Arc::clone(field), Arc::clone(column))],
    };
    let path = |part: &FieldRef| ColumnPath::new(vec![field.name().clone(), group.to_owned(), part.name().clone()]);
    let parts = schema::leaves(field.data_type());
    parts.iter().zip(values).map(|(part, values)| (path(part), Arc::clone(part), values)).collect()
}

/// The Parquet schema of files with the columns of `arrow`, as the Iceberg specification (appendix A) wants each type.
pub(crate) fn parquet_schema(arrow: &ArrowSchemaRef) -> parquet::errors::Result<SchemaDescriptor> {
    let converted = ArrowSchemaConverter::new().schema_root("table").convert(arrow)?;
    let fields = arrow.fields().iter().zip(converted.root_schema().get_fields());
    let fields = fields.map(|(field, ty)| parquet_type(field, ty)).collect::<parquet::errors::Result<_>>()?;
    let root = Type::group_type_builder("table").with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

fn parquet_type(field: &Field, ty: &TypePtr) -> parquet::errors::Result<TypePtr> {
    let info = ty.get_basic_info();
    let builder = |physical| {
        Type::primitive_type_builder(info.name(), physical)
            .with_repetition(info.repetition())
            .with_id(info.has_id().then(|| info.id()))
    };
    Ok(match field.data_type() {
        DataType::FixedSizeBinary(16) => Arc::new(
            builder(PhysicalType::FIXED_LEN_BYTE_ARRAY)
                .with_length(16)
                .with_logical_type(Some(LogicalType::Uuid))
                .build()?,
        ),
        // The converter takes 64 bits for a single digit.
        DataType::Decimal128(1, scale) => Arc::new(
            builder(PhysicalType::INT32)
                .with_logical_type(Some(LogicalType::Decimal { precision: 1, scale: i32::from(*scale) }))
                .with_precision(1)
                .with_scale(i32::from(*scale))
                .build()?,
        ),
        DataType::List(element) => with_element(ty, &mut |ty| parquet_type(element, ty))?,
        _ => Arc::clone(ty),
    })
}

/// The group of a list, with what becomes of its element: `optional group a (LIST) { repeated group list { element } }`.
fn with_element(
    group: &TypePtr,
    element: &mut dyn FnMut(&TypePtr) -> parquet::errors::Result<TypePtr>,
) -> parquet::errors::Result<TypePtr> {
    if !group.is_group() {
        return element(group);
    }
    let info = group.get_basic_info();
    let fields = group.get_fields().iter().map(|field| with_element(field, element));
    let builder = Type::group_type_builder(info.name())
        .with_repetition(info.repetition())
        .with_converted_type(info.converted_type())
        .with_logical_type(info.logical_type_ref().cloned())
        .with_id(info.has_id().then(|| info.id()))
        .with_fields(fields.collect::<parquet::errors::Result<_>>()?);
    Ok(Arc::new(builder.build()?))
}

fn number<T: FromStr>(table: &TableName, key: &str, text: &str) -> Result<T> {
    text.trim().parse().map_err(|_| wrong(table, key, &format!("'{text}' is not a number")))
}

fn wrong(table: &TableName, key: &str, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("table {table}: its property {key} in the lake cannot be used: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(properties: &[(&str, &str)]) -> Result<FileFormat> {
        let properties = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        FileFormat::of(&TableName::new("public", "t"), &properties)
    }

    #[test]
    fn properties_of_the_table_are_obeyed() {
        let zstd = |level| Compression::ZSTD(ZstdLevel::try_new(level).unwrap());
        assert_eq!(format(&[]).unwrap().compression, zstd(3));
        assert_eq!(format(&[(LEVEL, "9")]).unwrap().compression, zstd(9));
        assert_eq!(format(&[(CODEC, "SNAPPY"), (LEVEL, "9")]).unwrap().compression, Compression::SNAPPY);
        assert_eq!(format(&[(CODEC, "lz4")]).unwrap().compression, Compression::LZ4_RAW);
        assert_eq!(format(&[(CODEC, "uncompressed")]).unwrap().compression, Compression::UNCOMPRESSED);
        assert_eq!(format(&[(FILE_BYTES, "1024")]).unwrap().file_bytes, 1024);
    }

    #[test]
    fn what_cannot_be_obeyed_is_named() {
        for (key, value) in [(CODEC, "brotli"), (LEVEL, "99"), (LEVEL, "x"), (FILE_BYTES, "0"), (ROW_GROUP_BYTES, "-1")]
        {
            let error = format(&[(key, value)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}
