//! One session: from reading the lake to the end of the stream. Every start and every reconnect is a session of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use calve_core::{
    Error, ErrorKind, LogState, Position, Result, SavedState, SourceIdentity, SourceTable, Stamp, StopMark, StopReason,
    TableIndex, TableName,
};
use tokio::sync::mpsc;

use crate::Ports;
use crate::assemble::{Assembler, Limits};
use crate::commit::{Committer, Halt, Notice, describe};
use crate::control::Control;
use crate::ledger::{Entry, Ledger, Standing};
use crate::load::{Finished, Load};
use crate::observe::{Event, TableState};
use crate::policy::Reloads;
use crate::read::{ReadEnd, Reader};
use crate::recover::{Fate, Found, Plan, recover};
use crate::settings::{Mutation, Settings};
use crate::weight::Weight;

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing more to do.
    Done,
    /// Start over at once: an intent was finished, or a table shall be read again.
    Again,
    /// Start over with care: somebody else writes this table.
    Foreign(TableName),
}

/// What outlives a session.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Tables to be read again whose mark is not in the lake yet.
    pub(crate) reload: BTreeSet<TableName>,
    /// With `once`: the end of the log when the first session began.
    pub(crate) target: Option<Position>,
    /// The last session completed a checkpoint.
    pub(crate) advanced: bool,
    /// Checkpoints begun by this process.
    pub(crate) minted: u64,
    /// Tables read again by themselves.
    pub(crate) reloads: Reloads,
}

/// Runs one session.
pub(crate) async fn session(
    ports: &mut Ports,
    settings: &Settings,
    control: &Control,
    carried: &mut Carried,
) -> Result<End> {
    // Asked for before the tables are read: whatever was acknowledged by then they record by now, whoever wrote it.
    let before = ports.source.log_state().await?.acknowledged;
    let mut found = find(ports, settings, &carried.reload).await?;
    let log = keep_log(ports, &found, before.is_none()).await?;
    let acknowledged = before.or_else(|| log.acknowledged.clone()).unwrap_or_else(|| log.end.clone());
    if settings.once && carried.target.is_none() {
        carried.target = Some(log.end.clone());
    }
    let saved = ports.positions.load().unwrap_or_else(|error| {
        let what = "reading local state".to_owned();
        ports.observer.event(&Event::Retrying { what, error: describe(&error), after: std::time::Duration::ZERO });
        SavedState::default()
    });
    let plan = match recover(&found, &saved, &acknowledged, &log.fresh, settings.rules) {
        Ok(plan) => plan,
        Err(gap) => {
            // That the log is another says more than that it begins too late.
            let following = found.iter().filter(|table| !table.reload && table.lake.stopped.is_none());
            let stamps = following.filter_map(|table| table.lake.stamp.as_ref());
            check_log(ports, stamps.map(|stamp| (stamp, &stamp.position)), &log)?;
            return Err(gap);
        }
    };
    let streaming = found.iter().zip(&plan.tables).filter(|(_, planned)| planned.fate == Fate::Stream);
    let stands = streaming.filter_map(|(table, planned)| table.lake.stamp.as_ref().zip(planned.bound.as_ref()));
    check_log(ports, stands, &log)?;
    let unreadable = describe_loads(ports, &mut found, &plan).await?;

    let (notice_sender, mut notices) = mpsc::unbounded_channel();
    let ledger = Ledger {
        entries: found.iter().zip(&plan.tables).map(|(found, planned)| entry(found, planned)).collect(),
        completed: plan.read.clone(),
        sealed: None,
        recorded: plan.recorded.clone(),
        rules: settings.rules,
    };
    let (lake, writer, positions) = (Arc::clone(&ports.lake), Arc::clone(&ports.writer), Arc::clone(&ports.positions));
    let (environment, observer) = (Arc::clone(&ports.environment), Arc::clone(&ports.observer));
    let mut committer = Committer {
        lake: &*lake,
        writer: &*writer,
        positions: &*positions,
        environment: &*environment,
        observer: &*observer,
        settings,
        identity: log.identity.clone(),
        ledger,
        notices: notice_sender,
        acknowledged: log.acknowledged.clone(),
        raised: environment.now(),
        minted: carried.minted,
        // Tables that wait for it are read again by this session, as their marks say.
        reloads: std::mem::take(&mut carried.reloads).begun(),
    };
    let result =
        run(ports.source.as_mut(), control, carried, &found, &plan, unreadable, &mut committer, &mut notices).await;
    committer.discard_uncommitted().await;
    carried.advanced = committer.ledger.sealed.is_some();
    carried.minted = committer.minted;
    carried.reloads = std::mem::take(&mut committer.reloads);
    while let Ok(notice) = notices.try_recv() {
        if let Notice::Acknowledge(position) = notice {
            ports.source.acknowledge(&position);
        }
    }
    ports.source.stop().await;
    match result {
        Ok(end) => Ok(end),
        Err(Halt::Foreign(table)) => Ok(End::Foreign(table)),
        Err(Halt::Failed(error)) => Err(error),
    }
}

/// Reads every table's state, creating what is missing.
async fn find(ports: &mut Ports, settings: &Settings, reload: &BTreeSet<TableName>) -> Result<Vec<Found>> {
    let mut found = Vec::with_capacity(settings.tables.len());
    for name in &settings.tables {
        let lake = ports.lake.load(name).await?;
        let schema = match lake.as_ref().and_then(|lake| lake.stamp.as_ref()) {
            Some(stamp) => Arc::clone(&stamp.schema),
            None => ports.source.describe(name).await?,
        };
        let lake = match lake {
            Some(lake) => lake,
            None => ports.lake.create(&schema).await?,
        };
        found.push(Found { name: name.clone(), schema, lake, reload: reload.contains(name) });
    }
    Ok(found)
}

/// Makes the log carry the tables and the source keep it, if nothing does yet.
async fn keep_log(ports: &mut Ports, found: &[Found], unkept: bool) -> Result<LogState> {
    let followed: Vec<TableName> = found
        .iter()
        .filter(|table| {
            table.reload || table.lake.stopped.as_ref().is_none_or(|mark| mark.reason.state == StopReason::RELOADING)
        })
        .map(|table| table.name.clone())
        .collect();
    let log = ports.source.log_state().await?;
    let streams = found.iter().find(|t| t.lake.stamp.is_some() && t.lake.stopped.is_none() && !t.reload);
    if let (None, Some(table)) = (&log.acknowledged, streams) {
        return Err(Error::new(
            ErrorKind::SourceGone,
            format!(
                "nothing at the source keeps the log for {} and the other tables any more (its replication slot is gone): changes \
                 since then are lost; run `calve reload --all` to read the tables again",
                table.name
            ),
        ));
    }
    if unkept && log.acknowledged.is_some() {
        // The tables were read before that, and may say more by now.
        return Err(Error::new(ErrorKind::Retry, "another process made the source keep its log just now"));
    }
    ports.source.follow(&followed).await?;
    if log.acknowledged.is_some() { Ok(log) } else { ports.source.keep_log().await }
}

/// The log must be the one that every table remembers that reads on, each from where it stands.
fn check_log<'a>(ports: &Ports, tables: impl Iterator<Item = (&'a Stamp, &'a Position)>, log: &LogState) -> Result<()> {
    let mut smallest: BTreeMap<&str, (&SourceIdentity, Position)> = BTreeMap::new();
    for (stamp, stands) in tables {
        let at = smallest.entry(&stamp.source.0).or_insert_with(|| (&stamp.source, stands.clone()));
        at.1 = at.1.meet(stands);
    }
    smallest.values().try_for_each(|(identity, at)| ports.source.same_log(log, identity, at))
}

/// Tables about to be loaded are loaded as they are now. One that cannot be read stops; the others go on.
async fn describe_loads(ports: &mut Ports, found: &mut [Found], plan: &Plan) -> Result<BTreeMap<usize, StopReason>> {
    let mut unreadable = BTreeMap::new();
    for (index, (table, planned)) in found.iter_mut().zip(&plan.tables).enumerate() {
        if !matches!(planned.fate, Fate::Load(_)) || table.lake.stamp.is_none() {
            continue;
        }
        match ports.source.describe(&table.name).await {
            Ok(schema) => table.schema = schema,
            Err(error) if error.kind() == ErrorKind::Config => {
                let remedy = format!("mend it, then run `calve reload {}`", table.name);
                unreadable
                    .insert(index, StopReason { state: "cannot be read".into(), detail: describe(&error), remedy });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(unreadable)
}

fn entry(found: &Found, planned: &crate::recover::PlannedTable) -> Entry {
    Entry {
        name: found.name.clone(),
        schema: Arc::clone(&found.schema),
        version: found.lake.version.clone(),
        base: found.lake.checkpoint(),
        load: found.lake.stamp.as_ref().map(|stamp| stamp.load),
        changes: found.lake.stamp.as_ref().map_or(0, |stamp| stamp.changes),
        position: planned.position.clone(),
        upto: planned.upto.clone(),
        standing: match planned.fate {
            Fate::Stream => Standing::Streaming,
            Fate::Load(_) => Standing::Loading,
            Fate::Stopped(..) => Standing::Stopped,
        },
        marked: found.lake.stopped.is_some(),
        member_of: found.lake.member_of.clone(),
        known_sets: found.lake.complete_to.iter().map(|c| c.members).chain(found.lake.member_of.clone()).collect(),
        staged: Vec::new(),
        reshaped: None,
        reshapes: Vec::new(),
        kept: Vec::new(),
        settles: None,
        loaded: None,
        swept: false,
    }
}

/// Finishes what was intended, then reads, loads and commits side by side until one of them has a reason to end.
#[expect(clippy::too_many_arguments, reason = "the parts of a session, put together in one place")]
async fn run(
    source: &mut dyn calve_core::ChangeSource,
    control: &Control,
    carried: &mut Carried,
    found: &[Found],
    plan: &Plan,
    unreadable: BTreeMap<usize, StopReason>,
    committer: &mut Committer<'_>,
    notices: &mut mpsc::UnboundedReceiver<Notice>,
) -> std::result::Result<End, Halt> {
    delete_at_start(committer).await;
    mark(found, plan, unreadable, committer).await?;
    carried.reload.clear();
    for redo in &plan.redo {
        committer.redo(redo, plan.partial).await?;
    }
    if plan.partial {
        committer.positions.drop_intents()?;
        return Ok(End::Again);
    }

    // What was redone may have ended under another schema than it was found with.
    let entries = &committer.ledger.entries;
    let followed: Vec<SourceTable> = entries
        .iter()
        .map(|entry| SourceTable { name: entry.name.clone(), schema: Arc::clone(&entry.schema) })
        .collect();
    source.start(&plan.read, &followed).await?;
    let (finished, loads) = mpsc::channel(1);
    let load = start_load(source, committer, finished).await?;
    report(committer, plan);
    // What the lake recorded before a crash may not have been acknowledged.
    committer.acknowledge();

    let entries = &committer.ledger.entries;
    let after = |entry: &Entry| match entry.standing {
        Standing::Streaming => entry.position.clone(),
        Standing::Loading => Some(entry.upto.clone()),
        Standing::Stopped => None,
    };
    let settings = committer.settings;
    let limits = Limits {
        rows: settings.checkpoint_rows,
        bytes: usize::try_from(settings.checkpoint_bytes).unwrap_or(usize::MAX),
    };
    let slots = entries.iter().map(|entry| (Arc::clone(&entry.schema), after(entry))).collect();
    let changes = entries.iter().map(|entry| match entry.standing {
        Standing::Streaming => entry.changes,
        Standing::Loading | Standing::Stopped => 0,
    });
    let (work, works) = mpsc::channel(1);
    let reader = Reader {
        source,
        assembler: Assembler::new(plan.read.clone(), slots, limits, settings).after_changes(changes),
        environment: committer.environment,
        observer: committer.observer,
        settings,
        control,
        work,
        notices,
        loading: (0..entries.len()).filter(|&i| entries[i].standing == Standing::Loading).map(TableIndex).collect(),
        settles: (0..entries.len()).filter(|&i| entries[i].settles.is_some()).map(TableIndex).collect(),
        target: carried.target.clone(),
        sealed: committer.environment.now(),
        reload_due: None,
    };
    together(reader, load, committer, works, loads).await
}

/// The mistake of trusting that nobody refers to a file, because nobody does now.
async fn delete_at_start(committer: &Committer<'_>) {
    if !committer.ledger.rules.broken(Mutation::DeleteAtStart) {
        return;
    }
    let saved = committer.positions.load().unwrap_or_default();
    let files = |table: &TableName| {
        let parts = saved.intents.iter().flat_map(|intent| &intent.tables).filter(|part| part.table == *table);
        parts.flat_map(|part| &part.deltas).flat_map(|delta| delta.files.iter().cloned()).collect()
    };
    for entry in &committer.ledger.entries {
        let found = committer.lake.unreferenced_files(&entry.name, &files(&entry.name)).await.unwrap_or_default();
        let _ = committer.lake.delete_unreferenced(&entry.name, &found).await;
    }
}

/// Tables that do not stream say so in the lake before any completeness passes them.
async fn mark(
    found: &[Found],
    plan: &Plan,
    mut unreadable: BTreeMap<usize, StopReason>,
    committer: &mut Committer<'_>,
) -> std::result::Result<(), Halt> {
    for (index, (table, planned)) in found.iter().zip(&plan.tables).enumerate() {
        if let Some(reason) = unreadable.remove(&index) {
            committer.stop(TableIndex(index), reason).await?;
            continue;
        }
        match &planned.fate {
            Fate::Load(Some(reason)) | Fate::Stopped(reason, true) => {
                let at = planned.bound.clone();
                committer.mark(index, StopMark { at, reason: reason.clone() }).await?;
            }
            Fate::Stream if table.lake.stopped.is_some() => committer.unmark(index).await?,
            _ => {}
        }
        if let Fate::Stopped(reason, _) = &planned.fate {
            let (table, state) = (table.name.clone(), TableState::Stopped(reason.clone()));
            committer.observer.event(&Event::State { table, state });
        }
    }
    Ok(())
}

/// Fixes the position of this session's loads, if any table needs one.
async fn start_load<'a>(
    source: &mut dyn calve_core::ChangeSource,
    committer: &mut Committer<'a>,
    finished: mpsc::Sender<Finished>,
) -> std::result::Result<Option<Load<'a>>, Halt> {
    let (writer, observer) = (committer.writer, committer.observer);
    let values = &committer.settings.values;
    let tables: BTreeMap<TableName, TableIndex> = committer
        .ledger
        .entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.standing == Standing::Loading)
        .map(|(index, entry)| (entry.name.clone(), TableIndex(index)))
        .collect();
    if tables.is_empty() {
        return Ok(None);
    }
    let names: Vec<TableName> = tables.keys().cloned().collect();
    let reader = source.start_load(&names).await?;
    for (name, index) in &tables {
        let entry = &mut committer.ledger.entries[index.0];
        if reader.schema(name).as_deref() != Some(&*entry.schema) {
            let message = format!("table {name} was altered while its load began");
            return Err(Error::new(ErrorKind::Retry, message).into());
        }
        let exact = reader.exact(name);
        let drifts = exact.is_none() && reader.settled() != reader.position();
        entry.upto = exact.unwrap_or_else(|| reader.position()).clone();
        entry.settles = drifts.then(|| reader.settled().clone());
    }
    Ok(Some(Load { reader, tables, writer, values, observer, finished }))
}

fn report(committer: &Committer<'_>, plan: &Plan) {
    let entries = &committer.ledger.entries;
    let tables = entries.iter().filter(|entry| entry.standing != Standing::Stopped).count();
    committer.observer.event(&Event::Started { resume: plan.read.clone(), tables });
    for entry in entries {
        let state = match entry.standing {
            Standing::Streaming => TableState::Streaming,
            Standing::Loading => TableState::Loading,
            Standing::Stopped => continue,
        };
        committer.observer.event(&Event::State { table: entry.name.clone(), state });
    }
}

/// Reader, loads and committer as one task. The reader's end lets the committer finish what it was given; the committer's
/// end, or a failed load, ends everything.
async fn together(
    reader: Reader<'_>,
    load: Option<Load<'_>>,
    committer: &mut Committer<'_>,
    works: mpsc::Receiver<(crate::assemble::Work, Weight)>,
    loads: mpsc::Receiver<Finished>,
) -> std::result::Result<End, Halt> {
    let mut reading = Some(Box::pin(reader.run()));
    let loading = async {
        match load {
            Some(load) => load.run().await,
            None => Ok(()),
        }
    };
    let committing = committer.run(works, loads);
    tokio::pin!(loading, committing);
    let (mut read, mut loaded) = (None, false);
    let outcome = loop {
        let reader = async {
            match &mut reading {
                Some(reading) => reading.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            result = &mut committing => break result,
            result = reader, if read.is_none() => read = Some(result),
            result = &mut loading, if !loaded && read.is_none() => {
                loaded = true;
                if let Err(error) = result {
                    // Nothing more comes, but what was sent is settled first: it may have been applied, or be yet.
                    read = Some(Err(error));
                }
            }
        }
        if read.is_some() {
            reading = None;
        }
    };
    outcome?;
    match read {
        Some(Ok(ReadEnd::Finished)) => Ok(End::Done),
        Some(Ok(ReadEnd::Reload)) => Ok(End::Again),
        Some(Err(error)) => Err(error.into()),
        Some(Ok(ReadEnd::CommitterGone)) | None => {
            Err(Error::new(ErrorKind::Bug, "the committer ended without a reason").into())
        }
    }
}
