//! Looks back in the log for the rows of an XA transaction that was prepared before reading began.
//!
//! A transaction can stay prepared for long, and a pipeline may begin, or a table be loaded, in between. Its COMMIT carries no
//! rows; they lie in the log at its PREPARE, mostly a short way back.

use calve_core::{
    BinlogOffset, BinlogPosition, ChangeSink, Position, Result, RowBuffer, StopReason, TableIndex, TransactionPoint,
};

use crate::connection;
use crate::ddl::Xid;
use crate::server;
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

/// Wants nothing.
struct Deaf;

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
