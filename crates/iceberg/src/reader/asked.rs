//! Keys that are looked for, and what bounds say of them: whether a file, a row group or a page can hold any.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use iceberg::spec::{DataFile, Datum, PrimitiveLiteral};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;
use parquet::schema::types::{BasicTypeInfo, SchemaDescriptor};

use super::columns::TableColumn;
use super::keys::{BuildAsIs, KeyCells, KeyHash, Part};

/// The least and the greatest of the values somewhere, as far as it is known.
type Bounds = (Option<Part>, Option<Part>);

/// Keys to be found.
pub(crate) struct Asked {
    /// The key's columns, in its order.
    columns: Vec<TableColumn>,
    /// Which of the keys it is, by its hash.
    places: HashMap<u128, u32, BuildAsIs>,
    /// All keys by their parts, ascending.
    parts: Vec<Vec<Part>>,
}

impl Asked {
    /// The keys in these columns. None where one comes twice, or a part is none that a key can have.
    pub(crate) fn new(columns: Vec<TableColumn>, keys: &[ArrayRef]) -> Option<Self> {
        let count = keys.first().map_or(0, Array::len);
        let mut cells = KeyCells::new(keys)?;
        let mut places = HashMap::with_capacity_and_hasher(count, BuildAsIs::default());
        let mut parts = Vec::with_capacity(count);
        for row in 0..count {
            if places.insert(cells.hash(row).0, u32::try_from(row).ok()?).is_some() {
                return None;
            }
            parts.push(cells.parts(row)?);
        }
        parts.sort_unstable();
        Some(Self { columns, places, parts })
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Which of the keys this is.
    pub(crate) fn place(&self, hash: KeyHash) -> Option<u32> {
        self.places.get(&hash.0).copied()
    }

    /// Whether a file's manifest entry leaves it open that any of the keys is in it.
    pub(crate) fn may_be_in(&self, file: &DataFile) -> bool {
        let (lower, upper) = (file.lower_bounds(), file.upper_bounds());
        let bounds: Vec<Bounds> = self
            .columns
            .iter()
            .map(|column| (lower.get(&column.field_id).and_then(part), upper.get(&column.field_id).and_then(part)))
            .collect();
        self.may_be_within(&bounds)
    }

    /// Whether any key may lie within bounds of the first columns.
    fn may_be_within(&self, bounds: &[Bounds]) -> bool {
        let Some((first, others)) = bounds.split_first() else { return !self.parts.is_empty() };
        let place = |below: &dyn Fn(&Part) -> bool| self.parts.partition_point(|key| key.first().is_some_and(below));
        let from = first.0.as_ref().map_or(0, |lower| place(&|part| part < lower));
        let to = first.1.as_ref().map_or(self.parts.len(), |upper| place(&|part| part <= upper));
        let within = |key: &Vec<Part>| {
            key.iter().skip(1).zip(others).all(|(part, (lower, upper))| {
                lower.as_ref().is_none_or(|lower| lower <= part) && upper.as_ref().is_none_or(|upper| part <= upper)
            })
        };
        self.parts.get(from..to).is_some_and(|keys| keys.iter().any(within))
    }

    /// Narrows a reader to the row groups that may hold any of the keys, and in these to the pages. Returns how many rows are
    /// left to look at.
    pub(crate) fn narrow<R: ChunkReader + 'static>(
        &self,
        reader: ParquetRecordBatchReaderBuilder<R>,
    ) -> (ParquetRecordBatchReaderBuilder<R>, usize) {
        let metadata = Arc::clone(reader.metadata());
        let converters: Vec<Option<StatisticsConverter<'_>>> = self
            .columns
            .iter()
            .map(|column| {
                let name = name_of(reader.parquet_schema(), column.field_id)?;
                StatisticsConverter::try_new(name, reader.schema(), reader.parquet_schema()).ok()
            })
            .collect();
        let of_groups: Vec<Vec<Bounds>> = converters
            .iter()
            .map(|converter| {
                let groups = metadata.row_groups();
                converter.as_ref().map_or_else(Vec::new, |converter| {
                    bounds(converter.row_group_mins(groups).ok(), converter.row_group_maxes(groups).ok(), groups.len())
                })
            })
            .collect();
        let at = |of: &[Vec<Bounds>], at: usize| -> Vec<Bounds> {
            of.iter().map(|bounds| bounds.get(at).cloned().unwrap_or_default()).collect()
        };
        let groups: Vec<usize> =
            (0..metadata.num_row_groups()).filter(|group| self.may_be_within(&at(&of_groups, *group))).collect();

        // Pages of several columns do not end together, so each column's are chosen by themselves.
        let mut selection: Option<RowSelection> = None;
        for (at, converter) in converters.iter().enumerate() {
            let mut selectors = Vec::new();
            for group in &groups {
                let group_rows = usize::try_from(metadata.row_group(*group).num_rows()).unwrap_or(0);
                let pages = converter.as_ref().and_then(|converter| pages(converter, &metadata, *group, group_rows));
                for (rows, bounds) in pages.unwrap_or_else(|| vec![(group_rows, Bounds::default())]) {
                    let mut all = vec![Bounds::default(); at];
                    all.push(bounds);
                    let chosen = self.may_be_within(&all);
                    selectors.push(if chosen { RowSelector::select(rows) } else { RowSelector::skip(rows) });
                }
            }
            let chosen = RowSelection::from(selectors);
            selection = Some(selection.map_or_else(|| chosen.clone(), |others| others.intersection(&chosen)));
        }
        drop(converters);
        let selection = selection.unwrap_or_default();
        let rows = selection.row_count();
        (reader.with_row_groups(groups).with_row_selection(selection), rows)
    }
}

/// The pages of a column in a row group: how many rows each has, and between what their values lie.
fn pages<'a>(
    converter: &StatisticsConverter<'a>,
    file: &'a ParquetMetaData,
    group: usize,
    group_rows: usize,
) -> Option<Vec<(usize, Bounds)>> {
    let (index, offsets) = (file.column_index()?, file.offset_index()?);
    let counts = converter.data_page_row_counts(offsets, file.row_groups(), [&group]).ok()??;
    let counts: Vec<usize> = counts.iter().map(|count| usize::try_from(count?).ok()).collect::<Option<_>>()?;
    if counts.iter().sum::<usize>() != group_rows {
        return None;
    }
    let mins = converter.data_page_mins(index, offsets, [&group]).ok();
    let maxes = converter.data_page_maxes(index, offsets, [&group]).ok();
    let bounds = bounds(mins, maxes, counts.len());
    Some(counts.into_iter().zip(bounds).collect())
}

/// The file's name of a column.
fn name_of(file: &SchemaDescriptor, field_id: i32) -> Option<&str> {
    let fields = file.root_schema().get_fields().iter();
    let mut infos = fields.map(|field| field.get_basic_info());
    infos.find(|info| info.has_id() && info.id() == field_id).map(BasicTypeInfo::name)
}

fn bounds(mins: Option<ArrayRef>, maxes: Option<ArrayRef>, count: usize) -> Vec<Bounds> {
    let parts = |array: Option<ArrayRef>| -> Vec<Option<Part>> {
        let arrays: Vec<ArrayRef> = array.into_iter().collect();
        match KeyCells::new(&arrays) {
            Some(cells) => (0..count).map(|row| cells.parts(row).and_then(|mut parts| parts.pop())).collect(),
            None => vec![None; count],
        }
    };
    parts(mins).into_iter().zip(parts(maxes)).collect()
}

/// A bound in a manifest. Of a uuid there is none that counts: writers do not agree on their order.
fn part(bound: &Datum) -> Option<Part> {
    Some(match bound.literal() {
        PrimitiveLiteral::Boolean(value) => Part::Number(i128::from(*value)),
        PrimitiveLiteral::Int(value) => Part::Number(i128::from(*value)),
        PrimitiveLiteral::Long(value) => Part::Number(i128::from(*value)),
        PrimitiveLiteral::Int128(value) => Part::Number(*value),
        PrimitiveLiteral::String(value) => Part::Bytes(value.as_bytes().to_vec()),
        PrimitiveLiteral::Binary(value) => Part::Bytes(value.clone()),
        _ => return None,
    })
}
