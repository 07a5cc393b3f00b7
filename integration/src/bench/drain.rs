//! A stretch of log that calve is made to read again and again: the lake, and on Postgres the slot, are put back to where
//! they stood before it was written.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use calve_testkit::servers::Kind;

use super::measure::{self, Usage};
use super::source::Source;
use crate::pipeline::Pipeline;

/// A slot that keeps the log, and where it begins, for the copies that are read.
const KEPT_SLOT: &str = "kept";
/// A copy for the limit.
const LIMIT_SLOT: &str = "limit_of";

/// A source, a pipeline that has loaded its tables, and what was written since.
#[derive(Debug)]
pub(super) struct Drain {
    pub(super) source: Source,
    pipeline: Pipeline,
    /// The lake as it was after the load.
    kept_lake: PathBuf,
    log_start: u64,
}

/// A pipeline as users have it by default.
pub(super) fn pipeline(directory: &Path, source: &Source, tables: &[&str]) -> Pipeline {
    let tables: Vec<String> = tables.iter().map(|table| source.table(table)).collect();
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    Pipeline::new(directory, "bench", source.url(), &tables)
        .checkpoint("interval", "10s")
        .checkpoint("idle_interval", "10s")
        .variable("CALVE_LOG", "info")
}

impl Drain {
    /// Loads the tables as they are. What is written from now on is what will be read.
    pub(super) fn begin(directory: &Path, source: Source, tables: &[&str]) -> anyhow::Result<Self> {
        let pipeline = pipeline(directory, &source, tables);
        pipeline.once().context("loading the tables before the changes")?;
        let kept_lake = directory.join("lake-kept");
        copy(pipeline.lake().path(), &kept_lake)?;
        let mut drain = Self { source, pipeline, kept_lake, log_start: 0 };
        if drain.source.kind() == Kind::Postgres {
            drain.copy_slot(&drain.pipeline.slot(), KEPT_SLOT)?;
        }
        drain.log_start = drain.source.log_bytes()?;
        Ok(drain)
    }

    /// Bytes of log since the beginning.
    pub(super) fn log_bytes(&mut self) -> anyhow::Result<u64> {
        Ok(self.source.log_bytes()? - self.log_start)
    }

    /// Lets calve read all of it.
    pub(super) fn calve(&mut self) -> anyhow::Result<Usage> {
        let lake = self.pipeline.lake().path().to_owned();
        std::fs::remove_dir_all(&lake).with_context(|| format!("removing {}", lake.display()))?;
        copy(&self.kept_lake, &lake)?;
        if self.source.kind() == Kind::Postgres {
            let slot = self.pipeline.slot();
            self.drop_slot(&slot)?;
            self.copy_slot(KEPT_SLOT, &slot)?;
            // Commits of these servers do not wait for the log to be written, and calve reads what is; one that does takes all
            // before it along.
            self.source
                .sql
                .run("set synchronous_commit = on; select pg_logical_emit_message(true, 'bench', 'written')")?;
        }
        measure::run(self.pipeline.command(&["run", "--once"])?, &self.pipeline.log("run"))
    }

    /// Compares source and lake: what was measured must be what was written.
    pub(super) fn verify(&self) -> anyhow::Result<()> {
        self.pipeline.finish(&["verify"])?.expect_success().context("source and tables after the last run")?;
        Ok(())
    }

    /// The same changes sent to nowhere by the server's own client. Postgres only.
    pub(super) fn recvlogical(&mut self) -> anyhow::Result<std::time::Duration> {
        self.copy_slot(KEPT_SLOT, LIMIT_SLOT)?;
        let end = self.source.sql.value("select pg_current_wal_insert_lsn()")?;
        // The server never says that it has sent a log up to its very end, only beyond a place in it.
        self.source.sql.run("select pg_logical_emit_message(true, 'bench', 'end')")?;
        let place = format!(
            "host=127.0.0.1 port={} user=calve password=calve dbname={} sslmode=disable",
            self.source.port()?,
            self.source.database()
        );
        let publication = format!("publication_names=\"{}\"", self.pipeline.slot());
        let started = std::time::Instant::now();
        self.source.client(
            "pg_recvlogical",
            &[
                "--start",
                "--no-loop",
                &format!("--dbname={place}"),
                &format!("--slot={LIMIT_SLOT}"),
                &format!("--endpos={end}"),
                "--file=/dev/null",
                "--option=proto_version=1",
                "--option=binary=true",
                &format!("--option={publication}"),
            ],
        )?;
        let wall = started.elapsed();
        self.drop_slot(LIMIT_SLOT)?;
        Ok(wall)
    }

    /// Data files that calve wrote since the load, in the order they were written.
    pub(super) fn new_data_files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let old = data_files(&self.kept_lake)?;
        let names: Vec<_> = old.iter().filter_map(|file| file.file_name()).collect();
        let mut new = data_files(self.pipeline.lake().path())?;
        new.retain(|file| file.file_name().is_some_and(|name| !names.contains(&name)));
        ensure!(!new.is_empty(), "calve wrote no data file");
        new.sort();
        Ok(new)
    }

    fn copy_slot(&mut self, from: &str, to: &str) -> anyhow::Result<()> {
        self.source.sql.run(&format!("select pg_copy_logical_replication_slot('{from}', '{to}')"))
    }

    fn drop_slot(&mut self, slot: &str) -> anyhow::Result<()> {
        // Whoever read it is gone, but the server may not have noticed.
        crate::pipeline::until("the slot to be free", || {
            let active = format!("select count(*) from pg_replication_slots where slot_name = '{slot}' and active");
            Ok(self.source.sql.value(&active)? == "0")
        })?;
        self.source.sql.run(&format!("select pg_drop_replication_slot('{slot}')"))
    }
}

/// Files of rows, as calve names them, below a lake.
fn data_files(lake: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut directories = vec![lake.to_owned()];
    let mut found = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).with_context(|| format!("reading {}", directory.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                directories.push(entry.path());
            } else if entry.file_name().to_string_lossy().ends_with("-data.parquet") {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let status = Command::new("cp").args(["-a", "--reflink=auto"]).arg(from).arg(to).status().context("running cp")?;
    ensure!(status.success(), "{} could not be copied to {}", from.display(), to.display());
    Ok(())
}
