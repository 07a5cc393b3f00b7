//! MySQL and MariaDB end to end, on every server whose log is a binlog: a test is written once and run on each.

mod append;
mod changes;
mod chosen_types;
mod commands;
mod conversions;
mod ddl;
mod deleted_rows;
mod events;
mod excerpts;
mod identity;
mod keys;
mod loads;
mod policies;
mod recovery;
mod refusals;
mod schema_changes;
mod shards;
mod swaps;
mod texts;
mod types;
mod unrepresentable;
mod vectors;
mod xa;

use std::ops::{Deref, DerefMut};

use calve_integration::sql::Sql;
use calve_testkit::servers::{Kind, Server};

use crate::case::Case;

/// Makes a test of each function for each server: `on_every_server!(keys_change)` makes `keys_change::mysql_9` and so on.
macro_rules! on_every_server {
    ($($body:ident),+ $(,)?) => {$(
        mod $body {
            use calve_testkit::servers::{Kind, Server};

            #[test]
            fn mysql_9() -> anyhow::Result<()> {
                super::$body(&Server::shared(Kind::MySql, "9")?)
            }

            #[test]
            fn mariadb_10_11() -> anyhow::Result<()> {
                super::$body(&Server::shared(Kind::MariaDb, "10.11")?)
            }

            #[test]
            fn mariadb_11_8() -> anyhow::Result<()> {
                super::$body(&Server::shared(Kind::MariaDb, "11.8")?)
            }
        }
    )+};
}
/// The same for functions that are given the kind and version, and start servers of their own.
macro_rules! on_every_version {
    ($($body:ident),+ $(,)?) => {$(
        mod $body {
            use calve_testkit::servers::Kind;

            #[test]
            fn mysql_9() -> anyhow::Result<()> {
                super::$body(Kind::MySql, "9")
            }

            #[test]
            fn mariadb_10_11() -> anyhow::Result<()> {
                super::$body(Kind::MariaDb, "10.11")
            }

            #[test]
            fn mariadb_11_8() -> anyhow::Result<()> {
                super::$body(Kind::MariaDb, "11.8")
            }
        }
    )+};
}
use {on_every_server, on_every_version};

/// A case whose tables are named without their database: each case has one of its own.
struct BinlogCase {
    case: Case,
}

impl BinlogCase {
    /// With tables made by `schema`; those named are followed.
    fn on(server: &Server, label: &str, schema: &str, tables: &[&str]) -> anyhow::Result<Self> {
        let case = Case::on(server, label, schema, &[])?;
        let mut made = Self { case };
        made.follow(tables);
        Ok(made)
    }

    /// Follows these tables, or patterns of them, from the next start on.
    fn follow(&mut self, tables: &[&str]) {
        let names = self.names(tables);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.case.pipeline = self.case.pipeline.clone().tables(&names);
    }

    /// A table's name with its database.
    fn name(&self, table: &str) -> String {
        format!("{}.{table}", self.case.database.name())
    }

    fn names(&self, tables: &[&str]) -> Vec<String> {
        tables.iter().map(|table| self.name(table)).collect()
    }

    /// See [`Case::same`].
    fn same(&mut self, tables: &[&str]) -> anyhow::Result<()> {
        let names = self.names(tables);
        self.case.same(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// See [`Case::same_by_spark`].
    fn same_by_spark(&mut self, tables: &[&str]) -> anyhow::Result<()> {
        let names = self.names(tables);
        self.case.same_by_spark(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// See [`Case::await_same`].
    fn await_same(&mut self, tables: &[&str]) -> anyhow::Result<()> {
        let names = self.names(tables);
        self.case.await_same(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Loads or catches up, and compares.
    fn once_and_same(&mut self, tables: &[&str]) -> anyhow::Result<()> {
        self.case.pipeline.once()?;
        self.same(tables)
    }

    /// Another connection of somebody who may do everything.
    fn connect(&self) -> anyhow::Result<Sql> {
        Sql::connect(&self.case.database.url(self.kind().superuser())?)
    }

    fn kind(&self) -> Kind {
        self.case.sql.kind()
    }

    /// Reads tables again, by calve's own command.
    fn reload(&self, tables: &[&str]) -> anyhow::Result<()> {
        let names = self.names(tables);
        let words: Vec<&str> = std::iter::once("reload").chain(names.iter().map(String::as_str)).collect();
        self.case.pipeline.finish(&words)?.expect_success()?;
        Ok(())
    }

    /// Reads a table again that cannot be read, and stays stopped.
    fn reload_stops(&self, table: &str) -> anyhow::Result<()> {
        self.case.pipeline.finish(&["reload", &self.name(table)])?.expect_code(3)?;
        self.stopped(table, &[])
    }

    /// Fails unless the table is stopped and says all of this of itself.
    fn stopped(&self, table: &str, says: &[&str]) -> anyhow::Result<()> {
        let state = self.case.pipeline.state(&self.name(table))?;
        let told = says.iter().all(|part| state.reason.contains(part));
        anyhow::ensure!(state.state == "stopped" && told, "{table} should be stopped and say {says:?}: {state:?}");
        Ok(())
    }

    fn pass(self) -> anyhow::Result<()> {
        self.case.pass()
    }
}

impl Deref for BinlogCase {
    type Target = Case;

    fn deref(&self) -> &Case {
        &self.case
    }
}

impl DerefMut for BinlogCase {
    fn deref_mut(&mut self) -> &mut Case {
        &mut self.case
    }
}

/// Numbers from `first` to `last`, at most ten thousand of them, as a table with the column `i`.
fn numbers(first: u32, last: u32) -> String {
    const DIGITS: &str = "(select 0 d union all select 1 union all select 2 union all select 3 union all select 4 \
                           union all select 5 union all select 6 union all select 7 union all select 8 union all select 9)";
    format!(
        "(select {first} + a.d + 10 * b.d + 100 * c.d + 1000 * e.d as i from {DIGITS} a, {DIGITS} b, {DIGITS} c, {DIGITS} e \
         having i <= {last}) as numbers"
    )
}
