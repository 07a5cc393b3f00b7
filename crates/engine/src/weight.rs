//! Memory of rows that were handed on and are not encoded yet.

use std::sync::Arc;

use tokio::sync::watch;

/// How much there is.
#[derive(Debug)]
pub(crate) struct UnderWay {
    sender: Arc<watch::Sender<usize>>,
    receiver: watch::Receiver<usize>,
}

/// The memory of some rows, for as long as they are there.
#[derive(Debug)]
pub(crate) struct Weight {
    bytes: usize,
    sender: Arc<watch::Sender<usize>>,
}

impl UnderWay {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = watch::channel(0);
        Self { sender: Arc::new(sender), receiver }
    }

    /// Bytes.
    pub(crate) fn bytes(&self) -> usize {
        *self.sender.borrow()
    }

    pub(crate) fn add(&self, bytes: usize) -> Weight {
        self.sender.send_modify(|sum| *sum += bytes);
        Weight { bytes, sender: Arc::clone(&self.sender) }
    }

    /// Waits until it is another amount than when this was asked last. Cancel-safe.
    pub(crate) async fn lessened(&mut self) {
        // The sender is here.
        let _ = self.receiver.changed().await;
    }
}

impl Weight {
    /// Takes a part of it, for rows that stay in memory for longer than the others.
    pub(crate) fn split(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { bytes, sender: Arc::clone(&self.sender) }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.sender.send_modify(|sum| *sum -= self.bytes);
    }
}
