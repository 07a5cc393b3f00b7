//! Requests to a running engine.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use calve_core::TableName;
use tokio::sync::Notify;

#[derive(Debug, Default)]
struct Requests {
    shutdown: bool,
    reload: BTreeSet<TableName>,
}

#[derive(Debug, Default)]
struct Shared {
    requests: Mutex<Requests>,
    changed: Notify,
}

/// Asks things of a running engine.
#[derive(Clone, Debug)]
pub struct ControlHandle(Arc<Shared>);

/// The engine's end of it.
#[derive(Debug)]
pub struct Control(Arc<Shared>);

/// A handle and the end to give to [`run`](crate::run).
pub fn control() -> (ControlHandle, Control) {
    let shared = Arc::new(Shared::default());
    (ControlHandle(Arc::clone(&shared)), Control(shared))
}

impl ControlHandle {
    /// Finish the checkpoint and leave.
    pub fn shutdown(&self) {
        self.ask(|requests| requests.shutdown = true);
    }

    /// Read this table again and replace it.
    pub fn reload(&self, table: TableName) {
        self.ask(|requests| {
            requests.reload.insert(table);
        });
    }

    fn ask(&self, change: impl FnOnce(&mut Requests)) {
        change(&mut self.0.requests.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.changed.notify_one();
    }
}

impl Control {
    /// Waits for a request newer than the last wait saw. Cancel-safe.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    pub(crate) fn wants_shutdown(&self) -> bool {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).shutdown
    }

    pub(crate) fn wants_reload(&self) -> bool {
        !self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).reload.is_empty()
    }

    pub(crate) fn take_reloads(&self) -> BTreeSet<TableName> {
        std::mem::take(&mut self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).reload)
    }
}
