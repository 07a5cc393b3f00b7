//! How names and texts are written in SQL.

/// A name, quoted whatever the SQL mode is.
pub(crate) fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text in a session whose `sql_mode` leaves the backslash its meaning, as calve's own do.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// `` `database`.`table` ``.
pub(crate) fn qualified(table: &calve_core::TableName) -> String {
    format!("{}.{}", identifier(&table.schema), identifier(&table.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(identifier("my `table`"), "`my ``table```");
        assert_eq!(literal(r"it's a\b"), r"'it''s a\\b'");
    }
}
