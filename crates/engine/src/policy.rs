//! What becomes of a table whose schema changed on the source: by the kind of change, as the settings say.

use std::collections::BTreeMap;
use std::time::Duration;

use calve_core::{Column, SchemaChange, StopReason, TableName, TableSchema};

use crate::recover::reloading;

/// What to do about one kind of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// The table in the lake follows.
    #[default]
    Apply,
    /// The table in the lake stays as it is in this respect, and goes on.
    Ignore,
    /// The table is read again, and replaced in one commit.
    Reload,
    /// The table stops, until somebody has it read again.
    Stop,
}

impl Policy {
    /// As configurations say it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Ignore => "ignore",
            Self::Reload => "reload",
            Self::Stop => "stop",
        }
    }
}

/// A policy for every kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaPolicies {
    /// A column was added that is NULL in the rows that were there. Ignored, it is left out of the lake until a reload, which is the source's to
    /// do ([`TableRules::leaves_out_added`](calve_core::TableRules)).
    pub add_column: Policy,
    /// A column was dropped. Applied, it goes from the lake's schema; ignored, it stays there as an optional column, until a reload.
    pub drop_column: Policy,
    /// A column has another name.
    pub rename_column: Policy,
    /// A type grew.
    pub widen_type: Policy,
    /// NOT NULL was taken away.
    pub drop_not_null: Policy,
    /// Rows went without being in the log: partitions were dropped, emptied or detached. There is nothing to apply here:
    /// [`Policy::Apply`] counts as [`Policy::Stop`]. Ignored, the rows stay in the lake; where rows came in such a way, this counts as
    /// [`Policy::Stop`] too.
    pub drop_partition: Policy,
    /// A copy of the table, altered by a tool that calve knows, took its place. Applied, this is what the same ALTER of the table
    /// would be, and where rows cannot follow that, or it is not such a copy, `otherwise` decides.
    pub swap: Policy,
    /// What rows in the lake cannot follow. There is nothing to apply here: [`Policy::Apply`] counts as [`Policy::Stop`].
    pub otherwise: Policy,
}

impl Default for SchemaPolicies {
    fn default() -> Self {
        Self {
            add_column: Policy::Apply,
            drop_column: Policy::Ignore,
            rename_column: Policy::Apply,
            widen_type: Policy::Apply,
            drop_not_null: Policy::Apply,
            drop_partition: Policy::Stop,
            swap: Policy::Apply,
            otherwise: Policy::Stop,
        }
    }
}

/// The `state` of a table that could follow a change and must not.
pub(crate) const HELD: &str = "schema change held";

impl SchemaPolicies {
    /// Why a table must not follow a change that its rows could follow; None where it may.
    pub(crate) fn refusal(self, before: &TableSchema, change: &SchemaChange) -> Option<StopReason> {
        let changes = self.changes(before, &change.schema);
        let (option, policy, what) = changes.into_iter().max_by_key(|(_, policy, _)| *policy)?;
        let table = &change.schema.table;
        match policy {
            Policy::Apply | Policy::Ignore => None,
            Policy::Reload if !before.keeps_history() => Some(reloading(&what)),
            Policy::Reload | Policy::Stop => Some(StopReason {
                state: HELD.into(),
                detail: format!(
                    "{what}, and schema_changes.{option} is {}{}",
                    policy.word(),
                    if policy == Policy::Reload { ", which would replace the log of its changes" } else { "" }
                ),
                remedy: format!("run `calve reload {table}` to read it again in its new shape"),
            }),
        }
    }

    /// Every change of a column, with the option that decides it.
    fn changes(self, before: &TableSchema, after: &TableSchema) -> Vec<(&'static str, Policy, String)> {
        let mut changes = Vec::new();
        if let Some(shadow) = before.shadow.as_ref().filter(|_| before.swaps != after.swaps) {
            changes.push(("swap", self.swap, format!("table {} took its place", shadow.table)));
        }
        // What is left out is not there.
        let (before, after) = (before.kept(), after.kept());
        for column in &after.columns {
            let name = &column.name;
            let Some(was) = before.counterpart(column) else {
                changes.push(("add_column", self.add_column, format!("column \"{name}\" was added")));
                continue;
            };
            if was.name != *name {
                let what = format!("column \"{}\" was renamed to \"{name}\"", was.name);
                changes.push(("rename_column", self.rename_column, what));
            }
            if was.ty != column.ty {
                let (from, to) = (&was.native.name, &column.native.name);
                let what = format!("the type of column \"{name}\" grew from {from} to {to}");
                changes.push(("widen_type", self.widen_type, what));
            }
            if column.nullable && !was.nullable {
                let what = format!("column \"{name}\" is not NOT NULL any more");
                changes.push(("drop_not_null", self.drop_not_null, what));
            }
        }
        let dropped = before.columns.iter().filter(|column| after.counterpart(column).is_none());
        changes.extend(
            dropped.map(|column| ("drop_column", self.drop_column, format!("column \"{}\" was dropped", column.name))),
        );
        changes
    }

    /// Whether columns that are dropped leave the lake once a schema became the other.
    pub(crate) fn drops_columns(self, before: &TableSchema, after: &TableSchema) -> bool {
        let after = after.kept();
        let dropped = before.kept().columns.iter().any(|column| after.counterpart(column).is_none());
        if dropped { self.drop_column == Policy::Apply } else { before.drops_columns }
    }

    /// The columns that came and that the lake does not get, where that is a policy; in words.
    pub(crate) fn left_out(self, before: &TableSchema, after: &TableSchema) -> Option<String> {
        let came = |column: &&Column| column.usage.is_left_out() && before.counterpart(column).is_none();
        let names: Vec<String> =
            after.columns.iter().filter(came).map(|column| format!("\"{}\"", column.name)).collect();
        let said = self.add_column == Policy::Ignore && !names.is_empty();
        said.then(|| format!("column {} was added, and is left out", names.join(", ")))
    }

    /// What becomes of a table that was about to stop for this reason.
    pub(crate) fn instead_of(self, reason: StopReason) -> StopReason {
        let policy = match reason.state.as_str() {
            StopReason::SCHEMA_CHANGED | StopReason::DROPPED => self.otherwise,
            StopReason::SWAPPED if self.swap == Policy::Apply => self.otherwise,
            StopReason::SWAPPED => self.swap,
            StopReason::ROWS_GONE | StopReason::ROWS_UNKNOWN => self.drop_partition,
            _ => Policy::Stop,
        };
        if policy == Policy::Reload { reloading(&reason.detail) } else { reason }
    }

    /// Whether a table goes on as it is, for all that happened.
    pub(crate) fn ignores(self, reason: &StopReason) -> bool {
        reason.state == StopReason::ROWS_GONE && self.drop_partition == Policy::Ignore
    }
}

/// When tables were read again by themselves. One that keeps changing is waited for longer and longer.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    last: BTreeMap<TableName, Turn>,
    /// When the next one is due, if any waits.
    pub(crate) due: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    due: Duration,
    delay: Duration,
}

impl Reloads {
    /// So many pauses are the longest wait. After that much peace the first reload is immediate again.
    const LONGEST: u32 = 60;

    /// Plans a reload of the table and returns when the next one of any table is due, in the time of the environment. The second
    /// in a row waits for a pause, each further one twice as long as the one before.
    pub(crate) fn plan(&mut self, table: &TableName, now: Duration, pause: Duration) -> Duration {
        let longest = pause * Self::LONGEST;
        let delay = match self.last.get(table) {
            Some(last) if now.saturating_sub(last.due) < longest => (last.delay * 2).clamp(pause, longest),
            _ => Duration::ZERO,
        };
        let due = now + delay;
        self.last.insert(table.clone(), Turn { due, delay });
        *self.due.insert(self.due.map_or(due, |other| other.min(due)))
    }

    /// Whatever waited is being read again.
    pub(crate) fn begun(self) -> Self {
        Self { due: None, ..self }
    }

    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.due.is_some_and(|due| due <= now)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use calve_core::{Column, ColumnType, NativeType};

    use super::*;

    fn schema(columns: &[(u32, &str, ColumnType, bool)]) -> TableSchema {
        let column = |(id, name, ty, nullable): &(u32, &str, ColumnType, bool)| Column {
            id: *id,
            name: (*name).to_owned(),
            ty: ty.clone(),
            nullable: *nullable,
            native: NativeType::new(1, -1, format!("{ty:?}")),
            usage: calve_core::ColumnUse::Values,
        };
        TableSchema::new(TableName::new("shop", "t"), 1, columns.iter().map(column).collect(), vec![0])
    }

    /// Its number, name and type, and whether NULL may be in it.
    type Described = (u32, &'static str, ColumnType, bool);

    #[test]
    fn every_kind_of_change_has_its_policy() {
        use ColumnType::{Int, Long};
        let before = schema(&[(1, "id", Int, false), (2, "a", Int, false)]);
        let cases: [(&str, &[Described], &str); 5] = [
            ("add_column", &[(1, "id", Int, false), (2, "a", Int, false), (3, "b", Int, true)], "\"b\" was added"),
            ("drop_column", &[(1, "id", Int, false)], "\"a\" was dropped"),
            ("rename_column", &[(1, "id", Int, false), (2, "z", Int, false)], "\"a\" was renamed to \"z\""),
            ("widen_type", &[(1, "id", Int, false), (2, "a", Long, false)], "\"a\" grew from Int to Long"),
            ("drop_not_null", &[(1, "id", Int, false), (2, "a", Int, true)], "\"a\" is not NOT NULL"),
        ];
        for (option, columns, what) in cases {
            let change = SchemaChange { schema: Arc::new(schema(columns)), existing_rows: None };
            assert_eq!(SchemaPolicies::default().refusal(&before, &change), None, "{option}");
            for policy in [Policy::Stop, Policy::Reload] {
                let mut policies = SchemaPolicies::default();
                let field = match option {
                    "add_column" => &mut policies.add_column,
                    "drop_column" => &mut policies.drop_column,
                    "rename_column" => &mut policies.rename_column,
                    "widen_type" => &mut policies.widen_type,
                    _ => &mut policies.drop_not_null,
                };
                *field = policy;
                let reason = policies.refusal(&before, &change).unwrap();
                let state = if policy == Policy::Stop { HELD } else { "reloading" };
                assert_eq!(reason.state, state, "{option}");
                assert!(reason.detail.contains(what), "{option}: {}", reason.detail);
                assert_eq!(reason.detail.contains(option), policy == Policy::Stop, "{}", reason.detail);
            }
        }
        // A log would be replaced, which only who asks for it may do.
        let log = TableSchema { mode: calve_core::TableMode::Append { preimages: false }, ..before.clone() };
        let change = SchemaChange {
            schema: Arc::new(TableSchema { mode: log.mode, ..schema(&[(1, "id", Int, false)]) }),
            existing_rows: None,
        };
        let policies = SchemaPolicies { drop_column: Policy::Reload, ..SchemaPolicies::default() };
        let reason = policies.refusal(&log, &change).unwrap();
        assert!(reason.state == HELD && reason.detail.contains("would replace the log"), "{}", reason.detail);
        // The strictest of several counts.
        let columns = [(1, "id", Int, false), (2, "z", Long, true)];
        let change = SchemaChange { schema: Arc::new(schema(&columns)), existing_rows: None };
        let policies =
            SchemaPolicies { rename_column: Policy::Stop, widen_type: Policy::Reload, ..SchemaPolicies::default() };
        assert!(policies.refusal(&before, &change).unwrap().detail.contains("rename_column"));
        // A copy took its place, which is a change of its own kind beside what became of the columns.
        let shadowed = before.with_shadow(TableName::new("shop", "_t_gho"));
        let swapped = SchemaChange { schema: Arc::new(shadowed.of_shadow().unwrap()), existing_rows: None };
        assert_eq!(SchemaPolicies::default().refusal(&shadowed, &swapped), None);
        let held = SchemaPolicies { swap: Policy::Stop, ..SchemaPolicies::default() };
        let reason = held.refusal(&shadowed, &swapped).unwrap();
        assert!(reason.detail.contains("_t_gho took its place, and schema_changes.swap is stop"), "{}", reason.detail);
        // While it is built there is nothing to decide.
        let begun = SchemaChange { schema: Arc::new(shadowed.clone()), existing_rows: None };
        let gone = SchemaChange { schema: Arc::new(before.clone()), existing_rows: None };
        assert_eq!((held.refusal(&before, &begun), held.refusal(&shadowed, &gone)), (None, None));
        // Another place, or a tighter column, changes nothing in the lake.
        let strict = SchemaPolicies { add_column: Policy::Stop, drop_not_null: Policy::Stop, ..policies };
        let loose = schema(&[(1, "id", Int, false), (2, "a", Int, true)]);
        let moved = schema(&[(2, "a", Int, false), (1, "id", Int, false)]);
        let change = SchemaChange { schema: Arc::new(moved), existing_rows: None };
        assert_eq!(strict.refusal(&loose, &change), None);
    }

    #[test]
    fn columns_leave_the_lake_or_stay_out_of_it() {
        use ColumnType::Int;
        let before = schema(&[(1, "id", Int, false), (2, "a", Int, true)]);
        let dropped = schema(&[(1, "id", Int, false)]);
        let mut added = schema(&[(1, "id", Int, false), (2, "a", Int, true), (3, "b", Int, true), (4, "c", Int, true)]);
        let apply = SchemaPolicies { drop_column: Policy::Apply, ..SchemaPolicies::default() };
        for (policies, goes) in [(apply, true), (SchemaPolicies::default(), false)] {
            assert_eq!(policies.drops_columns(&before, &dropped), goes);
            // Other changes leave it as the last column that was dropped had it.
            for drops_columns in [false, true] {
                let before = TableSchema { drops_columns, ..before.clone() };
                assert_eq!(policies.drops_columns(&before, &added), drops_columns);
                assert_eq!(policies.drops_columns(&before, &dropped), goes);
            }
        }
        let ignore = SchemaPolicies { add_column: Policy::Ignore, ..SchemaPolicies::default() };
        assert_eq!(ignore.left_out(&before, &added), None);
        for column in &mut added.columns[2..] {
            column.usage = calve_core::ColumnUse::LeftOut;
        }
        assert_eq!(ignore.left_out(&before, &added).unwrap(), "column \"b\", \"c\" was added, and is left out");
        assert_eq!((apply.left_out(&before, &added), ignore.left_out(&added, &added)), (None, None));
        let change = SchemaChange { schema: Arc::new(added), existing_rows: None };
        assert_eq!(SchemaPolicies { add_column: Policy::Stop, ..ignore }.refusal(&before, &change), None);
    }

    #[test]
    fn only_changed_tables_are_read_again() {
        let table = TableName::new("shop", "t");
        let changed = StopReason::schema_changed(&table, "its key changed");
        let lost = StopReason { state: "log lost".into(), ..changed.clone() };
        let dropped = StopReason { state: StopReason::DROPPED.into(), ..changed.clone() };
        let (gone, unknown) = (StopReason::rows_gone(&table, "a"), StopReason::rows_unknown(&table, "b"));
        let stops = SchemaPolicies::default();
        let reloads = SchemaPolicies { otherwise: Policy::Reload, ..stops };
        // What a swap is to be decides first, whatever the copy was.
        let swapped = StopReason::swapped(&table, "another took its place");
        let answer = |swap, otherwise| SchemaPolicies { swap, otherwise, ..stops }.instead_of(swapped.clone());
        let read_again = reloading("another took its place");
        assert_eq!(
            [answer(Policy::Apply, Policy::Reload), answer(Policy::Reload, Policy::Stop)],
            [read_again.clone(), read_again]
        );
        assert_eq!(
            [answer(Policy::Apply, Policy::Stop), answer(Policy::Stop, Policy::Reload)],
            [swapped.clone(), swapped.clone()]
        );
        for reason in [&changed, &lost, &dropped, &gone, &unknown] {
            assert_eq!(stops.instead_of(reason.clone()), *reason);
            assert!(!stops.ignores(reason));
        }
        for reason in [&gone, &unknown] {
            assert_eq!(reloads.instead_of(reason.clone()), *reason);
        }
        let partitions = SchemaPolicies { drop_partition: Policy::Reload, ..stops };
        assert_eq!(partitions.instead_of(gone.clone()), reloading("a"));
        assert_eq!(partitions.instead_of(unknown.clone()), reloading("b"));
        assert_eq!(partitions.instead_of(changed.clone()), changed);
        // Rows that are gone may be kept. Those that came are nowhere.
        let keeps = SchemaPolicies { drop_partition: Policy::Ignore, ..stops };
        assert!(keeps.ignores(&gone) && !keeps.ignores(&unknown) && !keeps.ignores(&changed));
        assert_eq!(keeps.instead_of(unknown.clone()), unknown);
        assert_eq!(reloads.instead_of(changed), reloading("its key changed"));
        assert_eq!(reloads.instead_of(dropped), reloading("its key changed"));
        assert_eq!(reloads.instead_of(lost.clone()), lost);
    }

    #[test]
    fn a_table_that_keeps_changing_is_waited_for() {
        let (a, b) = (TableName::new("shop", "a"), TableName::new("shop", "b"));
        let minutes = Duration::from_mins;
        let mut reloads = Reloads::default();
        let mut plan = |table: &TableName, now: u64| {
            reloads.due = None;
            reloads.plan(table, minutes(now), minutes(1))
        };
        assert_eq!(plan(&a, 10), minutes(10));
        assert_eq!(plan(&a, 11), minutes(12));
        assert_eq!(plan(&b, 11), minutes(11));
        assert_eq!(plan(&a, 12), minutes(14));
        assert_eq!(plan(&a, 14), minutes(18));
        for _ in 0..9 {
            plan(&a, 18);
        }
        assert_eq!(plan(&a, 20), minutes(80));
        assert_eq!(plan(&a, 150), minutes(150));
        // The earliest of several is the next.
        reloads.due = None;
        assert_eq!(reloads.plan(&a, minutes(151), minutes(1)), minutes(152));
        assert_eq!(reloads.plan(&b, minutes(400), minutes(1)), minutes(152));
        assert!(reloads.is_due(minutes(152)) && !reloads.is_due(minutes(151)));
    }
}
