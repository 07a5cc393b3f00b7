//! The end of a round: source against tables, and what must hold in every snapshot on the way.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use calve_testkit::readers::{DuckDb, Reader};

use super::transactions::{ACCOUNTS_TOTAL, LEDGERS_TOTAL, Script, TABLES};
use crate::compare::{Differences, Pair, SourceRows};
use crate::lake::{Lake, Snapshot, TableMetadata};
use crate::random::Random;
use crate::readers;
use crate::sql::Sql;

/// Snapshots looked at in a round, of each table: some of most, more of the one whose rows must add up.
const SAMPLES: usize = 2;
const SAMPLES_OF_ACCOUNTS: usize = 5;

/// More delete files than this are many: DuckDB holds every row against each of them.
const CROWDED: u64 = 25;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// Rows compared and found equal.
    pub(super) rows: usize,
    /// Snapshots looked into.
    pub(super) sampled: usize,
    pub(super) lost: usize,
    pub(super) duplicated: usize,
    /// Tables with many delete files.
    pub(super) crowded: Vec<&'static str>,
    /// What is wrong, each in a line or more.
    pub(super) complaints: Vec<String>,
}

/// Remembers which snapshots were looked into.
#[derive(Clone, Debug, Default)]
pub(super) struct Checker {
    seen: BTreeSet<i64>,
}

impl Checker {
    /// Compares everything, the tables of a script. calve has caught up and is not running.
    pub(super) fn check(
        &mut self,
        sql: &mut Sql,
        lake: &Lake,
        script: &Script,
        random: &mut Random,
    ) -> anyhow::Result<Verdict> {
        let namespace = script.namespace;
        readers::duckdb(|duckdb| {
            let mut verdict = Verdict::default();
            let mut tables = BTreeMap::new();
            for (table, _) in TABLES {
                let metadata = lake.metadata(namespace, table).with_context(|| format!("the metadata of {table}"))?;
                compare(sql, &metadata, &format!("{namespace}.{table}"), duckdb, &mut verdict)?;
                if metadata.total("total-delete-files") > CROWDED {
                    verdict.crowded.push(table);
                }
                tables.insert(table, metadata);
            }
            for (table, key) in TABLES {
                let samples = if table == "accounts" { SAMPLES_OF_ACCOUNTS } else { SAMPLES };
                for snapshot in self.sample(&tables[table], samples, random) {
                    let never = script.never.filter(|(of, _)| *of == table).map(|(_, rows)| rows);
                    look_into(&tables[table], &snapshot, (table, key), never, duckdb, &mut verdict)?;
                }
            }
            across(&tables["ledger_a"], &tables["ledger_b"], random, duckdb, &mut verdict)?;
            Ok(verdict)
        })
    }

    /// Some snapshots that stand for a position and were not looked into yet.
    fn sample(&mut self, metadata: &TableMetadata, samples: usize, random: &mut Random) -> Vec<Snapshot> {
        let complete = |snapshot: &Snapshot| snapshot.checkpoint().is_some() && !self.seen.contains(&snapshot.id);
        let mut candidates: Vec<Snapshot> = metadata.snapshots().into_iter().filter(complete).collect();
        let mut chosen = Vec::new();
        while !candidates.is_empty() && chosen.len() < samples {
            let at = usize::try_from(random.below(candidates.len() as u64)).expect("an index fits");
            chosen.push(candidates.swap_remove(at));
        }
        self.seen.extend(chosen.iter().map(|snapshot| snapshot.id));
        chosen
    }
}

/// Two tables at the same checkpoint are those of one position of the source.
fn across(
    a: &TableMetadata,
    b: &TableMetadata,
    random: &mut Random,
    duckdb: &mut DuckDb,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let of_b: BTreeMap<String, Snapshot> =
        b.snapshots().into_iter().filter_map(|s| Some((s.checkpoint()?.to_owned(), s))).collect();
    let mut pairs: Vec<(Snapshot, &Snapshot)> =
        a.snapshots().into_iter().filter_map(|s| of_b.get(s.checkpoint()?).map(|other| (s.clone(), other))).collect();
    for _ in 0..SAMPLES_OF_ACCOUNTS.min(pairs.len()) {
        let at = usize::try_from(random.below(pairs.len() as u64)).expect("an index fits");
        let (one, other) = pairs.swap_remove(at);
        let tables = [("a", &a.at(&one)), ("b", &b.at(other))];
        let sum = "select (select sum(balance) from a)::bigint + (select sum(balance) from b)::bigint";
        let found = duckdb.query(&tables, sum)?.single().map(str::to_owned);
        verdict.sampled += 1;
        if found.as_deref() != Some(LEDGERS_TOTAL.to_string().as_str()) {
            verdict.lost += 1;
            let at = one.checkpoint().unwrap_or_default();
            verdict
                .complaints
                .push(format!("at checkpoint {at} both ledgers add up to {found:?}, not {LEDGERS_TOTAL}"));
        }
    }
    Ok(())
}

/// The table now, against the source now.
fn compare(
    sql: &mut Sql,
    metadata: &TableMetadata,
    table: &str,
    duckdb: &mut DuckDb,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let source = SourceRows::read(sql, &Pair::named(table))?;
    let read =
        duckdb.query_table(&metadata.current(), "select * from t").with_context(|| format!("reading {table}"))?;
    let rows = read.rows.len();
    let found = Differences::between(&source, &read.rows);
    if found.is_empty() {
        verdict.rows += rows;
        return Ok(());
    }
    verdict.lost += found.lost.len();
    verdict.duplicated += found.surplus.len();
    verdict.complaints.push(format!("{table} differs:\n{found}"));
    Ok(())
}

/// What must hold whatever the position: no key twice, no money made or lost, and no row that can never be.
fn look_into(
    metadata: &TableMetadata,
    snapshot: &Snapshot,
    (table, key): (&str, &str),
    never: Option<&str>,
    duckdb: &mut DuckDb,
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let sum = if table == "accounts" { "sum(balance)::bigint" } else { "0" };
    let never = never.unwrap_or("false");
    let sql = format!(
        "select count(*), (select count(*) from (select distinct {key} from t)), {sum}, count(*) filter (where {never}) from t"
    );
    let read = duckdb.query_table(&metadata.at(snapshot), &sql);
    let read = read.with_context(|| format!("reading {table} at snapshot {}", snapshot.id))?;
    let value =
        |at: usize| read.rows.first().and_then(|row| row[at].as_deref()?.parse::<i64>().ok()).unwrap_or_default();
    let (rows, keys, sum, wrong) = (value(0), value(1), value(2), value(3));
    if wrong != 0 {
        verdict.lost += usize::try_from(wrong).unwrap_or(1);
        verdict.complaints.push(format!("{table} at snapshot {} has {wrong} rows of which {never}", snapshot.id));
    }
    verdict.sampled += 1;
    if rows != keys {
        verdict.duplicated += usize::try_from(rows - keys).unwrap_or(1);
        verdict.complaints.push(format!("{table} at snapshot {} has {rows} rows of {keys} keys", snapshot.id));
    }
    if table == "accounts" && sum != ACCOUNTS_TOTAL {
        verdict.lost += 1;
        verdict.complaints.push(format!("accounts at snapshot {} add up to {sum}, not {ACCOUNTS_TOTAL}", snapshot.id));
    }
    Ok(())
}
