//! Tables without a key, while snapshots are taken: nothing tells their rows apart, so that changes which may be in the rows or not
//! cannot be put on them. They are locked for as long as it takes to take the snapshots and to see where the log stands: their
//! rows are of that position exactly.
//!
//! A lock waits for every transaction that has written to the table, until that is committed and counted; and so does whoever
//! writes to it meanwhile.

use std::collections::BTreeSet;

use calve_core::{Result, StopReason, TableName};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::config::ConnectConfig;
use crate::connection;
use crate::describe::catalog;
use crate::error::{code, server_error, sql_error};
use crate::server::Server;
use crate::sql::qualified;

/// Seconds that a lock is waited for.
const WAIT_S: u32 = 5;

/// The locks of one connection.
pub(super) struct Locks {
    /// None where no table is to be locked.
    conn: Option<Conn>,
    tables: BTreeSet<TableName>,
    /// Tables that cannot be locked.
    pub(super) refused: Vec<(TableName, StopReason)>,
}

impl Locks {
    /// Locks those of the tables that have no key.
    pub(super) async fn take(connect: &ConnectConfig, server: &Server, tables: &[TableName]) -> Result<Self> {
        let mut locks = Self { conn: None, tables: BTreeSet::new(), refused: Vec::new() };
        let mut without_key = Vec::new();
        for table in tables.iter().filter(|table| server.conversions.rules.table(table).mode.is_append()) {
            let conn = match &mut locks.conn {
                Some(conn) => conn,
                none => none.insert(waiting(connect).await?),
            };
            if catalog::read(conn, table).await?.is_some_and(|found| found.has_no_key()) {
                without_key.push(table);
            }
        }
        let Some(conn) = &mut locks.conn else { return Ok(locks) };
        for table in without_key {
            // By itself first: what cannot be locked must not hold up the others.
            match conn.query_drop(format!("LOCK TABLES {} READ", qualified(table))).await {
                Ok(()) => {
                    locks.tables.insert(table.clone());
                }
                Err(error) => locks.refused.push((table.clone(), refusal(table, &error)?)),
            }
        }
        // Each statement lets go of what the one before it has locked.
        if locks.tables.len() > 1 || !locks.refused.is_empty() && !locks.tables.is_empty() {
            let all: Vec<String> = locks.tables.iter().map(|table| format!("{} READ", qualified(table))).collect();
            let locked = conn.query_drop(format!("LOCK TABLES {}", all.join(", "))).await;
            locked.map_err(|error| sql_error("cannot lock the tables without a key", &error))?;
        }
        Ok(locks)
    }

    /// The tables that are locked.
    pub(super) fn tables(&self) -> &BTreeSet<TableName> {
        &self.tables
    }

    /// Lets go of them.
    pub(super) async fn release(self) -> Result<()> {
        let Some(mut conn) = self.conn else { return Ok(()) };
        let unlocked = conn.query_drop("UNLOCK TABLES").await;
        unlocked.map_err(|error| sql_error("cannot unlock the tables without a key", &error))?;
        // The server ends it anyway when it is dropped.
        let _ = conn.disconnect().await;
        Ok(())
    }
}

async fn waiting(connect: &ConnectConfig) -> Result<Conn> {
    let mut conn = connection::open(connect).await?;
    let set = conn.query_drop(format!("SET SESSION lock_wait_timeout = {WAIT_S}")).await;
    set.map_err(|error| sql_error("cannot prepare locks", &error))?;
    Ok(conn)
}

/// Why a table cannot be locked; an error where it is the connection that failed.
fn refusal(table: &TableName, error: &mysql_async::Error) -> Result<StopReason> {
    let denied = [code::DATABASE_ACCESS_DENIED, code::TABLE_ACCESS_DENIED, code::ACCESS_DENIED];
    match server_error(error).map(|server| server.code) {
        Some(code) if denied.contains(&code) => Ok(StopReason {
            state: "no permission".into(),
            detail: format!("table {table} has no key, and the user may not lock it for the moment when it is read"),
            remedy: format!(
                "GRANT SELECT, LOCK TABLES ON {}.* to the user; then run `calve reload {table}`",
                crate::sql::identifier(&table.schema)
            ),
        }),
        Some(code::LOCK_WAIT_TIMEOUT) => Ok(StopReason {
            state: "locked".into(),
            detail: format!(
                "table {table} has no key, and could not be locked within {WAIT_S} seconds for the moment when it is read: a \
                 transaction that wrote to it is open"
            ),
            remedy: format!("run `calve reload {table}` when no transaction writes to it for long"),
        }),
        _ => Err(sql_error(format_args!("cannot lock table {table}"), error)),
    }
}
