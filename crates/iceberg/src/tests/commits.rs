//! What a commit leaves in the table.

use std::collections::BTreeSet;

use calve_core::{CompleteTo, DurablePosition, ErrorKind, Lake, MemberDigest, Onto, StopMark, StopReason, TableCommit};
use iceberg::spec::{ManifestStatus, Operation};

use super::fixture::{Orders, Scratch, at, files_under, load, owned, schema, stamp, table};
use crate::manifests::{read_list, read_manifest};

#[tokio::test]
async fn a_new_table_is_empty_unstamped_and_ours() {
    let scratch = Scratch::new();
    let lake = scratch.open().await;
    assert_eq!(lake.load(&table()).await.unwrap(), None);
    let created = lake.create(&schema()).await.unwrap();
    assert_eq!(created.stamp, None);
    assert!(!created.rolled_back && created.complete_to.is_empty() && created.stopped.is_none());
    assert_eq!(scratch.open().await.load(&table()).await.unwrap(), Some(created));
    // The catalog opens through the iceberg crate's own.
    let foreign = scratch.foreign_table().await;
    let metadata = foreign.metadata();
    assert_eq!(metadata.location(), format!("file://{}/warehouse/shop/orders", scratch.0.display()));
    assert_eq!(metadata.current_schema().identifier_field_ids().collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn rows_follow_checkpoint_by_checkpoint() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    let first = orders.put(&[(1, "a"), (2, "b")], &[]).await;
    assert_eq!(orders.rows().await, owned(&[(1, "a"), (2, "b")]));
    let second = orders.put(&[(2, "B"), (3, "c")], &[1, 2]).await;
    assert_eq!(orders.rows().await, owned(&[(2, "B"), (3, "c")]));

    let loaded = scratch.open().await.load(&table()).await.unwrap().unwrap();
    assert_eq!((loaded.stamp.as_ref(), loaded.rolled_back), (second.stamp.as_ref(), false));
    let foreign = scratch.foreign_table().await;
    let snapshots = foreign.metadata().snapshots().collect::<Vec<_>>();
    assert_eq!(snapshots.len(), 2);
    let current = foreign.metadata().current_snapshot().unwrap();
    let summary = &current.summary().additional_properties;
    assert_eq!(current.summary().operation, Operation::Overwrite);
    assert_eq!(summary["calve.checkpoint"], second.stamp.as_ref().unwrap().checkpoint.to_string());
    assert_ne!(summary["calve.checkpoint"], first.stamp.unwrap().checkpoint.to_string());
    for (key, value) in [
        ("total-records", "4"),
        ("total-data-files", "2"),
        ("total-delete-files", "1"),
        ("total-equality-deletes", "2"),
        ("added-records", "2"),
        ("calve.position", "postgres:0/14"),
    ] {
        assert_eq!(summary[key], value, "{key}");
    }
    let described = orders.lake.summary(&table()).await.unwrap().unwrap();
    assert_eq!((described.rows, described.snapshots), (Some(2), 2));
}

/// A sequence number that is not resolved before the next snapshot of the group lists it doubles the row.
#[tokio::test]
async fn a_key_touched_in_every_snapshot_of_a_group_is_one_row() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "old"), (9, "kept")], &[]).await;
    let deltas = vec![
        orders.stage(&[(1, "one"), (2, "one")], &[1]).await,
        orders.stage(&[(1, "two")], &[1]).await,
        orders.stage(&[(3, "three")], &[2]).await,
    ];
    let commit = orders.commit(deltas).await;
    assert_eq!(orders.rows().await, owned(&[(1, "two"), (3, "three"), (9, "kept")]));

    let table = orders.as_table().await;
    let metadata = table.metadata();
    let last = metadata.current_snapshot().unwrap();
    let middle = metadata.snapshot_by_id(last.parent_snapshot_id().unwrap()).unwrap();
    let first = metadata.snapshot_by_id(middle.parent_snapshot_id().unwrap()).unwrap();
    assert_eq!(first.summary().additional_properties["calve.part"], "1 of 3");
    assert_eq!(middle.summary().additional_properties["calve.part"], "2 of 3");
    assert_eq!(last.summary().additional_properties["calve.checkpoint"], commit.stamp.unwrap().checkpoint.to_string());
    assert!(first.sequence_number() < middle.sequence_number() && middle.sequence_number() < last.sequence_number());
    assert!(first.timestamp_ms() < middle.timestamp_ms() && middle.timestamp_ms() < last.timestamp_ms());
    assert_eq!(orders.rows_at(first.snapshot_id()).await, owned(&[(1, "one"), (2, "one"), (9, "kept")]));
    // One commit: the history shows its last snapshot only.
    assert_eq!(metadata.history().len(), 2);
}

#[tokio::test]
async fn replacing_takes_every_file_away_and_says_so() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a"), (2, "b")], &[]).await;
    orders.put(&[(2, "B")], &[2]).await;
    let before = orders.as_table().await.metadata().current_snapshot_id().unwrap();
    let deltas = vec![orders.stage_replace(&[(7, "new")]).await, orders.stage(&[(8, "more")], &[7]).await];
    orders.commit(deltas).await;
    assert_eq!(orders.rows().await, owned(&[(8, "more")]));
    assert_eq!(orders.rows_at(before).await, owned(&[(1, "a"), (2, "B")]), "history still reads");

    let table = orders.as_table().await;
    let last = table.metadata().current_snapshot().unwrap();
    let replace = table.metadata().snapshot_by_id(last.parent_snapshot_id().unwrap()).unwrap();
    let summary = &replace.summary().additional_properties;
    for (key, value) in [
        ("deleted-data-files", "2"),
        ("deleted-records", "3"),
        ("removed-equality-deletes", "1"),
        ("total-records", "1"),
        ("total-delete-files", "0"),
    ] {
        assert_eq!(summary[key], value, "{key}");
    }
    let mut deleted = 0;
    for manifest in read_list(&super::fixture::table(), &orders.lake.io, replace).await.unwrap() {
        let entries = read_manifest(&super::fixture::table(), &orders.lake.io, &manifest).await.unwrap();
        deleted += entries.entries().iter().filter(|e| e.status() == ManifestStatus::Deleted).count();
    }
    assert_eq!(deleted, 3, "two data files and one of deletes");
    // The snapshot after it no longer lists them.
    assert!(orders.manifests().await.iter().all(|m| m.has_added_files() || m.has_existing_files()));

    // Truncated with nothing after.
    let empty = orders.stage_replace(&[]).await;
    orders.commit(vec![empty]).await;
    assert_eq!(orders.rows().await, []);
    let described = orders.lake.summary(&super::fixture::table()).await.unwrap().unwrap();
    assert_eq!((described.rows, described.data_files), (Some(0), Some(0)));
}

#[tokio::test]
async fn a_stamp_without_rows_makes_an_empty_snapshot() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    let commit = orders.commit(Vec::new()).await;
    let loaded = orders.reload().await;
    assert_eq!((loaded.stamp, loaded.rolled_back), (commit.stamp, false));
    assert_eq!(orders.as_table().await.metadata().snapshots().len(), 1);
}

#[tokio::test]
async fn properties_are_committed_alone() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    let stamped = orders.put(&[(1, "a")], &[]).await;
    let snapshot = orders.as_table().await.metadata().current_snapshot_id();
    let (set, old) = (MemberDigest::of([(&table(), load())]), MemberDigest::of([]));
    let mark = StopMark {
        at: Some(at(10)),
        reason: StopReason { state: "log lost".into(), detail: "gone".into(), remedy: "reload".into() },
    };
    let complete = |lsn| Some(CompleteTo { members: set, position: at(lsn) });

    let commit = TableCommit {
        complete_to: complete(20),
        join: BTreeSet::from([set, old]),
        stop: Some(Some(mark.clone())),
        ..TableCommit::default()
    };
    let receipt = orders.try_commit(&commit).await.unwrap();
    assert_eq!(receipt.complete_to, complete(20));
    assert!(DurablePosition::recorded(&at(20), &receipt).is_some());
    assert!(DurablePosition::recorded(&at(21), &receipt).is_none());
    let loaded = scratch.open().await.load(&table()).await.unwrap().unwrap();
    assert_eq!(loaded.stamp, stamped.stamp, "the stamp stays");
    assert_eq!(loaded.stopped, Some(mark));
    assert_eq!(loaded.member_of, BTreeSet::from([set, old]));
    assert_eq!(loaded.receipt(set).complete_to, complete(20));

    // Lower: what the table records stands, and the receipt says so.
    let commit = TableCommit {
        complete_to: complete(15),
        leave: BTreeSet::from([old]),
        stop: Some(None),
        ..TableCommit::default()
    };
    let receipt = orders.try_commit(&commit).await.unwrap();
    assert_eq!(receipt.complete_to, complete(20));
    let loaded = orders.reload().await;
    assert_eq!((loaded.stopped, loaded.member_of), (None, BTreeSet::from([set])));
    assert_eq!(loaded.complete_to, [CompleteTo { members: set, position: at(20) }]);

    // What changes nothing commits nothing.
    let version = orders.version.clone();
    orders.try_commit(&TableCommit { complete_to: complete(20), ..TableCommit::default() }).await.unwrap();
    assert_eq!(orders.version, version);
    assert_eq!(orders.as_table().await.metadata().current_snapshot_id(), snapshot);

    // A load replaces the table: it belongs to no set any more that it belonged to before.
    let mut again = stamp(30, &schema());
    again.load = again.checkpoint;
    let commit = TableCommit { stamp: Some(again), join: BTreeSet::from([old]), ..TableCommit::default() };
    orders.try_commit(&commit).await.unwrap();
    assert_eq!(orders.reload().await.member_of, BTreeSet::from([old]));
}

/// The catalog applied the commit, and the process never heard of it.
#[tokio::test]
async fn a_lost_answer_is_found_by_reading() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a")], &[]).await;
    let base = orders.version.clone();
    let delta = orders.stage(&[(1, "b")], &[1]).await;
    let commit = orders.next(vec![delta]);
    orders.try_commit(&commit).await.unwrap();

    let restarted = scratch.open().await;
    let loaded = restarted.load(&table()).await.unwrap().unwrap();
    assert_eq!(loaded.stamp, commit.stamp);
    // Sent again all the same, at the base it was made for: refused, and nothing is left of the attempt.
    let files = files_under(&scratch.0.join("warehouse"));
    let error = restarted.commit(&table(), &base, &commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(files_under(&scratch.0.join("warehouse")), files);
    assert_eq!(orders.rows().await, owned(&[(1, "b")]));
}

/// Two processes at the same base: the catalog lets one through, and the loser leaves no file behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_processes_one_commits() {
    let scratch = Scratch::new();
    let mut one = Orders::create(&scratch).await;
    one.put(&[(0, "base")], &[]).await;
    for round in 1..=10 {
        one.reload().await;
        let mut two = one.reopen(&scratch).await;
        let (a, b) = (one.stage(&[(round, "one")], &[]).await, two.stage(&[(round, "two")], &[]).await);
        let (commit_a, commit_b) = (one.next(vec![a.clone()]), two.next(vec![b.clone()]));
        let (done_a, done_b) = tokio::join!(one.try_commit(&commit_a), two.try_commit(&commit_b));
        let (winner, loser) = match (&done_a, &done_b) {
            (Ok(_), Err(error)) => ("one", error),
            (Err(error), Ok(_)) => ("two", error),
            other => panic!("round {round}: {other:?}"),
        };
        assert_eq!(loser.kind(), ErrorKind::Conflict, "{loser}");
        one.reload().await;
        assert!(one.rows().await.contains(&(round, winner.to_owned())));
        let lost = if winner == "one" { &b } else { &a };
        one.lake.remove_files(one.lake.slot(&table()).unwrap(), &lost.files).await;
    }
    assert_eq!(one.rows().await.len(), 11);
    // Everything in the directory is in use: nothing was left by the losers.
    let sweeper = scratch.open().await;
    assert_eq!(sweeper.unreferenced_files(&table(), &BTreeSet::new()).await.unwrap(), Vec::<String>::new());
}

/// The load of a changed source gives the table its new schema, in the commit that replaces the rows.
#[tokio::test]
async fn a_load_evolves_the_schema() {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray};
    use calve_core::{ColumnType, TableSchema};

    use super::fixture::{column, stage_columns};

    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a")], &[]).await;
    let before = orders.as_table().await.metadata().current_snapshot_id().unwrap();
    let changed = Arc::new(TableSchema::new(
        table(),
        1,
        vec![
            column("id", ColumnType::Long, false),
            column("paid", ColumnType::Boolean, true),
            column("name", ColumnType::String, true),
        ],
        vec![0],
    ));
    let columns = |ids: &[i64]| -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from(ids.to_vec())),
            Arc::new(ids.iter().map(|_| Some(true)).collect::<BooleanArray>()),
            Arc::new(ids.iter().map(|_| Some("new")).collect::<StringArray>()),
        ]
    };
    let load = stage_columns(&orders.lake, &changed, columns(&[5, 6]), &[], true, Onto::Load).await.unwrap();
    let replay = stage_columns(&orders.lake, &changed, columns(&[7]), &[6], false, Onto::Load).await.unwrap();
    let commit = TableCommit { deltas: vec![load, replay], stamp: Some(stamp(60, &changed)), ..TableCommit::default() };
    orders.try_commit(&commit).await.unwrap();
    assert_eq!(orders.rows().await, owned(&[(5, "new"), (7, "new")]));
    assert_eq!(orders.rows_at(before).await, owned(&[(1, "a")]));
    let table = orders.as_table().await;
    let ids: Vec<_> = table.metadata().current_schema().as_struct().fields().iter().map(|f| f.id).collect();
    assert_eq!(ids, [1, 3, 2]);
    assert_eq!(table.metadata().current_snapshot().unwrap().schema_id(), Some(table.metadata().current_schema_id()));
    assert_eq!(orders.reload().await.stamp.unwrap().schema, changed);
    // And goes on under it.
    let next = stage_columns(&orders.lake, &changed, columns(&[8]), &[5], false, Onto::Table).await.unwrap();
    let commit = TableCommit { deltas: vec![next], stamp: Some(stamp(70, &changed)), ..TableCommit::default() };
    orders.try_commit(&commit).await.unwrap();
    assert_eq!(orders.rows().await, owned(&[(7, "new"), (8, "new")]));
}

/// Changes under a changed schema give it to the table, whose rows stay: in the middle of a group, without rows, and never over
/// a schema that somebody changed meanwhile.
#[tokio::test]
async fn changes_evolve_the_schema() {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BooleanArray, Int64Array, StringArray};
    use calve_core::{ColumnType, TableSchema};

    use super::fixture::{column, stage_columns};

    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a"), (2, "b")], &[]).await;
    let before = orders.as_table().await.metadata().current_snapshot_id().unwrap();
    let changed = Arc::new(TableSchema::new(
        table(),
        1,
        vec![
            column("id", ColumnType::Long, false),
            column("name", ColumnType::String, true),
            column("paid", ColumnType::Boolean, true),
        ],
        vec![0],
    ));
    let columns = |ids: &[i64]| -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from(ids.to_vec())),
            Arc::new(ids.iter().map(|_| Some("new")).collect::<StringArray>()),
            Arc::new(ids.iter().map(|_| Some(true)).collect::<BooleanArray>()),
        ]
    };
    let old = orders.stage(&[(3, "c")], &[1]).await;
    let new = stage_columns(&orders.lake, &changed, columns(&[4]), &[2], false, Onto::Table).await.unwrap();
    assert!(!old.reshapes && new.reshapes);
    let commit = TableCommit { deltas: vec![old, new], stamp: Some(stamp(50, &changed)), ..TableCommit::default() };
    orders.try_commit(&commit).await.unwrap();
    assert_eq!(orders.rows().await, owned(&[(3, "c"), (4, "new")]));
    assert_eq!(orders.rows_at(before).await, owned(&[(1, "a"), (2, "b")]));
    let schemas: Vec<_> = {
        let table = orders.as_table().await;
        let mut snapshots: Vec<_> = table.metadata().snapshots().collect();
        snapshots.sort_by_key(|snapshot| snapshot.sequence_number());
        snapshots.iter().map(|snapshot| snapshot.schema_id().unwrap()).collect()
    };
    assert_eq!(schemas, [0, 0, 1], "each snapshot under the schema of its rows");

    // A change without rows is a snapshot of its own.
    let mut wider = (*changed).clone();
    wider.columns.push(column("extra", ColumnType::Boolean, true));
    let wider = Arc::new(wider);
    let with_extra = |ids: &[i64]| -> Vec<ArrayRef> {
        let mut columns = columns(ids);
        columns.push(Arc::clone(&columns[2]));
        columns
    };
    let delta = stage_columns(&orders.lake, &wider, with_extra(&[]), &[], false, Onto::Table).await.unwrap();
    assert!(!delta.is_empty());
    let late = stage_columns(&orders.lake, &wider, with_extra(&[5]), &[], false, Onto::Table).await.unwrap();
    let commit = TableCommit { deltas: vec![delta], stamp: Some(stamp(60, &wider)), ..TableCommit::default() };
    orders.try_commit(&commit).await.unwrap();
    assert_eq!(orders.reload().await.stamp.unwrap().schema, wider);
    // Staged while the table still had the other schema, and as good now: it is the one that was meant.
    let commit = TableCommit { deltas: vec![late], stamp: Some(stamp(70, &wider)), ..TableCommit::default() };
    orders.try_commit(&commit).await.unwrap();
    let metadata = orders.as_table().await.metadata().clone();
    let fields: Vec<_> =
        metadata.current_schema().as_struct().fields().iter().map(|f| (f.name.clone(), f.id)).collect();
    let named = ["id", "name", "paid", "extra"].map(str::to_owned);
    assert_eq!(fields, named.into_iter().zip(1..).collect::<Vec<_>>());

    // Another change was staged, and somebody adds a column before it is committed: its ids might be another's.
    let more = Arc::new(TableSchema {
        columns: vec![column("id", ColumnType::Long, false), column("note", ColumnType::String, true)],
        ..(*wider).clone()
    });
    let rows: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![6])), Arc::new(StringArray::from(vec!["x"]))];
    let staged = stage_columns(&orders.lake, &more, rows.clone(), &[], false, Onto::Table).await.unwrap();
    super::foreign::add_column(&orders, "theirs").await;
    orders.reload().await;
    let commit = TableCommit { deltas: vec![staged], stamp: Some(stamp(80, &more)), ..TableCommit::default() };
    assert_eq!(orders.try_commit(&commit).await.unwrap_err().kind(), ErrorKind::Conflict);
    let staged = stage_columns(&orders.lake, &more, rows, &[], false, Onto::Table).await.unwrap();
    let commit = TableCommit { deltas: vec![staged], stamp: Some(stamp(80, &more)), ..TableCommit::default() };
    orders.try_commit(&commit).await.unwrap();
    let table = orders.as_table().await;
    let field = |name: &str| table.metadata().current_schema().field_by_name(name).map(|field| field.id);
    assert_eq!((field("theirs"), field("note"), field("name")), (Some(5), Some(6), Some(2)));
}
