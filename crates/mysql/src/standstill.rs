//! Notices a stream that stands still at the end of a log that is no more.
//!
//! At RESET both servers leave a dump in the file that they removed, and go on telling it every second that nothing comes:
//! it would wait for ever while the new log grows. A heartbeat is sent only where the dump has sent all there is (MySQL:
//! `rpl_binlog_sender.cc`, `wait_new_events`; MariaDB: `sql_repl.cc`, `wait_new_events`). So where nothing but heartbeats has
//! come for a while, the end of the log, asked for in that while, must be the place that they name.

use std::time::Duration;

use calve_core::{BinlogOffset, Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::binlog::Flavour;
use crate::binlog::event::{self, Event, Header, kind};
use crate::connection;
use crate::server::{self, Server};
use crate::settings::MySqlSettings;

/// How often the end of the log is asked for.
const PERIOD: Duration = Duration::from_secs(10);
/// An event that was written before the question has arrived by then, if nothing holds it up: and if something does, a
/// connection made anew is all that it costs.
const GRACE: Duration = Duration::from_secs(5);

/// The end of the log, and when it was asked for.
#[derive(Clone, Debug)]
struct Asked {
    end: BinlogOffset,
    at: Instant,
}

/// Compares heartbeats with the end of the log. Dropping it ends its connection.
#[derive(Debug)]
pub(crate) struct Standstill {
    flavour: Flavour,
    asked: watch::Receiver<Option<Asked>>,
    task: JoinHandle<()>,
    quiet: Quiet,
}

impl Drop for Standstill {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Standstill {
    /// Begins to ask.
    pub(crate) fn watch(settings: &MySqlSettings, flavour: Flavour) -> Self {
        let (sender, asked) = watch::channel(None);
        let settings = settings.clone();
        let task = tokio::spawn(async move {
            loop {
                sleep(PERIOD).await;
                // A server that does not answer is noticed by the stream.
                if let Err(error) = ask(&settings, &sender).await {
                    tracing::debug!(%error, "the end of the log cannot be asked for");
                }
            }
        });
        Self { flavour, asked, task, quiet: Quiet::default() }
    }

    /// An event came.
    pub(crate) fn event(&mut self, header: &Header, body: &[u8]) -> Result<()> {
        if !matches!(header.kind, kind::HEARTBEAT | kind::HEARTBEAT_V2) {
            self.quiet.since = None;
            return Ok(());
        }
        match event::parse(self.flavour, header, body) {
            Ok(Event::Heartbeat { file, position }) => {
                self.quiet.heartbeat(file, position, self.asked.borrow().as_ref(), Instant::now())
            }
            // What is wrong with it is said by whoever handles it.
            _ => Ok(()),
        }
    }
}

/// Asks until the connection is lost.
async fn ask(settings: &MySqlSettings, sender: &watch::Sender<Option<Asked>>) -> Result<()> {
    let mut conn = connection::open(&settings.connect).await?;
    let server = Server::read(&mut conn).await?;
    loop {
        let at = Instant::now();
        let end = server::binlog_end(&mut conn, &server).await?;
        sender.send_replace(Some(Asked { end, at }));
        sleep(PERIOD).await;
    }
}

/// The time in which nothing but heartbeats came.
#[derive(Debug, Default)]
struct Quiet {
    since: Option<Instant>,
}

impl Quiet {
    fn heartbeat(&mut self, file: &str, offset: u64, asked: Option<&Asked>, now: Instant) -> Result<()> {
        let since = *self.since.get_or_insert(now);
        let Some(Asked { end, at }) = asked else { return Ok(()) };
        // Some heartbeats have the low half of their place only.
        let low_half = |offset: u64| offset % (1 << 32);
        let same = *end.file == *file && low_half(end.offset) == low_half(offset);
        if same || *at < since || now.duration_since(*at) < GRACE {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Retry,
            format!(
                "the server sends nothing more after {file}:{offset}, and its log ends at {end}: was the log reset under the stream?"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_log_that_goes_on_without_the_stream_is_noticed() {
        let begin = Instant::now();
        let second = |n| begin + Duration::from_secs(n);
        // Quiet since the second 10. When the end was asked for, and what it was; then a heartbeat at b.000002:100.
        for (asked, end, now, well) in [
            (None, "", 99, true),
            (Some(20), "b.000002:100", 99, true),
            (Some(20), "b.000002:4294967396", 99, true),
            (Some(9), "b.000002:50", 99, true),
            (Some(20), "b.000002:300", 24, true),
            (Some(20), "b.000002:300", 25, false),
            (Some(20), "b.000001:100", 25, false),
            (Some(10), "b.000002:50", 15, false),
        ] {
            let asked = asked.map(|at| Asked { end: end.parse().unwrap(), at: second(at) });
            let mut quiet = Quiet::default();
            assert!(quiet.heartbeat("b.000002", 100, None, second(10)).is_ok());
            let found = quiet.heartbeat("b.000002", 100, asked.as_ref(), second(now));
            assert_eq!(found.is_ok(), well, "{end} asked for in {asked:?}, at {now}: {found:?}");
        }
    }
}
