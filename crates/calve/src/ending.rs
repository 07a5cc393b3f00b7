//! How the process ends: its exit code, and the one line that says why.

use std::process::ExitCode;

use calve_core::{Error, ErrorKind, Result};

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// As asked.
    Done,
    /// `check` found what keeps the pipeline from running; it was shown.
    Unmet,
    /// `verify` found differences, or a table that cannot be compared; it was shown.
    Differs,
}

/// Runs a command to its end.
pub(crate) fn on_runtime(command: impl Future<Output = Result<Ending>>) -> Result<Ending> {
    // Encoding takes whole threads; with one worker it would hold up the reader.
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|error| Error::with_source(ErrorKind::Retry, "the process cannot start threads", error))?;
    Background(Some(runtime)).block_on(command)
}

/// A runtime that nobody waits for: what still runs in the background when a command ends has nothing left to do that matters, and
/// where it ended in a panic, may never end by itself.
struct Background(Option<tokio::runtime::Runtime>);

impl Background {
    fn block_on<T>(self, future: impl Future<Output = T>) -> T {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.block_on(future)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Says what went wrong, if anything, and gives the exit code.
pub(crate) fn exit(ending: Result<Ending>) -> ExitCode {
    match ending {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Unmet) => ErrorKind::Config.exit_code().into(),
        Ok(Ending::Differs) => 7.into(),
        Err(error) => {
            eprintln!("calve: {}", with_causes(&error));
            error.kind().exit_code().into()
        }
    }
}

/// The error and what lies beneath it, in one line, each cause once.
pub(crate) fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The process would hang with its tables unread, and nobody would start it again.
    #[test]
    fn a_panic_ends_the_command_whatever_runs_in_the_background() {
        let (held, waits) = std::sync::mpsc::channel::<()>();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            on_runtime(async move {
                tokio::task::spawn_blocking(move || waits.recv());
                panic!("as a bug would");
            })
        }));
        assert!(ended.is_err());
        drop(held);
    }

    #[test]
    fn causes_are_told_once() {
        let io = std::io::Error::other("refused");
        let inner = Error::with_source(ErrorKind::Retry, "cannot connect", io);
        let outer = Error::with_source(ErrorKind::Retry, "the source is not reachable: cannot connect", inner);
        assert_eq!(with_causes(&outer), "the source is not reachable: cannot connect: refused");
    }
}
