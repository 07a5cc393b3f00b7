//! Others who work on the same tables.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use calve_core::{ErrorKind, Lake, Onto};
use iceberg::spec::{
    DataContentType, MAIN_BRANCH, ManifestFile, NestedField, PrimitiveType, Schema, SnapshotReference,
    SnapshotRetention, Transform, Type, UnboundPartitionSpec,
};
use iceberg::table::Table;
use iceberg::transaction::{ApplyTransactionAction, Transaction};
use iceberg::{Catalog as _, TableUpdate};

use super::fixture::{Orders, Scratch, owned, table, write};
use crate::delta::TableLayout;

/// Appends rows as another writer does.
async fn append(scratch: &Scratch, orders: &Orders, name: &str, rows: &[(i64, &str)]) {
    let catalog = scratch.foreign().await;
    let foreign = scratch.foreign_table().await;
    let target = scratch.settings().targets.remove(&table()).unwrap();
    let layout = TableLayout::new(
        &super::fixture::schema(),
        foreign.metadata(),
        None,
        Onto::Table,
        &target,
        orders.lake.io.clone(),
    )
    .unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|(id, _)| *id).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(_, name)| Some(*name)).collect::<StringArray>()),
    ];
    let batch = RecordBatch::try_new(layout.arrow, columns).unwrap();
    let location = format!("{}/data/{name}.parquet", foreign.metadata().location());
    let file = write(&location, &batch, DataContentType::Data, None, 0);
    let transaction = Transaction::new(&foreign);
    let transaction = transaction.fast_append().add_data_files([file]).apply(transaction).unwrap();
    transaction.commit(&catalog).await.unwrap();
}

/// Changes the table's metadata as another writer does.
async fn update(orders: &Orders, updates: Vec<TableUpdate>) {
    let slot = orders.lake.slot(&table()).unwrap();
    let at = orders.lake.catalog.load(&slot.ident, None).await.unwrap().unwrap();
    orders.lake.catalog.commit(&slot.ident, &at, &[], updates).await.unwrap();
}

fn main_at(snapshot_id: i64) -> TableUpdate {
    TableUpdate::SetSnapshotRef {
        ref_name: MAIN_BRANCH.to_owned(),
        reference: SnapshotReference::new(snapshot_id, SnapshotRetention::branch(None, None, None)),
    }
}

/// Somebody adds an optional text column.
pub(super) async fn add_column(orders: &Orders, name: &str) {
    let metadata = orders.as_table().await.metadata().clone();
    let field = NestedField::optional(metadata.last_column_id() + 1, name, Type::Primitive(PrimitiveType::String));
    let builder = metadata.current_schema().as_ref().clone().into_builder();
    let schema = builder.with_schema_id(99).with_fields([field.into()]).build().unwrap();
    update(orders, vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }]).await;
}

#[tokio::test]
async fn a_commit_of_another_writer_survives_ours_and_ours_it() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    let stamped = orders.put(&[(1, "a")], &[]).await;
    let delta = orders.stage(&[(1, "A"), (2, "b")], &[1]).await;
    append(&scratch, &orders, "theirs", &[(100, "theirs")]).await;

    let commit = orders.next(vec![delta]);
    assert_eq!(orders.try_commit(&commit).await.unwrap_err().kind(), ErrorKind::Conflict);
    let loaded = orders.reload().await;
    assert_eq!((&loaded.stamp, loaded.rolled_back), (&stamped.stamp, false), "the base still stands");
    // The same staged files go on top.
    orders.try_commit(&commit).await.unwrap();
    assert_eq!(orders.rows().await, owned(&[(1, "A"), (2, "b"), (100, "theirs")]));
    append(&scratch, &orders, "more", &[(101, "theirs")]).await;
    orders.reload().await;
    // Later deletes reach the other writer's rows too.
    orders.put(&[], &[100]).await;
    assert_eq!(orders.rows().await, owned(&[(1, "A"), (2, "b"), (101, "theirs")]));
    let replace = orders.stage_replace(&[(3, "c")]).await;
    orders.commit(vec![replace]).await;
    assert_eq!(orders.rows().await, owned(&[(3, "c")]));
}

#[tokio::test]
async fn a_property_of_another_writer_is_kept() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a")], &[]).await;
    let set = HashMap::from([(String::from("comment"), String::from("hello"))]);
    update(&orders, vec![TableUpdate::SetProperties { updates: set }]).await;
    orders.reload().await;
    orders.put(&[(2, "b")], &[]).await;
    assert_eq!(scratch.foreign_table().await.metadata().properties()["comment"], "hello");
}

#[tokio::test]
async fn a_moved_branch_is_noticed() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a")], &[]).await;
    let first = orders.as_table().await.metadata().current_snapshot_id().unwrap();
    orders.put(&[(2, "b")], &[]).await;
    let second = orders.as_table().await.metadata().current_snapshot_id().unwrap();
    let group = vec![orders.stage(&[(3, "c")], &[]).await, orders.stage(&[(4, "d")], &[]).await];
    orders.commit(group).await;
    let last = orders.as_table().await.metadata().current_snapshot_id().unwrap();
    let middle = orders.as_table().await.metadata().current_snapshot().unwrap().parent_snapshot_id().unwrap();
    for (snapshot, rolled_back) in [(first, true), (last, false), (second, true), (middle, true), (last, false)] {
        update(&orders, vec![main_at(snapshot)]).await;
        assert_eq!(orders.reload().await.rolled_back, rolled_back, "main at {snapshot}");
    }
    // Where every stamped ancestor has expired, the property is trusted.
    append(&scratch, &orders, "theirs", &[(100, "theirs")]).await;
    update(&orders, vec![TableUpdate::RemoveSnapshots { snapshot_ids: vec![first, second, middle, last] }]).await;
    assert!(!orders.reload().await.rolled_back);
}

#[tokio::test]
async fn a_schema_changed_by_others_is_adapted_to_or_refused() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a")], &[]).await;
    let staged = orders.stage(&[(2, "b")], &[]).await;
    let commit = orders.next(vec![staged]);

    let with = |base: &Schema, extra: Option<NestedField>, without: &str| {
        let fields = base.as_struct().fields().iter().filter(|f| f.name != without).cloned();
        Schema::builder()
            .with_schema_id(9)
            .with_fields(fields.chain(extra.map(Arc::new)))
            .with_identifier_field_ids([1])
            .build()
            .unwrap()
    };
    let set = |schema: Schema| vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }];
    // A column more: our rows leave it NULL.
    let current = orders.as_table().await.metadata().current_schema().clone();
    let note = NestedField::optional(3, "note", Type::Primitive(PrimitiveType::String));
    update(&orders, set(with(&current, Some(note), ""))).await;
    orders.reload().await;
    orders.try_commit(&commit).await.unwrap();
    orders.put(&[(3, "c")], &[1]).await;
    assert_eq!(orders.rows().await, owned(&[(2, "b"), (3, "c")]));

    // A column less: its values would be lost.
    let staged = orders.stage(&[(4, "d")], &[]).await;
    let commit = orders.next(vec![staged]);
    let current = orders.as_table().await.metadata().current_schema().clone();
    update(&orders, set(with(&current, None, "name"))).await;
    orders.reload().await;
    let error = orders.try_commit(&commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("\"name\" was dropped"), "{error}");
}

#[tokio::test]
async fn a_table_partitioned_by_others_is_refused() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a")], &[]).await;
    let staged = orders.stage(&[(2, "b")], &[]).await;
    let spec = UnboundPartitionSpec::builder().add_partition_field(1, "bucket", Transform::Bucket(4)).unwrap().build();
    update(&orders, vec![TableUpdate::AddSpec { spec }, TableUpdate::SetDefaultSpec { spec_id: -1 }]).await;
    orders.reload().await;
    let commit = orders.next(vec![staged]);
    let error = orders.try_commit(&commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("partition spec 1"), "{error}");
    let error = super::fixture::stage(&orders.lake, &[(3, "c")], &[], false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);

    update(&orders, vec![TableUpdate::SetDefaultSpec { spec_id: 0 }]).await;
    orders.reload().await;
    orders.try_commit(&commit).await.unwrap();
    assert_eq!(orders.rows().await, owned(&[(1, "a"), (2, "b")]));
}

#[tokio::test]
async fn files_staged_for_a_table_that_was_dropped_are_refused() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a")], &[]).await;
    let staged = orders.stage(&[(2, "b")], &[]).await;
    let catalog = scratch.foreign().await;
    catalog.drop_table(&iceberg::TableIdent::from_strs(["shop", "orders"]).unwrap()).await.unwrap();
    assert_eq!(orders.lake.load(&table()).await.unwrap(), None);
    let commit = orders.next(vec![staged]);
    let error = orders.try_commit(&commit).await.unwrap_err();
    assert!(error.to_string().contains("dropped"), "{error}");

    let created = orders.lake.create(&super::fixture::schema()).await.unwrap();
    orders.version = created.version;
    let location = orders.as_table().await.metadata().location().to_owned();
    assert!(location.contains("/shop/orders-"), "{location} is shared with the old table");
    let error = orders.try_commit(&commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("made anew"), "{error}");
}

/// A process that ended between writing a new table's metadata and registering it.
#[tokio::test]
async fn a_creation_that_ended_half_way_is_taken_over() {
    let scratch = Scratch::new();
    let before = scratch.open().await;
    let plain = format!("file://{}/warehouse/shop/orders", scratch.0.display());
    let left = before.naming.metadata(&plain, 0);
    before.io.new_output(&left).unwrap().write("{}".into()).await.unwrap();
    let mut orders = Orders::create(&scratch).await;
    assert_eq!(orders.as_table().await.metadata().location(), plain);
    let listed = orders.lake.unreferenced_files(&table(), &BTreeSet::new()).await.unwrap();
    assert_eq!(listed, [left]);
    orders.put(&[(1, "a")], &[]).await;
    assert_eq!(orders.lake.delete_unreferenced(&table(), &listed).await.unwrap(), 1);
    assert_eq!(orders.reopen(&scratch).await.rows().await.len(), 1);
}

/// Clean-up takes what earlier runs left, and nothing that a snapshot, an intent, this run or anybody else has.
#[tokio::test]
async fn only_our_own_leftovers_are_removed() {
    let scratch = Scratch::new();
    let mut before = Orders::create(&scratch).await;
    before.put(&[(1, "a")], &[]).await;
    let left = before.stage(&[(2, "left")], &[1]).await;
    let kept = before.stage(&[(3, "kept")], &[]).await;
    append(&scratch, &before, "theirs", &[(100, "theirs")]).await;
    let replaced = before.reload().await;
    assert!(!replaced.rolled_back);
    let metadata = before.as_table().await.metadata().location().to_owned();
    let lost = before.lake.naming.metadata(&metadata, 77);
    std::fs::write(crate::storage::local_path(&lost).unwrap(), "{}").unwrap();
    let unused = format!("{metadata}/data/unused-by-others.parquet");
    std::fs::write(crate::storage::local_path(&unused).unwrap(), "x").unwrap();

    // Its own files are never listed.
    assert_eq!(before.lake.unreferenced_files(&table(), &BTreeSet::new()).await.unwrap(), Vec::<String>::new());

    let mut after = before.reopen(&scratch).await;
    let mine = after.stage(&[(4, "mine")], &[]).await;
    let keep: BTreeSet<String> = kept.files.iter().cloned().collect();
    let mut listed = after.lake.unreferenced_files(&table(), &keep).await.unwrap();
    let mut expected = left.files.clone();
    expected.push(lost);
    expected.sort();
    listed.sort();
    assert_eq!(listed, expected);

    // What came into use in between stays, and so does what we must not touch at all.
    let commit = after.next(vec![kept.clone()]);
    after.try_commit(&commit).await.unwrap();
    let mut asked = listed.clone();
    asked.extend(kept.files.iter().cloned());
    asked.extend(mine.files.iter().cloned());
    asked.push(unused);
    assert_eq!(after.lake.delete_unreferenced(&table(), &asked).await.unwrap(), listed.len());
    assert_eq!(after.rows().await, owned(&[(1, "a"), (3, "kept"), (100, "theirs")]));
    after.commit(vec![mine]).await;
    assert_eq!(after.rows().await.len(), 4);
}

/// Snapshots that a tag or another branch names are kept, with all they refer to.
#[tokio::test]
async fn tags_outlive_expiry() {
    let scratch = Scratch::new();
    let mut settings = scratch.settings();
    settings.retention.max = 10;
    settings.retention.min = 2;
    let lake = crate::IcebergLake::open(settings).await.unwrap();
    let mut orders = Orders::create_in(lake).await;
    orders.put(&[(1, "tagged")], &[]).await;
    let tagged = orders.as_table().await.metadata().current_snapshot_id().unwrap();
    let reference = SnapshotReference::new(tagged, SnapshotRetention::Tag { max_ref_age_ms: None });
    update(&orders, vec![TableUpdate::SetSnapshotRef { ref_name: "audit".into(), reference }]).await;
    orders.reload().await;
    let replace = orders.stage_replace(&[(0, "base")]).await;
    orders.commit(vec![replace]).await;
    for key in 1..40 {
        orders.put(&[(key, "x")], &[]).await;
    }
    let snapshots = orders.as_table().await.metadata().snapshots().len();
    assert!(snapshots <= 11, "{snapshots} snapshots");
    assert_eq!(orders.rows_at(tagged).await, owned(&[(1, "tagged")]));
    assert_eq!(orders.rows().await.len(), 40);
}

/// A branch that was moved away from leaves snapshots that share manifests with kept ones.
#[tokio::test]
async fn an_abandoned_branch_takes_nothing_along() {
    let scratch = Scratch::new();
    let mut settings = scratch.settings();
    settings.retention.max = 6;
    settings.retention.min = 1;
    let lake = crate::IcebergLake::open(settings).await.unwrap();
    let mut orders = Orders::create_in(lake).await;
    for key in 0..4 {
        orders.put(&[(key, "kept")], &[]).await;
    }
    let fork = orders.as_table().await.metadata().current_snapshot_id().unwrap();
    for key in 10..12 {
        orders.put(&[(key, "abandoned")], &[]).await;
    }
    update(&orders, vec![main_at(fork)]).await;
    orders.reload().await;
    for key in 20..40 {
        orders.put(&[(key, "after")], &[]).await;
    }
    let rows = orders.rows().await;
    assert_eq!(rows.len(), 24);
    assert!(rows.iter().all(|(_, name)| name != "abandoned"));
    let kept: Vec<i64> = orders.as_table().await.metadata().snapshots().map(|s| s.snapshot_id()).collect();
    for snapshot in kept {
        orders.rows_at(snapshot).await;
    }
}

#[tokio::test]
async fn the_table_reads_through_the_other_catalog() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a")], &[]).await;
    orders.put(&[(1, "b")], &[1]).await;
    let foreign: Table = scratch.foreign_table().await;
    assert_eq!(super::fixture::rows_of(&foreign, None).await, owned(&[(1, "b")]));
}

/// What nobody can make sense of is left where it is: merging passes it by, and a load takes it out of the table.
#[tokio::test]
async fn a_manifest_that_cannot_be_read_holds_up_no_commit() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    orders.put(&[(1, "a")], &[]).await;
    let broken = orders.manifests().await.remove(0).manifest_path;
    for n in 2..6 {
        orders.put(&[(n, "b")], &[]).await;
    }
    std::fs::write(crate::storage::local_path(&broken).unwrap(), "no manifest").unwrap();
    for n in 6..20 {
        orders.put(&[(n, "c")], &[]).await;
    }
    let lists_it = |manifests: Vec<ManifestFile>| manifests.iter().any(|manifest| manifest.manifest_path == broken);
    assert!(lists_it(orders.manifests().await));
    let load = orders.stage_replace(&[(1, "read again")]).await;
    orders.commit(vec![load]).await;
    assert!(!lists_it(orders.manifests().await));
    assert_eq!(orders.rows().await, owned(&[(1, "read again")]));
}
