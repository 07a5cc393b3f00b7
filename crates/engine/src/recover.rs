//! Where to go on after any start: the lake first, then what local state can save.
//!
//! A pure function from what the tables say of themselves, what local state remembers, and where the log stands, to a plan.
//! Every start and every reconnect goes through it; there is no second path.

use std::collections::BTreeSet;
use std::sync::Arc;

use calve_core::{
    CheckpointId, CheckpointIntent, CommitReceipt, Error, ErrorKind, LakeTable, MemberDigest, Position, Result,
    SavedState, Stamp, StopMark, StopReason, TableName, TableSchema,
};

use crate::settings::{Mutation, Rules};

/// A table as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) name: TableName,
    /// The schema of its rows so far; of the source now, where nothing was loaded yet.
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) lake: LakeTable,
    /// It shall be read again.
    pub(crate) reload: bool,
}

/// What becomes of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Goes on from the stream.
    Stream,
    /// Is read (again). With a reason it must first be marked, durably, as not streaming.
    Load(Option<StopReason>),
    /// Stays as it is. With `true` the mark is not in the lake yet.
    Stopped(StopReason, bool),
}

/// One table in the plan.
#[derive(Clone, Debug)]
pub(crate) struct PlannedTable {
    pub(crate) fate: Fate,
    /// What the table will record once the intents are redone.
    pub(crate) checkpoint: Option<CheckpointId>,
    /// And its position then.
    pub(crate) position: Option<Position>,
    /// Complete up to here now, by its own position and every completeness that names it.
    pub(crate) bound: Option<Position>,
    /// Where the committer counts from: `bound`, or where reading resumes if that is further.
    pub(crate) upto: Position,
}

/// An intent to be finished: which of its tables still have to be committed.
#[derive(Clone, Debug)]
pub(crate) struct Redo {
    pub(crate) intent: CheckpointIntent,
    pub(crate) todo: BTreeSet<TableName>,
}

/// The way on.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) tables: Vec<PlannedTable>,
    pub(crate) redo: Vec<Redo>,
    /// Some table has moved past an intent, or an intent does not speak for it: finish the intents, then recover again.
    pub(crate) partial: bool,
    /// Read the log from here.
    pub(crate) read: Position,
    /// The greatest completeness in the lake that names all streaming tables.
    pub(crate) recorded: Option<CommitReceipt>,
}

/// Makes the plan. `acknowledged` is where the source's log begins for this pipeline, `fresh` where reading begins when no
/// table streams.
pub(crate) fn recover(
    tables: &[Found],
    saved: &SavedState,
    acknowledged: &Position,
    fresh: &Position,
    rules: Rules,
) -> Result<Plan> {
    let completes: Vec<(&MemberDigest, &Position)> =
        tables.iter().flat_map(|t| &t.lake.complete_to).map(|c| (&c.members, &c.position)).collect();
    let bounds: Vec<Option<Position>> = tables.iter().map(|table| bound(table, &completes)).collect();
    let fates: Vec<Fate> =
        tables.iter().zip(&bounds).map(|(table, bound)| fate(table, bound.as_ref(), acknowledged, rules)).collect();
    let streaming = |i: usize| fates[i] == Fate::Stream;

    refuse_gap(tables, &completes, acknowledged)?;

    let resume = resume(tables, &bounds, &fates, saved, fresh, rules);
    let mut planned: Vec<PlannedTable> = tables
        .iter()
        .zip(&bounds)
        .zip(&fates)
        .map(|((table, bound), fate)| PlannedTable {
            fate: fate.clone(),
            checkpoint: table.lake.checkpoint(),
            position: table.lake.stamp.as_ref().map(|stamp| stamp.position.clone()),
            bound: bound.clone(),
            upto: bound.as_ref().map_or_else(|| resume.clone(), |bound| bound.join(&resume)),
        })
        .collect();

    let mut redo: Vec<Redo> = Vec::new();
    let mut partial = false;
    for intent in &saved.intents {
        let mut todo = BTreeSet::new();
        for part in &intent.tables {
            let Some(i) = tables.iter().position(|table| table.name == part.table) else {
                partial = true; // no longer followed
                continue;
            };
            let plan = &mut planned[i];
            if plan.checkpoint == Some(intent.id) {
                continue; // done before
            }
            let at_base = plan.checkpoint == Some(part.base) || rules.broken(Mutation::IntentUnchecked);
            if streaming(i) && at_base {
                todo.insert(part.table.clone());
                plan.checkpoint = Some(intent.id);
                plan.position = Some(part.high.clone());
            } else {
                partial = true;
            }
        }
        partial |= redo.is_empty() && !resume.covers(&intent.start);
        if !rules.broken(Mutation::IntentForAll) {
            partial |= (0..tables.len()).any(|i| {
                let reached = bounds[i].as_ref().is_some_and(|bound| bound.covers(&intent.end));
                streaming(i) && !intent.covers.contains(&tables[i].name) && !reached
            });
        }
        redo.push(Redo { intent: intent.clone(), todo });
    }

    // A log that is asked for less than it has begins where it begins, silently; saying so here keeps the books honest.
    let mut read = resume.join(acknowledged);
    if let Some(last) = redo.last()
        && !partial
    {
        read = read.join(&last.intent.end);
    }
    let recorded = recorded(tables, &fates);
    Ok(Plan { tables: planned, redo, partial, read, recorded })
}

/// A table is complete up to its own position and up to every completeness that names it.
fn bound(table: &Found, completes: &[(&MemberDigest, &Position)]) -> Option<Position> {
    let own = table.lake.stamp.as_ref()?.position.clone();
    let named = completes.iter().filter(|(members, _)| table.lake.member_of.contains(*members));
    Some(named.fold(own, |bound, (_, position)| bound.join(position)))
}

fn fate(table: &Found, bound: Option<&Position>, acknowledged: &Position, rules: Rules) -> Fate {
    if bound.is_some() && rules.broken(Mutation::UnstopFirst) {
        return Fate::Stream;
    }
    if let Some(StopMark { reason, .. }) = &table.lake.stopped {
        // Until the mark goes the table is not streaming, whatever its position is.
        return match (reason.state == StopReason::RELOADING, table.reload) {
            (true, _) => Fate::Load(None),
            (false, true) => Fate::Load(Some(reloading("it is read again on request"))),
            (false, false) => Fate::Stopped(reason.clone(), false),
        };
    }
    let Some(bound) = bound else { return Fate::Load(None) };
    if table.reload {
        return Fate::Load(Some(reloading("it is read again on request")));
    }
    if table.lake.rolled_back {
        let reason = StopReason {
            state: "rolled back".into(),
            detail: "its main branch was moved to a snapshot that calve did not write last".into(),
            remedy: format!("run `calve reload {}` to read it again", table.name),
        };
        return Fate::Stopped(reason, true);
    }
    if bound.covers(acknowledged) {
        return Fate::Stream;
    }
    // What a log holds, and what was deleted, is in no other place. As long as the table is as its load made it there is no such thing,
    // but for rows that went while it was read, where such changes are part of the load.
    let holds_history = |stamp: &Stamp| {
        let part_of_load = stamp.schema.retires_rows() && !matches!(stamp.position, Position::Postgres(_));
        stamp.schema.keeps_history() && (stamp.checkpoint != stamp.load || part_of_load)
    };
    if table.lake.stamp.as_ref().is_some_and(holds_history) {
        let reason = StopReason {
            state: "log lost".into(),
            detail: "the source's log does not hold all of its changes any more".into(),
            remedy: format!("run `calve reload {}` to replace it by the rows as they are now", table.name),
        };
        return Fate::Stopped(reason, true);
    }
    Fate::Load(Some(reloading("the log it needs is gone, so it is read again")))
}

/// The reason in the mark of a table that is about to be read again.
pub(crate) fn reloading(detail: &str) -> StopReason {
    StopReason {
        state: StopReason::RELOADING.into(),
        detail: detail.into(),
        remedy: "nothing to do: it streams again once it is loaded".into(),
    }
}

/// Only completeness that is in the lake is ever acknowledged: a log that begins beyond all of it lost something.
/// What is recorded may be of other logs beside this one, in other words: any of it that covers the beginning will do, and what
/// each table lacks is seen table by table.
fn refuse_gap(tables: &[Found], completes: &[(&MemberDigest, &Position)], acknowledged: &Position) -> Result<()> {
    let follows = |t: &Found| t.lake.stamp.is_some() && !t.reload && t.lake.stopped.is_none();
    if !tables.iter().any(follows) {
        return Ok(());
    }
    let stamped = tables.iter().filter_map(|t| t.lake.stamp.as_ref()).map(|stamp| &stamp.position);
    let recorded: Vec<&Position> = stamped.chain(completes.iter().map(|(_, position)| *position)).collect();
    if recorded.iter().any(|position| position.covers(acknowledged)) {
        return Ok(());
    }
    let greatest =
        recorded.into_iter().cloned().reduce(|a, b| a.join(&b)).map_or_else(String::new, |at| at.to_string());
    Err(Error::new(
        ErrorKind::SourceGone,
        format!(
            "the source's log begins at {acknowledged}, beyond everything the lake records ({greatest}): changes in between are \
             lost; run `calve reload --all` to read the tables again"
        ),
    ))
}

fn resume(
    tables: &[Found],
    bounds: &[Option<Position>],
    fates: &[Fate],
    saved: &SavedState,
    fresh: &Position,
    rules: Rules,
) -> Position {
    let own = || tables.iter().filter_map(|t| t.lake.stamp.as_ref()).map(|stamp| stamp.position.clone());
    if rules.broken(Mutation::ResumeGreatest) {
        return own().reduce(|a, b| a.join(&b)).unwrap_or_else(|| fresh.clone());
    }
    if rules.broken(Mutation::ResumeSmallest) {
        return own().reduce(|a, b| a.meet(&b)).unwrap_or_else(|| fresh.clone());
    }
    let streaming = || tables.iter().zip(bounds).zip(fates).filter(|(_, fate)| **fate == Fate::Stream);
    let smallest = streaming().filter_map(|((_, bound), _)| bound.clone()).reduce(|a, b| a.meet(&b));
    let Some(smallest) = smallest else { return fresh.clone() };
    // Local state knows of stretches of log without changes, which the lake need not record. It is believed only for the
    // tables it names, as their loads have made them, and only as far as the lake confirms that it is not from the future.
    let Some((position, members)) = &saved.position else { return smallest };
    let confirmed = own().any(|own| own.covers(position));
    let loads = streaming().filter_map(|((table, _), _)| Some((&table.name, table.lake.stamp.as_ref()?.load)));
    if confirmed && position.covers(&smallest) && MemberDigest::of(loads) == *members {
        return position.clone();
    }
    smallest
}

fn recorded(tables: &[Found], fates: &[Fate]) -> Option<CommitReceipt> {
    let mut streaming = tables.iter().zip(fates).filter(|(_, fate)| **fate == Fate::Stream).map(|(table, _)| table);
    let mut common = streaming.next()?.lake.member_of.clone();
    for table in streaming {
        common.retain(|members| table.lake.member_of.contains(members));
    }
    let receipts = tables.iter().flat_map(|t| common.iter().map(|members| t.lake.receipt(*members)));
    receipts.filter(|r| r.complete_to.is_some()).reduce(|a, b| {
        let covers = |x: &CommitReceipt, y: &CommitReceipt| match (&x.complete_to, &y.complete_to) {
            (Some(x), Some(y)) => x.position.covers(&y.position),
            _ => false,
        };
        if covers(&a, &b) { a } else { b }
    })
}

#[cfg(test)]
mod tests {
    use calve_core::{CompleteTo, LakeVersion, SourceIdentity, Stamp};
    use uuid::Uuid;

    use super::*;

    fn at(text: &str) -> Position {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    /// A table loaded at a position, which belongs to the sets named and records the completeness given.
    fn table(name: &str, position: &str, member_of: &[MemberDigest], complete_to: Vec<CompleteTo>) -> Found {
        let name = TableName::new("shop", name);
        let schema = TableSchema::new(name.clone(), 0, Vec::new(), Vec::new());
        let id = CheckpointId(Uuid::from_u128(7));
        let stamp = Stamp {
            checkpoint: id,
            position: at(position),
            schema: Arc::new(schema.clone()),
            source: SourceIdentity(String::new()),
            load: id,
            changes: 0,
        };
        let lake = LakeTable {
            version: LakeVersion(String::new()),
            stamp: Some(stamp),
            rolled_back: false,
            complete_to,
            member_of: member_of.iter().copied().collect(),
            stopped: None,
        };
        Found { name, schema: Arc::new(schema), lake, reload: false }
    }

    fn begins(tables: &[Found], acknowledged: &str) -> Result<Plan> {
        let begin = at(acknowledged);
        recover(tables, &SavedState::default(), &begin, &begin, Rules::default())
    }

    #[test]
    fn a_log_that_begins_beyond_all_that_is_recorded_is_refused() {
        let set = MemberDigest(Uuid::from_u128(1));
        let complete = |position| vec![CompleteTo { members: set, position: at(position) }];
        let tables = [
            table("a", "postgres:0/5", &[set], complete("postgres:0/9")),
            table("b", "postgres:0/7", &[set], Vec::new()),
        ];
        for (acknowledged, accepted) in [("postgres:0/9", true), ("postgres:0/A", false)] {
            assert_eq!(begins(&tables, acknowledged).is_ok(), accepted, "{acknowledged}");
        }
    }

    /// What is in no other place is not replaced unasked.
    #[test]
    fn a_log_of_changes_that_lacks_some_stops() {
        let set = MemberDigest(Uuid::from_u128(1));
        let complete = vec![CompleteTo { members: set, position: at("postgres:0/9") }];
        let behind = table("b", "postgres:0/5", &[], Vec::new());
        let mut log = table("c", "postgres:0/5", &[], Vec::new());
        let stamp = log.lake.stamp.as_mut().unwrap();
        let mode = calve_core::TableMode::Append { preimages: false };
        stamp.schema = Arc::new(TableSchema { mode, ..(*stamp.schema).clone() });
        let mut just_loaded = log.clone();
        just_loaded.name = TableName::new("shop", "d");
        log.lake.stamp.as_mut().unwrap().load = CheckpointId(Uuid::from_u128(1000));
        let tables = [table("a", "postgres:0/5", &[set], complete), behind, log, just_loaded];
        let plan = begins(&tables, "postgres:0/8").unwrap();
        assert_eq!(plan.tables[0].fate, Fate::Stream);
        assert!(matches!(plan.tables[1].fate, Fate::Load(Some(_))), "{:?}", plan.tables[1].fate);
        assert!(matches!(plan.tables[3].fate, Fate::Load(Some(_))), "{:?}", plan.tables[3].fate);
        let Fate::Stopped(reason, true) = &plan.tables[2].fate else { panic!("{:?}", plan.tables[2].fate) };
        assert!(reason.state == "log lost" && reason.remedy.contains("calve reload shop.c"), "{reason:?}");
    }

    /// Read again from a log that was reset, or from another server, a table stands where the log's names may be smaller than
    /// those that local state remembers, or the same for other transactions. Believed, they would leave out what is between.
    #[test]
    fn local_state_of_before_a_table_was_read_again_is_not_believed() {
        let (before, after) = (CheckpointId(Uuid::from_u128(6)), CheckpointId(Uuid::from_u128(7)));
        let names = [TableName::new("shop", "a"), TableName::new("shop", "b")];
        let set = |load| MemberDigest::of(names.iter().map(|name| (name, load)));
        let tables = [table("a", "postgres:0/5", &[], Vec::new()), table("b", "postgres:0/9", &[], Vec::new())];
        let begin = at("postgres:0/1");
        for (saved, members, read) in [
            // One table confirms that the log is so far, and the other had no change since: what local state is for.
            ("postgres:0/9", set(after), "postgres:0/9"),
            ("postgres:0/9", set(before), "postgres:0/5"),
            // Nothing in the lake is so far.
            ("postgres:0/A", set(after), "postgres:0/5"),
        ] {
            let saved = SavedState { position: Some((at(saved), members)), intents: Vec::new() };
            let plan = recover(&tables, &saved, &begin, &begin, Rules::default()).unwrap();
            assert_eq!(plan.read, at(read), "{saved:?}");
        }
    }

    /// The digests of sets have no order, so neither may be the one that decides.
    #[test]
    fn completeness_recorded_in_other_words_refuses_nothing() {
        let (old, new) = (MemberDigest(Uuid::from_u128(1)), MemberDigest(Uuid::from_u128(2)));
        let complete = |members, position| CompleteTo { members, position: at(position) };
        let before = complete(old, "binlog:b.000003:460;created=1");
        let now = complete(new, "mysql:3e11fa47-71ca-11e1-9e33-c80aa9429562:1@b.000004:400");
        for complete_to in [vec![before.clone(), now.clone()], vec![now, before]] {
            let position = "mysql:3e11fa47-71ca-11e1-9e33-c80aa9429562:1@b.000004:300";
            let plan = begins(&[table("a", position, &[new], complete_to)], "mysql:@b.000001:4");
            assert_eq!(plan.unwrap().tables[0].fate, Fate::Stream);
        }
    }
}
