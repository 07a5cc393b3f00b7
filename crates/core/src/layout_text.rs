//! Layouts as people write them: `day(created_at), bucket(16, id)`; `customer, created_at desc`.

use std::fmt;

use crate::{BloomFilters, PartitionBy, SortBy, Transform};

/// The greatest number of buckets, and the greatest width, that Iceberg's own libraries take.
const MOST: u32 = i32::MAX.unsigned_abs();

impl PartitionBy {
    /// `region, day(created_at), bucket(16, id)`. The error says what is wrong.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        split(text)?.into_iter().map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let Some((word, inside)) = call(text) else {
            return Ok(Self { transform: Transform::Identity, column: name(text)? });
        };
        let parts = split(inside)?;
        let one = || match parts.as_slice() {
            [column] => name(column),
            _ => Err(format!("'{text}' names no column; write {word}(column)")),
        };
        let counted = |what: &str| match parts.as_slice() {
            [number, column] => match number.parse() {
                Ok(number @ 1..=MOST) => Ok((number, name(column)?)),
                _ => Err(format!("'{number}' in '{text}' is no {what}: it is a number from 1 to {MOST}")),
            },
            _ => Err(format!("'{text}' lacks its {what} or its column; write {word}(16, column)")),
        };
        let (transform, column) = match word {
            "identity" => (Transform::Identity, one()?),
            "bucket" => counted("number of buckets").map(|(number, column)| (Transform::Bucket(number), column))?,
            "truncate" => counted("width").map(|(number, column)| (Transform::Truncate(number), column))?,
            "year" => (Transform::Year, one()?),
            "month" => (Transform::Month, one()?),
            "day" => (Transform::Day, one()?),
            "hour" => (Transform::Hour, one()?),
            _ => {
                return Err(format!("'{word}' in '{text}' is no transform; there are {}", Transform::WORDS.join(", ")));
            }
        };
        Ok(Self { transform, column })
    }
}

impl SortBy {
    /// `customer, created_at desc nulls first`. The error says what is wrong.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        split(text)?.into_iter().map(Self::parse).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let end = text.rfind('"').map_or_else(|| text.find(' ').unwrap_or(text.len()), |quote| quote + 1);
        let (column, order) = text.split_at(end);
        let words: Vec<String> = order.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (descending, nulls) = match words.as_slice() {
            ["desc", nulls @ ..] => (true, nulls),
            ["asc", nulls @ ..] | nulls => (false, nulls),
        };
        // As Iceberg's own libraries have it.
        let nulls_first = match nulls {
            [] => !descending,
            ["nulls", "first"] => true,
            ["nulls", "last"] => false,
            _ => {
                return Err(format!(
                    "'{text}' is no order; write the column, then asc or desc, then nulls first or nulls last"
                ));
            }
        };
        Ok(Self { column: name(column)?, descending, nulls_first })
    }
}

impl BloomFilters {
    /// `none`, `key`, or names of columns. The error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "none" => Ok(Self::None),
            "key" => Ok(Self::Key),
            names => Ok(Self::Columns(split(names)?.into_iter().map(name).collect::<Result<_, _>>()?)),
        }
    }
}

/// The parts between commas that are neither inside of parentheses nor quoted, without the blanks around them.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0_usize, false);
    for (at, character) in text.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => {
                depth = depth.checked_sub(1).ok_or_else(|| format!("'{text}' has a ')' without its '('"))?;
            }
            ',' if !quoted && depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if quoted || depth > 0 {
        return Err(format!("'{text}' has a quote or a parenthesis that is not closed"));
    }
    parts.push(text[start..].trim());
    if parts.iter().any(|part| part.is_empty()) {
        return Err(format!("'{text}' has an empty part; separate what it lists by single commas"));
    }
    Ok(parts)
}

/// `word(inside)`.
fn call(text: &str) -> Option<(&str, &str)> {
    let (word, rest) = text.split_once('(')?;
    let word = word.trim();
    (!word.contains('"')).then_some(())?;
    Some((word, rest.strip_suffix(')')?))
}

/// The name of a column. Where it has characters with a meaning of their own it stands in double quotes, a quote inside doubled.
fn name(text: &str) -> Result<String, String> {
    let text = text.trim();
    if let Some(inside) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).filter(|name| !name.is_empty())
    {
        return Ok(inside.replace("\"\"", "\""));
    }
    if text.is_empty() || text.contains(['"', '(', ')', ',', ' ']) {
        return Err(format!("'{text}' is no name of a column; put one with blanks or signs into double quotes"));
    }
    Ok(text.to_owned())
}

/// The name as it is read back.
pub(crate) fn quoted(name: &str) -> String {
    if name.contains(['"', '(', ')', ',', ' ']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

impl fmt::Display for PartitionBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = quoted(&self.column);
        match self.transform {
            Transform::Identity => f.write_str(&column),
            Transform::Bucket(number) | Transform::Truncate(number) => {
                write!(f, "{}({number}, {column})", self.transform.word())
            }
            _ => write!(f, "{}({column})", self.transform.word()),
        }
    }
}

impl fmt::Display for SortBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.column))?;
        if self.descending {
            f.write_str(" desc")?;
        }
        match (self.descending, self.nulls_first) {
            (false, false) => f.write_str(" nulls last"),
            (true, true) => f.write_str(" nulls first"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed<T: fmt::Display>(parts: &[T]) -> String {
        parts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn partitions_are_read_as_they_are_written() {
        for (text, read) in [
            ("region", "region"),
            ("identity(region) , day( created_at )", "region; day(created_at)"),
            ("bucket(16, id),truncate(4,name)", "bucket(16, id); truncate(4, name)"),
            ("year(a), month(b), hour(c)", "year(a); month(b); hour(c)"),
            (r#"bucket(2, "a ""b"", (c)"), "x, y""#, r#"bucket(2, "a ""b"", (c)"); "x, y""#),
        ] {
            assert_eq!(PartitionBy::parse_list(text).map(|parts| listed(&parts)), Ok(read.to_owned()), "{text}");
        }
        for (text, says) in [
            ("", "empty part"),
            ("a,,b", "empty part"),
            ("days(a)", "'days' in 'days(a)' is no transform; there are identity, bucket"),
            ("bucket(id)", "write bucket(16, column)"),
            ("bucket(0, id)", "a number from 1"),
            ("bucket(2147483648, id)", "a number from 1"),
            ("truncate(x, id)", "'x' in 'truncate(x, id)' is no width"),
            ("day(a, b)", "write day(column)"),
            ("day(a", "not closed"),
            ("day(a))", "without its '('"),
            ("a b", "into double quotes"),
        ] {
            let refused = PartitionBy::parse_list(text).unwrap_err();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }

    #[test]
    fn orders_are_read_as_they_are_written() {
        for (text, read) in [
            ("a", "a"),
            ("a desc, b asc", "a desc; b"),
            ("a nulls last, b DESC NULLS FIRST", "a nulls last; b desc nulls first"),
            (r#""a, b" desc nulls last"#, r#""a, b" desc"#),
        ] {
            assert_eq!(SortBy::parse_list(text).map(|parts| listed(&parts)), Ok(read.to_owned()), "{text}");
        }
        for text in ["a down", "a nulls", "", "a desc desc", "day(a)"] {
            assert!(SortBy::parse_list(text).is_err(), "{text}");
        }
        assert_eq!(BloomFilters::parse("none"), Ok(BloomFilters::None));
        assert_eq!(BloomFilters::parse("key"), Ok(BloomFilters::Key));
        let columns = vec!["a".to_owned(), "key".to_owned()];
        assert_eq!(BloomFilters::parse(r#"a, "key""#), Ok(BloomFilters::Columns(columns)));
    }
}
