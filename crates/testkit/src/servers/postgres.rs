//! Postgres by its major version, and by the name of its client.

use std::ops::Deref;

use super::{Database, Kind, Options, Server, ServerError};

/// The superuser of every Postgres; its password is its name.
pub const SUPERUSER: &str = "postgres";

/// A Postgres cluster: a [`Server`] of that kind.
#[derive(Clone, Debug)]
pub struct Postgres(Server);

impl Postgres {
    /// The cluster of this version that all tests share; see [`Server::shared`].
    pub fn shared(version: u32) -> Result<Self, ServerError> {
        Server::shared(Kind::Postgres, &version.to_string()).map(Self)
    }

    /// A cluster of the caller's own, free to be restarted and killed.
    pub fn start(version: u32, options: &Options) -> Result<Self, ServerError> {
        Server::start(Kind::Postgres, &version.to_string(), options).map(Self)
    }
}

impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Server {
    /// [`Server::sql`], as tests of Postgres know it.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, ServerError> {
        self.sql(database, sql)
    }
}

impl Database {
    /// [`Database::sql`], as tests of Postgres know it.
    pub fn psql(&self, sql: &str) -> Result<String, ServerError> {
        self.sql(sql)
    }
}
