//! Where a server's log stands, looked at from outside.

use calve_core::{Position, Result};

use crate::connection;
use crate::server;
use crate::settings::MySqlSettings;
use crate::source::{LogEnds, log_ends, read_server};

/// A binary log.
#[derive(Clone, Debug)]
pub struct LogStatus {
    /// Its end.
    pub end: Position,
    /// Its files, oldest first, with their sizes in bytes.
    pub files: Vec<(String, u64)>,
}

/// Asks the server for its log.
pub async fn log_status(settings: &MySqlSettings) -> Result<LogStatus> {
    let mut conn = connection::open(&settings.connect).await?;
    let server = read_server(&mut conn, settings).await?;
    let LogEnds { end, .. } = log_ends(&mut conn, &server).await?;
    let files = server::binary_logs(&mut conn).await?.into_iter().map(|file| (file.name, file.bytes)).collect();
    let _ = conn.disconnect().await;
    Ok(LogStatus { end, files })
}
