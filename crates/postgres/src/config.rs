//! Where the database is and how to log in: connection URLs, keyword strings, `PG*` variables and `~/.pgpass`, with the
//! names, defaults and precedence of libpq (Postgres manual, "Database Connection Control Functions").

mod parse;
mod passfile;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use calve_core::{Error, ErrorKind, Result};

use calve_core::Secret;

/// How much TLS is asked for, as libpq's `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SslMode {
    /// Never TLS.
    Disable,
    /// Without TLS first, with it where the server refuses that.
    Allow,
    /// With TLS first, without it where the server refuses that. The default.
    Prefer,
    /// Only with TLS. The certificate is checked only where a root certificate is given.
    Require,
    /// TLS, and the server's certificate is signed by a known root.
    VerifyCa,
    /// As `VerifyCa`, and the certificate is for the host that was asked for.
    VerifyFull,
}

/// Whether the login must be bound to the TLS channel, as libpq's `channel_binding`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Where server and certificate allow it. The default.
    Prefer,
    /// A server that cannot is refused.
    Require,
}

/// One address to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name or address to resolve.
    Tcp(String),
    /// The directory of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(name) if name.contains(':') => write!(f, "[{name}]"),
            Self::Tcp(name) => f.write_str(name),
            Self::Unix(directory) => directory.display().fmt(f),
        }
    }
}

/// Where the trusted root certificates come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootCertificates {
    /// A PEM file.
    File(PathBuf),
    /// The operating system's own (`sslrootcert=system`).
    System,
}

/// Everything needed to open a connection to one database. `Debug` and `Display` show no password.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    pub(crate) hosts: Vec<(Host, u16)>,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) password: Option<Secret>,
    /// Why a password file was not used, to be said when a password turns out to be missing.
    pub(crate) password_note: Option<String>,
    pub(crate) ssl_mode: SslMode,
    pub(crate) root_certificates: Option<RootCertificates>,
    pub(crate) client_certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) channel_binding: ChannelBinding,
    pub(crate) connect_timeout: Duration,
    pub(crate) application_name: String,
    pub(crate) options: String,
    pub(crate) keepalive_idle: Option<Duration>,
}

/// What the process has around it. A value of its own so that tests bring theirs.
pub(crate) struct Surroundings<'a> {
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) home: Option<PathBuf>,
    pub(crate) default_socket_directory: Option<PathBuf>,
}

const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Much shorter than the kernel's two hours: a firewall that forgets the connection must not stop a pipeline silently.
const DEFAULT_KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const SOCKET_DIRECTORY: &str = "/var/run/postgresql";

impl ConnectConfig {
    /// Reads a URL (`postgres://user@host:5432/database?sslmode=require`) or a keyword string (`host=.. dbname=..`). What it
    /// leaves out comes from the `PG*` variables, the password also from `PGPASSFILE` or `~/.pgpass`.
    pub fn parse(text: &str) -> Result<Self> {
        let socket = Path::new(SOCKET_DIRECTORY);
        Self::parse_in(
            text,
            &Surroundings {
                variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()),
                home: std::env::home_dir(),
                default_socket_directory: socket.is_dir().then(|| socket.to_owned()),
            },
        )
    }

    pub(crate) fn parse_in(text: &str, around: &Surroundings<'_>) -> Result<Self> {
        let mut given = parse::parse(text)?;
        for (keyword, variable) in parse::VARIABLES {
            if !given.contains_key(*keyword)
                && let Some(value) = (around.variable)(variable)
            {
                given.insert(keyword, value);
            }
        }
        Self::from_keywords(given, around)
    }

    /// The same with another password, such as one from a configuration file; it wins over every other source.
    #[must_use]
    pub fn with_password(mut self, password: Secret) -> Self {
        self.password = Some(password);
        self
    }

    /// The same with another name for `pg_stat_activity` and `pg_stat_replication`.
    #[must_use]
    pub fn with_application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = name.into();
        self
    }

    /// The user that logs in.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The database connected to.
    pub fn database(&self) -> &str {
        &self.database
    }

    fn from_keywords(mut given: parse::Keywords, around: &Surroundings<'_>) -> Result<Self> {
        let mut take = |keyword: &str| given.remove(keyword).filter(|value| !value.is_empty());
        let hosts = hosts(take("host"), take("port"), around)?;
        let user = take("user")
            .or_else(|| (around.variable)("USER"))
            .or_else(|| (around.variable)("LOGNAME"))
            .ok_or_else(|| config_error("no user to log in as: write postgres://USER@host/database or set PGUSER"))?;
        let database = take("dbname").unwrap_or_else(|| user.clone());
        let in_home = |name: &str| around.home.as_ref().map(|home| home.join(".postgresql").join(name));
        let existing = |name: &str| in_home(name).filter(|path| path.is_file());

        let ssl_mode = ssl_mode(take("sslmode").as_deref())?;
        let root_certificates = match take("sslrootcert") {
            Some(word) if word == "system" => Some(RootCertificates::System),
            Some(path) => Some(RootCertificates::File(path.into())),
            None => existing("root.crt").map(RootCertificates::File),
        };
        if root_certificates == Some(RootCertificates::System) && ssl_mode != SslMode::VerifyFull {
            return Err(config_error("sslrootcert=system needs sslmode=verify-full"));
        }
        let client_certificate = match (take("sslcert"), take("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (Some(_), None) => {
                return Err(config_error("sslcert is given without sslkey: name the file of its private key"));
            }
            (None, Some(_)) => {
                return Err(config_error("sslkey is given without sslcert: name the file of its certificate"));
            }
            (None, None) => existing("postgresql.crt").zip(existing("postgresql.key")),
        };
        let channel_binding = channel_binding(take("channel_binding").as_deref())?;
        let connect_timeout = match take("connect_timeout") {
            None => DEFAULT_CONNECT_TIMEOUT,
            // As libpq: zero and negative wait for ever, which here is a day.
            Some(text) => match number::<i64>("connect_timeout", &text)? {
                ..=0 => Duration::from_hours(24),
                seconds => Duration::from_secs(seconds.unsigned_abs()),
            },
        };
        let keepalive_idle = match (take("keepalives").as_deref(), take("keepalives_idle")) {
            (Some("0"), _) => None,
            (_, None) => Some(DEFAULT_KEEPALIVE_IDLE),
            (_, Some(text)) => match number::<u64>("keepalives_idle", &text)? {
                0 => Some(DEFAULT_KEEPALIVE_IDLE),
                seconds => Some(Duration::from_secs(seconds)),
            },
        };
        match take("target_session_attrs").as_deref() {
            None | Some("any" | "read-write" | "primary") => {}
            Some(other) => {
                return Err(config_error(format!(
                    "target_session_attrs '{other}' is not supported: calve reads from the primary, write 'primary' or leave it out"
                )));
            }
        }

        let file =
            take("passfile").map(PathBuf::from).or_else(|| around.home.as_ref().map(|home| home.join(".pgpass")));
        let (password, password_note) = match (take("password"), file) {
            (Some(password), _) => (Some(Secret::new(password)), None),
            (None, None) => (None, None),
            (None, Some(file)) => match passfile::look_up(&file, &hosts, &database, &user) {
                Ok(found) => (found, None),
                Err(note) => (None, Some(note)),
            },
        };
        Ok(Self {
            hosts,
            user,
            database,
            password,
            password_note,
            ssl_mode,
            root_certificates,
            client_certificate,
            channel_binding,
            connect_timeout,
            application_name: take("application_name")
                .or_else(|| take("fallback_application_name"))
                .unwrap_or_else(|| "calve".to_owned()),
            options: take("options").unwrap_or_default(),
            keepalive_idle,
        })
    }
}

fn ssl_mode(word: Option<&str>) -> Result<SslMode> {
    match word {
        None | Some("prefer") => Ok(SslMode::Prefer),
        Some("disable") => Ok(SslMode::Disable),
        Some("allow") => Ok(SslMode::Allow),
        Some("require") => Ok(SslMode::Require),
        Some("verify-ca") => Ok(SslMode::VerifyCa),
        Some("verify-full") => Ok(SslMode::VerifyFull),
        Some(other) => Err(config_error(format!(
            "sslmode '{other}' is unknown: use disable, allow, prefer, require, verify-ca or verify-full"
        ))),
    }
}

fn channel_binding(word: Option<&str>) -> Result<ChannelBinding> {
    match word {
        None | Some("prefer") => Ok(ChannelBinding::Prefer),
        Some("disable") => Ok(ChannelBinding::Disable),
        Some("require") => Ok(ChannelBinding::Require),
        Some(other) => {
            Err(config_error(format!("channel_binding '{other}' is unknown: use disable, prefer or require")))
        }
    }
}

/// As a URL without the password, for messages.
impl fmt::Display for ConnectConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}@", self.user)?;
        for (index, (host, port)) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}:{port}", if index > 0 { "," } else { "" })?;
        }
        write!(f, "/{}", self.database)
    }
}

/// Pairs hosts with ports: one port for all of them, or one each.
fn hosts(hosts: Option<String>, ports: Option<String>, around: &Surroundings<'_>) -> Result<Vec<(Host, u16)>> {
    let default = || match &around.default_socket_directory {
        Some(directory) => Host::Unix(directory.clone()),
        None => Host::Tcp("localhost".to_owned()),
    };
    let hosts: Vec<Host> = match hosts {
        None => vec![default()],
        Some(list) => list
            .split(',')
            .map(|host| match host {
                "" => default(),
                path if path.starts_with('/') => Host::Unix(path.into()),
                name => Host::Tcp(name.to_owned()),
            })
            .collect(),
    };
    let ports = ports.unwrap_or_default();
    let ports = ports
        .split(',')
        .map(|port| if port.is_empty() { Ok(5432) } else { number::<u16>("port", port) })
        .collect::<Result<Vec<u16>>>()?;
    match ports[..] {
        [port] => Ok(hosts.into_iter().map(|host| (host, port)).collect()),
        _ if ports.len() == hosts.len() => Ok(hosts.into_iter().zip(ports).collect()),
        _ => Err(config_error(format!(
            "{} ports are given for {} hosts: give one each, or one",
            ports.len(),
            hosts.len()
        ))),
    }
}

fn number<T: std::str::FromStr>(keyword: &str, text: &str) -> Result<T> {
    text.trim()
        .parse()
        .map_err(|_| config_error(format!("{keyword} '{text}' in the connection string is not a valid number")))
}

fn config_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

#[cfg(test)]
mod tests;
