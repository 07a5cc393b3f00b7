//! Answers of the server that are errors, and what each means for the pipeline.

use std::fmt;

use calve_core::{Error, ErrorKind};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::ErrorFields;

use crate::ConnectConfig;

/// An `ErrorResponse`: the fields that say something to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerError {
    /// SQLSTATE.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
    pub(crate) hint: Option<String>,
}

/// One line in the server's own words.
impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.message))?;
        if let Some(detail) = &self.detail {
            write!(f, " ({})", one_line(detail))?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; hint: {}", one_line(hint))?;
        }
        write!(f, " [{}]", self.code)
    }
}

impl std::error::Error for ServerError {}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// SQLSTATEs that are told apart (Postgres manual, appendix A).
pub(crate) mod code {
    pub(crate) const INVALID_PASSWORD: &str = "28P01";
    pub(crate) const INVALID_AUTHORIZATION: &str = "28000";
    pub(crate) const UNKNOWN_DATABASE: &str = "3D000";
    pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";
    pub(crate) const TOO_MANY_CONNECTIONS: &str = "53300";
    pub(crate) const LIMIT_EXCEEDED: &str = "53400";
    pub(crate) const INSUFFICIENT_PRIVILEGE: &str = "42501";
    pub(crate) const UNDEFINED_OBJECT: &str = "42704";
    pub(crate) const DUPLICATE_OBJECT: &str = "42710";
    pub(crate) const OBJECT_IN_USE: &str = "55006";
    pub(crate) const LOCK_NOT_AVAILABLE: &str = "55P03";
    pub(crate) const NOT_IN_PREREQUISITE_STATE: &str = "55000";
}

impl ServerError {
    pub(crate) fn from_fields(mut fields: ErrorFields<'_>) -> Self {
        let mut error = Self { code: String::new(), message: String::new(), detail: None, hint: None };
        // A field list cut short still says what came before the cut.
        while let Ok(Some(field)) = fields.next() {
            error.put(field.type_(), String::from_utf8_lossy(field.value_bytes()).into_owned());
        }
        error
    }

    /// From the body of an `ErrorResponse`: fields of a type byte and a text each, a zero byte at the end.
    pub(crate) fn from_body(body: &[u8]) -> Self {
        let mut error = Self { code: String::new(), message: String::new(), detail: None, hint: None };
        for field in body.split(|byte| *byte == 0) {
            let Some((kind, text)) = field.split_first() else { continue };
            error.put(*kind, String::from_utf8_lossy(text).into_owned());
        }
        error
    }

    fn put(&mut self, kind: u8, text: String) {
        match kind {
            b'C' => self.code = text,
            b'M' => self.message = text,
            b'D' => self.detail = Some(text),
            b'H' => self.hint = Some(text),
            _ => {}
        }
    }

    pub(crate) fn from_sql(error: &tokio_postgres::Error) -> Option<Self> {
        error.as_db_error().map(|db| Self {
            code: db.code().code().to_owned(),
            message: db.message().to_owned(),
            detail: db.detail().map(str::to_owned),
            hint: db.hint().map(str::to_owned),
        })
    }

    /// What a repetition would do: the classes that pass by themselves are retried.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self.code.get(..2) {
            // Connection, rollback (deadlock, serialization), resources, operator intervention, system error, and internal errors.
            Some("08" | "40" | "53" | "57" | "58" | "XX") if self.code != code::PROTOCOL_VIOLATION => ErrorKind::Retry,
            _ if [code::OBJECT_IN_USE, code::LOCK_NOT_AVAILABLE].contains(&self.code.as_str()) => ErrorKind::Retry,
            _ => ErrorKind::Config,
        }
    }

    /// The error with what was being done before it.
    pub(crate) fn during(&self, what: impl fmt::Display) -> Error {
        Error::new(self.kind(), format!("{what}: {self}"))
    }

    /// The error of a login, with what to do about it.
    pub(crate) fn at_login(&self, config: &ConnectConfig, replication: bool) -> Error {
        let user = &config.user;
        let (kind, advice) = match self.code.as_str() {
            code::INVALID_PASSWORD => {
                let advice = match (&config.password, &config.password_note) {
                    (Some(_), _) => "check the password in the connection URL, PGPASSWORD or ~/.pgpass".to_owned(),
                    (None, Some(note)) => note.clone(),
                    (None, None) => "no password was given: set PGPASSWORD or add a line to ~/.pgpass".to_owned(),
                };
                (ErrorKind::Config, advice)
            }
            code::INVALID_AUTHORIZATION if self.message.contains("pg_hba.conf") => {
                let tls =
                    if self.message.contains("no encryption") { ", or ask for TLS with sslmode=require" } else { "" };
                (
                    ErrorKind::Config,
                    format!("add a line for user {user} and this machine to the server's pg_hba.conf{tls}"),
                )
            }
            code::INVALID_AUTHORIZATION => (ErrorKind::Config, format!("check that role {user} exists and may log in")),
            code::UNKNOWN_DATABASE => {
                (ErrorKind::Config, "check the database name at the end of the connection URL".to_owned())
            }
            code::INSUFFICIENT_PRIVILEGE if replication => (
                ErrorKind::Config,
                format!("run ALTER ROLE {} REPLICATION as a superuser", crate::sql::identifier(user)),
            ),
            code::INSUFFICIENT_PRIVILEGE => (
                ErrorKind::Config,
                format!(
                    "run GRANT CONNECT ON DATABASE {} TO {}",
                    crate::sql::identifier(&config.database),
                    crate::sql::identifier(user)
                ),
            ),
            code::PROTOCOL_VIOLATION => (
                ErrorKind::Config,
                "a connection pooler seems to stand in front: give the address of the Postgres server itself"
                    .to_owned(),
            ),
            code::TOO_MANY_CONNECTIONS if replication => {
                (ErrorKind::Retry, "if it stays so, raise max_wal_senders or max_connections".to_owned())
            }
            code::TOO_MANY_CONNECTIONS => (ErrorKind::Retry, "if it stays so, raise max_connections".to_owned()),
            _ => (self.kind(), String::new()),
        };
        let advice = if advice.is_empty() { advice } else { format!("; {advice}") };
        Error::new(kind, format!("cannot log in to {config}: {self}{advice}"))
    }
}

/// The error of a statement on a SQL connection, with what was being done. A lost connection is tried again.
pub(crate) fn sql_error(what: impl fmt::Display, error: &tokio_postgres::Error) -> Error {
    if let Some(server) = ServerError::from_sql(error) {
        return server.during(what);
    }
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Error::new(ErrorKind::Retry, format!("{what}: the connection to Postgres failed: {error}{cause}"))
}
