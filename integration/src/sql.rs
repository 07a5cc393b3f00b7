//! A blocking connection to the source, for tests that are one straight line and for load from several threads.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use calve_testkit::servers::Kind;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Value};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Rows of a query, every value as the server's text.
pub type TextRows = Vec<Vec<Option<String>>>;

/// A connection to a source. In Postgres values are shown as the readers show theirs: ISO dates, UTC, bytes in hex. MySQL
/// and MariaDB show theirs in UTC; `compare` translates the rest.
#[derive(Debug)]
pub struct Sql {
    runtime: Runtime,
    connection: Connection,
    kind: Kind,
}

#[derive(Debug)]
enum Connection {
    Postgres(Client),
    /// The protocol that MySQL and MariaDB share.
    MySql(Box<Conn>),
}

/// What the readers' texts agree with, whatever the role or database is set to.
const POSTGRES_DISPLAY: &str = "set datestyle = 'ISO, MDY'; set timezone = 'UTC'; set bytea_output = 'hex'; \
                                set intervalstyle = 'iso_8601'; set extra_float_digits = 1; set search_path = public";
const MYSQL_DISPLAY: &str = "set time_zone = '+00:00'; set names utf8mb4";

impl Sql {
    /// Connects, to whatever the URL names: `postgres://` or `mysql://`.
    pub fn connect(url: &str) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connection = runtime.block_on(open(url)).context("connecting to the source")?;
        let display = match connection {
            Connection::Postgres(_) => POSTGRES_DISPLAY,
            Connection::MySql(_) => MYSQL_DISPLAY,
        };
        let mut sql = Self { runtime, connection, kind: Kind::Postgres };
        sql.run(display)?;
        if matches!(sql.connection, Connection::MySql(_)) {
            let version = sql.value("select version()")?;
            sql.kind = if version.contains("MariaDB") { Kind::MariaDb } else { Kind::MySql };
        }
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

    /// What database the server runs.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Runs statements one after the other, up to the first that fails. In Postgres they are one transaction unless they
    /// say otherwise.
    pub fn run(&mut self, statements: &str) -> anyhow::Result<()> {
        let done = match &mut self.connection {
            Connection::Postgres(client) => {
                self.runtime.block_on(client.batch_execute(statements)).map_err(anyhow::Error::from)
            }
            Connection::MySql(conn) => self.runtime.block_on(conn.query_drop(statements)).map_err(anyhow::Error::from),
        };
        done.with_context(|| shortened(statements))
    }

    /// Runs a query.
    pub fn rows(&mut self, query: &str) -> anyhow::Result<TextRows> {
        let rows = match &mut self.connection {
            Connection::Postgres(client) => self.runtime.block_on(postgres_rows(client, query)),
            Connection::MySql(conn) => self.runtime.block_on(mysql_rows(conn, query)),
        };
        rows.with_context(|| shortened(query))
    }

    /// The value of a query for one row of one column.
    pub fn value(&mut self, query: &str) -> anyhow::Result<String> {
        let rows = self.rows(query)?;
        match rows.as_slice() {
            [row] if row.len() == 1 => row[0].clone().with_context(|| format!("NULL: {}", shortened(query))),
            _ => bail!("{} rows: {}", rows.len(), shortened(query)),
        }
    }

    /// A name as the server's SQL wants it.
    pub fn identifier(&self, name: &str) -> String {
        identifier(self.kind, name)
    }

    /// A text as the server's SQL has it.
    pub fn literal(&self, text: &str) -> String {
        let text = if self.kind == Kind::Postgres { text.to_owned() } else { text.replace('\\', "\\\\") };
        format!("'{}'", text.replace('\'', "''"))
    }
}

/// A name as a server's SQL wants it.
pub fn identifier(kind: Kind, name: &str) -> String {
    let quote = if kind == Kind::Postgres { '"' } else { '`' };
    format!("{quote}{}{quote}", name.replace(quote, &format!("{quote}{quote}")))
}

async fn open(url: &str) -> anyhow::Result<Connection> {
    if url.starts_with("mysql://") {
        // The server names a socket by a path within its own root.
        let options = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
        return Ok(Connection::MySql(Box::new(Conn::new(options).await?)));
    }
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // It ends with the client. What goes wrong on it is told by the client's next call.
    tokio::spawn(async move { drop(connection.await) });
    Ok(Connection::Postgres(client))
}

async fn postgres_rows(client: &Client, query: &str) -> anyhow::Result<TextRows> {
    let mut rows = Vec::new();
    for message in client.simple_query(query).await? {
        if let SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect());
        }
    }
    Ok(rows)
}

/// A plain query is answered in text, of which binary columns make no exception: they are asked for in hex.
async fn mysql_rows(conn: &mut Conn, query: &str) -> anyhow::Result<TextRows> {
    let answered: Vec<mysql_async::Row> = conn.query(query).await?;
    let text = |value: Value| match value {
        Value::NULL => Ok(None),
        Value::Bytes(bytes) => Ok(Some(String::from_utf8(bytes).context("the server's text is not UTF-8")?)),
        other => bail!("a plain query was answered by {other:?}"),
    };
    answered.into_iter().map(|row| row.unwrap().into_iter().map(text).collect()).collect()
}

/// Statements as they stand in an error: load scripts carry kilobytes of values.
fn shortened(statements: &str) -> String {
    match statements.char_indices().nth(300) {
        Some((end, _)) => format!("{} ..", &statements[..end]),
        None => statements.to_owned(),
    }
}
