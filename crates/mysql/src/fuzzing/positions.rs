//! GTID sets and positions as text, and what is computed with them.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use calve_core::{
    BinlogOffset, BinlogPosition, GtidInterval, GtidPosition, GtidSet, GtidSource, MariaDbPosition, Position,
};
use uuid::Uuid;

use super::input::Choices;

/// Takes up to three lines of text, or steps of computing with sets.
pub fn positions(data: &[u8]) {
    let (mut choices, rest) = Choices::split(data, 1);
    if choices.byte() & 1 == 1 {
        return steps(rest);
    }
    let Ok(text) = std::str::from_utf8(rest) else { return };
    // A GTID set as a server prints it has a line break after each comma.
    reads_back::<GtidSet>(text);
    let mut sets = Vec::new();
    let mut positions = Vec::new();
    for line in text.split('\n').take(3) {
        sets.extend(reads_back::<GtidSet>(line));
        reads_back::<GtidPosition>(line);
        reads_back::<MariaDbPosition>(line);
        reads_back::<BinlogPosition>(line);
        reads_back::<BinlogOffset>(line);
        positions.extend(reads_back::<Position>(line));
    }
    for a in &sets {
        for b in &sets {
            sets_are_sets(a, b);
        }
    }
    for a in &positions {
        for b in &positions {
            lattice(a, b);
            for c in &positions {
                assert!(!(a.covers(b) && b.covers(c)) || covers_through(a, b, c), "{a} covers {b} covers {c}");
            }
        }
    }
}

fn reads_back<T: FromStr + Display + PartialEq + Debug>(text: &str) -> Option<T> {
    let value: T = text.parse().ok()?;
    let printed = value.to_string();
    let Ok(again) = printed.parse::<T>() else { panic!("{text:?} was printed as {printed:?}, which is not read") };
    assert!(again == value && again.to_string() == printed, "{text:?}, printed {printed:?}: {again:?}");
    Some(value)
}

fn sets_are_sets(a: &GtidSet, b: &GtidSet) {
    let (union, common, rest) = (a.union(b), a.intersection(b), a.difference(b));
    assert_eq!(union, b.union(a));
    assert_eq!(common, b.intersection(a));
    assert!(union.is_superset(a) && union.is_superset(b) && a.is_superset(&common) && b.is_superset(&common));
    assert_eq!(rest.union(&common), *a, "{a} without {b}, and {a} and {b}");
    assert!(rest.intersection(b).is_empty() && a.is_superset(&rest));
    assert_eq!(rest.union(b), union);
    assert_eq!(a.is_superset(b), b.difference(a).is_empty(), "{a} holds {b}");
    assert_eq!(a.is_superset(b) && b.is_superset(a), a == b, "{a} and {b}");
    for set in [&union, &common, &rest] {
        assert_eq!(set.to_string().parse().as_ref(), Ok(set));
    }
}

fn kind(position: &Position) -> u8 {
    match position {
        Position::Postgres(_) => 0,
        Position::MySql(_) => 1,
        Position::MariaDb(_) => 2,
        Position::Binlog(_) => 3,
    }
}

/// A place in the log beside a GTID position is a measure, and no part of the order.
fn covers_through(a: &Position, b: &Position, c: &Position) -> bool {
    kind(a) != kind(b) || kind(b) != kind(c) || a.covers(c)
}

fn lattice(a: &Position, b: &Position) {
    if kind(a) != kind(b) {
        return;
    }
    let (meet, join) = (a.meet(b), a.join(b));
    assert!(a.covers(a) && a.covers(&meet) && b.covers(&meet) && join.covers(a) && join.covers(b), "{a} and {b}");
    assert_eq!(a.covers(b), meet.covers(b), "{a} covers {b}, and {meet} does");
    assert_eq!(a.covers(b), a.covers(&join), "{a} covers {b}, and {join}");
    let (other_meet, other_join) = (b.meet(a), b.join(a));
    assert!(meet.covers(&other_meet) && other_meet.covers(&meet), "{a} and {b} have {meet} and {other_meet} in common");
    assert!(join.covers(&other_join) && other_join.covers(&join), "{a} and {b} are both in {join} and {other_join}");
    for position in [&meet, &join] {
        assert_eq!(position.to_string().parse().as_ref(), Ok(position));
    }
}

/// Transactions by source and number.
type Model = BTreeSet<(GtidSource, u64)>;

/// Sets of small numbers against sets of the standard library: each step is a byte of what, a number, and another.
fn steps(data: &[u8]) {
    let server = |number: u8| Uuid::from_u128(number.into());
    let sources = [
        GtidSource::server(server(1)),
        GtidSource::tagged(server(1), "t").expect("a tag"),
        GtidSource::server(server(2)),
    ];
    let mut sets = [GtidSet::default(), GtidSet::default()];
    let mut models = [Model::new(), Model::new()];
    for step in data.chunks(3).take(256) {
        let [what, first, second] = <[u8; 3]>::try_from(step).unwrap_or_default();
        let source = &sources[usize::from(what >> 4) % sources.len()];
        let at = usize::from(what >> 3 & 1);
        let (set, model) = (&mut sets[at], &mut models[at]);
        let (first, second) = (u64::from(first) + 1, u64::from(second) + 1);
        match what & 7 {
            0 | 1 => {
                set.insert(source, first);
                model.insert((source.clone(), first));
            }
            2 => {
                set.remove(source, first);
                model.remove(&(source.clone(), first));
            }
            3 | 4 => {
                set.add(source, GtidInterval { start: first, end: second });
                model.extend((first..second).map(|number| (source.clone(), number)));
            }
            5 => {
                sets[at] = sets[0].union(&sets[1]);
                models[at] = models[0].union(&models[1]).cloned().collect();
            }
            6 => {
                sets[at] = sets[0].intersection(&sets[1]);
                models[at] = models[0].intersection(&models[1]).cloned().collect();
            }
            _ => {
                sets[at] = sets[0].difference(&sets[1]);
                models[at] = models[0].difference(&models[1]).cloned().collect();
            }
        }
        let member = models[at].contains(&(source.clone(), first));
        assert_eq!(sets[at].contains(source, first), member, "{source}:{first} in {}", sets[at]);
    }
    for (set, model) in sets.iter().zip(&models) {
        let members = set.sources().flat_map(|(source, intervals)| {
            intervals.iter().flat_map(move |interval| (interval.start..interval.end).map(|n| (source.clone(), n)))
        });
        assert_eq!(&members.collect::<Model>(), model, "{set}");
    }
    assert_eq!(sets[0].is_superset(&sets[1]), models[0].is_superset(&models[1]), "{} holds {}", sets[0], sets[1]);
    sets_are_sets(&sets[0], &sets[1]);
}
