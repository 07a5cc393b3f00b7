//! The catalog in Postgres, on a server that the test tools give.

use calve_core::{ErrorKind, Lake};
use calve_testkit::servers::{Database, Postgres, SUPERUSER};
use uuid::Uuid;

use super::fixture::{Orders, Scratch, owned, table};
use crate::settings::CatalogSettings;
use crate::{IcebergLake, LakeSettings};

fn settings(scratch: &Scratch, database: &Database) -> LakeSettings {
    let mut settings = scratch.settings();
    settings.catalog = CatalogSettings::Postgres { url: database.url(SUPERUSER).unwrap() };
    settings
}

#[tokio::test]
async fn tables_live_in_postgres_as_in_sqlite() {
    let scratch = Scratch::new();
    let database = Postgres::shared(17).unwrap().create_database("catalog").unwrap();
    let settings = settings(&scratch, &database);
    let mut orders = Orders::create_in(IcebergLake::open(settings.clone()).await.unwrap()).await;
    let commit = orders.put(&[(1, "a"), (2, "b")], &[]).await;
    assert_eq!(orders.rows().await, owned(&[(1, "a"), (2, "b")]));

    let another_run = LakeSettings { run: Uuid::new_v4(), ..settings };
    let other = IcebergLake::open(another_run).await.unwrap();
    let loaded = other.load(&table()).await.unwrap().unwrap();
    assert_eq!(loaded.stamp, commit.stamp);
    // Both at the same base: one commits.
    let mut second = Orders { lake: other, version: loaded.version, lsn: 500 };
    let (a, b) = (orders.stage(&[(3, "one")], &[]).await, second.stage(&[(3, "two")], &[]).await);
    let (a, b) = (orders.next(vec![a]), second.next(vec![b]));
    orders.try_commit(&a).await.unwrap();
    let error = second.try_commit(&b).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(orders.rows().await.len(), 3);
    // A table of that name is there already.
    assert_eq!(orders.lake.create(&super::fixture::schema()).await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(orders.lake.drop_table(&table()).await.unwrap());
    assert_eq!(second.lake.load(&table()).await.unwrap(), None);
}

#[tokio::test]
async fn what_is_wrong_with_the_url_is_said_without_its_password() {
    let scratch = Scratch::new();
    for (url, kind) in
        [("postgres://u:s3cret@127.0.0.1:1/db", ErrorKind::Retry), ("postgres://u:s3cret@[/db", ErrorKind::Config)]
    {
        let mut settings = scratch.settings();
        settings.catalog = CatalogSettings::Postgres { url: url.into() };
        assert!(!format!("{settings:?}").contains("s3cret"));
        let error = IcebergLake::open(settings).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(inner) = cause {
            text.push_str(&inner.to_string());
            cause = inner.source();
        }
        assert!(!text.contains("s3cret"), "{text}");
    }
}
