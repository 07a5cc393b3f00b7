//! A blocking connection to the source, for tests that are one straight line and for load from several threads.

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Rows of a query, every value as the server's text.
pub type TextRows = Vec<Vec<Option<String>>>;

/// A connection to Postgres. Values are shown as the readers show theirs: ISO dates, UTC, bytes in hex.
#[derive(Debug)]
pub struct Sql {
    runtime: Runtime,
    client: Client,
}

/// What the readers' texts agree with, whatever the role or database is set to.
const DISPLAY: &str = "set datestyle = 'ISO, MDY'; set timezone = 'UTC'; set bytea_output = 'hex'; \
                       set intervalstyle = 'iso_8601'; set extra_float_digits = 1; set search_path = public";

impl Sql {
    /// Connects.
    pub fn connect(url: &str) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            // It ends with the client. What goes wrong on it is told by the client's next call.
            tokio::spawn(async move { drop(connection.await) });
            anyhow::Ok(client)
        });
        let mut sql = Self { runtime, client: client.context("connecting to the source")? };
        sql.run(DISPLAY)?;
        Ok(sql)
    }

    /// Connects as soon as the server takes connections again.
    pub fn connect_patiently(url: &str, patience: Duration) -> anyhow::Result<Self> {
        let until = Instant::now() + patience;
        loop {
            match Self::connect(url) {
                Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(50)),
                done => return done,
            }
        }
    }

    /// Runs statements, in one transaction unless they say otherwise.
    pub fn run(&mut self, statements: &str) -> anyhow::Result<()> {
        self.runtime.block_on(self.client.batch_execute(statements)).with_context(|| shortened(statements))
    }

    /// Runs a query.
    pub fn rows(&mut self, query: &str) -> anyhow::Result<TextRows> {
        let messages = self.runtime.block_on(self.client.simple_query(query)).with_context(|| shortened(query))?;
        let mut rows = Vec::new();
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                rows.push((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect());
            }
        }
        Ok(rows)
    }

    /// The value of a query for one row of one column.
    pub fn value(&mut self, query: &str) -> anyhow::Result<String> {
        let rows = self.rows(query)?;
        match rows.as_slice() {
            [row] if row.len() == 1 => row[0].clone().with_context(|| format!("NULL: {}", shortened(query))),
            _ => anyhow::bail!("{} rows: {}", rows.len(), shortened(query)),
        }
    }
}

/// Statements as they stand in an error: load scripts carry kilobytes of values.
fn shortened(statements: &str) -> String {
    match statements.char_indices().nth(300) {
        Some((end, _)) => format!("{} ..", &statements[..end]),
        None => statements.to_owned(),
    }
}
