//! Ordinary SQL connections, and how names and texts are quoted.

use std::future::{Ready, ready};
use std::io;

use calve_core::{Error, ErrorKind, Result};
use tokio_postgres::Client;
use tokio_postgres::config::{ChannelBinding as SqlChannelBinding, SslMode as SqlSslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding as StreamBinding, TlsConnect, TlsStream};

use crate::config::{ChannelBinding, ConnectConfig};
use crate::error::ServerError;
use crate::socket::{self, Login, LoginError, Wire};

/// Settings of every session, SQL and replication alike: one text form of each value, names in one form, and none of the
/// timeouts that a role may have set for its people.
pub(crate) const SESSION_OPTIONS: &str = "-c datestyle=ISO -c intervalstyle=iso_8601 -c timezone=UTC \
     -c extra_float_digits=3 -c bytea_output=hex -c lc_monetary=C -c search_path=pg_catalog -c statement_timeout=0 -c lock_timeout=0 \
     -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0";

/// The user's options and then ours, so that ours hold.
pub(crate) fn session_options(config: &ConnectConfig) -> String {
    format!("{} {SESSION_OPTIONS}", config.options).trim_start().to_owned()
}

/// A name as SQL writes it, always quoted.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL writes it with `standard_conforming_strings`, whatever that setting is.
pub(crate) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!(" E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

struct SqlLogin;

impl Login for SqlLogin {
    type Session = Client;
    const REPLICATION: bool = false;

    async fn login(&self, config: &ConnectConfig, wire: Wire) -> std::result::Result<Client, LoginError> {
        let mut sql = tokio_postgres::Config::new();
        sql.user(config.user.as_str())
            .dbname(config.database.as_str())
            .application_name(config.application_name.as_str())
            .options(session_options(config))
            .channel_binding(match config.channel_binding {
                ChannelBinding::Disable => SqlChannelBinding::Disable,
                ChannelBinding::Prefer => SqlChannelBinding::Prefer,
                ChannelBinding::Require => SqlChannelBinding::Require,
            });
        if let Some(password) = &config.password {
            sql.password(password.expose());
        }
        // TLS, if any, is established already; "direct" hands the stream over without asking for it once more.
        if wire.is_encrypted() {
            sql.ssl_mode(SqlSslMode::Require).ssl_negotiation(SslNegotiation::Direct);
        } else {
            sql.ssl_mode(SqlSslMode::Disable);
        }
        let (client, connection) =
            sql.connect_raw(wire, Established).await.map_err(|error| login_error(config, &error))?;
        // Ends with the client, or with the connection, whose error every pending and later statement reports.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to Postgres ended");
            }
        });
        Ok(client)
    }
}

fn login_error(config: &ConnectConfig, error: &tokio_postgres::Error) -> LoginError {
    if let Some(server) = ServerError::from_sql(error) {
        return LoginError::Server(server);
    }
    let source = std::error::Error::source(error);
    if let Some(error) = source.and_then(|source| source.downcast_ref::<io::Error>()) {
        return LoginError::Io(io::Error::new(error.kind(), error.to_string()));
    }
    if error.is_closed() {
        return LoginError::Io(io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string()));
    }
    if config.password.is_none() && error.to_string().contains("invalid configuration") {
        return LoginError::Other(missing_password(config));
    }
    let cause = source.map(|cause| format!(": {cause}")).unwrap_or_default();
    LoginError::Other(Error::new(ErrorKind::Config, format!("cannot log in to {config}: {error}{cause}")))
}

/// The server asks for a password and none is known.
pub(crate) fn missing_password(config: &ConnectConfig) -> Error {
    let note = config.password_note.as_ref().map(|note| format!(" ({note})")).unwrap_or_default();
    Error::new(
        ErrorKind::Config,
        format!(
            "cannot log in to {config}: the server asks for a password and none was given{note}; put it into the connection \
             URL, PGPASSWORD or ~/.pgpass"
        ),
    )
}

impl ConnectConfig {
    /// Opens a SQL connection. Its task ends when the client is dropped.
    pub async fn connect_sql(&self) -> Result<Client> {
        socket::connect(self, &SqlLogin).await
    }
}

/// Hands a stream whose TLS was set up before to tokio-postgres.
struct Established;

impl TlsConnect<Wire> for Established {
    type Stream = Wire;
    type Error = io::Error;
    type Future = Ready<io::Result<Wire>>;

    fn connect(self, stream: Wire) -> Self::Future {
        ready(Ok(stream))
    }
}

impl TlsStream for Wire {
    fn channel_binding(&self) -> StreamBinding {
        Wire::channel_binding(self).map_or_else(StreamBinding::none, StreamBinding::tls_server_end_point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(identifier(r#"My "Table""#), r#""My ""Table""""#);
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal(r"a\b'"), r" E'a\\b'''");
    }
}
