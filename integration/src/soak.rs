//! A table over tens of thousands of commits: what a commit costs, and what must not grow with their number.
//!
//! Small transactions follow upon each other while calve commits as often as it can. Every so many commits a line is
//! printed; the last one must look like the first.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use calve_testkit::servers::{Options as ServerOptions, Postgres, REPLICATION_USER};
use serde_json::Value;

use crate::avro;
use crate::binary::Running;
use crate::directory::Directory;
use crate::lake::Lake;
use crate::pipeline::{Pipeline, until};
use crate::sql::Sql;

/// The table's state after so many commits.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Commits to the table.
    pub commits: u64,
    /// Mean time of a commit since the last sample, everything that follows upon each other included.
    pub commit_time: Duration,
    /// Manifests in the current snapshot's list.
    pub manifests: u64,
    /// Bytes of that list.
    pub manifest_list_bytes: u64,
    /// Bytes of the metadata file.
    pub metadata_bytes: u64,
    /// Snapshots that the table keeps.
    pub snapshots: usize,
    /// Files in the table's metadata directory.
    pub metadata_files: usize,
    /// Resident memory of the process.
    pub resident_bytes: u64,
}

/// The heading of a table of samples.
pub const HEADING: &str = "commits  ms/commit  manifests  list KiB  metadata KiB  snapshots  metadata files  RSS MiB";

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>7}  {:>9.1}  {:>9}  {:>8}  {:>12}  {:>9}  {:>14}  {:>7}",
            self.commits,
            self.commit_time.as_secs_f64() * 1000.0,
            self.manifests,
            self.manifest_list_bytes >> 10,
            self.metadata_bytes >> 10,
            self.snapshots,
            self.metadata_files,
            self.resident_bytes >> 20,
        )
    }
}

/// Commits until there are so many, with a sample after each `every` of them.
pub fn run(commits: u64, every: u64) -> anyhow::Result<Vec<Sample>> {
    let mut directory = Directory::new("soak")?;
    directory.keep();
    let server = Postgres::start(17, &ServerOptions::default())?;
    let database = server.create_database("soak")?;
    let url = database.url(REPLICATION_USER)?;
    let mut sql = Sql::connect(&url)?;
    sql.run("create table t (id int primary key, v bigint, note text); insert into t select i, 0, 'note' from generate_series(1, 1000) i")?;
    let pipeline = Pipeline::new(directory.path(), "soak", &url, &["public.t"]).checkpoint("interval", "1ms");
    let calve = pipeline.start()?;
    until("the load", || Ok(pipeline.lake().metadata("public", "t").is_ok_and(|table| !table.snapshots().is_empty())))?;

    let stop = AtomicBool::new(false);
    let samples = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&url, &stop));
        let samples = sample(pipeline.lake(), &calve, commits, every);
        stop.store(true, Ordering::Relaxed);
        let wrote = writer.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the writer panicked")));
        wrote.and(samples)
    })?;
    calve.terminate()?;
    pipeline.once()?;
    pipeline.finish(&["verify"])?.expect_success().context("source and table after all commits")?;
    directory.release();
    Ok(samples)
}

/// One small transaction after another.
fn write(url: &str, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut sql = Sql::connect(url)?;
    let mut n = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        sql.run(&format!("update t set v = {n} where id = {}", n % 1000 + 1))?;
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn sample(lake: &Lake, calve: &Running, commits: u64, every: u64) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    let mut next = every.min(commits);
    let (mut last, mut since) = (committed(lake)?, Instant::now());
    println!("{HEADING}");
    while next <= commits {
        std::thread::sleep(Duration::from_millis(200));
        let now = committed(lake)?;
        if now < next {
            continue;
        }
        let between = u32::try_from(now - last).context("too many commits at once")?;
        let taken = take(lake, calve, now, since.elapsed() / between.max(1))?;
        println!("{taken}");
        samples.push(taken);
        (last, since, next) = (now, Instant::now(), next + every);
    }
    ensure!(!samples.is_empty(), "no commits were asked for");
    Ok(samples)
}

/// Commits that the table has seen.
fn committed(lake: &Lake) -> anyhow::Result<u64> {
    let metadata = lake.metadata("public", "t")?;
    metadata.json().get("last-sequence-number").and_then(Value::as_u64).context("the metadata counts no sequence")
}

fn take(lake: &Lake, calve: &Running, commits: u64, commit_time: Duration) -> anyhow::Result<Sample> {
    let file = lake.metadata_file("public", "t")?;
    let metadata = crate::lake::TableMetadata::read(&file)?;
    let current = metadata.json().get("current-snapshot-id").and_then(Value::as_i64);
    let listed =
        metadata.json().get("snapshots").and_then(Value::as_array).context("the metadata lists no snapshots")?;
    let snapshot = listed.iter().find(|s| s.get("snapshot-id").and_then(Value::as_i64) == current);
    let list = snapshot.and_then(|s| s.get("manifest-list")?.as_str()).context("no current snapshot")?;
    let list = Path::new(list.strip_prefix("file://").unwrap_or(list));
    let directory = file.parent().context("a metadata file lies in a directory")?;
    Ok(Sample {
        commits,
        commit_time,
        manifests: avro::count_records(list)?,
        manifest_list_bytes: std::fs::metadata(list)?.len(),
        metadata_bytes: std::fs::metadata(&file)?.len(),
        snapshots: listed.len(),
        metadata_files: std::fs::read_dir(directory)?.count(),
        resident_bytes: resident(calve.id())?,
    })
}

/// Resident memory of a process, as Linux tells it.
fn resident(process: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no resident size")?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kibibytes << 10)
}
