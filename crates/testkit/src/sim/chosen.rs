//! Tables of which the lake gets some of the rows only: those whose values are in some ranges, so that rows leave with one update
//! and come back with another.

use super::source_log::Row;

/// From, and below.
const RANGES: [(i64, i64); 24] = [
    (1, 3),
    (4, 5),
    (7, 9),
    (10, 12),
    (14, 17),
    (19, 21),
    (24, 29),
    (33, 36),
    (41, 47),
    (52, 58),
    (66, 73),
    (80, 95),
    (103, 118),
    (130, 149),
    (160, 188),
    (205, 240),
    (260, 300),
    (330, 380),
    (420, 480),
    (530, 600),
    (670, 760),
    (850, 960),
    (1_100, 1_300),
    (1_500, 9_000),
];

/// The condition, over a column of this name.
pub(crate) fn condition(column: &str) -> String {
    let ranges = RANGES.map(|(from, below)| format!("({column} >= {from} and {column} < {below})"));
    ranges.join(" or ")
}

/// Whether the lake gets the row.
pub(crate) fn is_chosen((_, value): &Row) -> bool {
    RANGES.iter().any(|(from, below)| (*from..*below).contains(value))
}
