//! Source against table, right while both change, in bounded memory.
//!
//! First pass: both sides are read once and summed up by bucket of the key's hash. Equal sums: the table equals the source.
//! Else the rows of the differing buckets are looked at again, exactly: the source is read at one position, the table at the
//! first position at or beyond it, and what the source committed between the two is applied to what was read of it. So what
//! is in flight is never taken for a difference, and a key that is written all the time is compared as well as any other.

mod changes;
mod compare;
mod lake_side;
mod rows;
mod sides;
#[cfg(test)]
mod tests;

use std::time::Duration;

use calve_core::{
    ColumnUse, Error, ErrorKind, LoadEvent, Position, Result, TableName, TableSchema, ValueRules, decode_key, show_key,
};

pub(crate) use compare::Difference;
use compare::{Buckets, Detail, Sums};
use lake_side::LakeSide;
use rows::{Digest, Rows};
use sides::Sides;

use crate::config::Settings;
use crate::database::{Database, Witness};
use crate::wiring::{self, Targets};

/// Compares tables.
pub(crate) struct Verifier {
    database: Database,
    lake: LakeSide,
    rules: ValueRules,
    /// Differing keys that are named, a table.
    show: usize,
    /// How long the table may take to reach the source's position.
    wait: Duration,
}

/// What came out for one table.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Rows of the source and of the table, as they were at the first look.
    pub(crate) rows: (u64, u64),
    /// How many keys differ.
    pub(crate) differing: u64,
    /// Some of them, and how.
    pub(crate) examples: Vec<(String, Difference)>,
    /// Rows that updates changed in part while they were compared: the log does not carry large values that these left alone.
    pub(crate) uncompared: u64,
    /// What weakens the answer.
    pub(crate) note: Option<String>,
}

impl Verdict {
    /// Whether source and table are equal.
    pub(crate) fn equal(&self) -> bool {
        self.differing == 0
    }
}

impl Verifier {
    pub(crate) async fn new(settings: &Settings, targets: Targets, show: usize, wait: Duration) -> Result<Self> {
        let socket = settings.pipeline_dir().socket();
        Ok(Self {
            database: wiring::database(settings)?,
            lake: LakeSide::new(wiring::lake(settings, &targets).await?, targets, socket),
            rules: settings.tables.rules(),
            show,
            wait,
        })
    }

    /// Compares one table. None where it is a log, whose rows are none of the source's.
    pub(crate) async fn table(&self, table: &TableName) -> Result<Option<Verdict>> {
        if self.lake.schema(table).await?.keeps_log() {
            return Ok(None);
        }
        self.compared(table).await.map(Some)
    }

    async fn compared(&self, table: &TableName) -> Result<Verdict> {
        let (mut witness, sides) = self.witness(table).await?;
        let estimated = witness.reader().estimated_rows(table).unwrap_or(0);

        let mut source = Sums::for_rows(estimated);
        read_source(&mut witness, &sides, |key, digest| source.add(key, digest)).await?;
        witness.close().await;
        let mut lake = Sums::for_rows(estimated);
        self.lake.read(&sides.lake, None, |key, digest| lake.add(key, digest)).await?;

        let mut verdict = Verdict {
            rows: (source.rows(), lake.rows()),
            differing: 0,
            examples: Vec::new(),
            uncompared: 0,
            note: lost_note(&*self.lake.schema(table).await?),
        };
        for buckets in source.differing(&lake) {
            self.look_closely(table, &sides, &buckets, &mut verdict).await?;
        }
        Ok(verdict)
    }

    /// Compares the rows of some buckets at one position.
    async fn look_closely(
        &self,
        table: &TableName,
        sides: &Sides,
        buckets: &Buckets,
        verdict: &mut Verdict,
    ) -> Result<()> {
        let (mut witness, _) = self.witness(table).await?;
        let at = witness.reader().settled().clone();
        let mut detail = Detail::default();
        read_source(&mut witness, sides, |key, digest| {
            if buckets.contain(key) {
                detail.add_source(key, digest);
            }
        })
        .await?;

        let reached = self.lake.wait_for(table, &at, self.wait).await?;
        let add = |key: &[u8], digest| {
            if buckets.contain(key) {
                detail.add_lake(key, digest);
            }
        };
        self.lake.read(&sides.lake, reached.snapshot, add).await?;

        match &reached.position {
            Some(position) if position.covers(&at) => {
                changes::apply(witness, position, sides, buckets, &mut detail).await?;
            }
            position => {
                verdict.note = Some(behind(table, position.as_ref(), &at, reached.running));
                witness.close().await;
            }
        }
        verdict.uncompared += detail.uncompared();
        for (key, difference) in detail.differences() {
            verdict.differing += 1;
            if verdict.examples.len() < self.show {
                verdict.examples.push((key_text(&sides.lake, key), difference));
            }
        }
        Ok(())
    }

    /// Begins to read the table at the source, if source and lake agree on its columns.
    async fn witness(&self, table: &TableName) -> Result<(Witness, Sides)> {
        let stamped = self.lake.schema(table).await?;
        let witness = self.database.witness(&stamped).await?;
        let schema = witness.schema()?;
        let sides = match schema_difference(&schema, &without_lost(&stamped)) {
            None => Sides::new(schema, &self.rules),
            Some(what) => Err(Error::new(ErrorKind::Config, format!("{what}; run calve reload {table}, then verify"))),
        };
        match sides {
            Ok(sides) => Ok((witness, sides)),
            Err(error) => {
                witness.close().await;
                Err(error)
            }
        }
    }
}

/// Without the columns that some member of a merged table has lost: rows of it that were there have values in them in the lake.
fn without_lost(schema: &TableSchema) -> TableSchema {
    let mut without = schema.clone();
    for column in &mut without.columns {
        if schema.lost_columns().any(|(lost, _)| lost == column.name) {
            column.usage = ColumnUse::LeftOut;
        }
    }
    without
}

/// Which columns are passed over for that.
fn lost_note(schema: &TableSchema) -> Option<String> {
    let lost: Vec<String> =
        schema.lost_columns().map(|(column, member)| format!("{column} (dropped in {member})")).collect();
    (!lost.is_empty())
        .then(|| format!("columns that some members have no longer are not compared: {}", lost.join(", ")))
}

fn behind(table: &TableName, reached: Option<&Position>, at: &Position, running: bool) -> String {
    let stands =
        reached.map_or_else(|| "was never loaded".to_owned(), |position| format!("is complete to {position} only"));
    let advice = if running {
        "see calve status for what holds it up, or give it longer with --wait"
    } else {
        "no calve runs: start one, or catch up with calve run --once"
    };
    format!("{table} {stands} and the source was read at {at}, so what differs may only be late; {advice}")
}

/// What tells two schemas apart for a comparison of rows.
fn schema_difference(source: &TableSchema, lake: &TableSchema) -> Option<String> {
    if source.filter != lake.filter {
        let shown = |filter: &Option<String>| filter.clone().unwrap_or_else(|| "all".to_owned());
        let (now, then) = (shown(&source.filter), shown(&lake.filter));
        return Some(format!(
            "its rows in the lake are chosen by another 'where' ({then}) than the configuration's ({now})"
        ));
    }
    let (source, lake) = (&*source.kept(), &*lake.kept());
    let columns = column_difference(source, lake)?;
    Some(format!("{columns}: its columns changed at the source, or in the configuration"))
}

/// As [`schema_difference`], of the columns that either side has.
fn column_difference(source: &TableSchema, lake: &TableSchema) -> Option<String> {
    let find = |schema: &TableSchema, name: &str| schema.columns.iter().find(|column| column.name == name).cloned();
    for column in &source.columns {
        match find(lake, &column.name) {
            None => return Some(format!("the lake has no column {}", column.name)),
            Some(other) if other.ty != column.ty => {
                return Some(format!(
                    "column {} is {} at the source and {} in the lake",
                    column.name, column.ty, other.ty
                ));
            }
            Some(other) if other.usage != column.usage => {
                return Some(format!("column {} has not the mask in the lake that is configured", column.name));
            }
            Some(_) => {}
        }
    }
    let gone = lake.columns.iter().find(|column| find(source, &column.name).is_none());
    if let Some(column) = gone {
        return Some(format!("the source has no column {}", column.name));
    }
    let key = |schema: &TableSchema| schema.key_columns().map(|column| column.name.clone()).collect::<Vec<_>>();
    (key(source) != key(lake)).then(|| format!("its key is ({}) in the lake", key(lake).join(", ")))
}

/// `id = 5, region = 'eu'`.
fn key_text(schema: &TableSchema, key: &[u8]) -> String {
    decode_key(schema, key).map_or_else(|| "?".to_owned(), |columns| show_key(schema, columns.iter(), 0))
}

/// Feeds every row of the source that the lake gets.
async fn read_source(witness: &mut Witness, sides: &Sides, mut row: impl FnMut(&[u8], Digest)) -> Result<()> {
    let mut key = Vec::new();
    while let Some(event) = witness.reader().next().await? {
        let buffer = match event {
            LoadEvent::Rows(_, buffer) => buffer,
            LoadEvent::Done(_) => continue,
            LoadEvent::Failed(_, reason) => return Err(Error::new(ErrorKind::Config, reason.to_string())),
        };
        let (_, images, _) = buffer.into_parts();
        let arrays = sides.excerpt(images)?;
        let mut rows = Rows::new(&sides.lake, &arrays)?;
        for index in 0..rows.len() {
            rows.key(index, &mut key);
            row(&key, rows.digest(index));
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}
