//! Staging: rows become files that nobody sees, of one checkpoint while the one before it is committed.
//!
//! Nothing of the protocol depends on when files are written, for only an intent makes them count. What is staged ahead must
//! fit the tables as the commit under way leaves them; so nothing is while that gives a table another schema, and nothing that
//! does so itself. Rows that lack values which their table has are staged once what is under way on that table is committed, and
//! so is what all of a table's rows are kept from as deleted ones, and the rows of a log that is being loaded: whether they are rows
//! of the load or of the log is told then.

use std::sync::Arc;

use calve_core::{
    DeltaWriter, EncodeJob, Error, Excerpt, Ground, Onto, Result, RowBuffer, StagedDelta, Substituted, TableIndex,
    TableName, TableSchema, ValueRules, Written,
};
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::mpsc;

use crate::assemble::{Sealed, TableRows, Work};
use crate::fold::{Inserts, fold};
use crate::log::log;
use crate::settings::{Mutation, Rules};
use crate::weight::Weight;

/// What became of the rows of one checkpoint or chunk.
pub(crate) type StagedTables = Vec<(TableIndex, Written)>;

/// How a table's rows are staged.
#[derive(Debug)]
pub(crate) struct Manner {
    /// Not at all.
    pub(crate) stopped: bool,
    pub(crate) onto: Onto,
    pub(crate) inserts: Inserts,
    /// The table that rows are put on.
    pub(crate) ground: Ground,
    /// What rows have that change no schema.
    pub(crate) schema: Arc<TableSchema>,
}

impl Manner {
    /// Whether rows are staged only once the commit before them on their table is done: where they lack what the table has, and
    /// where that commit may be the last of a load that they would be put into.
    fn waits(&self, rows: &RowBuffer, rules: Rules) -> bool {
        let lacks = (!rows.unchanged().is_empty() || rows.retires_all()) && !rules.broken(Mutation::LookUpAhead);
        lacks || (self.inserts == Inserts::MayExist && rows.schema().keeps_log())
    }
}

/// Writes the files of a session's tables.
pub(crate) struct Stager<'a> {
    pub(crate) writer: &'a dyn DeltaWriter,
    pub(crate) names: Arc<[TableName]>,
    /// Tables encoded side by side.
    pub(crate) parallelism: usize,
    pub(crate) rules: Rules,
    /// What was chosen for the values of tables.
    pub(crate) values: &'a ValueRules,
}

impl<'a> Stager<'a> {
    /// Encodes tables side by side, each in its manner.
    pub(crate) fn stage(&self, tables: Vec<TableRows>, manners: &[Manner]) -> BoxFuture<'a, Result<StagedTables>> {
        let (writer, rules, values) = (self.writer, self.rules, self.values);
        let manner = |index: TableIndex| &manners[index.0];
        let jobs = tables.into_iter().filter(|(index, _)| !manner(*index).stopped).map(|(index, rows)| {
            let (Manner { onto, inserts, ground, .. }, names) = (manner(index), Arc::clone(&self.names));
            let (onto, inserts, ground) = (*onto, *inserts, ground.clone());
            async move {
                let (substituted, changes) = (rows.substituted(), rows.next_number().saturating_sub(1));
                let excerpt = Excerpt::of(rows.schema(), values)?;
                let job = encode_job(rows, inserts, excerpt, rules);
                let written = writer.write(&names[index.0], job, onto, &ground).await?;
                Ok::<_, Error>((index, counted(written, substituted, changes)))
            }
        });
        // Collected first: a stream over borrowed closures is not nameable as Send.
        let jobs: Vec<_> = jobs.collect();
        Box::pin(stream::iter(jobs).buffer_unordered(self.parallelism).try_collect())
    }
}

fn counted(written: Written, substituted: Substituted, changes: u64) -> Written {
    let Substituted { nulled, clamped } = substituted;
    match written {
        Written::Delta(delta) => Written::Delta(StagedDelta { nulled, clamped, changes, ..delta }),
        Written::Stops(reason) => Written::Stops(reason),
    }
}

/// What is put on a load that is of no one position becomes part of it, be the table a log or not.
fn encode_job(rows: RowBuffer, inserts: Inserts, excerpt: Excerpt, rules: Rules) -> EncodeJob {
    let folds = inserts == Inserts::MayExist || !rows.schema().keeps_log() || rules.broken(Mutation::FoldedLog);
    let forgets = rows.schema().retires_rows() && rules.broken(Mutation::TruncateForgets);
    let inserts = if forgets { Inserts::MayExist } else { inserts };
    Box::new(move || {
        if !folds {
            return log(rows, &excerpt);
        }
        let mut batch = fold(rows, inserts, &excerpt)?;
        let chosen = excerpt.filter().is_some() && batch.rows.num_rows() == 0;
        if chosen && rules.broken(Mutation::LeaversStay) {
            batch.deletes = batch.deletes.slice(0, 0);
        }
        Ok(batch)
    })
}

/// What the committer is to do next.
pub(crate) enum Next {
    /// As the reader made it, with the memory of its rows.
    Work(Work, Weight),
    /// Work whose rows are staged, as far as they could be.
    Staged(Whole, StagedTables),
}

/// Work of which a part is staged ahead.
pub(crate) struct Whole {
    /// A checkpoint, or None for a chunk.
    pub(crate) sealed: Option<Sealed>,
    /// Tables whose rows wait for the commit under way.
    pub(crate) rest: Vec<TableRows>,
    /// Their memory.
    pub(crate) weight: Weight,
}

/// A piece of work that was taken ahead.
enum Taken<'a> {
    /// That must not be staged yet.
    Work(Work, Weight),
    Staging(Option<Whole>, BoxFuture<'a, Result<StagedTables>>),
    Staged(Whole, Result<StagedTables>),
}

/// The reader's work in its order, one piece of it taken ahead.
pub(crate) struct Ahead<'a> {
    works: mpsc::Receiver<(Work, Weight)>,
    stager: Stager<'a>,
    rules: Rules,
    taken: Option<Taken<'a>>,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(works: mpsc::Receiver<(Work, Weight)>, stager: Stager<'a>, rules: Rules) -> Self {
        Self { works, stager, rules, taken: None }
    }

    /// See [`Stager::stage`].
    pub(crate) fn stage(&self, tables: Vec<TableRows>, manners: &[Manner]) -> BoxFuture<'a, Result<StagedTables>> {
        self.stager.stage(tables, manners)
    }

    /// The next piece of work; None when no more comes. May be dropped while it waits and asked again.
    pub(crate) async fn next(&mut self) -> Result<Option<Next>> {
        if self.taken.is_none() {
            return Ok(self.works.recv().await.map(|(work, weight)| Next::Work(work, weight)));
        }
        self.drive().await;
        Ok(match self.taken.take() {
            Some(Taken::Staged(whole, staged)) => Some(Next::Staged(whole, staged?)),
            Some(Taken::Work(work, weight)) => Some(Next::Work(work, weight)),
            Some(Taken::Staging(..)) | None => None,
        })
    }

    /// Takes a piece of work ahead and stages it if it may be, by these manners. Never ends; may be dropped and begun again.
    pub(crate) async fn work(&mut self, manners: &[Manner]) {
        if self.taken.is_none() {
            self.taken = match self.works.recv().await {
                Some((Work::Chunk(tables), weight)) if fits(&tables, manners) => {
                    Some(self.staging(None, tables, weight, manners))
                }
                Some((Work::Seal(mut sealed), weight)) if fits(&sealed.tables, manners) => {
                    let tables = std::mem::take(&mut sealed.tables);
                    Some(self.staging(Some(sealed), tables, weight, manners))
                }
                other => other.map(|(work, weight)| Taken::Work(work, weight)),
            };
        }
        self.drive().await;
        std::future::pending::<()>().await;
    }

    fn staging(
        &self,
        sealed: Option<Sealed>,
        tables: Vec<TableRows>,
        mut weight: Weight,
        manners: &[Manner],
    ) -> Taken<'a> {
        let waits = |(index, rows): &TableRows| manners[index.0].waits(rows, self.rules);
        let (rest, now): (Vec<_>, Vec<_>) = tables.into_iter().partition(waits);
        let rest_weight = weight.split(rest.iter().map(|(_, rows)| rows.bytes()).sum());
        let staging = self.stager.stage(now, manners);
        let job = Box::pin(async move {
            let staged = staging.await;
            drop(weight);
            staged
        });
        Taken::Staging(Some(Whole { sealed, rest, weight: rest_weight }), job)
    }

    /// Removes what was staged ahead of a commit that failed.
    pub(crate) async fn discard(&mut self) {
        self.drive().await;
        if let Some(Taken::Staged(_, Ok(staged))) = self.taken.take() {
            let delta = |(_, written)| match written {
                Written::Delta(delta) => Some(delta),
                Written::Stops(_) => None,
            };
            let deltas: Vec<StagedDelta> = staged.into_iter().filter_map(delta).collect();
            self.stager.writer.discard(&deltas).await;
        }
    }

    /// Lets what is being staged become staged.
    async fn drive(&mut self) {
        if let Some(Taken::Staging(whole, job)) = &mut self.taken {
            let staged = job.await;
            self.taken = whole.take().map(|whole| Taken::Staged(whole, staged));
        }
    }
}

/// Whether all rows are of the schemas that the tables have.
fn fits(tables: &[TableRows], manners: &[Manner]) -> bool {
    tables.iter().all(|(index, rows)| {
        let schema = &manners[index.0].schema;
        Arc::ptr_eq(schema, rows.schema()) || schema == rows.schema()
    })
}
