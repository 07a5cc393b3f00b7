//! The running calve's end of the socket.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use calve_core::{Error, ErrorKind, Result, TableName};
use calve_engine::ControlHandle;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::path::SocketPath;
use super::{Answer, MAX_LINE, Request};
use crate::progress::{Progress, ReloadMark, ReloadState};

/// Asking is cheap, but nothing is unbounded.
const MAX_CLIENTS: usize = 32;
/// A load's progress is told at most this often.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Listens; removes the socket when dropped.
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
}

impl Server {
    /// Binds the socket. A file left by a process that was killed is replaced: the pipeline's lock is held by now.
    pub(crate) fn bind(path: &Path) -> Result<Self> {
        let bind = || -> io::Result<UnixListener> {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let short = SocketPath::new(path)?;
            UnixListener::bind(short.as_path())
        };
        let listener = bind().map_err(|error| {
            let message = format!("the control socket {} cannot be made: {error}", path.display());
            Error::new(ErrorKind::Config, message)
        })?;
        Ok(Self { listener, path: path.to_owned() })
    }

    /// Answers for as long as it is polled; what is under way ends with it.
    pub(crate) async fn serve(&self, progress: Arc<Progress>, engine: ControlHandle) {
        let mut clients = JoinSet::new();
        loop {
            while clients.len() >= MAX_CLIENTS {
                clients.join_next().await;
            }
            while clients.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let (progress, engine) = (Arc::clone(&progress), engine.clone());
                    clients.spawn(async move {
                        if let Err(error) = answer(stream, &progress, &engine).await {
                            tracing::debug!(%error, "a client of the control socket went away");
                        }
                    });
                }
                Err(error) => {
                    // Out of files, mostly: waiting is all that helps.
                    tracing::warn!(%error, "the control socket cannot accept");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn answer(stream: UnixStream, progress: &Progress, engine: &ControlHandle) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader.take(MAX_LINE)).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line) {
            Ok(Request::Status) => send(&mut writer, &Answer::Status { status: Box::new(progress.live()) }).await?,
            Ok(Request::Reload { tables }) => reload(&mut writer, &tables, progress, engine).await?,
            Err(_) => {
                let why = "the running calve does not know this request; it may be of another version".to_owned();
                send(&mut writer, &Answer::Refused { why }).await?;
            }
        }
    }
    Ok(())
}

/// Asks the engine for the loads and tells how they go until each is published or stopped.
async fn reload(
    writer: &mut (impl AsyncWriteExt + Unpin),
    tables: &[TableName],
    progress: &Progress,
    engine: &ControlHandle,
) -> io::Result<()> {
    let mut changes = progress.subscribe();
    while !progress.knows(tables) {
        if changes.changed().await.is_err() {
            break;
        }
    }
    let mut waiting: Vec<(&TableName, ReloadMark)> = Vec::new();
    for table in tables {
        let Some(mark) = progress.reload_mark(table) else {
            let why = format!("table {table} is not one of this pipeline's; see calve status");
            return send(writer, &Answer::Refused { why }).await;
        };
        waiting.push((table, mark));
    }
    for table in tables {
        engine.reload(table.clone());
    }
    while !waiting.is_empty() {
        let mut still = Vec::new();
        for (table, mark) in waiting {
            let answer = match progress.reload_state(table, mark) {
                ReloadState::Published => Answer::Published { table: table.clone() },
                ReloadState::Stopped(reason) => Answer::Stopped { table: table.clone(), reason },
                ReloadState::Loading { rows, estimated } => {
                    still.push((table, mark));
                    Answer::Loading { table: table.clone(), rows, estimated }
                }
                ReloadState::Waiting => {
                    still.push((table, mark));
                    continue;
                }
            };
            send(writer, &answer).await?;
        }
        waiting = still;
        if !waiting.is_empty() {
            tokio::time::sleep(PROGRESS_INTERVAL).await;
            // The sender lives as long as `progress`.
            let _ = changes.changed().await;
        }
    }
    send(writer, &Answer::Done).await
}

async fn send(writer: &mut (impl AsyncWriteExt + Unpin), answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    writer.write_all(&line).await
}
