//! Where there is a choice of how values become those of the lake: what the pipeline chose.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use calve_core::{CellRule, TableName, TableSchema, ValueRules};

use crate::merge::Merges;

/// The choices of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Conversions {
    /// Signed `TINYINT(1)` is a boolean in the lake, and not an int. A value other than 0 and 1 then stops its table.
    pub tinyint1_as_boolean: bool,
    /// What becomes of zero dates.
    pub zero_dates: ZeroDates,
    /// What becomes of other values that the lake cannot hold.
    pub rules: ValueRules,
    /// Which tables become one.
    pub merges: Merges,
}

/// What becomes of a date with a zero in it, such as `0000-00-00` or `2024-02-00`, outside of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnZeroDate {
    /// NULL, counted.
    #[default]
    Null,
    /// It stops its table.
    Error,
}

/// The rule for zero dates, and which columns had some.
#[derive(Clone, Debug, Default)]
pub struct ZeroDates {
    rule: OnZeroDate,
    /// Columns that were told of in the log, over all connections and files.
    told: Arc<Mutex<BTreeSet<String>>>,
}

impl ZeroDates {
    /// Under a rule.
    pub fn new(rule: OnZeroDate) -> Self {
        Self { rule, ..Self::default() }
    }

    /// Whether one becomes NULL.
    pub(crate) fn become_null(&self) -> bool {
        self.rule == OnZeroDate::Null
    }

    /// One became NULL. Said in the log the first time.
    pub(crate) fn tell(&self, table: &TableName, column: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(format!("{table}.{column}")) {
            tracing::warn!(%table, column, "zero dates become NULL (on_zero_date); `calve status` counts them");
        }
    }
}

/// How a zero date is refused where it cannot become NULL.
pub(crate) fn refused_zero_date(in_key: bool) -> &'static str {
    if in_key { "a zero date, which no key can have" } else { "a zero date, which on_zero_date: error refuses" }
}

/// A value of a column was replaced, as its rule says. Said in the log the first time.
pub(crate) fn tell_substituted(rule: &CellRule, schema: &TableSchema, column: usize, what: &str) {
    if rule.is_first() {
        let column = schema.columns.get(column).map_or("?", |column| column.name.as_str());
        let (table, policy) = (&schema.table, rule.policy());
        tracing::warn!(
            %table,
            column,
            on_unrepresentable = %policy,
            "a value that the lake cannot hold was replaced, and so will be others of the column: {what}; `calve status` counts them"
        );
    }
}
