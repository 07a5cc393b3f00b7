//! Ctrl-C and SIGTERM: the first finishes the checkpoint, the second leaves at once.

use calve_core::{Error, ErrorKind, Result};
use calve_engine::ControlHandle;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The two signals that ask a process to leave.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From here on the signals no longer end the process by themselves.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| {
            signal(kind).map_err(|error| Error::with_source(ErrorKind::Retry, "signals cannot be listened for", error))
        };
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for either; gives the exit code that a shell expects of a process ended by it. Cancel-safe.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => 128 + SignalKind::interrupt().as_raw_value(),
            _ = self.terminate.recv() => 128 + SignalKind::terminate().as_raw_value(),
        }
    }

    /// Asks the engine to finish at the first signal and ends the process at the second, which loses nothing: whatever is
    /// half done is settled by the next start, as after a crash.
    pub(crate) async fn obey(mut self, engine: ControlHandle) {
        self.next().await;
        tracing::info!("finishing the checkpoint; once more to leave at once");
        engine.shutdown();
        let code = self.next().await;
        tracing::warn!("left at once; the next start settles what was under way");
        std::process::exit(code);
    }
}
