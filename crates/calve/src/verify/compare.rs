//! Both sides in bounded memory: first sums of row digests by bucket of the key's hash, then, for the buckets that differ,
//! row by row.

use std::collections::HashMap;

use super::rows::{Digest, key_hash};

/// Entries of a [`Detail`] at most: with their keys some 150 MB.
pub(super) const MAX_DETAIL_ROWS: u64 = 1_000_000;
const MIN_BUCKETS: u64 = 1 << 10;
/// 32 MB for each side.
const MAX_BUCKETS: u64 = 1 << 20;
/// A bucket should hold few rows, so that few must be looked at again for one that differs.
const ROWS_PER_BUCKET: u64 = 16;

/// One side of a table, summed up.
pub(super) struct Sums {
    buckets: Vec<Bucket>,
    rows: u64,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Bucket {
    rows: u64,
    /// Of the digests, wrapping. Rows that cancel out would need 128 bits to fall in place.
    sum: Digest,
}

impl Sums {
    /// Buckets for about this many rows; both sides need the same number.
    pub(super) fn for_rows(estimated: u64) -> Self {
        let buckets = (estimated / ROWS_PER_BUCKET).next_power_of_two().clamp(MIN_BUCKETS, MAX_BUCKETS);
        Self { buckets: vec![Bucket::default(); usize::try_from(buckets).unwrap_or(1 << 20)], rows: 0 }
    }

    pub(super) fn add(&mut self, key: &[u8], digest: Digest) {
        let index = bucket_of(key, self.buckets.len());
        let bucket = &mut self.buckets[index];
        bucket.rows += 1;
        bucket.sum = bucket.sum.wrapping_add(digest);
        self.rows += 1;
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The buckets that differ, in groups that can be looked at together.
    pub(super) fn differing(&self, other: &Self) -> Vec<Buckets> {
        assert_eq!(self.buckets.len(), other.buckets.len(), "sums of the same buckets are compared");
        let mut groups: Vec<Buckets> = Vec::new();
        let mut rows = u64::MAX;
        for (index, (a, b)) in self.buckets.iter().zip(&other.buckets).enumerate() {
            if a == b {
                continue;
            }
            let more = a.rows.max(b.rows);
            if rows.saturating_add(more) > MAX_DETAIL_ROWS {
                groups.push(Buckets { among: self.buckets.len(), wanted: vec![false; self.buckets.len()] });
                rows = 0;
            }
            rows += more;
            if let Some(group) = groups.last_mut() {
                group.wanted[index] = true;
            }
        }
        groups
    }
}

/// A choice of buckets.
pub(super) struct Buckets {
    among: usize,
    wanted: Vec<bool>,
}

impl Buckets {
    pub(super) fn contain(&self, key: &[u8]) -> bool {
        self.wanted[bucket_of(key, self.among)]
    }
}

fn bucket_of(key: &[u8], buckets: usize) -> usize {
    // The number of buckets is a power of two, at most 2^20: the mask leaves what fits.
    usize::try_from(key_hash(key) & (buckets as u64 - 1)).unwrap_or(0)
}

/// The rows of some buckets, by key.
#[derive(Default)]
pub(super) struct Detail {
    rows: HashMap<Box<[u8]>, Sides>,
}

#[derive(Clone, Copy, Default)]
struct Sides {
    source: Option<Digest>,
    lake: Option<Digest>,
    /// More than one row of the key was found in the lake.
    doubled: bool,
    /// The source has the row, and what it is now is not known.
    unknown: bool,
    /// Nor whether the lake is to have it.
    unsure: bool,
}

/// How the two sides of a key differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Only the source has the row.
    Missing,
    /// Only the table has the row.
    Extra,
    /// Both have it, with other values.
    Unequal,
    /// The table has it more than once.
    Doubled,
}

impl Detail {
    pub(super) fn add_source(&mut self, key: &[u8], digest: Digest) {
        self.sides(key).source = Some(digest);
    }

    pub(super) fn add_lake(&mut self, key: &[u8], digest: Digest) {
        let sides = self.sides(key);
        sides.doubled |= sides.lake.is_some();
        sides.lake = Some(digest);
    }

    /// The source changed the row after it was read, before the position at which the lake was read.
    pub(super) fn change_source(&mut self, key: &[u8], digest: Option<Digest>) {
        let sides = self.sides(key);
        (sides.source, sides.unknown, sides.unsure) = (digest, false, false);
    }

    /// The source changed a part of the row, and its log does not carry the others. It may not be `sure` that the lake is to have the
    /// row.
    pub(super) fn change_source_in_part(&mut self, key: &[u8], sure: bool) {
        let sides = self.sides(key);
        (sides.source, sides.unknown, sides.unsure) = (Some(0), true, !sure);
    }

    /// Rows that both sides have, and of which it cannot be told whether they are equal.
    pub(super) fn uncompared(&self) -> u64 {
        self.rows.values().filter(|sides| sides.unknown && sides.lake.is_some()).count() as u64
    }

    /// The source was emptied after it was read.
    pub(super) fn truncate_source(&mut self) {
        for sides in self.rows.values_mut() {
            (sides.source, sides.unknown, sides.unsure) = (None, false, false);
        }
    }

    fn sides(&mut self, key: &[u8]) -> &mut Sides {
        if !self.rows.contains_key(key) {
            self.rows.insert(key.into(), Sides::default());
        }
        self.rows.get_mut(key).expect("it was inserted")
    }

    /// Keys whose sides differ.
    pub(super) fn differences(&self) -> impl Iterator<Item = (&[u8], Difference)> {
        self.rows.iter().filter_map(|(key, sides)| {
            let difference = match (sides.source, sides.lake) {
                _ if sides.doubled => Difference::Doubled,
                (Some(source), Some(lake)) if source != lake && !sides.unknown => Difference::Unequal,
                (Some(_), None) if !sides.unsure => Difference::Missing,
                (None, Some(_)) => Difference::Extra,
                _ => return None,
            };
            Some((key.as_ref(), difference))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Vec<u8> {
        number.to_le_bytes().to_vec()
    }

    #[test]
    fn equal_sides_sum_up_alike_in_any_order() {
        let (mut a, mut b) = (Sums::for_rows(100), Sums::for_rows(100));
        for n in 0..1000 {
            a.add(&key(n), u128::from(n) << 90);
            b.add(&key(999 - n), u128::from(999 - n) << 90);
        }
        assert!(a.differing(&b).is_empty());
        assert_eq!(a.rows(), 1000);
    }

    #[test]
    fn a_row_that_differs_is_in_the_buckets_found() {
        for change in ["missing", "extra", "unequal", "doubled"] {
            let (mut a, mut b) = (Sums::for_rows(5000), Sums::for_rows(5000));
            for n in 0..5000 {
                let times = match (change, n) {
                    ("missing", 77) => 0,
                    ("doubled", 77) => 2,
                    _ => 1,
                };
                a.add(&key(n), u128::from(n));
                for _ in 0..times {
                    b.add(&key(n), u128::from(n) + u128::from(change == "unequal" && n == 77));
                }
            }
            if change == "extra" {
                b.add(&key(9000), 1);
            }
            let found = a.differing(&b);
            let wanted = if change == "extra" { 9000 } else { 77 };
            assert_eq!(found.len(), 1, "{change}");
            assert!(found[0].contain(&key(wanted)), "{change}");
            let others = (0..5000).filter(|n| found[0].contain(&key(*n))).count();
            assert!(others < 50, "{change}: {others} rows would be looked at for one");
        }
    }

    #[test]
    fn more_than_fits_is_looked_at_in_groups() {
        let (mut a, b) = (Sums::for_rows(0), Sums::for_rows(0));
        for n in 0..MAX_DETAIL_ROWS + MAX_DETAIL_ROWS / 2 {
            a.add(&key(n), u128::from(n));
        }
        let groups = a.differing(&b);
        assert_eq!(groups.len(), 2);
        for n in 0..1000 {
            let holders = groups.iter().filter(|group| group.contain(&key(n))).count();
            assert_eq!(holders, 1, "key {n}");
        }
    }

    #[test]
    fn differences_are_told_apart() {
        use Difference::{Doubled, Extra, Missing, Unequal};

        let mut detail = Detail::default();
        for n in [1, 2, 3, 5, 6, 7, 8] {
            detail.add_source(&key(n), u128::from(n));
        }
        for (n, digest) in [(1, 1), (2, 0), (4, 4), (5, 5), (5, 5), (6, 60), (8, 8)] {
            detail.add_lake(&key(n), digest);
        }
        // In flight: 6 was changed and 7 deleted at the source before the table's position.
        detail.change_source(&key(6), Some(60));
        detail.change_source(&key(7), None);
        let mut found: Vec<_> = detail.differences().map(|(key, difference)| (key[0], difference)).collect();
        found.sort_by_key(|(key, _)| *key);
        assert_eq!(found, [(2, Unequal), (3, Missing), (4, Extra), (5, Doubled)]);
        detail.truncate_source();
        assert!(detail.differences().all(|(_, difference)| matches!(difference, Extra | Doubled)));
    }
}
