//! A pipeline under test: its configuration in a file, its lake, and calve's commands upon it.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::binary::{self, Finished, Running};
use crate::lake::Lake;

/// What is written into the configuration file.
#[derive(Clone, Debug)]
pub struct Pipeline {
    directory: PathBuf,
    name: String,
    source: String,
    tables: Vec<String>,
    lake: Lake,
    checkpoint: BTreeMap<String, String>,
    more: String,
    environment: Vec<(String, String)>,
}

impl Pipeline {
    /// A pipeline whose lake, configuration and logs lie in `directory`. Checkpoints follow quickly upon each other.
    pub fn new(directory: &Path, name: &str, source: &str, tables: &[&str]) -> Self {
        Self {
            directory: directory.to_owned(),
            name: name.to_owned(),
            source: source.to_owned(),
            tables: tables.iter().map(|&table| table.to_owned()).collect(),
            lake: Lake::new(directory.join("lake")),
            checkpoint: [("interval", "100ms"), ("idle_interval", "200ms")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            more: String::new(),
            environment: Vec::new(),
        }
    }

    /// An option of the section `checkpoint`, such as `interval`.
    #[must_use]
    pub fn checkpoint(mut self, key: &str, value: &str) -> Self {
        self.checkpoint.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Other tables, by pattern, or as entries with fields of their own in braces.
    #[must_use]
    pub fn tables(mut self, tables: &[&str]) -> Self {
        self.tables = tables.iter().map(|&table| table.to_owned()).collect();
        self
    }

    /// Another source.
    #[must_use]
    pub fn source(mut self, url: &str) -> Self {
        url.clone_into(&mut self.source);
        self
    }

    /// Another lake.
    #[must_use]
    pub fn lake_at(mut self, directory: &Path) -> Self {
        self.lake = Lake::new(directory);
        self
    }

    /// Lines added to the configuration file.
    #[must_use]
    pub fn with(mut self, yaml: &str) -> Self {
        self.more.push_str(yaml);
        self.more.push('\n');
        self
    }

    /// A variable in the environment of every command.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The replication slot it makes.
    pub fn slot(&self) -> String {
        format!("calve_{}", self.name)
    }

    /// Its lake.
    pub fn lake(&self) -> &Lake {
        &self.lake
    }

    /// The configuration file, written as things stand.
    pub fn config(&self) -> anyhow::Result<PathBuf> {
        use std::fmt::Write as _;
        let mut text =
            format!("name: {}\nsource: {}\ninto: {}\n", self.name, quoted(&self.source), self.lake.path().display());
        text.push_str("checkpoint:\n");
        for (key, value) in &self.checkpoint {
            writeln!(text, "  {key}: {value}")?;
        }
        text.push_str("log:\n  format: json\n  level: debug\ntables:\n");
        for table in &self.tables {
            let entry = if table.starts_with('{') { table.clone() } else { quoted(table) };
            writeln!(text, "  - {entry}")?;
        }
        text.push_str(&self.more);
        let lake = self.lake.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = self.directory.join(format!("{}-{lake}.yaml", self.name));
        // A process that was just started may be reading it: what it says is replaced at once, or stays.
        if std::fs::read_to_string(&path).is_ok_and(|present| present == text) {
            return Ok(path);
        }
        let new = path.with_extension("new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &path));
        written.with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    /// A command of calve's upon the configuration file: `["run", "--once"]`, `["verify"]`.
    pub fn command(&self, words: &[&str]) -> anyhow::Result<Command> {
        let (verb, rest) = words.split_first().context("no command")?;
        let config = self.config()?;
        let mut command = binary::command([*verb])?;
        if *verb == "reload" {
            command.arg("--config");
        }
        command.arg(config).args(rest);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    /// Where the next process logs to.
    pub fn log(&self, verb: &str) -> PathBuf {
        static RUNS: AtomicU32 = AtomicU32::new(1);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        self.directory.join(format!("{}-{run:04}-{verb}", self.name))
    }

    /// Runs a command to its end, whatever that is.
    pub fn finish(&self, words: &[&str]) -> anyhow::Result<Finished> {
        binary::finish(self.command(words)?, &self.log(words[0]))
    }

    /// Runs a command that is to die at a failpoint, and fails where that is not reached.
    pub fn dies_at(&self, place: &str, words: &[&str]) -> anyhow::Result<()> {
        let mut command = self.command(words)?;
        command.env("CALVE_FAILPOINT", place);
        let killed = binary::finish(command, &self.log("killed"))?;
        ensure!(killed.signal == Some(6), "{place} was not reached: {killed:?}");
        Ok(())
    }

    /// Loads, catches up and leaves.
    pub fn once(&self) -> anyhow::Result<Finished> {
        self.finish(&["run", "--once"])?.expect_success()
    }

    /// Starts following the source; returns once other commands can ask the process, or once it has ended.
    pub fn start(&self) -> anyhow::Result<Running> {
        let mut calve = Running::start(self.command(&["run"])?, &self.log("run"))?;
        until("calve to listen", || Ok(self.listens() || calve.ended()?.is_some()))?;
        Ok(calve)
    }

    /// Whether a process can be asked. A socket that a killed one left behind refuses.
    pub fn listens(&self) -> bool {
        UnixStream::connect(self.lake.path().join(".calve").join(&self.name).join("control.sock")).is_ok()
    }

    /// What `status --json` prints.
    pub fn status(&self) -> anyhow::Result<Value> {
        let finished = self.finish(&["status", "--json"])?.expect_success()?;
        serde_json::from_str(&finished.stdout).with_context(|| format!("status printed {}", finished.stdout))
    }

    /// The state of one table, as `status --json` has it, and the reason of a stopped one.
    pub fn state(&self, table: &str) -> anyhow::Result<TableState> {
        let status = self.status()?;
        TableState::find(&status, table).with_context(|| format!("status names no table {table}: {status}"))
    }

    /// How many values of a table became NULL, and how many another value, as `status --json` has it.
    pub fn substituted(&self, table: &str) -> anyhow::Result<(u64, u64)> {
        let status = self.status()?;
        let listed = status.get("tables").and_then(Value::as_array).context("status lists no tables")?;
        let entry = listed.iter().find(|entry| entry.get("table").is_some_and(|name| name_of(name) == table));
        let entry = entry.with_context(|| format!("status names no table {table}: {status}"))?;
        let count = |key| entry.get(key).and_then(Value::as_u64).with_context(|| format!("{entry} has no {key}"));
        Ok((count("nulled_values")?, count("clamped_values")?))
    }

    /// The states of all tables, by the names that `status --json` gives them.
    pub fn states(&self) -> anyhow::Result<BTreeMap<String, TableState>> {
        let status = self.status()?;
        let listed = status.get("tables").and_then(Value::as_array).context("status lists no tables")?;
        Ok(listed.iter().filter_map(|entry| Some((name_of(entry.get("table")?), TableState::of(entry)?))).collect())
    }

    /// Waits until the table is in a state.
    pub fn await_state(&self, table: &str, state: &str) -> anyhow::Result<TableState> {
        let mut last = None;
        until(&format!("{table} to be {state}"), || {
            // Before the first load there may be nothing to show yet.
            let found = self.state(table).ok();
            let reached = found.as_ref().is_some_and(|found| found.state == state);
            last = found.or(last.take());
            Ok(reached)
        })
        .with_context(|| format!("its last state was {last:?}"))?;
        last.context("no state")
    }
}

/// A table's state by `status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableState {
    /// Such as `streaming` or `stopped`.
    pub state: String,
    /// Of a stopped table: what `status` says about it, in one text.
    pub reason: String,
}

impl TableState {
    fn find(status: &Value, table: &str) -> Option<Self> {
        let listed = status.get("tables")?.as_array()?;
        let found = listed.iter().find(|entry| entry.get("table").is_some_and(|name| name_of(name) == table))?;
        Self::of(found)
    }

    /// Of an entry of the list.
    fn of(entry: &Value) -> Option<Self> {
        let state = entry.get("state")?.as_str()?.to_owned();
        let reason =
            entry.get("reason").filter(|reason| !reason.is_null()).map(ToString::to_string).unwrap_or_default();
        Some(Self { state, reason })
    }
}

/// A table's name, whether it is written as one text or in its parts.
fn name_of(value: &Value) -> String {
    let part = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    value.as_str().map_or_else(|| format!("{}.{}", part("schema"), part("name")), str::to_owned)
}

/// Waits for a condition, for as long as a loaded machine may take.
pub fn until(what: &str, mut holds: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let deadline = Instant::now() + binary::PATIENCE;
    while !holds()? {
        if Instant::now() > deadline {
            bail!("waited {:?} for {what}", binary::PATIENCE);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// A text as YAML's single-quoted scalar.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
