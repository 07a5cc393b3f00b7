//! Opens connections: TLS as `ssl-mode` says, and a session whose settings are pinned, so that values come in one form
//! whatever the server's or the user's defaults are.

use std::path::Path;
use std::time::Duration;

use calve_core::{Error, ErrorKind, Result, Secret};
use mysql_async::prelude::Queryable;
use mysql_async::{ClientIdentity, Conn, DriverError, Error as SqlError, OptsBuilder, SslOpts};

use crate::config::{ConnectConfig, Host, RootCertificates, SslMode};
use crate::error::{is_tls, login_error, sql_error};

/// The largest packet that the protocol allows for. A smaller limit would end the stream for ever at the first event above it.
const MAX_PACKET: usize = 1 << 30;
/// Much shorter than the kernel's two hours: a firewall that forgets the connection must not stop a pipeline silently.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);

/// Settings of every session, whatever their global values are. `sql_mode` without `PAD_CHAR_TO_FULL_LENGTH`, `ANSI_QUOTES` and
/// `NO_BACKSLASH_ESCAPES`; results whole (`sql_select_limit` cuts them off without a word); a server that waits for a reader
/// held back by a slow catalog for a week; no limit on the time of a statement or of a transaction. Each of the two servers
/// takes the other's comment for a comment (MariaDB manual, "Comment Syntax": versions 50700 to 50999 are MySQL's).
const SESSION: &str = "SET SESSION sql_mode = '', time_zone = '+00:00', autocommit = 1, completion_type = 0, \
     sql_auto_is_null = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, \
     net_write_timeout = 604800, net_read_timeout = 604800, wait_timeout = 604800, lock_wait_timeout = 30 \
     /*!50708 , max_execution_time = 0 */ \
     /*M!100302 , max_statement_time = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0 */";

/// MySQL 8.0.30 and later can hide the key that it makes for tables without one. It is in the log.
const GENERATED_KEYS: &str = "SET SESSION show_gipk_in_create_table_and_information_schema = ON";

/// Text as it is stored: each column's bytes in its own character set.
const RAW_TEXT: &str = "SET SESSION character_set_results = NULL";

/// Where operating systems keep their root certificates in one PEM file.
const SYSTEM_ROOTS: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];

impl ConnectConfig {
    /// Opens a connection with a pinned session.
    pub async fn connect_sql(&self) -> Result<Conn> {
        open(self).await
    }
}

/// Opens a connection with a pinned session. Its texts come as UTF-8.
pub(crate) async fn open(config: &ConnectConfig) -> Result<Conn> {
    let limit = config.connect_timeout;
    let timed_out = |_| {
        Error::new(
            ErrorKind::Retry,
            format!(
                "cannot connect to {config}: no answer in {} seconds; check host, port and firewalls",
                limit.as_secs()
            ),
        )
    };
    let mut conn = tokio::time::timeout(limit, connect(config)).await.map_err(timed_out)??;
    let pinned = async {
        conn.query_drop("SET NAMES utf8mb4").await?;
        conn.query_drop(SESSION).await?;
        match conn.query_drop(GENERATED_KEYS).await {
            // A server without them.
            Err(SqlError::Server(_)) => Ok(()),
            other => other,
        }
    };
    tokio::time::timeout(limit, pinned)
        .await
        .map_err(timed_out)?
        .map_err(|error| sql_error(format_args!("cannot set up the session on {config}"), &error))?;
    Ok(conn)
}

/// Opens a connection whose texts come as the bytes of their column's character set.
pub(crate) async fn open_raw(config: &ConnectConfig) -> Result<Conn> {
    let mut conn = open(config).await?;
    conn.query_drop(RAW_TEXT)
        .await
        .map_err(|error| sql_error(format_args!("cannot set up the session on {config}"), &error))?;
    Ok(conn)
}

async fn connect(config: &ConnectConfig) -> Result<Conn> {
    let options = options(config);
    let Some(tls) = tls(config)? else {
        return Conn::new(options).await.map_err(|error| login_error(config, &error));
    };
    match Conn::new(options.clone().ssl_opts(tls)).await {
        // As MySQL's clients: without TLS where none can be had.
        Err(error) if config.ssl_mode == SslMode::Preferred && no_tls(&error) => {
            tracing::debug!(%error, "connecting without TLS");
            Conn::new(options).await.map_err(|error| login_error(config, &error))
        }
        other => other.map_err(|error| login_error(config, &error)),
    }
}

/// Whether TLS is what failed.
fn no_tls(error: &SqlError) -> bool {
    match error {
        SqlError::Driver(DriverError::NoClientSslFlagFromServer) => true,
        other => is_tls(other),
    }
}

fn options(config: &ConnectConfig) -> OptsBuilder {
    let options = OptsBuilder::default()
        .user(Some(config.user.as_str()))
        .pass(config.password.as_ref().map(Secret::expose))
        .db_name(config.database.as_deref())
        .max_allowed_packet(Some(MAX_PACKET))
        // Read from the server otherwise, in one more question; it only decides about idle connections in a pool.
        .wait_timeout(Some(604_800))
        // Every statement of a load is another one.
        .stmt_cache_size(0)
        .tcp_keepalive(Some(KEEPALIVE_IDLE))
        // It would move to the socket that the server names, which need not be this server's here.
        .prefer_socket(false)
        // The driver leaves these out where TLS is on.
        .connect_attribute("program_name", config.application_name.as_str());
    match &config.host {
        Host::Tcp(name, port) => options.ip_or_hostname(name.as_str()).tcp_port(*port),
        Host::Unix(path) => options.socket(Some(path.to_string_lossy())),
    }
}

/// TLS as the mode asks for it. None for a connection without.
fn tls(config: &ConnectConfig) -> Result<Option<SslOpts>> {
    if config.ssl_mode == SslMode::Disabled || matches!(config.host, Host::Unix(_)) {
        return Ok(None);
    }
    let mut options = SslOpts::default();
    if let Some((certificate, key)) = &config.client_certificate {
        let (certificate, key) = (read("ssl-cert", certificate)?, read("ssl-key", key)?);
        options = options.with_client_identity(Some(ClientIdentity::new(certificate.into(), key.into())));
    }
    match (config.ssl_mode, &config.root_certificates) {
        (SslMode::VerifyCa | SslMode::VerifyIdentity, Some(roots)) => {
            let roots = match roots {
                RootCertificates::File(path) => read("ssl-ca", path)?,
                RootCertificates::System => system_roots()?,
            };
            options = options.with_root_certs(vec![roots.into()]).with_disable_built_in_roots(true);
        }
        _ => options = options.with_danger_accept_invalid_certs(true),
    }
    if config.ssl_mode == SslMode::VerifyCa {
        options = without_name_check(options);
    }
    Ok(Some(options))
}

/// The chain is checked, the name is not. `mysql_async` forgives a wrong name by searching the error's text for
/// `NotValidForName`, which rustls no longer writes; but its text repeats the name that was asked for, so that is the name to
/// ask for. A test against a server with certificates by MySQL's own set-up, which name no host, holds this together.
fn without_name_check(options: SslOpts) -> SslOpts {
    options.with_danger_skip_domain_validation(true).with_danger_tls_hostname_override(Some("NotValidForName"))
}

/// The file's content, so that what is wrong with it is said by its option's name.
fn read(option: &str, path: &Path) -> Result<Vec<u8>> {
    let error = |error| config_error(format!("cannot read {option} {}: {error}", path.display()));
    std::fs::read(path).map_err(error)
}

fn system_roots() -> Result<Vec<u8>> {
    let named = std::env::var("SSL_CERT_FILE").ok();
    let file = named.as_deref().into_iter().chain(SYSTEM_ROOTS.iter().copied()).find(|path| Path::new(path).is_file());
    match file {
        Some(path) => read("ssl-ca=system", Path::new(path)),
        None => Err(config_error(
            "ssl-ca=system: no system certificates were found; name their PEM file in SSL_CERT_FILE or ssl-ca",
        )),
    }
}

fn config_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

#[cfg(all(test, feature = "servers"))]
#[path = "connection_tests.rs"]
mod tests;
