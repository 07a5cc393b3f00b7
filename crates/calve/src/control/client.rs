//! The asking command's end of the socket.

use std::io;
use std::path::Path;
use std::time::Duration;

use calve_core::{Error, ErrorKind, Result, TableName};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::path::SocketPath;
use super::{Answer, MAX_LINE, Request};
use crate::progress::LiveStatus;

/// A calve that does not answer a question about its state within this time is taken for stuck.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the running calve.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects; None where no calve runs this pipeline. A file left behind by a killed process refuses the connection.
    pub(crate) async fn connect(path: &Path) -> Result<Option<Self>> {
        let connect = async {
            let short = SocketPath::new(path)?;
            UnixStream::connect(short.as_path()).await
        };
        match connect.await {
            Ok(stream) => Ok(Some(Self { stream: BufReader::new(stream) })),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
                Ok(None)
            }
            Err(error) => {
                let message = format!("the running calve cannot be asked through {}: {error}", path.display());
                Err(Error::new(ErrorKind::Config, message))
            }
        }
    }

    /// Where the running calve stands.
    pub(crate) async fn status(&mut self) -> Result<LiveStatus> {
        let ask = async {
            self.send(&Request::Status).await?;
            self.next().await
        };
        match tokio::time::timeout(STATUS_TIMEOUT, ask).await {
            Ok(Ok(Some(Answer::Status { status }))) => Ok(*status),
            Ok(Ok(Some(Answer::Refused { why }))) => Err(Error::new(ErrorKind::Config, why)),
            Ok(Ok(_)) => Err(gone(None)),
            Ok(Err(error)) => Err(gone(Some(error))),
            Err(_) => Err(Error::new(ErrorKind::Retry, "the running calve does not answer")),
        }
    }

    /// Asks for tables to be read again. What comes of it is read with [`next_answer`](Self::next_answer).
    pub(crate) async fn reload(&mut self, tables: Vec<TableName>) -> Result<()> {
        self.send(&Request::Reload { tables }).await.map_err(|error| gone(Some(error)))
    }

    /// The next answer; an error where the running calve left.
    pub(crate) async fn next_answer(&mut self) -> Result<Answer> {
        match self.next().await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(gone(None)),
            Err(error) => Err(gone(Some(error))),
        }
    }

    async fn send(&mut self, request: &Request) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.stream.get_mut().write_all(&line).await
    }

    async fn next(&mut self) -> io::Result<Option<Answer>> {
        let mut line = String::new();
        if (&mut self.stream).take(MAX_LINE).read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_str(&line)?))
    }
}

fn gone(error: Option<io::Error>) -> Error {
    let message = "the running calve left before it answered; ask again";
    match error {
        None => Error::new(ErrorKind::Retry, message),
        Some(error) => Error::with_source(ErrorKind::Retry, message, error),
    }
}
