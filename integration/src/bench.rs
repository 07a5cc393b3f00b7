//! Measurements: calve beside the limit that source, driver or encoder set, in the same run on the same machine.
//!
//! `README.md` beside the tests says what each scenario is and what was measured. Everything runs on servers started
//! for it, in a directory of its own; both are gone afterwards, whatever happens.

mod drain;
mod encoder;
mod latency;
mod limit;
mod measure;
mod options;
mod source;
mod taxi;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use calve_testkit::servers::Kind;

pub use measure::{Latencies, Outcome};
pub use options::{Changes, Options, Scenario};

use drain::Drain;
use encoder::Rows;
use limit::Reading;
use measure::{Pair, Usage};
use source::{Source, ensure_free};
use taxi::TRIPS;

use crate::directory::Directory;

/// What calve may use of memory, whatever the size of a transaction: asserted by `big-transaction`.
const MEMORY_CEILING: u64 = 512 << 20;

/// Tables of `many-tables`, and rows in each.
const TABLES: u64 = 1000;
const ROWS_A_TABLE: u64 = 100;

/// Bytes that a row of any scenario takes at most, in the server's tables and logs and in the lake and its copy together.
const DISK_BYTES_A_ROW: u64 = 1200;
/// What servers and lakes take without rows.
const DISK_BYTES: u64 = 4 << 30;

/// What was measured.
#[derive(Clone, Debug)]
pub enum Report {
    /// Speed, beside a limit.
    Speed(Outcome),
    /// Latency, beside none.
    Latency(Latencies),
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Speed(outcome) => outcome.fmt(f),
            Self::Latency(latencies) => latencies.fmt(f),
        }
    }
}

/// Runs a measurement; every pair is printed as it ends.
pub fn run(options: &Options) -> anyhow::Result<Report> {
    let bytes = DISK_BYTES + options.rows * DISK_BYTES_A_ROW;
    ensure_free(&std::env::temp_dir(), bytes)?;
    let outcome = match options.scenario {
        Scenario::Load => load(options, bytes)?,
        Scenario::Stream(changes) => stream(options, changes, bytes)?,
        Scenario::BigTransaction => big_transaction(options)?,
        Scenario::ManyTables => many_tables(options)?,
        Scenario::Latency => return Ok(Report::Latency(latency::run(options.source, options.seconds)?)),
    };
    Ok(Report::Speed(outcome))
}

/// Runs calve and the limit alternately. The first pair finds caches that the data was just written through, as do the
/// others.
fn pairs(
    options: &Options,
    mut calve: impl FnMut() -> anyhow::Result<Usage>,
    mut limit: impl FnMut() -> anyhow::Result<Duration>,
) -> anyhow::Result<Vec<Pair>> {
    (1..=options.pairs)
        .map(|number| {
            let pair = Pair { calve: calve()?, limit: limit()? };
            println!("pair {number}: calve {}; limit {:.2} s", pair.calve, pair.limit.as_secs_f64());
            Ok(pair)
        })
        .collect()
}

/// A whole table, once with calve and once read to nowhere.
fn load(options: &Options, bytes: u64) -> anyhow::Result<Outcome> {
    let directory = Directory::new("bench-load")?;
    let mut source = Source::start(options.source)?;
    ensure_free(source.data_dir()?, bytes)?;
    taxi::create(&mut source)?;
    taxi::fill(&mut source, options.rows)?;
    let analyze = if source.kind() == Kind::Postgres { "vacuum (analyze)" } else { "analyze table" };
    source.sql.rows(&format!("{analyze} {TRIPS}"))?;

    let pipeline = drain::pipeline(directory.path(), &source, &[TRIPS]);
    let mut loaded = false;
    let calve = || {
        if std::mem::replace(&mut loaded, true) {
            pipeline.finish(&["drop", "--tables", "--yes"])?.expect_success()?;
            std::fs::remove_dir_all(pipeline.lake().path())?;
        }
        measure::run(pipeline.command(&["run", "--once"])?, &pipeline.log("run"))
    };
    let mut read = 0;
    let limit = || {
        let Reading { wall, rows, bytes } = match options.source {
            Kind::Postgres => limit::copy(&mut source)?,
            Kind::MySql | Kind::MariaDb => limit::select(&mut source, options.rows)?,
        };
        ensure!(rows == options.rows, "the limit read {rows} of {} rows", options.rows);
        read = bytes;
        Ok(wall)
    };
    let pairs = pairs(options, calve, limit)?;
    pipeline.finish(&["verify"])?.expect_success()?;
    Ok(Outcome::new(&options.name, options.rows, read, pairs))
}

/// The drain of a log beside the server's own client (Postgres), or beside a bare encoder of the same rows.
fn stream(options: &Options, changes: Changes, bytes: u64) -> anyhow::Result<Outcome> {
    let directory = Directory::new("bench-stream")?;
    let mut source = Source::start(options.source)?;
    ensure_free(source.data_dir()?, bytes)?;
    let tables = prepare(&mut source, changes, options.rows)?;
    let mut drain = Drain::begin(directory.path(), source, &tables)?;
    let rows = write(&mut drain.source, changes, options.rows)?;
    let bytes = drain.log_bytes()?;

    let drain = std::cell::RefCell::new(drain);
    let mut written: Option<Rows> = None;
    let calve = || drain.borrow_mut().calve();
    let limit = || {
        let mut drain = drain.borrow_mut();
        if options.source == Kind::Postgres {
            return drain.recvlogical();
        }
        let written = match &mut written {
            Some(written) => written,
            None => written.insert(Rows::read(&drain.new_data_files()?)?),
        };
        written.write(directory.path())
    };
    let pairs = pairs(options, calve, limit)?;
    drain.borrow().verify()?;
    if let Some(written) = &written {
        println!("{rows} changes, of which {} rows were written", written.count());
    }
    Ok(Outcome::new(&options.name, rows, bytes, pairs))
}

/// Makes the tables that changes are written to; returns them.
fn prepare(source: &mut Source, changes: Changes, rows: u64) -> anyhow::Result<Vec<&'static str>> {
    match (changes, source.kind()) {
        (Changes::Insert, _) => taxi::create(source)?,
        (Changes::Update, _) => {
            taxi::create(source)?;
            taxi::fill(source, rows)?;
        }
        (Changes::Mix, Kind::Postgres) => {
            source.client("pgbench", &["--initialize", "--quiet", "--scale=10"])?;
            source.sql.run("alter table pgbench_history add column hid bigserial primary key")?;
            return Ok(vec!["pgbench_accounts", "pgbench_branches", "pgbench_tellers", "pgbench_history"]);
        }
        (Changes::Mix, Kind::MySql | Kind::MariaDb) => {
            sysbench(source, &["prepare"])?;
            return Ok(vec!["sbtest1", "sbtest2", "sbtest3", "sbtest4"]);
        }
    }
    Ok(vec![TRIPS])
}

/// Changes of rows in one transaction of pgbench's: accounts, tellers and branches updated, history inserted; and of
/// sysbench's: two updates, a delete and an insert.
const MIX_CHANGES: u64 = 4;

/// Writes so many changes, or as many as make whole transactions; returns how many.
fn write(source: &mut Source, changes: Changes, rows: u64) -> anyhow::Result<u64> {
    let transactions = rows / MIX_CHANGES;
    match (changes, source.kind()) {
        (Changes::Insert, _) => taxi::insert(source, rows)?,
        (Changes::Update, _) => taxi::update(source, rows)?,
        (Changes::Mix, Kind::Postgres) => {
            const CLIENTS: u64 = 4;
            let each = format!("--transactions={}", transactions / CLIENTS);
            source.client("pgbench", &["--no-vacuum", "--client=4", "--jobs=2", "--protocol=prepared", &each])?;
            return Ok(transactions / CLIENTS * CLIENTS * MIX_CHANGES);
        }
        (Changes::Mix, Kind::MySql | Kind::MariaDb) => {
            sysbench(source, &["--time=0", &format!("--events={transactions}"), "run"])?;
            return Ok(transactions * MIX_CHANGES);
        }
    }
    Ok(rows)
}

fn sysbench(source: &Source, words: &[&str]) -> anyhow::Result<()> {
    let place = [
        format!("--mysql-port={}", source.port()?),
        format!("--mysql-db={}", source.database()),
        format!("--mysql-user={0}", source.kind().superuser()),
        format!("--mysql-password={0}", source.kind().superuser()),
    ];
    let done = std::process::Command::new("sysbench")
        .args(["oltp_write_only", "--db-driver=mysql", "--mysql-host=127.0.0.1", "--tables=4", "--table-size=25000"])
        .args(["--threads=4", "--rand-seed=1"])
        .args(place)
        .args(words)
        .output()
        .map_err(|error| anyhow::anyhow!("sysbench cannot be run: {error}; install it (apt-get install sysbench)"))?;
    ensure!(done.status.success(), "sysbench failed: {}", String::from_utf8_lossy(&done.stdout));
    Ok(())
}

/// One transaction beside the same rows in transactions of a thousand, each in a server of its own.
fn big_transaction(options: &Options) -> anyhow::Result<Outcome> {
    const NARROW: &str = "narrow";
    let directory = Directory::new("bench-transaction")?;
    let side = |name: &str, at_once: u64| -> anyhow::Result<(Drain, u64)> {
        let mut source = Source::start(options.source)?;
        ensure_free(source.data_dir()?, DISK_BYTES + options.rows * DISK_BYTES_A_ROW / 4)?;
        source.sql.run(&format!("create table {NARROW} (id bigint primary key, v int not null)"))?;
        let numbers = taxi::Numbers::make(&mut source, 100_000.min(at_once))?;
        let mut drain = Drain::begin(&subdirectory(directory.path(), name)?, source, &[NARROW])?;
        let sql = &mut drain.source.sql;
        sql.run("begin")?;
        let mut open = 0;
        taxi::for_batches(options.rows, 100_000.min(at_once), |first, last| {
            sql.run(&format!("insert into {NARROW} select i, i % 1000 {}", numbers.between(first, last)))?;
            open += last - first + 1;
            if open >= at_once {
                open = 0;
                sql.run("commit")?;
                sql.run("begin")?;
            }
            Ok(())
        })?;
        sql.run("commit")?;
        let bytes = drain.log_bytes()?;
        Ok((drain, bytes))
    };
    let (mut one, bytes) = side("one", u64::MAX)?;
    let (mut many, _) = side("many", 1000)?;
    let pairs = pairs(options, || one.calve(), || Ok(many.calve()?.wall))?;
    one.verify()?;
    let outcome = Outcome::new(&options.name, options.rows, bytes, pairs);
    let used = outcome.max_rss_bytes();
    if used > MEMORY_CEILING {
        println!("{outcome}");
    }
    ensure!(used <= MEMORY_CEILING, "calve used {} MiB, more than {} MiB", used >> 20, MEMORY_CEILING >> 20);
    Ok(outcome)
}

/// Changes of single rows spread over many tables, beside the same changes in one table.
fn many_tables(options: &Options) -> anyhow::Result<Outcome> {
    let directory = Directory::new("bench-tables")?;
    // Both sides visit the same keys in the same order: primes scatter them.
    let side = |name: &str, tables: u64, update: &str| -> anyhow::Result<(Drain, u64)> {
        let mut source = Source::start(options.source)?;
        ensure_free(source.data_dir()?, DISK_BYTES + options.rows * DISK_BYTES_A_ROW / 4)?;
        source.sql.run(&format!(
            "create procedure make() language plpgsql as $$ begin for t in 0..{tables} - 1 loop \
               execute format('create table t%s (id int primary key, v bigint not null, note text not null)', t); \
               execute format('insert into t%s select i, 0, ''a note'' from generate_series(0, {} - 1) i', t); \
               if t % 100 = 99 then commit; end if; end loop; end $$; \
             create procedure change(changes int) language plpgsql as $$ begin for i in 1..changes loop \
               {update}; commit; end loop; end $$",
            TABLES * ROWS_A_TABLE / tables
        ))?;
        source.sql.run("call make()")?;
        let mut drain = Drain::begin(&subdirectory(directory.path(), name)?, source, &["t*"])?;
        drain.source.sql.run(&format!("call change({})", options.rows))?;
        let bytes = drain.log_bytes()?;
        Ok((drain, bytes))
    };
    let spread = format!(
        "execute format('update t%s set v = v + 1 where id = $1', (i::bigint * 7919) % {TABLES}) \
         using ((i::bigint * 104729) % {ROWS_A_TABLE})::int"
    );
    let together = format!(
        "execute 'update t0 set v = v + 1 where id = $1' \
         using (((i::bigint * 7919) % {TABLES}) * {ROWS_A_TABLE} + (i::bigint * 104729) % {ROWS_A_TABLE})::int"
    );
    let (mut many, bytes) = side("many", TABLES, &spread)?;
    let (mut one, _) = side("one", 1, &together)?;
    let pairs = pairs(options, || many.calve(), || Ok(one.calve()?.wall))?;
    one.verify()?;
    Ok(Outcome::new(&options.name, options.rows, bytes, pairs))
}

fn subdirectory(directory: &Path, name: &str) -> anyhow::Result<std::path::PathBuf> {
    let path = directory.join(name);
    std::fs::create_dir(&path)?;
    Ok(path)
}
