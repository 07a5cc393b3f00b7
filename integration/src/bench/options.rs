//! What a measurement is told.

use calve_testkit::servers::Kind;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The initial load of one table.
    Load,
    /// The drain of a log of changes.
    Stream(Changes),
    /// One transaction against the same rows in many.
    BigTransaction,
    /// Changes over a thousand tables against the same in one.
    ManyTables,
    /// Time from a commit in the source to a reader of the lake.
    Latency,
}

/// The changes of a log that is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Rows inserted, a thousand a transaction.
    Insert,
    /// Every row updated once, a thousand a transaction.
    Update,
    /// What the database's own benchmark writes: pgbench's transactions, or sysbench's.
    Mix,
}

/// A measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The scenario as the command line names it.
    pub name: String,
    /// What is measured.
    pub scenario: Scenario,
    /// The database to measure with.
    pub source: Kind,
    /// Rows loaded, or changes written.
    pub rows: u64,
    /// How often calve and its limit run, one after the other.
    pub pairs: u32,
    /// Length of the load whose latency is measured.
    pub seconds: u64,
}

/// How it is told.
const USAGE: &str = "\
usage: bench SCENARIO [--rows N] [--pairs N] [--source postgres|mysql|mariadb] [--seconds N]

Scenarios: postgres-load, postgres-stream-insert, -update, -mix; mysql-load, mysql-stream-insert, -update, -mix;
big-transaction, many-tables, latency. The mysql scenarios take --source mariadb, big-transaction and latency any source.
--seconds is the length of the load of latency.";

/// Scenarios by name: their source, rows and pairs unless others are asked for, and the sources there are.
const SCENARIOS: [(&str, Scenario, u64, u32, &[Kind]); 11] = {
    const POSTGRES: &[Kind] = &[Kind::Postgres];
    const BINLOG: &[Kind] = &[Kind::MySql, Kind::MariaDb];
    const ANY: &[Kind] = &[Kind::Postgres, Kind::MySql, Kind::MariaDb];
    [
        ("postgres-load", Scenario::Load, 5_000_000, 2, POSTGRES),
        ("postgres-stream-insert", Scenario::Stream(Changes::Insert), 1_000_000, 5, POSTGRES),
        ("postgres-stream-update", Scenario::Stream(Changes::Update), 1_000_000, 5, POSTGRES),
        ("postgres-stream-mix", Scenario::Stream(Changes::Mix), 1_000_000, 5, POSTGRES),
        ("mysql-load", Scenario::Load, 5_000_000, 2, BINLOG),
        ("mysql-stream-insert", Scenario::Stream(Changes::Insert), 5_000_000, 2, BINLOG),
        ("mysql-stream-update", Scenario::Stream(Changes::Update), 2_000_000, 2, BINLOG),
        ("mysql-stream-mix", Scenario::Stream(Changes::Mix), 1_000_000, 5, BINLOG),
        ("big-transaction", Scenario::BigTransaction, 20_000_000, 2, ANY),
        ("many-tables", Scenario::ManyTables, 1_000_000, 2, POSTGRES),
        ("latency", Scenario::Latency, 0, 1, ANY),
    ]
};

/// Length of the load whose latency is measured, unless another is asked for.
const SECONDS: u64 = 60;

impl Options {
    /// Reads a command line.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut arguments = arguments.into_iter();
        let name = arguments.next().ok_or_else(|| USAGE.to_owned())?;
        let (_, scenario, rows, pairs, sources) = SCENARIOS
            .into_iter()
            .find(|(known, ..)| *known == name)
            .ok_or_else(|| format!("there is no scenario '{name}'\n\n{USAGE}"))?;
        let mut options = Self { name, scenario, source: sources[0], rows, pairs, seconds: SECONDS };
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{option} needs a value\n\n{USAGE}"))?;
            let wrong = || format!("{option} cannot be '{value}' in {}\n\n{USAGE}", options.name);
            let number = || value.parse().ok().filter(|number| *number > 0).ok_or_else(wrong);
            match option.as_str() {
                "--rows" => options.rows = number()?,
                "--pairs" => options.pairs = number()?.try_into().map_err(|_| wrong())?,
                "--seconds" => options.seconds = number()?,
                "--source" => {
                    let named = sources.iter().find(|kind| kind.to_string().to_lowercase() == value);
                    options.source = *named.ok_or_else(wrong)?;
                }
                _ => return Err(format!("{option} is not an option\n\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_scenario_brings_its_numbers_and_takes_others() {
        let expected = Options {
            name: "mysql-stream-update".into(),
            scenario: Scenario::Stream(Changes::Update),
            source: Kind::MySql,
            rows: 2_000_000,
            pairs: 2,
            seconds: SECONDS,
        };
        assert_eq!(parse("mysql-stream-update"), Ok(expected.clone()));
        let other = Options { source: Kind::MariaDb, rows: 10, pairs: 1, ..expected };
        assert_eq!(parse("mysql-stream-update --rows 10 --pairs 1 --source mariadb"), Ok(other));
    }

    #[test]
    fn a_wrong_one_is_refused() {
        for line in [
            "",
            "postgres",
            "postgres-load --source mysql",
            "mysql-load --source postgres",
            "many-tables --source mysql",
            "latency --rows",
            "latency --rows x",
            "latency --pairs 0",
            "latency --what 1",
        ] {
            assert!(parse(line).is_err(), "{line:?} was taken");
        }
    }
}
