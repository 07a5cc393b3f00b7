//! What a pipeline chose for the values of its tables: the types of columns in the lake, and what becomes of a value that such
//! a type cannot hold.
//!
//! A rule never changes what a value is where the lake can hold it, and none reaches the key: two keys must not become one.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    Column, ColumnBuffer, ColumnSelection, ColumnType, Error, ErrorKind, Excerpt, Finding, Layout, MaskKey, Result,
    Severity, TableMode, TableName, TableSchema,
};

/// What becomes of a value that its column's type in the lake cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUnrepresentable {
    /// It stops its table.
    #[default]
    Error,
    /// NULL, counted.
    Null,
    /// The nearest value that the type holds, counted. One that none is near to stops its table.
    Clamp,
}

impl OnUnrepresentable {
    /// The words that a configuration has for them.
    pub const WORDS: [&str; 3] = ["error", "null", "clamp"];
}

impl FromStr for OnUnrepresentable {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        match text {
            "error" => Ok(Self::Error),
            "null" => Ok(Self::Null),
            "clamp" => Ok(Self::Clamp),
            _ => Err(()),
        }
    }
}

impl fmt::Display for OnUnrepresentable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Null => "null",
            Self::Clamp => "clamp",
        })
    }
}

/// What was chosen for one column by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnRules {
    /// None: as its table has it.
    pub on_unrepresentable: Option<OnUnrepresentable>,
    /// Its type in the lake; None: the one that belongs to the source's.
    pub ty: Option<ColumnType>,
    /// The lake gets digests of its values, as text.
    pub mask: bool,
}

/// What was chosen for one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRules {
    /// Of columns outside the key that say nothing of their own.
    pub on_unrepresentable: OnUnrepresentable,
    /// By the columns' names at the source.
    pub columns: BTreeMap<String, ColumnRules>,
    /// What the table in the lake shall hold.
    pub mode: TableMode,
    /// How its rows shall lie there.
    pub layout: Arc<Layout>,
    /// Which columns the lake shall get.
    pub selection: ColumnSelection,
    /// The condition that its rows shall be chosen by, which can be read.
    pub filter: Option<String>,
    /// The salt of digests, where there is one.
    pub mask: Option<MaskKey>,
    /// Columns that are added from now on are left out of the lake.
    pub leaves_out_added: bool,
    /// The rules were written for this table and no other, so that a column it does not have is a mistake.
    pub of_this_table: bool,
}

impl TableRules {
    /// What becomes of values of a column. In a key every one of them stops the table.
    pub fn policy(&self, column: &str, in_key: bool) -> OnUnrepresentable {
        if in_key {
            return OnUnrepresentable::Error;
        }
        self.columns.get(column).and_then(|rules| rules.on_unrepresentable).unwrap_or(self.on_unrepresentable)
    }

    /// Whether NULL may take the place of a value of the column, so that it is optional in the lake whatever the source says.
    pub fn may_become_null(&self, column: &str, in_key: bool) -> bool {
        self.policy(column, in_key) == OnUnrepresentable::Null
    }

    /// The type that was chosen for a column: text for one that has a mask.
    pub fn column_type(&self, column: &str) -> Option<&ColumnType> {
        let rules = self.columns.get(column)?;
        if rules.mask { Some(&ColumnType::String) } else { rules.ty.as_ref() }
    }

    /// What is wrong with the rules for a table of these columns, each with whether it is one of the key.
    pub fn findings(&self, table: &TableName, columns: &[(&str, bool)]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for name in
            self.mode.added_columns().filter(|name| columns.iter().any(|(column, _)| column.eq_ignore_ascii_case(name)))
        {
            findings.push(Finding::error(
                format!("table {table} has a column {name}, which is what calve adds in mode {}", self.mode),
                "rename the column at the source, or give the table another mode",
            ));
        }
        for (name, rules) in &self.columns {
            let in_key = columns.iter().find(|(column, _)| column == name).map(|(_, in_key)| in_key);
            match (in_key, rules.on_unrepresentable) {
                (None, _) if self.of_this_table => {
                    let known: Vec<&str> = columns.iter().map(|(column, _)| *column).collect();
                    findings.push(Finding::error(
                        format!(
                            "the configuration has rules for column {name} of table {table}, which has no such column"
                        ),
                        format!("correct its name under 'columns' of the table; it has {}", known.join(", ")),
                    ));
                }
                (Some(true), Some(policy @ (OnUnrepresentable::Null | OnUnrepresentable::Clamp))) => {
                    findings.push(Finding::error(
                        format!("on_unrepresentable is {policy} for key column {name} of table {table}, where two keys could become one"),
                        "leave it out, or set it to error, for this column",
                    ));
                }
                _ => {}
            }
        }
        findings
    }
}

/// Columns of which something was said in the log.
type Told = BTreeMap<(TableName, String), Arc<AtomicBool>>;

/// The rules of all tables of a pipeline, and which columns were told of in the log. Clones share the latter.
#[derive(Clone)]
pub struct ValueRules {
    of: Arc<dyn Fn(&TableName) -> TableRules + Send + Sync>,
    told: Arc<Mutex<Told>>,
}

impl ValueRules {
    /// By table.
    pub fn new(of: impl Fn(&TableName) -> TableRules + Send + Sync + 'static) -> Self {
        Self { of: Arc::new(of), told: Arc::default() }
    }

    /// Those of a table.
    pub fn table(&self, table: &TableName) -> TableRules {
        (self.of)(table)
    }

    /// The rules of a table that stands, whose rows lie as they did when it was read.
    #[must_use]
    pub fn without_layouts(&self) -> Self {
        let of = Arc::clone(&self.of);
        let of = Arc::new(move |table: &TableName| TableRules { layout: Arc::default(), ..of(table) });
        Self { of, told: Arc::clone(&self.told) }
    }

    /// The rules of tables that are merged into one, for each by itself: how rows lie and which are chosen is said of the merged table.
    #[must_use]
    pub fn of_members(&self) -> Self {
        let of = Arc::clone(&self.of);
        let of = Arc::new(move |table: &TableName| TableRules {
            layout: Arc::default(),
            filter: None,
            of_this_table: false,
            ..of(table)
        });
        Self { of, told: Arc::clone(&self.told) }
    }

    /// What is wrong with the layout that a table of this schema is to have.
    pub fn layout_findings(&self, schema: &TableSchema) -> Vec<Finding> {
        self.table(&schema.table).layout.findings(schema)
    }

    /// Those of them with which it cannot be had.
    pub fn layout_errors(&self, schema: &TableSchema) -> Vec<Finding> {
        let findings = self.layout_findings(schema).into_iter();
        findings.filter(|finding| finding.severity == Severity::Error).collect()
    }

    /// The rule for cells of each column of a schema, in its order.
    pub fn cells(&self, schema: &TableSchema) -> Vec<CellRule> {
        let rules = self.table(&schema.table);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = |(at, column): (usize, &Column)| {
            let policy = rules.policy(&column.name, schema.key.contains(&at));
            if policy == OnUnrepresentable::Error {
                return CellRule::default();
            }
            let told = told.entry((schema.table.clone(), column.name.clone())).or_default();
            CellRule { policy, told: Arc::clone(told) }
        };
        schema.columns.iter().enumerate().map(rule).collect()
    }

    /// The schema under which rows of a table that stands can go on: columns whose values may become NULL are optional. None
    /// where they are already.
    pub fn loosened(&self, schema: &TableSchema) -> Option<TableSchema> {
        let rules = self.table(&schema.table);
        let mut next = schema.clone();
        for (at, column) in next.columns.iter_mut().enumerate() {
            column.nullable |= rules.may_become_null(&column.name, schema.key.contains(&at));
        }
        (next != *schema).then_some(next)
    }

    /// The mode that was chosen for a table that stands, where it has another one until it is read again.
    pub fn unapplied_mode(&self, schema: &TableSchema) -> Option<TableMode> {
        Some(self.table(&schema.table).mode).filter(|mode| *mode != schema.mode)
    }

    /// Columns of a table that stands whose type was chosen, and is another one until it is read again: each with the type chosen.
    pub fn unapplied(&self, schema: &TableSchema) -> Vec<(String, ColumnType)> {
        let rules = self.table(&schema.table);
        let unapplied = |column: &Column| {
            let wanted = rules.column_type(&column.name).filter(|wanted| **wanted != column.ty)?;
            // Of a mask more is said elsewhere, and of what the lake has not nothing.
            if column.usage.is_left_out() || !rules.usage(&column.name).is_values() {
                return None;
            }
            Some((column.name.clone(), wanted.clone()))
        };
        schema.columns.iter().filter_map(unapplied).collect()
    }

    /// Refuses rules that the tables cannot have.
    ///
    /// # Errors
    /// Of kind [`ErrorKind::Config`], where a column of a key is to become NULL or another value, or there is not the salt that digests
    /// of a table were made with.
    pub fn check<'a>(&self, schemas: impl Iterator<Item = &'a TableSchema>) -> Result<()> {
        for schema in schemas {
            let rules = TableRules { of_this_table: false, ..self.table(&schema.table) };
            let columns = schema.columns.iter().enumerate();
            let columns = columns.map(|(at, column)| (column.name.as_str(), schema.key.contains(&at)));
            if let Some(finding) = rules.findings(&schema.table, &columns.collect::<Vec<_>>()).first() {
                return Err(Error::new(ErrorKind::Config, finding.to_string()));
            }
            Excerpt::of(schema, self)?;
        }
        Ok(())
    }
}

impl Default for ValueRules {
    fn default() -> Self {
        Self::new(|_| TableRules::default())
    }
}

impl fmt::Debug for ValueRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ValueRules")
    }
}

/// The rule for the cells of one column, as a decoder keeps it.
#[derive(Clone, Debug, Default)]
pub struct CellRule {
    policy: OnUnrepresentable,
    told: Arc<AtomicBool>,
}

/// What took the place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Substitute {
    /// NULL.
    Null,
    /// The nearest value that the column's type holds.
    Nearest,
}

impl CellRule {
    /// Whether values become NULL.
    pub fn makes_null(&self) -> bool {
        self.policy == OnUnrepresentable::Null
    }

    /// What takes the place of a value that the column's type cannot hold; None: nothing may.
    pub fn substitute(&self, nearest: Option<i128>) -> Option<Substitute> {
        match self.policy {
            OnUnrepresentable::Error => None,
            OnUnrepresentable::Null => Some(Substitute::Null),
            OnUnrepresentable::Clamp => nearest.map(|_| Substitute::Nearest),
        }
    }

    /// Appends that. A column that gets NULL must be one that may have it.
    pub fn append(&self, nearest: Option<i128>, out: &mut ColumnBuffer) -> Option<Substitute> {
        let substitute = self.substitute(nearest)?;
        match (substitute, nearest) {
            (Substitute::Nearest, Some(nearest)) => out.push_number(nearest),
            _ => out.push_null(),
        }
        Some(substitute)
    }

    /// Whether nothing was said yet of the column, which is said once.
    pub fn is_first(&self) -> bool {
        !self.told.load(Ordering::Relaxed) && !self.told.swap(true, Ordering::Relaxed)
    }

    /// The policy.
    pub fn policy(&self) -> OnUnrepresentable {
        self.policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NativeType;

    fn schema(columns: &[(&str, bool)]) -> TableSchema {
        let column = |&(name, nullable): &(&str, bool)| Column {
            id: 0,
            name: name.to_owned(),
            ty: ColumnType::Date,
            nullable,
            native: NativeType::new(0, -1, "date"),
            usage: crate::ColumnUse::Values,
        };
        TableSchema::new(TableName::new("d", "t"), 0, columns.iter().map(column).collect(), vec![0])
    }

    fn rules() -> TableRules {
        let column = |on_unrepresentable| ColumnRules { on_unrepresentable, ..ColumnRules::default() };
        TableRules {
            on_unrepresentable: OnUnrepresentable::Null,
            columns: [("b".to_owned(), column(Some(OnUnrepresentable::Clamp))), ("c".to_owned(), column(None))].into(),
            of_this_table: true,
            ..TableRules::default()
        }
    }

    #[test]
    fn a_column_s_own_rule_comes_first_and_a_key_has_none() {
        let rules = rules();
        for (column, in_key, expected) in [
            ("a", false, OnUnrepresentable::Null),
            ("b", false, OnUnrepresentable::Clamp),
            ("c", false, OnUnrepresentable::Null),
            ("a", true, OnUnrepresentable::Error),
            ("b", true, OnUnrepresentable::Error),
        ] {
            assert_eq!(rules.policy(column, in_key), expected, "{column} {in_key}");
        }
        let all = ValueRules::new(move |_| rules.clone());
        let strict = schema(&[("k", false), ("a", false), ("b", false), ("c", true)]);
        let loosened = all.loosened(&strict).unwrap();
        assert_eq!(loosened, schema(&[("k", false), ("a", true), ("b", false), ("c", true)]));
        assert_eq!(all.loosened(&loosened), None);
        let policies: Vec<_> = all.cells(&strict).iter().map(CellRule::policy).collect();
        assert_eq!(policies.iter().map(ToString::to_string).collect::<Vec<_>>(), ["error", "null", "clamp", "null"]);
    }

    #[test]
    fn rules_that_no_table_can_have_are_named() {
        let found = |columns: &[(&str, bool)]| {
            let findings = rules().findings(&TableName::new("d", "t"), columns);
            findings.into_iter().map(|finding| finding.to_string()).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(found(&[("k", true), ("b", false), ("c", false)]), "");
        assert!(found(&[("b", true), ("c", true)]).contains("key column b of table d.t"));
        assert!(found(&[("k", true), ("b", false)]).contains("no such column"));
        let all = ValueRules::new(|_| rules());
        // A column may have gone since the table was made.
        all.check([&schema(&[("k", false)])].into_iter()).unwrap();
        let error = all.check([&schema(&[("b", false)])].into_iter()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }

    #[test]
    fn what_takes_the_place_of_a_value_is_said_once_for_its_column() {
        let all = ValueRules::new(|_| rules());
        let schema = schema(&[("k", false), ("a", true), ("b", true), ("c", true)]);
        let (cells, again) = (all.cells(&schema), all.clone().cells(&schema));
        let mut out = ColumnBuffer::new(ColumnType::Date);
        assert_eq!(cells[0].append(Some(1), &mut out), None);
        assert_eq!(cells[1].append(Some(1), &mut out), Some(Substitute::Null));
        assert_eq!(cells[2].append(Some(7), &mut out), Some(Substitute::Nearest));
        assert_eq!(cells[2].append(None, &mut out), None);
        let texts: Vec<_> = (0..out.len()).map(|row| crate::cell_text(&out, row)).collect();
        assert_eq!(texts, [None, Some("1970-01-08".to_owned())]);
        assert!(cells[1].is_first() && !cells[1].is_first() && !again[1].is_first());
        assert!(again[2].is_first() && !cells[2].is_first());
    }
}
