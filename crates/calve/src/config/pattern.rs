//! Which tables: `schema.table`, where `*` stands for any text within a part.

use std::fmt;
use std::str::FromStr;

use calve_core::TableName;

/// A table name that may hold `*`.
///
/// A part in double quotes is taken literally, so that a table whose name holds a star or a dot can be named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TablePattern {
    text: String,
    schema: Part,
    name: Part,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Exactly(String),
    /// The pieces between the stars; at least two.
    Like(Vec<String>),
}

impl TablePattern {
    pub(crate) fn matches(&self, table: &TableName) -> bool {
        self.schema.matches(&table.schema) && self.name.matches(&table.name)
    }

    /// The one table it can match, if it holds no star.
    pub(crate) fn exact(&self) -> Option<TableName> {
        match (&self.schema, &self.name) {
            (Part::Exactly(schema), Part::Exactly(name)) => Some(TableName::new(schema, name)),
            _ => None,
        }
    }
}

impl TablePattern {
    /// Whether tables that match may differ in their schemas, and in their names.
    pub(crate) fn leaves_open(&self) -> (bool, bool) {
        let open = |part: &Part| matches!(part, Part::Like(_));
        (open(&self.schema), open(&self.name))
    }
}

impl FromStr for TablePattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let table: TableName = text.parse().map_err(|error: calve_core::ParseTableNameError| {
            if text.contains('.') { error.to_string() } else { format!("{error}; did you mean public.{text}?") }
        })?;
        // Quotes decide only whether a star is a star; the two parts were told apart above.
        let (schema_quoted, name_quoted) = (text.starts_with('"'), text.ends_with('"'));
        Ok(Self {
            text: text.to_owned(),
            schema: Part::new(table.schema, schema_quoted),
            name: Part::new(table.name, name_quoted),
        })
    }
}

impl fmt::Display for TablePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Part {
    fn new(text: String, quoted: bool) -> Self {
        if quoted || !text.contains('*') {
            Self::Exactly(text)
        } else {
            Self::Like(text.split('*').map(str::to_owned).collect())
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exactly(exact) => exact == text,
            Self::Like(pieces) => like(pieces, text),
        }
    }
}

/// Whether `text` is the pieces in order with anything between them. Taking each inner piece at its first place is enough.
fn like(pieces: &[String], text: &str) -> bool {
    let [first, inner @ .., last] = pieces else { return false };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for piece in inner {
        let Some(at) = rest.find(piece.as_str()) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_text_within_a_part() {
        for (pattern, table, matches) in [
            ("public.*", ("public", "orders"), true),
            ("public.*", ("publicity", "orders"), false),
            ("*.orders", ("shop", "orders"), true),
            ("public.audit_*", ("public", "audit_"), true),
            ("public.a*b*c", ("public", "a-b-b-c"), true),
            ("public.a*a", ("public", "a"), false),
            ("public.*ab", ("public", "aab"), true),
            ("public.a*b*c", ("public", "acb"), false),
            ("public.orders", ("public", "orders"), true),
            ("public.orders", ("public", "Orders"), false),
            (r#"public."*""#, ("public", "*"), true),
            (r#"public."*""#, ("public", "x"), false),
            (r#""a.b".*"#, ("a.b", "x"), true),
        ] {
            let pattern: TablePattern = pattern.parse().unwrap();
            assert_eq!(pattern.matches(&TableName::new(table.0, table.1)), matches, "{pattern} against {table:?}");
        }
    }

    #[test]
    fn a_bare_name_gets_a_suggestion() {
        let error = "orders".parse::<TablePattern>().unwrap_err();
        assert!(error.contains("did you mean public.orders?"), "{error}");
    }
}
