//! What the configuration says of the columns and rows that the lake gets, and what of it a table cannot have.

use crate::{
    Column, ColumnUse, Condition, Error, ErrorKind, Finding, MaskKey, Result, RowFilter, TableRules, TableSchema,
    ValueRules,
};

impl TableRules {
    /// What the lake shall get of a column.
    pub fn usage(&self, column: &str) -> ColumnUse {
        if self.selection.leaves_out(column) {
            return ColumnUse::LeftOut;
        }
        if self.columns.get(column).is_some_and(|rules| rules.mask) {
            return ColumnUse::Masked(self.mask.as_ref().map_or_else(String::new, MaskKey::fingerprint));
        }
        ColumnUse::Values
    }

    /// What the lake shall get of a column that the table did not have when it was read.
    pub fn usage_of_added(&self, column: &str) -> ColumnUse {
        if self.leaves_out_added { ColumnUse::LeftOut } else { self.usage(column) }
    }

    /// What the lake shall get of a column that had another name, of which it got `before`.
    pub fn usage_of_renamed(&self, before: &ColumnUse, column: &str) -> ColumnUse {
        if self.leaves_out_added && before.is_left_out() { ColumnUse::LeftOut } else { self.usage(column) }
    }

    /// The schema of a table that is about to be read: the lake gets of it what the rules say by now.
    #[must_use]
    pub fn applied(&self, mut schema: TableSchema) -> TableSchema {
        for column in &mut schema.columns {
            column.usage = self.usage(&column.name);
        }
        schema.filter.clone_from(&self.filter);
        schema
    }

    /// What is wrong with the rules for a table of this schema, to which they are [applied](Self::applied). `others` are columns that
    /// it has beside these and its log does not carry.
    pub fn excerpt_findings(&self, schema: &TableSchema, others: &[&str]) -> Vec<Finding> {
        let mut findings = Vec::new();
        let table = &schema.table;
        let names: Vec<&str> = schema.columns.iter().map(|column| column.name.as_str()).collect();
        let (option, patterns) = self.selection.listed();
        let absent = patterns.iter().filter(|pattern| !names.iter().chain(others).any(|name| pattern.matches(name)));
        for pattern in absent.filter(|pattern| self.of_this_table && pattern.exact().is_some()) {
            findings.push(Finding::error(
                format!("{option} of table {table} has {pattern}, and the table has no such column"),
                format!("correct its name; the table has {}", names.join(", ")),
            ));
        }
        for column in schema.key_columns() {
            let name = &column.name;
            match column.usage {
                ColumnUse::Values => {}
                ColumnUse::LeftOut => findings.push(Finding::error(
                    format!("key column {name} of table {table} is left out by {option}, and without it nothing tells its rows apart"),
                    format!("change {option} so that the lake gets column {name}"),
                )),
                ColumnUse::Masked(_) => findings.push(Finding::error(
                    format!("key column {name} of table {table} has a mask, and a deleted row could not be told by its digest once the salt changes"),
                    "take the mask away; mask the columns beside the key, or leave the table out",
                )),
            }
        }
        if schema.kept_places().is_empty() {
            let remedy = format!("change {option} so that the lake gets one at least");
            findings.push(Finding::error(format!("no column of table {table} is left for the lake"), remedy));
        }
        let in_key = |column: &Column| schema.key_columns().any(|key| key.name == column.name);
        let masks = |column: &&Column| matches!(column.usage, ColumnUse::Masked(_)) && !in_key(column);
        if let Some(column) = schema.columns.iter().find(masks).filter(|_| self.mask.is_none()) {
            findings.push(Finding::error(
                format!("column {} of table {table} has a mask, and there is no salt for its digests", column.name),
                "set mask_salt_file, mask_salt, or the variable CALVE_MASK_SALT",
            ));
        }
        if self.filter.is_some() && schema.retires_rows() {
            findings.push(Finding::error(
                format!("table {table} has a 'where' and mode soft_delete, where a row that leaves the choice would be deleted and not"),
                "take 'where' away, or choose mode upsert or append",
            ));
        }
        findings.extend(self.filter_finding(schema));
        findings
    }

    fn filter_finding(&self, schema: &TableSchema) -> Option<Finding> {
        let table = &schema.table;
        let condition: Condition = self.filter.as_ref()?.parse().ok()?;
        for column in condition.columns().into_iter().filter_map(|name| schema.columns.iter().find(|c| c.name == name))
        {
            let what = match column.usage {
                ColumnUse::Values => continue,
                ColumnUse::LeftOut => "is left out",
                ColumnUse::Masked(_) => "has a mask",
            };
            return Some(Finding::error(
                format!("'where' of table {table} looks at column {}, which {what}", column.name),
                "let the lake get its values, or choose rows by another column",
            ));
        }
        let what = RowFilter::of(schema).err()?;
        Some(Finding::error(format!("'where' of table {table} does not fit it: {what}"), "correct the condition"))
    }
}

impl ValueRules {
    /// What the lake gets of a table that stands, where the rules want something else until it is read again, in words that follow
    /// "counts when the table is read again: ".
    pub fn unapplied_excerpt(&self, schema: &TableSchema) -> Vec<String> {
        let rules = self.table(&schema.table);
        let mut unapplied = Vec::new();
        for column in &schema.columns {
            let (is, wanted) = (&column.usage, rules.usage(&column.name));
            let name = &column.name;
            let what = match (is, &wanted) {
                (ColumnUse::Masked(_), ColumnUse::Masked(_)) => continue,
                (is, wanted) if is == wanted => continue,
                // It may have been added since.
                (ColumnUse::LeftOut, _) if rules.leaves_out_added => continue,
                (_, ColumnUse::LeftOut) => format!("column {name} is to be left out"),
                (_, ColumnUse::Masked(_)) => format!("column {name} is to have a mask"),
                (ColumnUse::LeftOut, _) => format!("column {name} is to be left out no longer"),
                (ColumnUse::Masked(_) | ColumnUse::Values, _) => format!("column {name} is to have a mask no longer"),
            };
            unapplied.push(what);
        }
        if rules.filter != schema.filter {
            let shown = |filter: &Option<String>| filter.clone().unwrap_or_else(|| "none".to_owned());
            unapplied.push(format!("'where' is to be {} (it is {})", shown(&rules.filter), shown(&schema.filter)));
        }
        unapplied
    }
}

/// Refuses another salt than the one that a column's digests were made with.
pub(super) fn check_salt(
    schema: &TableSchema,
    column: &Column,
    fingerprint: &str,
    salt: Option<&MaskKey>,
) -> Result<()> {
    let (table, name) = (&schema.table, &column.name);
    let what = match salt {
        Some(salt) if salt.fingerprint() == fingerprint => return Ok(()),
        Some(_) => format!(
            "column {name} of table {table} has digests under another salt than the one that is given, and equal values would not \
             be equal any more; give the former salt, or run `calve reload {table}` to read the table again under the new one"
        ),
        None => format!(
            "column {name} of table {table} has a mask, and there is no salt for its digests; set mask_salt_file, mask_salt, or the \
             variable CALVE_MASK_SALT"
        ),
    };
    Err(Error::new(ErrorKind::Config, what))
}
