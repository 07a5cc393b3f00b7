//! What calve writes on a table about itself: as table properties, and in the summary of the snapshot that carries it.
//!
//! The properties survive the expiry of snapshots; the summary goes with the snapshot, and so shows what a table that was
//! rolled back really holds.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use calve_core::{
    CheckpointId, CompleteTo, Error, ErrorKind, MemberDigest, Position, Result, SourceIdentity, StagedDelta, Stamp,
    StopMark, Substituted, TableName, TableSchema,
};
use iceberg::spec::{SnapshotRef, TableMetadata};
use uuid::Uuid;

/// Version of all that is written below. A table with a greater one was written by a later calve.
const FORMAT: &str = "calve.format";
const PRESENT_FORMAT: u32 = 1;
/// The pipeline that owns the table.
const PIPELINE: &str = "calve.pipeline";
/// The source table whose rows it holds.
const SOURCE_TABLE: &str = "calve.source-table";
/// The stamp, in properties and summary.
const CHECKPOINT: &str = "calve.checkpoint";
const POSITION: &str = "calve.position";
const SOURCE: &str = "calve.source";
/// The id of the load that the rows began with.
const LOAD: &str = "calve.load";
/// Changes of a table that keeps a log of them, in properties only.
const CHANGES: &str = "calve.changes";
/// The source's schema as JSON, in properties only: it is large, and a thousand summaries are kept.
const SOURCE_SCHEMA: &str = "calve.source-schema";
/// Names the source's schema in a summary.
const SOURCE_SCHEMA_DIGEST: &str = "calve.source-schema-digest";
/// Which part of a commit of several snapshots a snapshot is: `2 of 3`.
const PART: &str = "calve.part";
/// Each completeness lies under a key of its own, `calve.complete-to.<digest>.<position>`, so that a late writer cannot lower one.
const COMPLETE_TO: &str = "calve.complete-to.";
/// `calve.member-of.<digest>`.
const MEMBER_OF: &str = "calve.member-of.";
/// Values read since the load, the load's own among them, that became NULL because the lake cannot hold them.
const NULLED: &str = "calve.nulled-values";
/// As [`NULLED`], of values that became the nearest one that the lake holds.
const CLAMPED: &str = "calve.clamped-values";
/// The id of the partition spec that calve gave the table; absent: 0.
const PARTITION_SPEC: &str = "calve.partition-spec";
/// The stop mark as JSON.
const STOPPED: &str = "calve.stopped";

/// Everything that a table's properties say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) stamp: Option<Stamp>,
    /// The schema the table was made for or stamped with last.
    pub(crate) schema: Option<Arc<TableSchema>>,
    pub(crate) complete_to: Vec<CompleteTo>,
    pub(crate) member_of: BTreeSet<MemberDigest>,
    pub(crate) stopped: Option<StopMark>,
    pub(crate) substituted: Substituted,
}

/// Changes to a table's properties.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PropertyChanges {
    pub(crate) set: HashMap<String, String>,
    pub(crate) remove: BTreeSet<String>,
}

impl PropertyChanges {
    fn remove(&mut self, key: String) {
        self.set.remove(&key);
        self.remove.insert(key);
    }
}

/// The properties that a new table begins with.
pub(crate) fn owner_properties(pipeline: &str, source: &TableSchema) -> Result<HashMap<String, String>> {
    Ok(HashMap::from([
        (FORMAT.to_owned(), PRESENT_FORMAT.to_string()),
        (PIPELINE.to_owned(), pipeline.to_owned()),
        (SOURCE_TABLE.to_owned(), source.table.to_string()),
        (SOURCE_SCHEMA.to_owned(), json(&source.table, source)?),
    ]))
}

/// Refuses a table that is not `pipeline`'s table for `source`. `target` is its name in the lake.
pub(crate) fn check_owner(
    properties: &HashMap<String, String>,
    pipeline: &str,
    source: &TableName,
    target: &str,
) -> Result<()> {
    let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
    match properties.get(PIPELINE) {
        None => {
            return refuse(format!(
                "table {target} exists in the lake and was not made by calve: choose another target for {source}, drop \
                 the table, or have its rows replaced by setting its property {PIPELINE} to '{pipeline}'"
            ));
        }
        Some(owner) if owner != pipeline => {
            return refuse(format!(
                "table {target} in the lake belongs to pipeline '{owner}', not to '{pipeline}': choose another target \
                 for {source}, or run the pipeline under its name (--name {owner})"
            ));
        }
        Some(_) => {}
    }
    if let Some(other) = properties.get(SOURCE_TABLE)
        && *other != source.to_string()
    {
        return refuse(format!(
            "table {target} in the lake holds the rows of {other}, not of {source}: choose another target for one of them"
        ));
    }
    match properties.get(FORMAT).map(|text| text.parse::<u32>()) {
        None | Some(Ok(1..=PRESENT_FORMAT)) => Ok(()),
        Some(_) => refuse(format!(
            "table {target} in the lake was written by a later version of calve (its property {FORMAT} is above \
             {PRESENT_FORMAT}): run that version"
        )),
    }
}

/// The property that says which partition spec is calve's.
pub(crate) fn spec_property(spec_id: i32) -> (String, String) {
    (PARTITION_SPEC.to_owned(), spec_id.to_string())
}

/// The partition spec that calve gave the table.
pub(crate) fn spec_of(source: &TableName, properties: &HashMap<String, String>) -> Result<i32> {
    properties.get(PARTITION_SPEC).map_or(Ok(0), |text| text.parse().map_err(|_| damaged(source, PARTITION_SPEC)))
}

impl Marks {
    /// Reads what the properties of `source`'s table say.
    pub(crate) fn read(properties: &HashMap<String, String>, source: &TableName) -> Result<Self> {
        let schema = match properties.get(SOURCE_SCHEMA) {
            None => None,
            Some(text) => Some(Arc::new(parse_json::<TableSchema>(source, SOURCE_SCHEMA, text)?)),
        };
        let mut complete_to = Vec::new();
        let mut member_of = BTreeSet::new();
        for key in properties.keys() {
            if let Some(rest) = key.strip_prefix(COMPLETE_TO) {
                let (members, position) = rest.split_once('.').ok_or_else(|| damaged(source, key))?;
                complete_to.push(CompleteTo {
                    members: members.parse().map_err(|_| damaged(source, key))?,
                    position: position.parse().map_err(|_| damaged(source, key))?,
                });
            } else if let Some(digest) = key.strip_prefix(MEMBER_OF) {
                member_of.insert(digest.parse().map_err(|_| damaged(source, key))?);
            }
        }
        complete_to.sort_by_key(|c: &CompleteTo| (c.members, c.position.to_string()));
        let stopped = match properties.get(STOPPED) {
            None => None,
            Some(text) => Some(parse_json(source, STOPPED, text)?),
        };
        let count = |key| match properties.get(key) {
            None => Ok(0),
            Some(text) => text.parse().map_err(|_| damaged(source, key)),
        };
        let substituted = Substituted { nulled: count(NULLED)?, clamped: count(CLAMPED)? };
        let stamp = read_stamp(properties, schema.as_ref(), source)?;
        Ok(Self { stamp, schema, complete_to, member_of, stopped, substituted })
    }
}

fn read_stamp(
    properties: &HashMap<String, String>,
    schema: Option<&Arc<TableSchema>>,
    source: &TableName,
) -> Result<Option<Stamp>> {
    let Some(checkpoint) = properties.get(CHECKPOINT) else { return Ok(None) };
    let get = |key: &str| properties.get(key).ok_or_else(|| damaged(source, key));
    Ok(Some(Stamp {
        checkpoint: checkpoint.parse().map_err(|_| damaged(source, CHECKPOINT))?,
        position: get(POSITION)?.parse().map_err(|_| damaged(source, POSITION))?,
        schema: schema.cloned().ok_or_else(|| damaged(source, SOURCE_SCHEMA))?,
        source: SourceIdentity(get(SOURCE)?.clone()),
        load: get(LOAD)?.parse().map_err(|_| damaged(source, LOAD))?,
        changes: match properties.get(CHANGES) {
            // What a table has that kept a log once says nothing any more.
            _ if schema.is_none_or(|schema| !schema.keeps_log()) => 0,
            None => 0,
            Some(text) => text.parse().map_err(|_| damaged(source, CHANGES))?,
        },
    }))
}

/// The stamp as properties.
pub(crate) fn stamp_properties(stamp: &Stamp, changes: &mut PropertyChanges) -> Result<()> {
    changes.set.extend([
        (CHECKPOINT.to_owned(), stamp.checkpoint.to_string()),
        (POSITION.to_owned(), stamp.position.to_string()),
        (SOURCE.to_owned(), stamp.source.0.clone()),
        (LOAD.to_owned(), stamp.load.to_string()),
        (SOURCE_SCHEMA.to_owned(), json(&stamp.schema.table, &*stamp.schema)?),
    ]);
    if stamp.schema.keeps_log() {
        changes.set.insert(CHANGES.to_owned(), stamp.changes.to_string());
    }
    Ok(())
}

/// The stamp in the summary of the snapshot that carries it.
pub(crate) fn stamp_summary(pipeline: &str, stamp: &Stamp, summary: &mut HashMap<String, String>) -> Result<()> {
    let schema = json(&stamp.schema.table, &*stamp.schema)?;
    summary.extend([
        (PIPELINE.to_owned(), pipeline.to_owned()),
        (CHECKPOINT.to_owned(), stamp.checkpoint.to_string()),
        (POSITION.to_owned(), stamp.position.to_string()),
        (SOURCE.to_owned(), stamp.source.0.clone()),
        (SOURCE_SCHEMA_DIGEST.to_owned(), Uuid::new_v5(&Uuid::NAMESPACE_OID, schema.as_bytes()).simple().to_string()),
    ]);
    Ok(())
}

/// What a snapshot's summary says when it is not the last of its commit.
pub(crate) fn part_summary(pipeline: &str, part: usize, of: usize, summary: &mut HashMap<String, String>) {
    summary.insert(PIPELINE.to_owned(), pipeline.to_owned());
    summary.insert(PART.to_owned(), format!("{part} of {of}"));
}

/// The completeness recorded in a snapshot's summary, for those who read history.
pub(crate) fn complete_to_summary(complete_to: &CompleteTo, summary: &mut HashMap<String, String>) {
    summary.insert(format!("{COMPLETE_TO}{}", complete_to.members), complete_to.position.to_string());
}

/// Counts the values of these deltas that became NULL or another value; a table that is replaced begins anew.
pub(crate) fn substituted_properties(now: &Marks, deltas: &[StagedDelta], changes: &mut PropertyChanges) {
    let mut total = now.substituted;
    for delta in deltas {
        if delta.replace {
            total = Substituted::default();
        }
        total.add(Substituted { nulled: delta.nulled, clamped: delta.clamped });
    }
    let counts = [(NULLED, total.nulled, now.substituted.nulled), (CLAMPED, total.clamped, now.substituted.clamped)];
    for (key, count, _) in counts.into_iter().filter(|(_, count, before)| count != before) {
        changes.set.insert(key.to_owned(), count.to_string());
    }
}

/// The stop mark, or its removal.
pub(crate) fn stop_properties(table: &TableName, stop: Option<&StopMark>, changes: &mut PropertyChanges) -> Result<()> {
    match stop {
        Some(mark) => {
            changes.set.insert(STOPPED.to_owned(), json(table, mark)?);
        }
        None => changes.remove(STOPPED.to_owned()),
    }
    Ok(())
}

/// Records completeness and membership, given what the table says now. A completeness already covered is left as it is.
pub(crate) fn member_properties(
    now: &Marks,
    stamp: Option<&Stamp>,
    complete_to: Option<&CompleteTo>,
    join: &BTreeSet<MemberDigest>,
    leave: &BTreeSet<MemberDigest>,
    changes: &mut PropertyChanges,
) {
    if let Some(new) = complete_to {
        let same_set = || now.complete_to.iter().filter(|old| old.members == new.members);
        if !same_set().any(|old| old.position.covers(&new.position)) {
            changes.set.insert(complete_to_key(new), String::from("true"));
        }
        for smaller in same_set().filter(|old| new.position.covers(&old.position) && old.position != new.position) {
            changes.remove(complete_to_key(smaller));
        }
    }
    let replaced = stamp.zip(now.stamp.as_ref()).is_some_and(|(new, old)| new.load != old.load);
    if replaced {
        for digest in &now.member_of {
            changes.remove(format!("{MEMBER_OF}{digest}"));
        }
    }
    for digest in join.difference(leave) {
        if replaced || !now.member_of.contains(digest) {
            changes.set.insert(format!("{MEMBER_OF}{digest}"), String::from("true"));
        }
    }
    // Another process may have recorded more of a set than whoever leaves it knows: that stays, it may be acknowledged.
    let said = |old: &CompleteTo| complete_to.is_some_and(|new| new.position.covers(&old.position));
    for digest in leave {
        let recorded = || now.complete_to.iter().filter(|old| old.members == *digest);
        if !recorded().all(said) {
            continue;
        }
        if now.member_of.contains(digest) {
            changes.remove(format!("{MEMBER_OF}{digest}"));
        }
        for gone in recorded() {
            changes.remove(complete_to_key(gone));
        }
    }
}

/// The greatest completeness of a set that the table records once a commit that carries `new` is applied.
pub(crate) fn recorded(now: &Marks, new: &CompleteTo) -> CompleteTo {
    let position = now
        .complete_to
        .iter()
        .filter(|old| old.members == new.members)
        .fold(new.position.clone(), |greatest, old| greatest.join(&old.position));
    CompleteTo { members: new.members, position }
}

/// The checkpoint and position that a snapshot carries.
pub(crate) fn snapshot_stamp(snapshot: &SnapshotRef) -> Option<(CheckpointId, Option<Position>)> {
    let summary = &snapshot.summary().additional_properties;
    let checkpoint = summary.get(CHECKPOINT)?.parse().ok()?;
    Some((checkpoint, summary.get(POSITION).and_then(|text| text.parse().ok())))
}

/// Whether calve made the snapshot.
pub(crate) fn is_ours(snapshot: &SnapshotRef) -> bool {
    snapshot.summary().additional_properties.contains_key(PIPELINE)
}

/// Where the main branch stands among the stamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Nearest {
    /// The nearest ancestor of main that carries a stamp, and its checkpoint.
    Stamped(i64, CheckpointId),
    /// Main begins without one.
    Unstamped,
    /// The ancestors known end before one is met: older snapshots have expired.
    Expired,
}

/// Walks the main branch back to the nearest stamp.
pub(crate) fn nearest_stamped(metadata: &TableMetadata) -> Nearest {
    let Some(mut snapshot) = metadata.current_snapshot() else { return Nearest::Unstamped };
    // Parents are not checked by anybody; a circle must not hold us.
    for _ in 0..=metadata.snapshots().len() {
        if let Some((checkpoint, _)) = snapshot_stamp(snapshot) {
            return Nearest::Stamped(snapshot.snapshot_id(), checkpoint);
        }
        let Some(parent) = snapshot.parent_snapshot_id() else { return Nearest::Unstamped };
        match metadata.snapshot_by_id(parent) {
            Some(parent) => snapshot = parent,
            None => return Nearest::Expired,
        }
    }
    Nearest::Expired
}

/// Whether somebody moved the main branch away from the stamp that the properties record.
pub(crate) fn rolled_back(metadata: &TableMetadata, stamp: Option<&Stamp>) -> bool {
    match (stamp, nearest_stamped(metadata)) {
        (Some(stamp), Nearest::Stamped(_, checkpoint)) => checkpoint != stamp.checkpoint,
        (Some(_), Nearest::Unstamped) => true,
        (Some(_), Nearest::Expired) | (None, _) => false,
    }
}

fn complete_to_key(complete_to: &CompleteTo) -> String {
    format!("{COMPLETE_TO}{}.{}", complete_to.members, complete_to.position)
}

fn json<T: serde::Serialize + ?Sized>(table: &TableName, value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| Error::with_source(ErrorKind::Bug, format!("table {table}: a mark of it has no JSON form"), e))
}

fn parse_json<T: serde::de::DeserializeOwned>(table: &TableName, key: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| {
        let damaged = damaged(table, key);
        Error::with_source(damaged.kind(), damaged.to_string(), e)
    })
}

fn damaged(table: &TableName, key: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!(
            "table {table}: its property {key} in the lake is missing or damaged; restore the table's metadata, or drop \
             the table in the lake and have it loaded again"
        ),
    )
}

#[cfg(test)]
mod tests {
    use calve_core::{Column, ColumnType, Lsn, NativeType, StopReason};

    use super::*;

    fn table() -> TableName {
        TableName::new("public", "t")
    }

    fn schema() -> Arc<TableSchema> {
        Arc::new(TableSchema::new(
            table(),
            7,
            vec![Column {
                id: 0,
                name: String::from("id"),
                ty: ColumnType::Decimal { precision: 20, scale: 0 },
                nullable: false,
                native: NativeType::new(1700, 4, "numeric(20,0)"),
                usage: calve_core::ColumnUse::Values,
            }],
            vec![0],
        ))
    }

    fn at(lsn: u64) -> Position {
        Position::Postgres(Lsn(lsn))
    }

    fn complete(members: MemberDigest, lsn: u64) -> CompleteTo {
        CompleteTo { members, position: at(lsn) }
    }

    fn apply(properties: &mut HashMap<String, String>, changes: PropertyChanges) -> Marks {
        assert!(changes.set.keys().all(|key| !changes.remove.contains(key)));
        properties.extend(changes.set);
        properties.retain(|key, _| !changes.remove.contains(key));
        Marks::read(properties, &table()).unwrap()
    }

    #[test]
    fn marks_read_back_as_written() {
        let mut properties = owner_properties("p", &schema()).unwrap();
        let fresh = Marks::read(&properties, &table()).unwrap();
        assert_eq!((fresh.stamp.as_ref(), fresh.schema.as_ref()), (None, Some(&schema())));

        let stamp = Stamp {
            checkpoint: CheckpointId(Uuid::new_v4()),
            position: at(77),
            schema: schema(),
            source: SourceIdentity(String::from("7300/1/db/slot")),
            load: CheckpointId(Uuid::from_u128(3)),
            changes: 0,
        };
        let mark = StopMark {
            at: Some(at(5)),
            reason: StopReason { state: "s".into(), detail: "d".into(), remedy: "r".into() },
        };
        let mut changes = PropertyChanges::default();
        stamp_properties(&stamp, &mut changes).unwrap();
        stop_properties(&table(), Some(&mark), &mut changes).unwrap();
        let marks = apply(&mut properties, changes);
        assert_eq!((marks.stamp, marks.stopped), (Some(stamp), Some(mark)));

        let mut changes = PropertyChanges::default();
        stop_properties(&table(), None, &mut changes).unwrap();
        assert_eq!(apply(&mut properties, changes).stopped, None);
    }

    #[test]
    fn completeness_is_never_lowered_and_smaller_ones_go() {
        let (set, other) = (MemberDigest::of([(&table(), CheckpointId(Uuid::from_u128(3)))]), MemberDigest::of([]));
        let mut properties = owner_properties("p", &schema()).unwrap();
        let none = BTreeSet::new();
        let record =
            |properties: &mut HashMap<String, String>, new: &CompleteTo, join: &BTreeSet<_>, leave: &BTreeSet<_>| {
                let now = Marks::read(properties, &table()).unwrap();
                let mut changes = PropertyChanges::default();
                member_properties(&now, None, Some(new), join, leave, &mut changes);
                apply(properties, changes)
            };
        let joined = BTreeSet::from([set, other]);
        let marks = record(&mut properties, &complete(set, 10), &joined, &none);
        assert_eq!((marks.complete_to, marks.member_of), (vec![complete(set, 10)], joined));
        record(&mut properties, &complete(other, 5), &none, &none);
        let marks = record(&mut properties, &complete(set, 8), &none, &none);
        let mut expected = vec![complete(set, 10), complete(other, 5)];
        expected.sort_by_key(|c| c.members);
        assert_eq!(marks.complete_to, expected);
        assert_eq!(recorded(&marks, &complete(set, 8)), complete(set, 10));
        // Somebody who knows less of a set does not take away what is recorded of it.
        let marks = record(&mut properties, &complete(set, 4), &none, &BTreeSet::from([other]));
        assert_eq!((marks.complete_to, marks.member_of.contains(&other)), (expected, true));
        let marks = record(&mut properties, &complete(set, 12), &none, &BTreeSet::from([other]));
        assert_eq!(marks.complete_to, [complete(set, 12)]);
        assert_eq!(marks.member_of, BTreeSet::from([set]));
    }

    #[test]
    fn values_that_became_others_are_counted_from_the_load_on() {
        let mut properties = owner_properties("p", &schema()).unwrap();
        let delta = |replace, nulled, clamped| StagedDelta {
            replace,
            rows: 1,
            deletes: 0,
            reshapes: false,
            nulled,
            clamped,
            changes: 0,
            bytes: 0,
            files: Vec::new(),
            body: serde_json::Value::Null,
        };
        for (deltas, nulled, clamped) in [
            (vec![delta(true, 2, 7), delta(false, 1, 0)], 3, 7),
            (vec![delta(false, 0, 0)], 3, 7),
            (vec![delta(false, 4, 1), delta(false, 1, 1)], 8, 9),
            (vec![delta(false, 9, 9), delta(true, 1, 0), delta(false, 1, 3)], 2, 3),
            (vec![delta(true, 0, 0)], 0, 0),
        ] {
            let now = Marks::read(&properties, &table()).unwrap();
            let mut changes = PropertyChanges::default();
            substituted_properties(&now, &deltas, &mut changes);
            let expected = Substituted { nulled, clamped };
            assert_eq!(apply(&mut properties, changes).substituted, expected, "{deltas:?}");
        }
    }

    #[test]
    fn tables_of_others_are_refused_by_name() {
        let mine = owner_properties("mine", &schema()).unwrap();
        check_owner(&mine, "mine", &table(), "public.t").unwrap();
        let mut newer = mine.clone();
        newer.insert(FORMAT.to_owned(), String::from("2"));
        for (properties, pipeline, source, expected) in [
            (&mine, "yours", table(), "belongs to pipeline 'mine'"),
            (&mine, "mine", TableName::new("public", "u"), "holds the rows of public.t"),
            (&HashMap::new(), "mine", table(), "not made by calve"),
            (&newer, "mine", table(), "later version"),
        ] {
            let error = check_owner(properties, pipeline, &source, "public.t").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn damaged_marks_are_named() {
        for (key, value) in [
            ("calve.complete-to.xyz", "true"),
            ("calve.member-of.zz", "true"),
            ("calve.checkpoint", "1"),
            ("calve.stopped", "{"),
            ("calve.source-schema", "[]"),
        ] {
            let properties = HashMap::from([(key.to_owned(), value.to_owned())]);
            let error = Marks::read(&properties, &table()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{key}");
            assert!(error.to_string().contains("calve."), "{error}");
        }
    }
}
