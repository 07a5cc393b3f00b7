//! From a commit in the source to a reader: how long until the lake's catalog leads to metadata with the row in it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use calve_testkit::servers::Kind;

use super::drain;
use super::measure::{Latencies, Usage, Watch};
use super::source::Source;
use crate::directory::Directory;
use crate::lake::Lake;
use crate::pipeline::until;
use crate::sql::Sql;

/// Transactions a second, of one row each.
const RATE: u32 = 1000;
const TABLE: &str = "events";
/// Between two looks of the reader. A row counts from the end of the look that found it.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long rows may be missing after the last was written.
const PATIENCE: Duration = Duration::from_mins(1);

/// Commits single rows for some seconds while calve runs with an interval of one second.
pub(super) fn run(kind: Kind, seconds: u64) -> anyhow::Result<Latencies> {
    let directory = Directory::new("bench-latency")?;
    let mut source = Source::start(kind)?;
    source.sql.run(&format!("create table {TABLE} (id bigint primary key, note varchar(40) not null)"))?;
    let pipeline = drain::pipeline(directory.path(), &source, &[TABLE]).checkpoint("interval", "1s");
    let calve = pipeline.start()?;
    let (lake, schema) = (pipeline.lake(), source.schema().to_owned());
    until("the load", || Ok(lake.metadata(&schema, TABLE).is_ok_and(|table| !table.snapshots().is_empty())))?;

    let mut watch = Watch::new(calve.id());
    watch.look()?;
    let before = watch.usage(Duration::ZERO).cpu;
    let started = Instant::now();
    let rows = seconds * u64::from(RATE);
    let committed = Mutex::new(Vec::new());
    let all = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&mut source.sql, rows, &committed));
        let seen = read(lake, &schema, rows, &committed, &mut watch);
        let wrote = writer.join().unwrap_or_else(|_| bail!("the writer panicked"));
        wrote.and(seen)
    })?;
    watch.look()?;
    let usage = watch.usage(started.elapsed());
    calve.terminate()?;
    Ok(Latencies { all, calve: Usage { cpu: usage.cpu.saturating_sub(before), ..usage } })
}

/// Commits the rows in the order of their keys, at the rate; takes down when each commit had returned.
fn write(sql: &mut Sql, rows: u64, committed: &Mutex<Vec<Instant>>) -> anyhow::Result<()> {
    let started = Instant::now();
    for id in 0..rows {
        let due = Duration::from_secs(id) / RATE;
        if let Some(early) = due.checked_sub(started.elapsed()) {
            std::thread::sleep(early);
        }
        sql.run(&format!("insert into {TABLE} values ({id}, 'a row of a small transaction')"))?;
        let now = Instant::now();
        committed.lock().map_err(|_| anyhow::anyhow!("the reader panicked"))?.push(now);
    }
    Ok(())
}

/// Looks until all rows are there. Rows appear in the order of their commits, so their number tells which they are.
fn read(
    lake: &Lake,
    schema: &str,
    rows: u64,
    committed: &Mutex<Vec<Instant>>,
    watch: &mut Watch,
) -> anyhow::Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    let mut last_new = Instant::now();
    while (latencies.len() as u64) < rows {
        let visible = usize::try_from(lake.metadata(schema, TABLE)?.total("total-records"))?;
        let now = Instant::now();
        if visible > latencies.len() {
            let committed = committed.lock().map_err(|_| anyhow::anyhow!("the writer panicked"))?;
            // A row may be read before its writer has heard that it is committed.
            let of = |row: usize| committed.get(row).map_or(Duration::ZERO, |at| now.saturating_duration_since(*at));
            latencies.extend((latencies.len()..visible).map(of));
            last_new = now;
        }
        if last_new.elapsed() > PATIENCE {
            bail!("{} of {rows} rows appeared, and no more for {PATIENCE:?}", latencies.len());
        }
        if watch.look().context("looking at calve")? {
            bail!("calve ended");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(latencies)
}
