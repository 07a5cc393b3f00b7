//! Migrations as they are done in production: every script of `migrations-fixtures/` is run live on every server, step by step
//! under a running calve, and in one stretch of the log while calve is away.

mod documented;
mod expected;
mod fixture;
mod look;
mod run;
mod script;
mod table;

use calve_testkit::servers::{Kind, Options, Server};

use run::Way;

/// Makes a test of each way for each server.
macro_rules! on_every_server {
    ($($server:ident: $kind:ident $version:literal),+ $(,)?) => {
        mod running {
            $(#[test] fn $server() -> anyhow::Result<()> { super::shared(super::Kind::$kind, $version, super::Way::Running) })+
        }

        mod away {
            $(#[test] fn $server() -> anyhow::Result<()> { super::shared(super::Kind::$kind, $version, super::Way::Away) })+
        }
    };
}
on_every_server! {
    postgres_15: Postgres "15",
    postgres_17: Postgres "17",
    postgres_18: Postgres "18",
    mysql_9: MySql "9",
    mariadb_10_11: MariaDb "10.11",
    mariadb_11_8: MariaDb "11.8",
}

fn shared(kind: Kind, version: &str, way: Way) -> anyhow::Result<()> {
    run::all(&Server::shared(kind, version)?, way)
}

/// The log says what its columns are, and is held to it.
mod away_with_full_metadata {
    use super::{Kind, Options, Server, Way, run};

    fn full(kind: Kind, version: &str) -> anyhow::Result<()> {
        let options = Options::default().set("binlog_row_metadata", "FULL");
        run::all(&Server::start(kind, version, &options)?, Way::Away)
    }

    #[test]
    fn mysql_9() -> anyhow::Result<()> {
        full(Kind::MySql, "9")
    }

    #[test]
    fn mariadb_11_8() -> anyhow::Result<()> {
        full(Kind::MariaDb, "11.8")
    }
}
