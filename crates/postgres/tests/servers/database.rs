//! A database of its own for each test, gone with its slots when the test ends well.

use std::sync::atomic::{AtomicU32, Ordering};

use calve_core::{ChangeSource, Position, SourceTable, TableName};
use calve_postgres::{ConnectConfig, PostgresSettings, PostgresSource};
use calve_testkit::servers::{Postgres, SUPERUSER};
use tokio_postgres::Client;

pub(crate) const VERSIONS: [u32; 3] = [15, 17, 18];

pub(crate) struct Database {
    url: String,
    pub(crate) name: String,
    pub(crate) client: Client,
}

/// The address of a server of this major version, as its superuser.
pub(crate) fn server(version: u32) -> String {
    Postgres::shared(version).unwrap().url(SUPERUSER, "postgres").unwrap()
}

impl Database {
    pub(crate) async fn create(version: u32) -> Self {
        Self::create_on(&server(version)).await
    }

    /// On the server with this address.
    pub(crate) async fn create_on(url: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let url = url.to_owned();
        let name = format!("stream_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let admin = ConnectConfig::parse(&url).unwrap().connect_sql().await.unwrap();
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let mut database = Self { url, name, client: admin };
        database.client = database.connect().connect_sql().await.unwrap();
        database.run("SET search_path = public").await;
        database
    }

    pub(crate) fn connect(&self) -> ConnectConfig {
        let (server, _) = self.url.rsplit_once('/').unwrap();
        ConnectConfig::parse(&format!("{server}/{}", self.name)).unwrap()
    }

    pub(crate) fn settings(&self) -> PostgresSettings {
        PostgresSettings::new(self.connect(), &self.name)
    }

    pub(crate) async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    pub(crate) async fn text(&self, sql: &str) -> String {
        self.client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
    }

    pub(crate) async fn end(&self) -> u64 {
        let text = self.text("SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::text").await;
        text.parse().unwrap()
    }

    pub(crate) async fn drop(self) {
        let slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots \
                     WHERE database = current_database() AND NOT active";
        self.run(slots).await;
        let admin = ConnectConfig::parse(&self.url).unwrap().connect_sql().await.unwrap();
        drop(self.client);
        admin.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await.unwrap();
    }
}

/// A source whose stream has begun, as the engine begins one, and where.
pub(crate) async fn start(settings: PostgresSettings, tables: &[&str]) -> (PostgresSource, Vec<SourceTable>, Position) {
    let mut source = PostgresSource::new(settings);
    let (tables, from) = begin(&mut source, tables).await;
    (source, tables, from)
}

pub(crate) async fn begin(source: &mut PostgresSource, tables: &[&str]) -> (Vec<SourceTable>, Position) {
    let names: Vec<TableName> = tables.iter().map(|name| name.parse().unwrap()).collect();
    let mut described = Vec::new();
    for name in &names {
        described.push(SourceTable { name: name.clone(), schema: source.describe(name).await.unwrap() });
    }
    let mut log = source.log_state().await.unwrap();
    source.follow(&names).await.unwrap();
    if log.acknowledged.is_none() {
        log = source.keep_log().await.unwrap();
    }
    let from = log.acknowledged.unwrap();
    source.start(&from, &described).await.unwrap();
    (described, from)
}
