//! What has to be asked of the server about XA transactions: the rows of one that was prepared before reading began, and which
//! are prepared still.
//!
//! A transaction can stay prepared for long, and a pipeline may begin, or a table be loaded, in between. Its COMMIT carries no
//! rows; they lie in the log at its PREPARE, mostly a short way back.

use std::collections::BTreeSet;

use calve_core::{
    BinlogOffset, BinlogPosition, ChangeSink, Position, Result, RowBuffer, StopReason, TableIndex, TransactionPoint,
};

use mysql_async::prelude::Queryable;

use crate::connection;
use crate::ddl::Xid;
use crate::error::sql_error;
use crate::server::{self, Server};
use crate::settings::MySqlSettings;
use crate::stream::{BinlogReader, Replica};
use crate::transactions::{Prepared, Transactions};

/// Reads the log's files from the newest that was read back to the oldest, until one holds the transaction's rows. None: the
/// log does not hold them any more.
pub(crate) async fn find_prepared(
    settings: &MySqlSettings,
    reading: &Transactions,
    xid: &Xid,
) -> Result<Option<Prepared>> {
    let mut conn = connection::open(&settings.connect).await?;
    let files = server::binary_logs(&mut conn).await?;
    let _ = conn.disconnect().await;
    let Some(end) = reading.place().at().cloned() else { return Ok(None) };
    let read = |name: &str| BinlogOffset::new(name, 0).file_number() <= end.file_number();
    for file in files.iter().rev().filter(|file| read(&file.name)) {
        tracing::info!(
            file = file.name,
            "looking for the rows of an XA transaction that was prepared before reading began"
        );
        let start = BinlogOffset::new(&file.name, 4);
        let from = Position::Binlog(BinlogPosition { applied: start, resume: None, created: 0 });
        let mut searcher = reading.searcher(&from)?;
        let mut reader = BinlogReader::open(settings, &from, None, Replica::Searcher).await?;
        while let Some(event) = reader.next_of_all().await? {
            searcher.event(event.header(), event.body(), &mut Deaf)?;
            let at = searcher.place().at();
            if at.is_some_and(|at| *at >= end || *at.file != *file.name) {
                break;
            }
        }
        if let Some(prepared) = searcher.take_prepared(xid) {
            return Ok(Some(prepared));
        }
    }
    Ok(None)
}

/// The transactions that are prepared now, and where the log ended afterwards. MariaDB tells everybody.
pub(crate) async fn prepared_now(settings: &MySqlSettings) -> Result<(BTreeSet<Xid>, BinlogOffset)> {
    let mut conn = connection::open(&settings.connect).await?;
    let server = Server::read(&mut conn).await?;
    let rows: Vec<(i64, usize, usize, Vec<u8>)> = conn
        .query("XA RECOVER")
        .await
        .map_err(|error| sql_error("cannot read which XA transactions are prepared", &error))?;
    let end = server::binlog_end(&mut conn, &server).await?;
    let _ = conn.disconnect().await;
    let xid = |(format, global, branch, data): (i64, usize, usize, Vec<u8>)| {
        let (global, rest) = data.split_at_checked(global)?;
        let branch = rest.get(..branch)?;
        Some(Xid { format: u32::try_from(format).ok()?, global: global.to_vec(), branch: branch.to_vec() })
    };
    Ok((rows.into_iter().filter_map(xid).collect(), end))
}

/// Wants nothing.
pub(crate) struct Deaf;

impl ChangeSink for Deaf {
    fn begin(&mut self, _: &TransactionPoint) {}

    fn wants(&self, _: TableIndex) -> bool {
        false
    }

    fn rows(&mut self, _: TableIndex) -> Option<&mut RowBuffer> {
        None
    }

    fn stop(&mut self, _: TableIndex, _: StopReason) {}

    fn commit(&mut self, _: Position, _: i64) {}

    fn abort(&mut self) {}

    fn idle(&mut self, _: Position) {}

    fn is_full(&self) -> bool {
        false
    }
}
