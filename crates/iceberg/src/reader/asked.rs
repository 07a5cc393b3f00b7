//! Keys that are looked for, and what bounds say of them: whether a file, a row group or a page can hold any.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use iceberg::spec::{DataFile, Datum, PrimitiveLiteral, Struct};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;
use parquet::schema::types::{BasicTypeInfo, SchemaDescriptor};

use super::columns::TableColumn;
use super::keys::{BuildAsIs, KeyCells, KeyHash, Part};
use crate::partition;

/// The least and the greatest of the values somewhere, as far as it is known.
type Bounds = (Option<Part>, Option<Part>);

/// So many ranges are compared with bounds: more keys share one.
const RANGES: usize = 4_096;

/// Keys to be found.
pub(crate) struct Asked {
    /// The key's columns, in its order.
    columns: Vec<TableColumn>,
    /// Which of the keys it is, by its hash; the last of equal ones.
    places: HashMap<u128, u32, BuildAsIs>,
    /// For each of the keys an equal one before it.
    equal: Vec<Option<u32>>,
    /// The partitions that they are in under a spec, where keys tell these.
    partitions: Option<(i32, HashSet<Struct>)>,
    /// Ranges that hold all keys, ascending by their first column: for each column the least and the greatest part.
    ranges: Vec<Vec<(Part, Part)>>,
}

impl Asked {
    /// The keys in these columns. None where a part is none that a key can have.
    pub(crate) fn new(columns: Vec<TableColumn>, keys: &[ArrayRef]) -> Option<Self> {
        let count = u32::try_from(keys.first().map_or(0, Array::len)).ok()?;
        let mut cells = KeyCells::new(keys)?;
        let mut places = HashMap::with_capacity_and_hasher(count as usize, BuildAsIs::default());
        let equal = (0..count).map(|row| places.insert(cells.hash(row as usize).0, row)).collect();
        let mut sorted: Vec<u32> = (0..count).collect();
        sorted.sort_unstable_by(|one, other| cells.compare(*one as usize, *other as usize));
        let range = |rows: &[u32]| -> Option<Vec<(Part, Part)>> {
            let column = |at| {
                let part = |row: &u32| cells.part(at, *row as usize);
                let first = rows.first().and_then(part)?;
                rows.iter().skip(1).try_fold((first.clone(), first), |(least, greatest), row| {
                    let part = part(row)?;
                    Some(if part < least {
                        (part, greatest)
                    } else if part > greatest {
                        (least, part)
                    } else {
                        (least, greatest)
                    })
                })
            };
            (0..keys.len()).map(column).collect()
        };
        let ranges = sorted.chunks(sorted.len().div_ceil(RANGES).max(1)).map(range).collect::<Option<_>>()?;
        Some(Self { columns, places, equal, partitions: None, ranges })
    }

    /// With the only partitions that they can be in, among those of a spec, in the widest types.
    pub(crate) fn within(self, spec_id: i32, partitions: HashSet<Struct>) -> Self {
        Self { partitions: Some((spec_id, partitions)), ..self }
    }

    /// How many different ones there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Which of the keys are not those that [`place`](Self::place) tells.
    pub(crate) fn are_told_by_others(&self) -> Vec<bool> {
        let mut others = vec![true; self.equal.len()];
        for place in self.places.values() {
            others[*place as usize] = false;
        }
        others
    }

    /// A key that is equal to this one, and was not told yet.
    pub(crate) fn equal(&self, place: u32) -> Option<u32> {
        self.equal.get(place as usize).copied().flatten()
    }

    /// Which of the keys this is; of equal ones one.
    pub(crate) fn place(&self, hash: KeyHash) -> Option<u32> {
        self.places.get(&hash.0).copied()
    }

    /// Whether a file's manifest entry leaves it open that any of the keys is in it. `spec_id` is that of its manifest.
    pub(crate) fn may_be_in(&self, spec_id: i32, file: &DataFile) -> bool {
        if let Some((of, partitions)) = &self.partitions
            && *of == spec_id
            && !partitions.contains(&partition::widest(file.partition()))
        {
            return false;
        }
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
        let Some((first, others)) = bounds.split_first() else { return !self.ranges.is_empty() };
        let place = |below: &dyn Fn(&(Part, Part)) -> bool| {
            self.ranges.partition_point(|range| range.first().is_some_and(below))
        };
        let from = first.0.as_ref().map_or(0, |lower| place(&|(_, greatest)| greatest < lower));
        let to = first.1.as_ref().map_or(self.ranges.len(), |upper| place(&|(least, _)| least <= upper));
        let meets = |range: &Vec<(Part, Part)>| {
            range.iter().skip(1).zip(others).all(|((least, greatest), (lower, upper))| {
                lower.as_ref().is_none_or(|lower| lower <= greatest)
                    && upper.as_ref().is_none_or(|upper| least <= upper)
            })
        };
        self.ranges.get(from..to).is_some_and(|ranges| ranges.iter().any(meets))
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
            Some(cells) => (0..count).map(|row| cells.part(0, row)).collect(),
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

#[cfg(test)]
mod tests {
    use arrow_array::{Int64Array, StringArray};
    use arrow_schema::DataType;

    use super::*;

    fn asked(keys: &[(i64, &str)]) -> Option<Asked> {
        let column = |field_id, arrow| TableColumn { field_id, name: field_id.to_string(), arrow };
        let arrays: [ArrayRef; 2] = [
            Arc::new(keys.iter().map(|(number, _)| *number).collect::<Int64Array>()),
            Arc::new(keys.iter().map(|(_, text)| Some(*text)).collect::<StringArray>()),
        ];
        Asked::new(vec![column(1, DataType::Int64), column(2, DataType::Utf8)], &arrays)
    }

    fn number(lower: i64, upper: i64) -> Bounds {
        (Some(Part::Number(lower.into())), Some(Part::Number(upper.into())))
    }

    fn text(lower: &str, upper: &str) -> Bounds {
        (Some(Part::Bytes(lower.into())), Some(Part::Bytes(upper.into())))
    }

    #[test]
    fn bounds_rule_out_what_no_key_meets() {
        let asked = asked(&[(5, "e"), (-3, "c"), (5, "b"), (9, "z")]).unwrap();
        for (bounds, may_be) in [
            (vec![], true),
            (vec![Bounds::default(), Bounds::default()], true),
            (vec![number(-3, -3)], true),
            (vec![number(-2, 4)], false),
            (vec![number(6, 8)], false),
            (vec![number(10, 99)], false),
            (vec![number(-99, -4)], false),
            (vec![(None, Some(Part::Number(-3)))], true),
            (vec![(Some(Part::Number(10)), None)], false),
            // What is empty holds nothing.
            (vec![number(8, 2)], false),
            (vec![number(5, 5), text("c", "d")], false),
            (vec![number(5, 5), text("a", "b")], true),
            (vec![number(0, 9), text("y", "zz")], true),
            (vec![number(0, 8), text("y", "zz")], false),
            (vec![Bounds::default(), text("f", "y")], false),
        ] {
            assert_eq!(asked.may_be_within(&bounds), may_be, "{bounds:?}");
        }
    }

    #[test]
    fn more_keys_than_ranges_are_all_within_them() {
        let keys: Vec<(i64, &str)> = (0..30_000).map(|n| (n * 7919 % 30_000 * 2, "t")).collect();
        let asked = asked(&keys).unwrap();
        assert_eq!((asked.len(), asked.ranges.len()), (30_000, 3_750));
        assert!((0..30_000).all(|n| asked.may_be_within(&[number(n * 2, n * 2), text("t", "t")])));
        assert!(
            !asked.may_be_within(&[number(60_000, 70_000)]) && !asked.may_be_within(&[number(0, 9), text("u", "v")])
        );
    }

    #[test]
    fn a_key_that_comes_twice_tells_of_its_equal() {
        let asked = asked(&[(1, "a"), (2, "a"), (1, "b"), (1, "a"), (1, "a")]).unwrap();
        assert_eq!((asked.len(), asked.are_told_by_others()), (3, vec![true, false, false, true, false]));
        assert_eq!((asked.equal(4), asked.equal(3), asked.equal(0)), (Some(3), Some(0), None));
        assert_eq!((asked.equal(1), asked.equal(2)), (None, None));
    }
}
