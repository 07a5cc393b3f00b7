//! The two databases that hold a SQL catalog, behind the few statements that it needs.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use calve_core::{Error, ErrorKind, Result};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, PgPool, Row, SqlitePool};

use crate::settings::CatalogSettings;

/// How long a statement waits for another process that writes to the sqlite file.
const SQLITE_LOCK_WAIT: Duration = Duration::from_secs(5);
/// How long opening a connection to Postgres may take.
const POSTGRES_WAIT: Duration = Duration::from_secs(15);

/// A row of text columns.
pub(super) type TextRow = Vec<Option<String>>;

/// A connected database. Statements mark their arguments `$1`, `$2`, ..., which both understand.
#[derive(Debug)]
pub(super) enum Database {
    Sqlite { pool: SqlitePool, path: PathBuf },
    Postgres { pool: PgPool, place: String },
}

impl Database {
    pub(super) async fn connect(settings: &CatalogSettings) -> Result<Self> {
        match settings {
            CatalogSettings::Sqlite { path } => Self::open_sqlite(path).await,
            CatalogSettings::Postgres { url } => Self::connect_postgres(url).await,
        }
    }

    async fn open_sqlite(path: &Path) -> Result<Self> {
        // A write-ahead log with synchronous=FULL is fsynced at every commit (the default journal's unlink is not), and
        // readers of the catalog never hold a commit back.
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(SQLITE_LOCK_WAIT);
        let place = format!("the catalog {}", path.display());
        let pool = SqlitePoolOptions::new()
            .max_connections(4)
            .connect_with(options)
            .await
            .map_err(|e| failed(&place, &diagnose(&e, true), e))?;
        Ok(Self::Sqlite { pool, path: path.to_owned() })
    }

    async fn connect_postgres(url: &str) -> Result<Self> {
        // The error of a bad URL may repeat the URL, and with it a password.
        let options = PgConnectOptions::from_str(url).map_err(|_| {
            Error::new(
                ErrorKind::Config,
                "the catalog's URL cannot be read; write postgres://user:password@host:port/database",
            )
        })?;
        let place = format!(
            "the catalog in database {} at {}:{}",
            options.get_database().unwrap_or(options.get_username()),
            options.get_host(),
            options.get_port()
        );
        // A pool waits and hides why it cannot connect, so the first connection is made by hand.
        let refused = |e| failed(&place, &diagnose(&e, true), e);
        match tokio::time::timeout(POSTGRES_WAIT, options.connect()).await {
            Ok(connected) => connected.map_err(refused)?.close().await.map_err(refused)?,
            Err(_) => return Err(refused(sqlx::Error::PoolTimedOut)),
        }
        let pool = PgPoolOptions::new().max_connections(8).acquire_timeout(POSTGRES_WAIT).connect_lazy_with(options);
        Ok(Self::Postgres { pool, place })
    }

    /// What the catalog is called in messages.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Sqlite { path, .. } => format!("the catalog {}", path.display()),
            Self::Postgres { place, .. } => place.clone(),
        }
    }

    /// Runs a statement that returns rows of text.
    pub(super) async fn fetch(&self, sql: &str, arguments: &[&str]) -> Result<Vec<TextRow>> {
        let rows: std::result::Result<Vec<TextRow>, sqlx::Error> =
            match self {
                Self::Sqlite { pool, .. } => {
                    let query = arguments.iter().fold(sqlx::query(sql), |query, argument| query.bind(*argument));
                    query.fetch_all(pool).await.and_then(|rows| {
                        rows.iter().map(|row| (0..row.len()).map(|i| row.try_get(i)).collect()).collect()
                    })
                }
                Self::Postgres { pool, .. } => {
                    let query = arguments.iter().fold(sqlx::query(sql), |query, argument| query.bind(*argument));
                    query.fetch_all(pool).await.and_then(|rows| {
                        rows.iter().map(|row| (0..row.len()).map(|i| row.try_get(i)).collect()).collect()
                    })
                }
            };
        rows.map_err(|e| failed(&self.place(), &diagnose(&e, false), e))
    }

    /// Runs a statement in a transaction of its own; returns how many rows it touched.
    pub(super) async fn execute(&self, sql: &str, arguments: &[&str]) -> std::result::Result<u64, Failure> {
        let done = match self {
            Self::Sqlite { pool, .. } => {
                let query = arguments.iter().fold(sqlx::query(sql), |query, argument| query.bind(*argument));
                query.execute(pool).await.map(|done| done.rows_affected())
            }
            Self::Postgres { pool, .. } => {
                let query = arguments.iter().fold(sqlx::query(sql), |query, argument| query.bind(*argument));
                query.execute(pool).await.map(|done| done.rows_affected())
            }
        };
        done.map_err(|e| {
            let state = diagnose(&e, false);
            Failure {
                applied_nothing: state.applied_nothing,
                duplicate: state.duplicate,
                error: failed(&self.place(), &state, e),
            }
        })
    }
}

/// A statement that failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// Whether it certainly changed nothing; a lost connection leaves that open.
    pub(super) applied_nothing: bool,
    /// A row of that key exists.
    pub(super) duplicate: bool,
    /// For the caller.
    pub(super) error: Error,
}

struct Diagnosis {
    kind: ErrorKind,
    remedy: &'static str,
    applied_nothing: bool,
    duplicate: bool,
}

/// What a database's error means. `opening`: nothing of ours was there yet, so what does not work is a setting.
fn diagnose(error: &sqlx::Error, opening: bool) -> Diagnosis {
    let retry = |remedy| Diagnosis { kind: ErrorKind::Retry, remedy, applied_nothing: false, duplicate: false };
    let config = |remedy| Diagnosis { kind: ErrorKind::Config, remedy, applied_nothing: true, duplicate: false };
    match error {
        sqlx::Error::Database(e) => {
            let code = e.code().unwrap_or_default();
            // Primary result codes of sqlite are the low byte of the extended ones; SQLSTATEs have five characters.
            let sqlite = code.parse::<u32>().ok().filter(|_| code.len() != 5).map(|code| code & 0xFF);
            match (sqlite, &*code) {
                (Some(5 | 6), _) => Diagnosis {
                    applied_nothing: true,
                    ..retry("another program holds the file locked; end it, or wait until it is done")
                },
                (Some(8 | 14 | 23), _) => config("make the file and its directory writable, or choose another lake"),
                (Some(13), _) => Diagnosis { applied_nothing: true, ..retry("the disk is full; make room") },
                (Some(11 | 26), _) => Diagnosis {
                    kind: ErrorKind::Corrupt,
                    remedy: "the file is damaged or no sqlite database; restore it from a backup or choose another lake",
                    applied_nothing: true,
                    duplicate: false,
                },
                (_, "28P01" | "28000" | "3D000" | "42501" | "3F000") => {
                    config("correct user, password, database or privileges in the catalog's URL")
                }
                _ => Diagnosis {
                    applied_nothing: true,
                    duplicate: e.is_unique_violation(),
                    ..retry("it is tried again")
                },
            }
        }
        sqlx::Error::Configuration(_) => config("correct the catalog's URL"),
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut if opening => {
            Diagnosis { applied_nothing: true, ..retry("start the database, or correct the catalog's host and port") }
        }
        _ => retry("it is tried again"),
    }
}

fn failed(place: &str, diagnosis: &Diagnosis, error: sqlx::Error) -> Error {
    let text = match &error {
        sqlx::Error::Database(e) => e.message().to_owned(),
        sqlx::Error::PoolTimedOut => String::from("no connection within the time allowed"),
        other => other.to_string(),
    };
    Error::with_source(diagnosis.kind, format!("{place} does not answer: {text}; {}", diagnosis.remedy), error)
}
