//! The mixed load: transactions of many kinds over several tables, from several connections, through restarts of the server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow};

use super::transactions::{KINDS, Kind};
use crate::random::Random;
use crate::sql::Sql;

/// Connections that write at the same time.
const WRITERS: u64 = 3;

/// Longest pause of a writer between two transactions.
const PAUSE_MS: u64 = 25;

/// Transactions committed, by kind.
type Counts = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// A load that can be started round after round.
#[derive(Debug)]
pub(super) struct Load {
    url: String,
    random: Random,
    counts: Counts,
}

impl Load {
    pub(super) fn new(url: String, random: &mut Random) -> Self {
        Self { url, random: random.fork(), counts: Counts::default() }
    }

    /// Starts the writers.
    pub(super) fn start(&mut self) -> RunningLoad {
        let stop = Arc::new(AtomicBool::new(false));
        let writers = (0..WRITERS).map(|number| {
            let writer = Writer {
                number,
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
        KINDS.iter().map(|kind| kind.name).filter(|name| !counts.contains_key(name)).collect()
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
    url: String,
    random: Random,
    counts: Counts,
    stop: Arc<AtomicBool>,
}

impl Writer {
    fn run(mut self) -> anyhow::Result<()> {
        let mut sql = self.connect()?;
        let weights: u64 = KINDS.iter().map(|kind| kind.weight).sum();
        while !self.stop.load(Ordering::Relaxed) {
            let kind = chosen(self.random.below(weights));
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
        sql.run(&format!("select setseed({}e-6)", self.random.below(1_000_000)))?;
        Ok(sql)
    }
}

fn chosen(mut at: u64) -> &'static Kind {
    for kind in KINDS {
        if at < kind.weight {
            return kind;
        }
        at -= kind.weight;
    }
    &KINDS[0]
}
