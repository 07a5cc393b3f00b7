//! The mixed load: transactions of many kinds over several tables, from several connections, through restarts of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::transactions::Script;
use crate::random::Random;
use crate::sql::Sql;

/// Connections that write at the same time.
const WRITERS: u64 = 3;

/// Longest pause of a writer between two transactions.
const PAUSE_MS: u64 = 25;

/// Transactions committed, by kind.
type Counts = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// A load that can be started round after round.
pub(super) struct Load {
    script: Script,
    url: String,
    random: Random,
    counts: Counts,
}

impl Load {
    pub(super) fn new(script: Script, url: String, random: &mut Random) -> Self {
        Self { script, url, random: random.fork(), counts: Counts::default() }
    }

    /// Starts the writers.
    pub(super) fn start(&mut self) -> RunningLoad {
        let stop = Arc::new(AtomicBool::new(false));
        let writers = (0..WRITERS).map(|number| {
            let writer = Writer {
                number,
                script: self.script,
                url: self.url.clone(),
                random: self.random.fork(),
                counts: Arc::clone(&self.counts),
                stop: Arc::clone(&stop),
            };
            std::thread::spawn(move || writer.run())
        });
        RunningLoad { writers: writers.collect(), stop }
    }

    /// What was committed.
    pub(super) fn summary(&self) -> String {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let shown: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        shown.join(", ")
    }

    /// Kinds of which no transaction succeeded: the suite would prove nothing about them.
    pub(super) fn idle_kinds(&self) -> Vec<&'static str> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        self.script.all_kinds().map(|kind| kind.name).filter(|name| !counts.contains_key(name)).collect()
    }
}

/// Writers at work. Stopped, or they stop when this goes.
#[derive(Debug)]
pub(super) struct RunningLoad {
    writers: Vec<JoinHandle<anyhow::Result<()>>>,
    stop: Arc<AtomicBool>,
}

impl RunningLoad {
    /// Lets every writer finish its transaction.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.writers.drain(..).try_for_each(|writer| match writer.join() {
            Ok(outcome) => outcome,
            Err(_) => Err(anyhow!("a writer panicked")),
        })
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

struct Writer {
    number: u64,
    script: Script,
    url: String,
    random: Random,
    counts: Counts,
    stop: Arc<AtomicBool>,
}

impl Writer {
    fn run(mut self) -> anyhow::Result<()> {
        let mut sql = self.connect()?;
        while !self.stop.load(Ordering::Relaxed) {
            let kind = self.script.choose(&mut self.random);
            let statements = (kind.statements)(&mut self.random, self.number);
            if sql.run(&statements).is_ok() {
                *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry(kind.name).or_default() += 1;
            } else if sql.run("rollback").is_err() {
                // The server went away; whether it committed does not matter, it is the one that is asked afterwards.
                sql = self.connect()?;
            }
            std::thread::sleep(Duration::from_millis(self.random.below(PAUSE_MS)));
        }
        Ok(())
    }

    fn connect(&mut self) -> anyhow::Result<Sql> {
        let mut sql = Sql::connect_patiently(&self.url, Duration::from_mins(1)).context("a writer of the load")?;
        (self.script.begin)(&mut sql, &mut self.random, self.number)?;
        Ok(sql)
    }
}

#[cfg(test)]
mod tests {
    use calve_testkit::servers::{Kind as ServerKind, Options, Server, Stop};

    use super::*;
    use crate::compare::{Pair, SourceRows};
    use crate::crash::transactions::{ACCOUNTS_TOTAL, DATABASE, LEDGERS_TOTAL, TABLES};

    /// The load without calve: every kind of transaction is one that the server takes, and what must hold does hold, with
    /// the server restarted in between.
    fn check(kind: ServerKind, version: &str) -> anyhow::Result<()> {
        let script = Script::of(kind);
        let settings = script.settings.iter().fold(Options::default(), |all, (name, value)| all.set(name, value));
        let server = Server::start(kind, version, &settings)?;
        server.sql("mysql", &format!("create database {DATABASE}"))?;
        let url = server.url(kind.superuser(), DATABASE)?;
        let mut sql = Sql::connect(&url)?;
        sql.run(script.schema)?;
        let mut random = Random::new(3);
        for kind in script.all_kinds() {
            (0..4).try_for_each(|_| sql.run(&(kind.statements)(&mut random, 9)).context(kind.name))?;
        }
        // Prepared by a writer that is gone; its successor decides.
        sql.run(
            "xa start 'w0-1'; update accounts set balance = balance - 7 where id = 1;
             update accounts set balance = balance + 7 where id = 2; xa end 'w0-1'; xa prepare 'w0-1'",
        )?;
        drop(sql);
        // Of which a number must never be committed.
        for n in 0..6 {
            Sql::connect(&url)?.run(&format!(
                "xa start 'w0-never{n}'; update accounts set balance = 0 where id = 10 + {n}; xa end 'w0-never{n}';
                 xa prepare 'w0-never{n}'"
            ))?;
        }
        let mut load = Load::new(script, url.clone(), &mut random);
        for how in [Stop::Kill, Stop::Immediate, Stop::Fast] {
            let running = load.start();
            std::thread::sleep(Duration::from_secs(2));
            server.restart(how, &Options::default())?;
            std::thread::sleep(Duration::from_secs(1));
            running.stop()?;
        }
        let mut sql = Sql::connect(&url)?;
        println!("{kind} {version}: {}", load.summary());
        assert_eq!(sql.rows("xa recover")?.len(), 0, "{kind} {version} has transactions that nobody decided");
        assert_eq!(load.idle_kinds(), Vec::<&str>::new(), "{kind} {version}");
        for (query, expected) in [
            ("select sum(balance) from accounts", ACCOUNTS_TOTAL),
            ("select (select sum(balance) from ledger_a) + (select sum(balance) from ledger_b)", LEDGERS_TOTAL),
        ] {
            assert_eq!(sql.value(query)?, expected.to_string(), "{kind} {version}: {query}");
        }
        // What the readers will be held against.
        for (table, _) in TABLES {
            let rows = SourceRows::read(&mut sql, &Pair::named(&format!("{DATABASE}.{table}")))?;
            assert!(!rows.key.is_empty(), "{table} has no key");
        }
        Ok(())
    }

    #[test]
    fn mysql_takes_every_kind_of_transaction_and_keeps_the_sums() -> anyhow::Result<()> {
        check(ServerKind::MySql, "9")
    }

    #[test]
    fn an_older_mariadb_takes_every_kind_of_transaction_and_keeps_the_sums() -> anyhow::Result<()> {
        check(ServerKind::MariaDb, "10.11")
    }

    #[test]
    fn mariadb_takes_every_kind_of_transaction_and_keeps_the_sums() -> anyhow::Result<()> {
        check(ServerKind::MariaDb, "11.8")
    }
}
