//! The source's tables and the kinds of transactions upon them: the same load, in each database's own words.
//!
//! What must hold in the tables at every position:
//! - `accounts`: the balances add up to [`ACCOUNTS_TOTAL`];
//! - `ledger_a` and `ledger_b`: both together add up to [`LEDGERS_TOTAL`];
//! - a row that the script says can never be there is in none.

mod mysql;
mod postgres;

use calve_testkit::servers::Kind as Source;

use crate::random::Random;
use crate::sql::Sql;

/// The tables that are replicated, each with its key.
pub(super) const TABLES: [(&str, &str); 9] = [
    ("accounts", "id"),
    ("ledger_a", "id"),
    ("ledger_b", "id"),
    ("mixed", "id"),
    ("docs", "id"),
    ("moves", "b, a"),
    ("wiped", "id"),
    ("wiped_child", "id"),
    ("quiet", "id"),
];

/// How some of them lie: by what changes, by what tells rows apart, by what is looked up; the others are not partitioned.
pub(super) const PARTITIONS: [(&str, &str); 4] = [
    ("accounts", "partition: [truncate(500, balance)]"),
    ("mixed", "partition: [bucket(3, day)], sort: [big desc]"),
    ("docs", "partition: [bucket(2, revision)], files: {bloom_filters: key}"),
    ("moves", "partition: [bucket(3, a)]"),
];

pub(super) const ACCOUNTS_TOTAL: i64 = 60_000;
pub(super) const LEDGERS_TOTAL: i64 = 60_000;

/// A kind of transaction.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) weight: u64,
    /// Its statements, by a writer of this number.
    pub(super) statements: fn(&mut Random, u64) -> String,
}

/// The load on one kind of source.
#[derive(Clone, Copy)]
pub(super) struct Script {
    /// Makes the tables, in the database that is connected to.
    pub(super) schema: &'static str,
    /// What the tables' names begin with, in the source and in the lake.
    pub(super) namespace: &'static str,
    /// All kinds, in groups.
    pub(super) kinds: &'static [&'static [Kind]],
    /// The server's own settings.
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// A table, and which of its rows cannot be there at any position.
    pub(super) never: Option<(&'static str, &'static str)>,
    /// What a writer does on a fresh connection, given its number: fixes what is random within statements, and settles
    /// what the last connection left undecided.
    pub(super) begin: fn(&mut Sql, &mut Random, u64) -> anyhow::Result<()>,
}

impl Script {
    /// The one for a source.
    pub(super) fn of(source: Source) -> Self {
        match source {
            Source::Postgres => postgres::SCRIPT,
            Source::MySql => mysql::MYSQL,
            Source::MariaDb => mysql::MARIADB,
        }
    }

    /// All kinds of transactions.
    pub(super) fn all_kinds(self) -> impl Iterator<Item = &'static Kind> {
        self.kinds.iter().copied().flatten()
    }

    /// One of them, as often as it weighs.
    pub(super) fn choose(self, random: &mut Random) -> &'static Kind {
        let weights: u64 = self.all_kinds().map(|kind| kind.weight).sum();
        let mut at = random.below(weights);
        for kind in self.all_kinds() {
            if at < kind.weight {
                return kind;
            }
            at -= kind.weight;
        }
        unreachable!("a number below the sum of all weights is below one of the partial sums")
    }
}

/// The database that the load runs on; in MySQL and MariaDB also what the tables' names begin with.
pub(crate) const DATABASE: &str = "crash";
