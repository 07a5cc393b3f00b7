//! Whether values stay what they are when their column gets another type.
//!
//! The types of the lake are compared elsewhere: here is what they do not show. What is not known to keep every value is held to
//! change some.

use calve_core::{Column, ColumnType};

use crate::binlog::native::DeclaredType;
use crate::charset::bytes_per_character;

/// What a change of type did to values that were there, in words. None: they are as they were. `strict`: the server refused the
/// statement if a value did not fit.
pub(super) fn loss(before: &Column, after: &Column, strict: bool) -> Option<String> {
    let (from, to) = (&before.native, &after.native);
    if from.name == to.name && from.character_set == to.character_set {
        return None;
    }
    let kept = match (DeclaredType::parse(&from.name), DeclaredType::parse(&to.name)) {
        // As text it shows digits of a second, and zeros before it.
        (Some(old), Some(new)) if is_printed(after) && (is_temporal(&new.base) || old.zerofill || new.zerofill) => {
            false
        }
        (Some(old), Some(new)) => {
            let sets = (from.character_set.as_deref(), to.character_set.as_deref());
            // MariaDB has vectors of one length only, and what becomes of others where it is not strict is its affair.
            let same_length = new.base != "vector" || old.numbers == new.numbers;
            keeps(&old, &new) && keeps_text(&old, &new, sets, strict) && (strict || same_length)
        }
        _ => false,
    };
    let shown = |name: &str, set: Option<&str>| set.map_or_else(|| name.to_owned(), |set| format!("{name} of {set}"));
    (!kept).then(|| {
        format!(
            "column \"{}\" changed from {} to {}, which may have changed values that were there",
            after.name,
            shown(&from.name, from.character_set.as_deref()),
            shown(&to.name, to.character_set.as_deref())
        )
    })
}

/// Whether values of another type than text are kept as it.
fn is_printed(column: &Column) -> bool {
    column.ty == ColumnType::String && column.native.character_set.is_none()
}

fn is_temporal(base: &str) -> bool {
    matches!(base, "time" | "datetime" | "timestamp")
}

const INTEGERS: [&str; 5] = ["tinyint", "smallint", "mediumint", "int", "bigint"];
const TEXTS: [&str; 4] = ["tinytext", "text", "mediumtext", "longtext"];
const BLOBS: [&str; 4] = ["tinyblob", "blob", "mediumblob", "longblob"];

/// Whether every value of the one type is the same in the other, its characters apart.
fn keeps(old: &DeclaredType, new: &DeclaredType) -> bool {
    if old.unsigned != new.unsigned {
        return false;
    }
    let rank = |ranks: &[&str], base: &str| ranks.iter().position(|name| *name == base);
    let grows = |ranks: &[&str]| match (rank(ranks, &old.base), rank(ranks, &new.base)) {
        (Some(from), Some(to)) => from <= to,
        _ => false,
    };
    let number = |declared: &DeclaredType, index: usize| declared.numbers.get(index).copied().unwrap_or(0);
    let longer = number(old, 0) <= number(new, 0);
    match (&*old.base, &*new.base) {
        // Zeros before a number are shown where it is kept as text.
        ("decimal", "decimal") => {
            let same_zeros = old.zerofill == new.zerofill && (!old.zerofill || number(old, 0) == number(new, 0));
            number(old, 1) == number(new, 1) && longer && same_zeros
        }
        // Without digits of its own it keeps what it has.
        ("float", "float" | "double") | ("double", "double") => new.numbers.is_empty() || old.numbers == new.numbers,
        // Of text the character set has its say too.
        ("time", "time")
        | ("datetime", "datetime")
        | ("timestamp", "timestamp")
        | ("bit", "bit")
        | ("varbinary", "varbinary")
        | ("vector", "vector")
        | ("char", "char" | "varchar")
        | ("varchar", "varchar") => longer,
        ("varbinary", base) if BLOBS.contains(&base) => u64::from(number(old, 0)) <= capacity(&BLOBS, base),
        ("enum", "enum") | ("set", "set") => new.labels.starts_with(&old.labels),
        ("char" | "varchar", base) if TEXTS.contains(&base) => true,
        (_, "geometry") => is_geometry(&old.base),
        (from, to) if from == to => {
            matches!(from, "year" | "date" | "json" | "uuid" | "inet4" | "inet6") || {
                INTEGERS.contains(&from) || TEXTS.contains(&from) || BLOBS.contains(&from) || is_geometry(from)
            }
        }
        _ => grows(&INTEGERS) || grows(&TEXTS) || grows(&BLOBS),
    }
}

/// Whether text is the same in the other character set, and still fits.
fn keeps_text(old: &DeclaredType, new: &DeclaredType, sets: (Option<&str>, Option<&str>), strict: bool) -> bool {
    let (from, to) = match sets {
        (Some(from), Some(to)) => (from, to),
        (None, None) => return true,
        _ => return false,
    };
    let same_characters = from == to || (to == "utf8mb4" && matches!(from, "ascii" | "latin1" | "utf8mb3"));
    if !TEXTS.contains(&&*new.base) {
        return same_characters;
    }
    let (narrow, wide) = (u64::from(bytes_per_character(from)), u64::from(bytes_per_character(to)));
    let bytes = match old.numbers.first() {
        Some(characters) if !TEXTS.contains(&&*old.base) => u64::from(*characters) * wide,
        _ if from == to => capacity(&TEXTS, &old.base),
        _ => capacity(&TEXTS, &old.base) / narrow * wide,
    };
    same_characters && (strict || bytes <= capacity(&TEXTS, &new.base))
}

/// Bytes that a type of this size holds.
fn capacity(sizes: &[&str; 4], base: &str) -> u64 {
    let bytes = [0xff, 0xffff, 0xff_ffff, 0xffff_ffff];
    sizes.iter().position(|name| *name == base).and_then(|at| bytes.get(at).copied()).unwrap_or(0)
}

fn is_geometry(base: &str) -> bool {
    matches!(base, "geometry" | "point" | "linestring" | "polygon" | "geometrycollection" | "geomcollection")
        || base.starts_with("multi")
}
