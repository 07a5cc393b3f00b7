//! Real database servers for tests: started, restarted, killed and removed through `integration/servers/servers.py`,
//! which also serves the scripts and people.
//!
//! A test either shares one cluster per version with all others and makes a database of its own in it, or starts a
//! cluster of its own, to restart or to configure. Nothing outlives the test process: a dropped cluster is taken down,
//! and one whose process was killed is taken down by a reaper. A server that cannot be had is an error, never a skip.
//!
//! Everything here blocks, about a second for a new cluster. In async tests run it before what must go on meanwhile, or
//! in `spawn_blocking`.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

/// The superuser of every cluster; its password is its name.
pub const SUPERUSER: &str = "postgres";

/// A role that may log in and replicate, and is no superuser: what calve gets. Its password is its name.
pub const REPLICATION_USER: &str = "calve";

/// Why a server could not be had or did not do what it was told.
#[derive(Debug)]
pub struct ServerError {
    doing: String,
    said: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.doing, self.said)
    }
}

impl std::error::Error for ServerError {}

/// How a server is made to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Connections are cut, a checkpoint is written.
    Fast,
    /// No checkpoint: the next start recovers from the log.
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

/// What is special about a cluster of one's own.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    hba: Vec<String>,
}

impl Options {
    /// A setting as in `postgresql.conf`, over the defaults (logical WAL, 20 slots and senders, fsync and TLS on).
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

/// A Postgres cluster. Clones speak of the same one; the last clone of a dedicated one takes it down.
#[derive(Clone, Debug)]
pub struct Postgres {
    cluster: Arc<Cluster>,
}

#[derive(Debug)]
struct Cluster {
    id: String,
    version: u32,
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

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.dedicated {
            // Whatever goes wrong here, the reaper tries again once this process is gone.
            let _ = servers(&["down", &self.id], None);
        }
    }
}

/// The shared clusters this process has asked for already.
static SHARED: Mutex<Vec<Postgres>> = Mutex::new(Vec::new());

/// How long a shared cluster waits for another test process after the last one ended.
const SHARED_LINGER_S: &str = "60";

impl Postgres {
    /// The cluster of this version that all tests share: at the address in `CALVE_TEST_POSTGRES_<version>` where that is
    /// set, else started by whichever test comes first. It must not be restarted, and its databases are other tests' too.
    pub fn shared(version: u32) -> Result<Self, ServerError> {
        let mut known = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|server| server.cluster.version == version) {
            return Ok(found.clone());
        }
        let name = format!("shared-{version}");
        let extra = ["--name", &name, "--linger", SHARED_LINGER_S];
        let room = Options::default().set("max_connections", "300").set("max_wal_senders", "100");
        let server = Self::up(version, &room.set("max_replication_slots", "100"), &extra, false)?;
        known.push(server.clone());
        Ok(server)
    }

    /// A cluster of the caller's own, free to be restarted and killed.
    pub fn start(version: u32, options: &Options) -> Result<Self, ServerError> {
        Self::up(version, options, &["--dedicated"], true)
    }

    fn up(version: u32, options: &Options, extra: &[&str], dedicated: bool) -> Result<Self, ServerError> {
        let mut arguments: Vec<String> = ["up", "postgres", &version.to_string()].map(str::to_owned).to_vec();
        arguments.extend(["--owner".to_owned(), std::process::id().to_string()]);
        arguments.extend(extra.iter().map(|&word| word.to_owned()));
        for (name, value) in &options.settings {
            arguments.extend(["--set".to_owned(), format!("{name}={value}")]);
        }
        for line in &options.hba {
            arguments.extend(["--hba".to_owned(), line.clone()]);
        }
        let printed = servers(&arguments, None)?;
        let cluster = Cluster::from_json(&printed, version, dedicated).ok_or_else(|| ServerError {
            doing: format!("starting Postgres {version}"),
            said: format!("servers.py printed no server: {printed}"),
        })?;
        Ok(Self { cluster: Arc::new(cluster) })
    }

    /// The major version.
    pub fn version(&self) -> u32 {
        self.cluster.version
    }

    /// A connection URL, without `sslmode`. Users are [`SUPERUSER`], [`REPLICATION_USER`] and whom the test makes with
    /// a password equal to the name.
    pub fn url(&self, user: &str, database: &str) -> Result<String, ServerError> {
        if let Some(place) = &self.cluster.place {
            return Ok(format!("postgres://{user}:{user}@{}:{}/{database}", place.host, place.port));
        }
        let asked = ["url", &self.cluster.id, "--user", user, "--database", database];
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

    /// The cluster's data directory as this machine sees it.
    pub fn data_dir(&self) -> Result<&Path, ServerError> {
        Ok(&self.place()?.data)
    }

    /// The authority (PEM) that signed the server's certificate, which names `localhost` and no address.
    pub fn ca_file(&self) -> Result<&Path, ServerError> {
        Ok(&self.place()?.ca)
    }

    fn place(&self) -> Result<&Place, ServerError> {
        self.cluster.place.as_ref().ok_or_else(|| ServerError {
            doing: format!("asking where {} runs", self.cluster.id),
            said: "it was given by address; only its URL is known".to_owned(),
        })
    }

    /// Runs SQL as the superuser through the server's own psql; returns what it printed, unaligned, without headers.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, ServerError> {
        let words = ["psql", &self.cluster.id, "--database", database, "--"];
        let quiet = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"];
        servers(&[&words[..], &quiet[..]].concat(), Some(sql))
    }

    /// A new, empty database owned by [`REPLICATION_USER`], named after the test that asks and like no other; dropped,
    /// with the slots in it, when the value is.
    pub fn create_database(&self, label: &str) -> Result<Database, ServerError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Postgres cuts names at 63 bytes.
        let label: String = label.chars().filter(char::is_ascii).take(30).collect();
        let name = format!("{label}_{}_{count}", std::process::id());
        servers(&["create-database", &self.cluster.id, &name], None)?;
        Ok(Database { server: self.clone(), name })
    }

    /// Ends the server; its data and port stay.
    pub fn stop(&self, how: Stop) -> Result<(), ServerError> {
        self.own("stop")?;
        servers(&["stop", &self.cluster.id, "--mode", how.word()], None).map(drop)
    }

    /// Ends the server with SIGKILL, as a crash would.
    pub fn kill(&self) -> Result<(), ServerError> {
        self.stop(Stop::Kill)
    }

    /// Starts a stopped server; returns once it takes connections.
    pub fn start_again(&self) -> Result<(), ServerError> {
        self.own("start")?;
        servers(&["start", &self.cluster.id], None).map(drop)
    }

    /// Ends the server and starts it again, with these settings changed.
    pub fn restart(&self, how: Stop, changed: &Options) -> Result<(), ServerError> {
        self.own("restart")?;
        let mut arguments: Vec<String> =
            ["restart", &self.cluster.id, "--mode", how.word()].map(str::to_owned).to_vec();
        for (name, value) in &changed.settings {
            arguments.extend(["--set".to_owned(), format!("{name}={value}")]);
        }
        servers(&arguments, None).map(drop)
    }

    /// Refuses what would pull the server from under other tests.
    fn own(&self, doing: &str) -> Result<(), ServerError> {
        if self.cluster.dedicated {
            return Ok(());
        }
        Err(ServerError {
            doing: format!("{doing} of {}", self.cluster.id),
            said: "it is shared with other tests; use Postgres::start for a cluster to restart".to_owned(),
        })
    }
}

impl Cluster {
    fn from_json(printed: &str, version: u32, dedicated: bool) -> Option<Self> {
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
        Some(Self { id: text("id")?, version, dedicated, place })
    }
}

/// A test's own database in a cluster, dropped with the value.
#[derive(Debug)]
pub struct Database {
    server: Postgres,
    name: String,
}

impl Database {
    /// Its name, safe to use unquoted where the label was.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster it is in.
    pub fn server(&self) -> &Postgres {
        &self.server
    }

    /// Its URL for a user.
    pub fn url(&self, user: &str) -> Result<String, ServerError> {
        self.server.url(user, &self.name)
    }

    /// Runs SQL in it as the superuser.
    pub fn psql(&self, sql: &str) -> Result<String, ServerError> {
        self.server.psql(&self.name, sql)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.server.cluster.dedicated {
            // It goes with its cluster, which may well be down by now.
            return;
        }
        if let Err(error) = servers(&["drop-database", &self.server.cluster.id, &self.name], None) {
            eprintln!("database {} stays behind: {error}", self.name);
        }
    }
}

/// Runs `servers.py` and returns what it printed.
fn servers<S: AsRef<str>>(arguments: &[S], input: Option<&str>) -> Result<String, ServerError> {
    let words: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let failed = |said: String| ServerError { doing: format!("servers.py {}", words.join(" ")), said };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration/servers/servers.py");
    // The system's own starts quicker than a version manager's in front of it.
    let python = Path::new("/usr/bin/python3");
    let mut child = Command::new(if python.exists() { python } else { Path::new("python3") })
        .arg(script)
        .args(&words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("cannot run python3: {error}; install it (apt-get install python3)")))?;
    let stdin = child.stdin.take();
    // Input goes in on a thread of its own: psql prints while it reads, and either pipe can fill.
    let (written, done) = std::thread::scope(|scope| {
        let writer = scope.spawn(move || match stdin {
            Some(mut stdin) => stdin.write_all(input.unwrap_or_default().as_bytes()),
            None => Ok(()),
        });
        let done = child.wait_with_output();
        (writer.join(), done)
    });
    let done = done.map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        return Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned()));
    }
    match written {
        Ok(Ok(())) => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        Ok(Err(error)) => Err(failed(format!("it did not read all of its input: {error}"))),
        Err(_) => Err(failed("the thread that wrote its input panicked".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSIONS: [u32; 3] = [15, 17, 18];

    #[test]
    fn every_version_answers_and_decodes_logically() -> Result<(), ServerError> {
        for version in VERSIONS {
            let database = Postgres::shared(version)?.create_database("answers")?;
            let told = database
                .psql("select current_setting('server_version_num')::int / 10000, current_setting('wal_level')")?;
            assert_eq!(told.trim(), format!("{version}|logical"));
        }
        Ok(())
    }

    #[test]
    fn a_kill_keeps_committed_rows_and_the_port() -> Result<(), ServerError> {
        let server = Postgres::start(17, &Options::default().set("max_wal_senders", "7"))?;
        let port = server.port()?;
        server.psql("postgres", "create table kept (id int); insert into kept select generate_series(1, 1000)")?;
        server.kill()?;
        assert!(server.psql("postgres", "select 1").is_err(), "a killed server answers");
        server.start_again()?;
        server.restart(Stop::Kill, &Options::default().set("max_replication_slots", "5"))?;
        let told = server.psql(
            "postgres",
            "select count(*), current_setting('max_wal_senders') from kept; show max_replication_slots",
        )?;
        assert_eq!(told.trim(), "1000|7\n5");
        assert_eq!(server.port()?, port);
        Ok(())
    }

    #[test]
    fn a_dropped_cluster_is_gone() -> Result<(), ServerError> {
        let server = Postgres::start(15, &Options::default())?;
        let (address, data) = (format!("{}:{}", server.host()?, server.port()?), server.data_dir()?.to_owned());
        assert!(std::net::TcpStream::connect(&address).is_ok() && data.exists());
        drop(server);
        assert!(std::net::TcpStream::connect(&address).is_err(), "{address} still listens");
        assert!(!data.exists(), "{} is still there", data.display());
        Ok(())
    }

    #[test]
    fn a_dropped_database_takes_its_slots_along() -> Result<(), ServerError> {
        let server = Postgres::shared(17)?;
        let database = server.create_database("slots")?;
        let name = database.name().to_owned();
        let slot = format!("slot_of_{name}");
        database.psql(&format!("select pg_create_logical_replication_slot('{slot}', 'pgoutput')"))?;
        drop(database);
        let left = format!(
            "select (select count(*) from pg_database where datname = '{name}')
                  + (select count(*) from pg_replication_slots where slot_name = '{slot}')"
        );
        assert_eq!(server.psql("postgres", &left)?.trim(), "0");
        Ok(())
    }

    #[test]
    fn a_shared_cluster_is_not_restarted_and_sql_errors_are_told() -> Result<(), ServerError> {
        let server = Postgres::shared(17)?;
        let refused = server.kill().map_err(|error| error.to_string());
        assert!(refused.is_err_and(|said| said.contains("shared with other tests")));
        let failed = server.psql("postgres", "select 1/0").map_err(|error| error.to_string());
        assert!(failed.is_err_and(|said| said.contains("division by zero")));
        Ok(())
    }

    #[test]
    fn a_version_that_is_not_there_is_an_error() {
        let said = Postgres::shared(9).map(drop).map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("no Postgres 9")));
    }

    /// A test that is killed runs no destructor: what it started must still go.
    #[test]
    fn a_cluster_whose_owner_was_killed_is_taken_down() -> Result<(), Box<dyn std::error::Error>> {
        let mut owner = Command::new("sleep").arg("60").spawn()?;
        let pid = owner.id().to_string();
        let printed = servers(&["up", "postgres", "15", "--dedicated", "--owner", &pid], None)?;
        let cluster = Cluster::from_json(&printed, 15, false).and_then(|it| it.place.clone()).ok_or("no server")?;
        owner.kill()?;
        owner.wait()?;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while cluster.data.exists() {
            assert!(std::time::Instant::now() < deadline, "nothing took the server down");
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        Ok(())
    }
}
