//! MySQL's global transaction identifiers: which transactions of which server were executed.
//!
//! Text form and rules are those of the server's manual, "GTID Sets": `uuid:1-5:7,uuid:tag:1-3`, tags of one uuid following
//! its untagged intervals.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::ParsePositionError;

/// Transaction numbers are below this (`GNO_END`).
const NUMBER_END: u64 = i64::MAX as u64;
/// Longest tag of a GTID.
const TAG_LENGTH: usize = 32;

/// Where a transaction was first committed: a server, and a tag where the session chose one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GtidSource {
    /// `server_uuid`, or a group's name.
    pub server: Uuid,
    /// Lower case letters, digits and underscores, at most 32, not beginning with a digit; empty for none.
    pub tag: String,
}

impl GtidSource {
    /// A source without a tag.
    pub fn server(server: Uuid) -> Self {
        Self { server, tag: String::new() }
    }

    /// A source with a tag as the server writes it; None where it is no tag.
    pub fn tagged(server: Uuid, tag: &str) -> Option<Self> {
        let tag = tag.to_ascii_lowercase();
        let starts = tag.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let rest = tag.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        (starts && rest && tag.len() <= TAG_LENGTH).then_some(Self { server, tag })
    }
}

impl fmt::Display for GtidSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tag.as_str() {
            "" => write!(f, "{}", self.server),
            tag => write!(f, "{}:{tag}", self.server),
        }
    }
}

/// Consecutive transaction numbers, `start` included, `end` not; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GtidInterval {
    /// The first number, from 1.
    pub start: u64,
    /// One past the last.
    pub end: u64,
}

/// A set of transactions. Sources and intervals are sorted, intervals neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GtidSet {
    sources: Vec<(GtidSource, Vec<GtidInterval>)>,
}

impl GtidSet {
    /// Whether there is no transaction in it.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Sources in order, each with its intervals in order.
    pub fn sources(&self) -> impl Iterator<Item = (&GtidSource, &[GtidInterval])> {
        self.sources.iter().map(|(source, intervals)| (source, intervals.as_slice()))
    }

    fn intervals(&self, source: &GtidSource) -> &[GtidInterval] {
        match self.sources.binary_search_by(|(s, _)| s.cmp(source)) {
            Ok(found) => &self.sources[found].1,
            Err(_) => &[],
        }
    }

    /// Whether the transaction is in it.
    pub fn contains(&self, source: &GtidSource, number: u64) -> bool {
        let intervals = self.intervals(source);
        let after = intervals.partition_point(|interval| interval.start <= number);
        after > 0 && number < intervals[after - 1].end
    }

    /// Whether every transaction of `other` is in it.
    pub fn is_superset(&self, other: &Self) -> bool {
        other.sources.iter().all(|(source, theirs)| {
            let ours = self.intervals(source);
            theirs.iter().all(|interval| {
                let after = ours.partition_point(|our| our.start <= interval.start);
                after > 0 && interval.end <= ours[after - 1].end
            })
        })
    }

    /// Adds one transaction.
    pub fn insert(&mut self, source: &GtidSource, number: u64) {
        self.add(source, GtidInterval { start: number, end: number.saturating_add(1) });
    }

    /// Takes one transaction out.
    pub fn remove(&mut self, source: &GtidSource, number: u64) {
        let Ok(found) = self.sources.binary_search_by(|(s, _)| s.cmp(source)) else { return };
        let intervals = &mut self.sources[found].1;
        let after = intervals.partition_point(|interval| interval.start <= number);
        if after == 0 || number >= intervals[after - 1].end {
            return;
        }
        let GtidInterval { start, end } = intervals[after - 1];
        let halves = [GtidInterval { start, end: number }, GtidInterval { start: number + 1, end }];
        intervals.splice(after - 1..after, halves.into_iter().filter(|half| half.start < half.end));
        if intervals.is_empty() {
            self.sources.remove(found);
        }
    }

    /// Adds consecutive transactions; nothing where the interval is empty.
    pub fn add(&mut self, source: &GtidSource, added: GtidInterval) {
        if added.start >= added.end {
            return;
        }
        let index = match self.sources.binary_search_by(|(s, _)| s.cmp(source)) {
            Ok(found) => found,
            Err(place) => {
                self.sources.insert(place, (source.clone(), Vec::new()));
                place
            }
        };
        let intervals = &mut self.sources[index].1;
        // The usual case: the next number of the last interval.
        if let Some(last) = intervals.last_mut()
            && last.end == added.start
        {
            last.end = added.end;
            return;
        }
        let first = intervals.partition_point(|interval| interval.end < added.start);
        let past = intervals.partition_point(|interval| interval.start <= added.end);
        let touched = &intervals[first..past];
        let merged = GtidInterval {
            start: touched.first().map_or(added.start, |interval| interval.start.min(added.start)),
            end: touched.last().map_or(added.end, |interval| interval.end.max(added.end)),
        };
        intervals.splice(first..past, [merged]);
    }

    /// All transactions that are in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        for (source, intervals) in &other.sources {
            for interval in intervals {
                union.add(source, *interval);
            }
        }
        union
    }

    /// All transactions that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common = Self::default();
        for (source, ours) in &self.sources {
            let theirs = other.intervals(source);
            let (mut i, mut j) = (0, 0);
            while let (Some(a), Some(b)) = (ours.get(i), theirs.get(j)) {
                common.add(source, GtidInterval { start: a.start.max(b.start), end: a.end.min(b.end) });
                if a.end <= b.end { i += 1 } else { j += 1 }
            }
        }
        common
    }

    /// All transactions that are in this one and not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for (source, ours) in &self.sources {
            let theirs = other.intervals(source);
            for interval in ours {
                let mut start = interval.start;
                for their in theirs.iter().filter(|t| t.end > interval.start && t.start < interval.end) {
                    rest.add(source, GtidInterval { start, end: their.start });
                    start = start.max(their.end);
                }
                rest.add(source, GtidInterval { start, end: interval.end });
            }
        }
        rest
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (source, intervals)) in self.sources.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{source}")?;
            for GtidInterval { start, end } in intervals {
                match end - start {
                    1 => write!(f, ":{start}")?,
                    _ => write!(f, ":{start}-{}", end - 1)?,
                }
            }
        }
        Ok(())
    }
}

impl FromStr for GtidSet {
    type Err = ParsePositionError;

    /// White space is allowed around parts, as the server writes a line break after each comma.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut set = Self::default();
        for member in text.split(',').map(str::trim).filter(|member| !member.is_empty()) {
            parse_member(member, &mut set).ok_or_else(|| {
                ParsePositionError::new(member, "a GTID set such as 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5")
            })?;
        }
        Ok(set)
    }
}

/// `uuid(:tag)?(:interval)+((:tag)(:interval)+)*`
fn parse_member(member: &str, set: &mut GtidSet) -> Option<()> {
    let mut parts = member.split(':').map(str::trim);
    let server = parts.next()?;
    // The server's own form only; `Uuid` takes others too.
    let server = Uuid::try_parse(server).ok().filter(|_| server.len() == 36)?;
    let mut source = GtidSource::server(server);
    let mut complete = false;
    for part in parts {
        if part.starts_with(|c: char| c.is_ascii_digit()) {
            let (first, last) = part.split_once('-').map_or((part, part), |(first, last)| (first.trim(), last.trim()));
            let (first, last) = (parse_number(first)?, parse_number(last)?);
            if first > last {
                return None;
            }
            set.add(&source, GtidInterval { start: first, end: last + 1 });
            complete = true;
        } else {
            source = GtidSource::tagged(server, part)?;
            complete = false;
        }
    }
    complete.then_some(())
}

fn parse_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|&number| digits && (1..NUMBER_END).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(text: &str) -> GtidSet {
        text.replace('A', A).replace('B', B).parse().unwrap()
    }

    #[test]
    fn sets_are_read_as_the_server_writes_them() {
        for (text, expected) in [
            ("", ""),
            ("A:1", "A:1"),
            ("A:1-5:7", "A:1-5:7"),
            ("A:7:1-5:6", "A:1-7"),
            ("B:1,\nA:3-4", "A:3-4,B:1"),
            ("A:1-3:tag:4-5:9", "A:1-3,A:tag:4-5:9"),
            ("A:T_1:1, A:t_1:2", "A:t_1:1-2"),
            ("A:9223372036854775806", "A:9223372036854775806"),
        ] {
            assert_eq!(set(text), set(expected), "{text}");
            assert_eq!(set(text).to_string(), expected.replace('A', A).replace('B', B), "{text}");
        }
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for text in
            ["A", "A:", "A:0", "A:5-3", "A:-1", "A:1-", "A:tag", "A:1:tag", "A:1x", "x:1", "A:9223372036854775807"]
        {
            assert!(text.replace('A', A).parse::<GtidSet>().is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn sets_are_combined_as_sets() {
        for (a, b, union, common, rest) in [
            ("A:1-5", "A:3-9", "A:1-9", "A:3-5", "A:1-2"),
            ("A:1-5", "A:6", "A:1-6", "", "A:1-5"),
            ("A:1-9", "A:2:4-5:9", "A:1-9", "A:2:4-5:9", "A:1:3:6-8"),
            ("A:1-5", "B:1", "A:1-5,B:1", "", "A:1-5"),
            ("A:t:1-5", "A:1-5", "A:1-5,A:t:1-5", "", "A:t:1-5"),
            ("", "A:1", "A:1", "", ""),
        ] {
            let (a, b) = (set(a), set(b));
            assert_eq!(a.union(&b), set(union), "{a} or {b}");
            assert_eq!(b.union(&a), set(union), "{b} or {a}");
            assert_eq!(a.intersection(&b), set(common), "{a} and {b}");
            assert_eq!(b.intersection(&a), set(common), "{b} and {a}");
            assert_eq!(a.difference(&b), set(rest), "{a} without {b}");
            assert!(a.union(&b).is_superset(&a) && a.is_superset(&a.intersection(&b)));
            assert_eq!(a.is_superset(&b), b.difference(&a).is_empty(), "{a} holds {b}");
        }
    }

    #[test]
    fn single_transactions_come_and_go() {
        let source = GtidSource::server(A.parse().unwrap());
        let mut all = set("A:1-3:5");
        assert_eq!([1, 3, 4, 5, 6].map(|n| all.contains(&source, n)), [true, true, false, true, false]);
        all.insert(&source, 4);
        assert_eq!(all, set("A:1-5"));
        all.remove(&source, 1);
        all.remove(&source, 3);
        all.remove(&source, 9);
        assert_eq!(all, set("A:2:4-5"));
        for number in [2, 4, 5] {
            all.remove(&source, number);
        }
        assert!(all.is_empty());
    }
}
