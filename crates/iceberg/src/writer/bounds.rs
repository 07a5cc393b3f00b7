//! Lower and upper bounds of a column, from what Parquet recorded of its chunks.
//!
//! Readers leave files out by them, and decide by them which equality deletes can matter to a file; so a bound is true or
//! absent. A text bound is cut to whole characters, an upper one then rounded up.

use iceberg::spec::{Datum, PrimitiveType};
use parquet::file::statistics::Statistics;

/// What Iceberg's own writers keep of text and binary that is not part of the key.
const KEPT_CHARACTERS: usize = 16;

/// The bounds of one column over the chunks seen so far.
#[derive(Debug)]
pub(crate) struct ColumnBounds {
    ty: PrimitiveType,
    /// Characters (or bytes, of binary) that text may have; more are cut. None: all that Parquet recorded.
    kept: Option<usize>,
    lower: Bound,
    upper: Bound,
}

#[derive(Clone, Debug)]
enum Bound {
    /// No value seen yet.
    Empty,
    Known(Datum),
    /// A chunk with values said nothing of them.
    Unknown,
}

impl ColumnBounds {
    /// For a column of this type. Bounds of key columns are kept at greater length.
    pub(crate) fn new(ty: PrimitiveType, in_key: bool) -> Self {
        // Iceberg's Java readers before 1.11 order uuids as pairs of signed numbers, and would leave out what lies within.
        let start = if ty == PrimitiveType::Uuid { Bound::Unknown } else { Bound::Empty };
        Self { ty, kept: (!in_key).then_some(KEPT_CHARACTERS), lower: start.clone(), upper: start }
    }

    /// Takes a chunk of `values` cells in.
    pub(crate) fn add(&mut self, statistics: Option<&Statistics>, values: u64) {
        let nulls = statistics.and_then(Statistics::null_count_opt);
        if nulls == Some(values) {
            return;
        }
        let (min, max) = statistics.map_or((None, None), |s| (self.datum(s, End::Min), self.datum(s, End::Max)));
        // NaN is outside of all bounds, so a chunk of nothing else has none.
        let may_be_nan = matches!(self.ty, PrimitiveType::Float | PrimitiveType::Double);
        for (bound, new, end) in [(&mut self.lower, min, End::Min), (&mut self.upper, max, End::Max)] {
            match (&*bound, new) {
                (Bound::Unknown, _) => {}
                (_, None) if may_be_nan => {}
                (_, None) => *bound = Bound::Unknown,
                (Bound::Empty, Some(new)) => *bound = Bound::Known(new),
                (Bound::Known(old), Some(new)) => {
                    let outside = match end {
                        End::Min => new < *old,
                        End::Max => new > *old,
                    };
                    if outside {
                        *bound = Bound::Known(new);
                    }
                }
            }
        }
    }

    /// Lower and upper bound, as far as they are known.
    pub(crate) fn finish(self) -> (Option<Datum>, Option<Datum>) {
        let kept = self.kept;
        let known = |bound, end| match bound {
            Bound::Known(datum) => shorten(datum, end, kept),
            Bound::Empty | Bound::Unknown => None,
        };
        (known(self.lower, End::Min), known(self.upper, End::Max))
    }

    fn datum(&self, statistics: &Statistics, end: End) -> Option<Datum> {
        /// The end asked for, of statistics whose values are of one type.
        macro_rules! value {
            ($statistics:expr) => {
                match end {
                    End::Min => $statistics.min_opt(),
                    End::Max => $statistics.max_opt(),
                }
            };
        }
        let ty = self.ty.clone();
        let decimal = |unscaled: i128| Datum::try_from_bytes(&unscaled.to_be_bytes(), ty.clone()).ok();
        match (&self.ty, statistics) {
            (PrimitiveType::Boolean, Statistics::Boolean(s)) => value!(s).map(|v| Datum::bool(*v)),
            (PrimitiveType::Int, Statistics::Int32(s)) => value!(s).map(|v| Datum::int(*v)),
            (PrimitiveType::Date, Statistics::Int32(s)) => value!(s).map(|v| Datum::date(*v)),
            (PrimitiveType::Long, Statistics::Int64(s)) => value!(s).map(|v| Datum::long(*v)),
            (PrimitiveType::Time, Statistics::Int64(s)) => value!(s).and_then(|v| Datum::time_micros(*v).ok()),
            (PrimitiveType::Timestamp, Statistics::Int64(s)) => value!(s).map(|v| Datum::timestamp_micros(*v)),
            (PrimitiveType::Timestamptz, Statistics::Int64(s)) => value!(s).map(|v| Datum::timestamptz_micros(*v)),
            (PrimitiveType::Float, Statistics::Float(s)) => value!(s).map(|v| Datum::float(*v)),
            (PrimitiveType::Double, Statistics::Double(s)) => value!(s).map(|v| Datum::double(*v)),
            (PrimitiveType::Decimal { .. }, Statistics::Int32(s)) => value!(s).and_then(|v| decimal(i128::from(*v))),
            (PrimitiveType::Decimal { .. }, Statistics::Int64(s)) => value!(s).and_then(|v| decimal(i128::from(*v))),
            (PrimitiveType::Decimal { .. }, Statistics::FixedLenByteArray(s)) => {
                value!(s).and_then(|v| Datum::try_from_bytes(v.data(), self.ty.clone()).ok())
            }
            (PrimitiveType::String, Statistics::ByteArray(s)) => {
                value!(s).and_then(|v| std::str::from_utf8(v.data()).ok()).map(Datum::string)
            }
            (PrimitiveType::Binary, Statistics::ByteArray(s)) => {
                value!(s).map(|v| Datum::binary(v.data().iter().copied()))
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum End {
    Min,
    Max,
}

/// Cuts text and binary to `kept` characters or bytes. None where no shorter upper bound exists.
fn shorten(datum: Datum, end: End, kept: Option<usize>) -> Option<Datum> {
    use iceberg::spec::PrimitiveLiteral;

    let Some(kept) = kept else { return Some(datum) };
    match datum.literal() {
        PrimitiveLiteral::String(text) => {
            let Some((cut, _)) = text.char_indices().nth(kept) else { return Some(datum) };
            let text = &text[..cut];
            Some(Datum::string(match end {
                End::Min => text.to_owned(),
                End::Max => next_text(text)?,
            }))
        }
        PrimitiveLiteral::Binary(bytes) if bytes.len() > kept => {
            let bytes = &bytes[..kept];
            Some(Datum::binary(match end {
                End::Min => bytes.to_vec(),
                End::Max => next_bytes(bytes)?,
            }))
        }
        _ => Some(datum),
    }
}

/// The smallest text of at most this length that is greater than every text that begins with `prefix`.
fn next_text(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        // The range of `char` leaves out the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

fn next_bytes(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut bytes = prefix[..=last].to_vec();
    bytes[last] += 1;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use parquet::data_type::ByteArray;

    use super::*;

    fn text(min: &str, max: &str, nulls: u64) -> Statistics {
        let bytes = |s: &str| Some(ByteArray::from(s.as_bytes().to_vec()));
        Statistics::byte_array(bytes(min), bytes(max), None, Some(nulls), false)
    }

    #[test]
    fn the_widest_bounds_of_all_chunks_count() {
        let mut bounds = ColumnBounds::new(PrimitiveType::Int, false);
        bounds.add(Some(&Statistics::int32(None, None, None, Some(5), false)), 5);
        bounds.add(Some(&Statistics::int32(Some(3), Some(9), None, Some(0), false)), 5);
        bounds.add(Some(&Statistics::int32(Some(-2), Some(4), None, Some(0), false)), 5);
        assert_eq!(bounds.finish(), (Some(Datum::int(-2)), Some(Datum::int(9))));
    }

    #[test]
    fn a_chunk_of_unknown_values_takes_the_bounds_away() {
        for unknown in [None, Some(Statistics::int32(None, None, None, Some(0), false))] {
            let mut bounds = ColumnBounds::new(PrimitiveType::Int, false);
            bounds.add(Some(&Statistics::int32(Some(3), Some(9), None, Some(0), false)), 5);
            bounds.add(unknown.as_ref(), 5);
            bounds.add(Some(&Statistics::int32(Some(3), Some(9), None, Some(0), false)), 5);
            assert_eq!(bounds.finish(), (None, None));
        }
        let mut all_nan = ColumnBounds::new(PrimitiveType::Double, false);
        all_nan.add(Some(&Statistics::double(Some(1.0), Some(2.0), None, Some(0), false)), 5);
        all_nan.add(Some(&Statistics::double(None, None, None, Some(0), false)), 5);
        assert_eq!(all_nan.finish(), (Some(Datum::double(1.0)), Some(Datum::double(2.0))));
    }

    #[test]
    fn long_text_is_cut_and_rounded_outwards() {
        let long_min = "a".repeat(20);
        for (max, upper) in [
            ("z".repeat(20), Some(format!("{}{{", "z".repeat(15)))),
            ("z".repeat(16), Some("z".repeat(16))),
            ("é".repeat(20), Some(format!("{}ê", "é".repeat(15)))),
            (format!("a{}", "\u{10FFFF}".repeat(20)), Some("b".to_owned())),
            (format!("{}\u{D7FF}tail", "q".repeat(15)), Some(format!("{}\u{E000}", "q".repeat(15)))),
            ("\u{10FFFF}".repeat(20), None),
        ] {
            let mut bounds = ColumnBounds::new(PrimitiveType::String, false);
            bounds.add(Some(&text(&long_min, &max, 1)), 5);
            assert_eq!(bounds.finish(), (Some(Datum::string("a".repeat(16))), upper.map(Datum::string)), "{max}");
        }
        let mut key = ColumnBounds::new(PrimitiveType::String, true);
        key.add(Some(&text(&long_min, "zz", 0)), 5);
        assert_eq!(key.finish(), (Some(Datum::string(long_min)), Some(Datum::string("zz"))));
    }

    #[test]
    fn long_binary_is_cut_and_rounded_outwards() {
        let cases = [(vec![1; 20], Some([vec![1; 15], vec![2]].concat())), (vec![0xFF; 20], None)];
        for (max, upper) in cases {
            let mut bounds = ColumnBounds::new(PrimitiveType::Binary, false);
            let max = ByteArray::from(max);
            bounds
                .add(Some(&Statistics::byte_array(Some(ByteArray::from(vec![0])), Some(max), None, Some(0), false)), 1);
            assert_eq!(bounds.finish(), (Some(Datum::binary(vec![0])), upper.map(Datum::binary)));
        }
    }
}
