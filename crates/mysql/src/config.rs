//! Where the server is and how to log in: connection URLs, the variables of MySQL's own clients and `~/.my.cnf`, with their
//! names and meaning (MySQL manual, "Connecting to the Server Using URI-Like Strings", "Command Options for Encrypted
//! Connections", "Environment Variables").

mod option_file;
mod parse;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use calve_core::{Error, ErrorKind, Result, Secret};

/// How much TLS is asked for, as the `ssl-mode` of MySQL's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SslMode {
    /// Never TLS.
    Disabled,
    /// With TLS where it can be had, without it otherwise. The default.
    Preferred,
    /// Only with TLS. The certificate is not checked.
    Required,
    /// TLS, and the server's certificate is signed by a known root. The default where `ssl-ca` is given.
    VerifyCa,
    /// As `VerifyCa`, and the certificate is for the host that was asked for.
    VerifyIdentity,
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name or address to resolve, and the port.
    Tcp(String, u16),
    /// The file of a Unix socket.
    Unix(PathBuf),
}

/// `host:port`, an IPv6 address in brackets; or the path of the socket.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(name, port) if name.contains(':') => write!(f, "[{name}]:{port}"),
            Self::Tcp(name, port) => write!(f, "{name}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// Where the trusted root certificates come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootCertificates {
    /// A PEM file.
    File(PathBuf),
    /// The operating system's own (`ssl-ca=system`).
    System,
}

/// Everything needed to open a connection to one server. `Debug` and `Display` show no password.
#[derive(Clone, Debug)]
pub struct ConnectConfig {
    /// As the URL began: `mysql` or `mariadb`. Only for showing it; which of the two it is, the server says.
    scheme: &'static str,
    pub(crate) host: Host,
    pub(crate) user: String,
    pub(crate) database: Option<String>,
    pub(crate) password: Option<Secret>,
    /// Why the option file was not used, to be said when a password turns out to be missing.
    pub(crate) password_note: Option<String>,
    pub(crate) ssl_mode: SslMode,
    pub(crate) root_certificates: Option<RootCertificates>,
    pub(crate) client_certificate: Option<(PathBuf, PathBuf)>,
    pub(crate) connect_timeout: Duration,
    pub(crate) application_name: String,
}

/// What the process has around it. A value of its own so that tests bring theirs.
pub(crate) struct Surroundings<'a> {
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) home: Option<PathBuf>,
}

const DEFAULT_PORT: u16 = 3306;
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl ConnectConfig {
    /// Reads a URL (`mysql://user@host:3306/database?ssl-mode=REQUIRED`, or `mariadb://`). What it leaves out comes from
    /// `MYSQL_PWD`, `MYSQL_HOST`, `MYSQL_TCP_PORT` and `MYSQL_UNIX_PORT`, then from the `[client]` group of `~/.my.cnf`.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_in(
            text,
            &Surroundings {
                variable: &|name| std::env::var(name).ok().filter(|value| !value.is_empty()),
                home: std::env::home_dir(),
            },
        )
    }

    pub(crate) fn parse_in(text: &str, around: &Surroundings<'_>) -> Result<Self> {
        let (scheme, mut given) = parse::parse(text)?;
        for (keyword, variable) in parse::VARIABLES {
            // A server named in the URL is not overruled in part.
            let located = given.contains_key("host") || given.contains_key("socket");
            let overruled = located && ["host", "port", "socket"].contains(keyword);
            if !overruled
                && !given.contains_key(keyword)
                && let Some(value) = (around.variable)(variable)
            {
                given.insert(keyword, value);
            }
        }
        let mut password_note = None;
        if let Some(home) = &around.home {
            let file = home.join(".my.cnf");
            match option_file::client_options(&file) {
                Ok(options) => {
                    for (keyword, value) in options {
                        given.entry(keyword).or_insert(value);
                    }
                }
                Err(note) => password_note = Some(note),
            }
        }
        Self::from_keywords(scheme, given, password_note, around)
    }

    /// The same with another password, such as one from a configuration file; it wins over every other source.
    #[must_use]
    pub fn with_password(mut self, password: Secret) -> Self {
        self.password = Some(password);
        self
    }

    /// The same with another name for `performance_schema.session_connect_attrs`.
    #[must_use]
    pub fn with_application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = name.into();
        self
    }

    /// The user that logs in.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The database in the URL, where there is one. Tables of every database can be replicated.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The server's address as people write it: `host:port`, or the path of the socket.
    pub fn host_port(&self) -> String {
        self.host.to_string()
    }

    fn from_keywords(
        scheme: &'static str,
        mut given: parse::Keywords,
        password_note: Option<String>,
        around: &Surroundings<'_>,
    ) -> Result<Self> {
        let mut take = |keyword: &str| given.remove(keyword).filter(|value| !value.is_empty());
        let (host, port, socket) = (take("host"), take("port"), take("socket"));
        let port = port.map_or(Ok(DEFAULT_PORT), |port| number("port", &port))?;
        let host = match (host, socket) {
            // As MySQL's clients: `localhost` is the socket where one is named.
            (None, Some(socket)) => Host::Unix(socket.into()),
            (Some(host), Some(socket)) if host == "localhost" => Host::Unix(socket.into()),
            (host, _) => Host::Tcp(host.unwrap_or_else(|| "localhost".to_owned()), port),
        };
        let user = take("user")
            .or_else(|| (around.variable)("USER"))
            .or_else(|| (around.variable)("LOGNAME"))
            .ok_or_else(|| config_error(format!("no user to log in as: write {scheme}://USER@host/database")))?;

        let root_certificates = take("ssl-ca").map(|ca| match ca.as_str() {
            "system" => RootCertificates::System,
            _ => RootCertificates::File(ca.into()),
        });
        let ssl_mode = ssl_mode(take("ssl-mode").as_deref(), root_certificates.is_some())?;
        if matches!(ssl_mode, SslMode::VerifyCa | SslMode::VerifyIdentity) && root_certificates.is_none() {
            return Err(config_error(
                "ssl-mode=VERIFY_CA and VERIFY_IDENTITY need the root certificate: set ssl-ca to its PEM file, or to \
                 'system' for the operating system's own",
            ));
        }
        if matches!(host, Host::Unix(_)) && !matches!(ssl_mode, SslMode::Disabled | SslMode::Preferred) {
            return Err(config_error(format!(
                "TLS is asked for on the Unix socket {host}, where it protects nothing: leave ssl-mode and ssl-ca out, or \
                 name a host"
            )));
        }
        let client_certificate = match (take("ssl-cert"), take("ssl-key")) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (Some(_), None) => {
                return Err(config_error("ssl-cert is given without ssl-key: name the file of its private key"));
            }
            (None, Some(_)) => {
                return Err(config_error("ssl-key is given without ssl-cert: name the file of its certificate"));
            }
            (None, None) => None,
        };
        let connect_timeout = match take("connect-timeout") {
            None => DEFAULT_CONNECT_TIMEOUT,
            Some(text) => match number::<u64>("connect-timeout", &text)? {
                0 => DEFAULT_CONNECT_TIMEOUT,
                seconds => Duration::from_secs(seconds.min(86_400)),
            },
        };
        Ok(Self {
            scheme,
            host,
            user,
            database: take("database"),
            password: take("password").map(Secret::new),
            password_note,
            ssl_mode,
            root_certificates,
            client_certificate,
            connect_timeout,
            application_name: "calve".to_owned(),
        })
    }
}

/// As MySQL's clients: naming a root certificate asks for it to be used.
fn ssl_mode(word: Option<&str>, has_roots: bool) -> Result<SslMode> {
    match word.map(str::to_ascii_uppercase).as_deref() {
        None if has_roots => Ok(SslMode::VerifyCa),
        None | Some("PREFERRED") => Ok(SslMode::Preferred),
        Some("DISABLED") => Ok(SslMode::Disabled),
        Some("REQUIRED") => Ok(SslMode::Required),
        Some("VERIFY_CA") => Ok(SslMode::VerifyCa),
        Some("VERIFY_IDENTITY") => Ok(SslMode::VerifyIdentity),
        Some(other) => Err(config_error(format!(
            "ssl-mode '{other}' is unknown: use DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY"
        ))),
    }
}

/// As a URL without the password, for messages.
impl fmt::Display for ConnectConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.database.as_deref().unwrap_or_default();
        match &self.host {
            Host::Tcp(..) => write!(f, "{}://{}@{}/{database}", self.scheme, self.user, self.host),
            Host::Unix(path) => {
                write!(f, "{}://{}@localhost/{database}?socket={}", self.scheme, self.user, path.display())
            }
        }
    }
}

fn number<T: std::str::FromStr>(keyword: &str, text: &str) -> Result<T> {
    text.trim()
        .parse()
        .map_err(|_| config_error(format!("{keyword} '{text}' in the connection settings is not a valid number")))
}

fn config_error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

#[cfg(test)]
mod tests;
