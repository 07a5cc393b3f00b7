//! What is refused, and what the message says.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;

use calve_core::{ErrorKind, Lake};
use iceberg::TableUpdate;
use iceberg::spec::FormatVersion;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use super::fixture::{Orders, Scratch, schema, table};
use crate::IcebergLake;

#[tokio::test]
async fn a_table_of_another_pipeline_is_named() {
    let scratch = Scratch::new();
    Orders::create(&scratch).await;
    let mut settings = scratch.settings();
    settings.pipeline = "other".into();
    let other = IcebergLake::open(settings).await.unwrap();
    let error = other.load(&table()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("shop.orders") && error.to_string().contains("'p'"), "{error}");
    assert_eq!(other.drop_table(&table()).await.unwrap_err().kind(), ErrorKind::Config);
    let error = other.create(&schema()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn a_table_without_our_mark_is_refused_with_the_way_out() {
    let scratch = Scratch::new();
    let orders = Orders::create(&scratch).await;
    let slot = orders.lake.slot(&table()).unwrap();
    let at = orders.lake.catalog.load(&slot.ident, None).await.unwrap().unwrap();
    let removals = vec![String::from("calve.pipeline")];
    orders.lake.catalog.commit(&slot.ident, &at, &[], vec![TableUpdate::RemoveProperties { removals }]).await.unwrap();
    let error = scratch.open().await.load(&table()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("setting its property calve.pipeline to 'p'"), "{error}");

    let at = orders.lake.catalog.load(&slot.ident, None).await.unwrap().unwrap();
    let updates = HashMap::from([(String::from("calve.pipeline"), String::from("p"))]);
    orders.lake.catalog.commit(&slot.ident, &at, &[], vec![TableUpdate::SetProperties { updates }]).await.unwrap();
    assert!(scratch.open().await.load(&table()).await.unwrap().is_some(), "adopted");
}

#[tokio::test]
async fn a_format_we_do_not_write_is_refused() {
    let scratch = Scratch::new();
    let orders = Orders::create(&scratch).await;
    let slot = orders.lake.slot(&table()).unwrap();
    let at = orders.lake.catalog.load(&slot.ident, None).await.unwrap().unwrap();
    let upgrade = TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V3 };
    orders.lake.catalog.commit(&slot.ident, &at, &[], vec![upgrade]).await.unwrap();
    let error = orders.lake.load(&table()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("format version"), "{error}");
}

#[tokio::test]
async fn a_locked_catalog_is_waited_for_and_then_named() {
    let scratch = Scratch::new();
    let mut orders = Orders::create(&scratch).await;
    let delta = orders.stage(&[(1, "a")], &[]).await;
    let commit = orders.next(vec![delta]);
    let file = scratch.0.join("catalog.db");
    let mut holder = SqliteConnectOptions::new().filename(&file).connect().await.unwrap();
    sqlx::query("BEGIN EXCLUSIVE").execute(&mut holder).await.unwrap();
    let before = super::fixture::files_under(&scratch.0.join("warehouse"));
    let error = orders.try_commit(&commit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
    assert!(error.to_string().contains("catalog.db") && error.to_string().contains("locked"), "{error}");
    assert_eq!(super::fixture::files_under(&scratch.0.join("warehouse")), before, "it was certainly not applied");
    sqlx::query("ROLLBACK").execute(&mut holder).await.unwrap();
    orders.try_commit(&commit).await.unwrap();
}

#[tokio::test]
async fn a_lake_that_cannot_be_made_is_a_setting() {
    let scratch = Scratch::new();
    std::fs::write(scratch.0.join("file"), "in the way").unwrap();
    let mut settings = scratch.settings();
    settings.warehouse = scratch.0.join("file/warehouse");
    let error = IcebergLake::open(settings).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");

    let mut settings = scratch.settings();
    let readonly = scratch.0.join("readonly");
    std::fs::create_dir(&readonly).unwrap();
    std::fs::write(readonly.join("catalog.db"), "this is no database at all, only some text").unwrap();
    std::fs::set_permissions(&readonly, PermissionsExt::from_mode(0o500)).unwrap();
    settings.catalog = crate::CatalogSettings::Sqlite { path: readonly.join("catalog.db") };
    let error = IcebergLake::open(settings).await.unwrap_err();
    std::fs::set_permissions(&readonly, PermissionsExt::from_mode(0o700)).unwrap();
    // A user who may write everything finds the text, others the closed door.
    assert!(matches!(error.kind(), ErrorKind::Config | ErrorKind::Corrupt), "{error}");
    assert!(error.to_string().contains("catalog.db"), "{error}");
}

#[tokio::test]
async fn names_of_every_kind_find_their_way() {
    let scratch = Scratch::new();
    let mut settings = scratch.settings();
    let target = settings.targets.get_mut(&table()).unwrap();
    target.namespace = "odd \"schema\"".into();
    target.name = "Tisch/für Öl 1".into();
    let lake = IcebergLake::open(settings.clone()).await.unwrap();
    let mut orders = Orders::create_in(lake).await;
    orders.put(&[(1, "a")], &[]).await;
    assert_eq!(orders.rows().await.len(), 1);
    let again = IcebergLake::open(settings).await.unwrap();
    assert!(again.load(&table()).await.unwrap().is_some());
    assert!(again.drop_table(&table()).await.unwrap());
    assert!(!again.drop_table(&table()).await.unwrap());
    assert_eq!(super::fixture::files_under(&scratch.0.join("warehouse")), Vec::<String>::new());
}
