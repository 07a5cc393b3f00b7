//! Real database servers for tests: started, restarted, killed and removed through `integration/servers/servers.py`,
//! which also serves the scripts and people.
//!
//! A test either shares one server per version with all others and makes a database of its own in it, or starts a
//! server of its own, to restart or to configure. Nothing outlives the test process: a dropped server is taken down,
//! and one whose process was killed is taken down by a reaper. A server that cannot be had is an error, never a skip.
//!
//! Everything here blocks, about a second for a new server. In async tests run it before what must go on meanwhile, or
//! in `spawn_blocking`.

mod command;
mod postgres;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use command::servers;

pub use command::ServerError;
pub use postgres::{Postgres, SUPERUSER};

/// A user of every server that may log in, read and replicate, and is no superuser: what calve gets. Its password is its
/// name.
pub const REPLICATION_USER: &str = "calve";

/// What database a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Postgres.
    Postgres,
    /// MySQL.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Kind {
    /// The superuser of its servers; its password is its name.
    pub fn superuser(self) -> &'static str {
        match self {
            Self::Postgres => SUPERUSER,
            Self::MySql | Self::MariaDb => "root",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Postgres => "Postgres",
            Self::MySql => "MySQL",
            Self::MariaDb => "MariaDB",
        })
    }
}

/// The servers there are whose log is a binlog. `9` is MySQL 9 or newer.
pub const BINLOG_SERVERS: [(Kind, &str); 3] = [(Kind::MySql, "9"), (Kind::MariaDb, "10.11"), (Kind::MariaDb, "11.8")];

/// How a server is made to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Connections are cut, changed pages written back.
    Fast,
    /// Nothing is written back: the next start recovers from the log.
    Immediate,
    /// SIGKILL to the server and all its processes.
    Kill,
}

impl Stop {
    fn word(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Immediate => "immediate",
            Self::Kill => "kill",
        }
    }
}

/// What is special about a server of one's own.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    hba: Vec<String>,
}

impl Options {
    /// A setting as in `postgresql.conf` or `my.cnf`, over the defaults: for Postgres logical WAL, 20 slots and senders,
    /// fsync and TLS on; for the others a full row log synced at every commit, GTIDs and TLS.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A line before all others of `pg_hba.conf`, for instance `hostnossl all all all reject`.
    #[must_use]
    pub fn hba(mut self, line: &str) -> Self {
        self.hba.push(line.to_owned());
        self
    }
}

/// A database server. Clones speak of the same one; the last clone of a dedicated one takes it down.
#[derive(Clone, Debug)]
pub struct Server {
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    id: String,
    kind: Kind,
    version: String,
    dedicated: bool,
    /// Absent where the server was given by address.
    place: Option<Place>,
}

#[derive(Clone, Debug)]
struct Place {
    host: String,
    port: u16,
    data: PathBuf,
    ca: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.dedicated {
            // Whatever goes wrong here, the reaper tries again once this process is gone.
            let _ = servers(&["down", &self.id], None);
        }
    }
}

/// The shared servers this process has asked for already.
static SHARED: Mutex<Vec<Server>> = Mutex::new(Vec::new());

/// How long a shared server waits for another test process after the last one ended.
const SHARED_LINGER_S: &str = "60";

impl Server {
    /// The server of this version that all tests share: at the address in the environment where there is one
    /// (`CALVE_TEST_MARIADB_11_8`), else started by whichever test comes first. It must not be restarted, and its
    /// databases are other tests' too.
    pub fn shared(kind: Kind, version: &str) -> Result<Self, ServerError> {
        let mut known = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|server| server.kind() == kind && server.version() == version) {
            return Ok(found.clone());
        }
        let (name, room) = match kind {
            Kind::Postgres => (
                // Another checkout may share servers that were made before they had pgvector.
                format!("shared-vector-{version}"),
                &[("max_connections", "300"), ("max_wal_senders", "100"), ("max_replication_slots", "100")][..],
            ),
            Kind::MySql | Kind::MariaDb => {
                (format!("shared-{}-{version}", kind.word()), &[("max_connections", "500")][..])
            }
        };
        let options = room.iter().fold(Options::default(), |options, (name, value)| options.set(name, value));
        let extra = ["--name", &name, "--linger", SHARED_LINGER_S];
        let server = Self::up(kind, version, &options, &extra, false)?;
        known.push(server.clone());
        Ok(server)
    }

    /// A server of the caller's own, free to be restarted and killed.
    pub fn start(kind: Kind, version: &str, options: &Options) -> Result<Self, ServerError> {
        Self::up(kind, version, options, &["--dedicated"], true)
    }

    fn up(kind: Kind, version: &str, options: &Options, extra: &[&str], dedicated: bool) -> Result<Self, ServerError> {
        let mut arguments: Vec<String> = ["up", kind.word(), version].map(str::to_owned).to_vec();
        arguments.extend(["--owner".to_owned(), std::process::id().to_string()]);
        arguments.extend(extra.iter().map(|&word| word.to_owned()));
        for (name, value) in &options.settings {
            arguments.extend(["--set".to_owned(), format!("{name}={value}")]);
        }
        for line in &options.hba {
            arguments.extend(["--hba".to_owned(), line.clone()]);
        }
        let printed = servers(&arguments, None)?;
        let running = Running::from_json(&printed, kind, version, dedicated).ok_or_else(|| ServerError {
            doing: format!("starting {kind} {version}"),
            said: format!("servers.py printed no server: {printed}"),
        })?;
        Ok(Self { running: Arc::new(running) })
    }

    /// What database it runs.
    pub fn kind(&self) -> Kind {
        self.running.kind
    }

    /// The version that was asked for, as in [`BINLOG_SERVERS`].
    pub fn version(&self) -> &str {
        &self.running.version
    }

    /// A connection URL, `postgres://` or `mysql://`, without a TLS mode. Users are [`Kind::superuser`],
    /// [`REPLICATION_USER`] and whom the test makes with a password equal to the name.
    pub fn url(&self, user: &str, database: &str) -> Result<String, ServerError> {
        if let Some(place) = &self.running.place {
            let scheme = if self.kind() == Kind::Postgres { "postgres" } else { "mysql" };
            return Ok(format!("{scheme}://{user}:{user}@{}:{}/{database}", place.host, place.port));
        }
        let asked = ["url", &self.running.id, "--user", user, "--database", database];
        Ok(servers(&asked, None)?.trim().to_owned())
    }

    /// The loopback address that the server listens on.
    pub fn host(&self) -> Result<&str, ServerError> {
        Ok(&self.place()?.host)
    }

    /// The server's port, the same after every restart.
    pub fn port(&self) -> Result<u16, ServerError> {
        Ok(self.place()?.port)
    }

    /// The server's data directory as this machine sees it.
    pub fn data_dir(&self) -> Result<&Path, ServerError> {
        Ok(&self.place()?.data)
    }

    /// The authority (PEM) that signed the server's certificate, which names `localhost` and no address.
    pub fn ca_file(&self) -> Result<&Path, ServerError> {
        Ok(&self.place()?.ca)
    }

    fn place(&self) -> Result<&Place, ServerError> {
        self.running.place.as_ref().ok_or_else(|| ServerError {
            doing: format!("asking where {} runs", self.running.id),
            said: "it was given by address; only its URL is known".to_owned(),
        })
    }

    /// Runs SQL as the superuser through the server's own client; returns the rows it printed. Columns are apart by `|`
    /// (Postgres) or by tabs, with tabs, newlines and backslashes in values escaped.
    pub fn sql(&self, database: &str, text: &str) -> Result<String, ServerError> {
        servers(&["sql", &self.running.id, "--database", database], Some(text))
    }

    /// Runs a client program of the server's own version (`pgbench`, `pg_recvlogical`, `mysqldump`) as this user, whose
    /// password is its name; returns what it printed.
    pub fn client(&self, program: &str, user: &str, database: &str, arguments: &[&str]) -> Result<String, ServerError> {
        let place = [program, &self.running.id, "--user", user, "--database", database, "--"];
        servers(&[&place, arguments].concat(), None)
    }

    /// A new, empty database that [`REPLICATION_USER`] may replicate (and owns, in Postgres), named after the test that
    /// asks and like no other; dropped, with the replication slots in it, when the value is.
    pub fn create_database(&self, label: &str) -> Result<Database, ServerError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Postgres cuts names at 63 bytes, MySQL refuses those beyond 64.
        let label: String = label.chars().filter(char::is_ascii).take(30).collect();
        let name = format!("{label}_{}_{count}", std::process::id());
        servers(&["create-database", &self.running.id, &name], None)?;
        Ok(Database { server: self.clone(), name })
    }

    /// Ends the server; its data and port stay.
    pub fn stop(&self, how: Stop) -> Result<(), ServerError> {
        self.own("stop")?;
        servers(&["stop", &self.running.id, "--mode", how.word()], None).map(drop)
    }

    /// Ends the server with SIGKILL, as a crash would.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.stop(Stop::Kill)
    }

    /// Starts a stopped server; returns once it takes connections.
    pub fn start_again(&self) -> Result<(), ServerError> {
        self.own("start")?;
        servers(&["start", &self.running.id], None).map(drop)
    }

    /// Ends the server and starts it again, with these settings changed.
    pub fn restart(&self, how: Stop, changed: &Options) -> Result<(), ServerError> {
        self.own("restart")?;
        let mut arguments: Vec<String> =
            ["restart", &self.running.id, "--mode", how.word()].map(str::to_owned).to_vec();
        for (name, value) in &changed.settings {
            arguments.extend(["--set".to_owned(), format!("{name}={value}")]);
        }
        servers(&arguments, None).map(drop)
    }

    /// Refuses what would pull the server from under other tests.
    fn own(&self, doing: &str) -> Result<(), ServerError> {
        if self.running.dedicated {
            return Ok(());
        }
        Err(ServerError {
            doing: format!("{doing} of {}", self.running.id),
            said: "it is shared with other tests; start a server of your own to restart".to_owned(),
        })
    }
}

impl Running {
    fn from_json(printed: &str, kind: Kind, version: &str, dedicated: bool) -> Option<Self> {
        let state: Value = serde_json::from_str(printed).ok()?;
        let text = |name: &str| state.get(name)?.as_str().map(str::to_owned);
        let place = match text("engine")?.as_str() {
            "address" => None,
            _ => Some(Place {
                host: text("host")?,
                port: u16::try_from(state.get("port")?.as_u64()?).ok()?,
                data: text("data")?.into(),
                ca: text("ca")?.into(),
            }),
        };
        Some(Self { id: text("id")?, kind, version: version.to_owned(), dedicated, place })
    }
}

/// A test's own database in a server, dropped with the value.
#[derive(Debug)]
pub struct Database {
    server: Server,
    name: String,
}

impl Database {
    /// Its name, safe to use unquoted where the label was.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server it is in.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Its URL for a user.
    pub fn url(&self, user: &str) -> Result<String, ServerError> {
        self.server.url(user, &self.name)
    }

    /// Runs SQL in it as the superuser.
    pub fn sql(&self, text: &str) -> Result<String, ServerError> {
        self.server.sql(&self.name, text)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.server.running.dedicated {
            // It goes with its server, which may well be down by now.
            return;
        }
        if let Err(error) = servers(&["drop-database", &self.server.running.id, &self.name], None) {
            eprintln!("database {} stays behind: {error}", self.name);
        }
    }
}

#[cfg(test)]
mod tests;
