//! The way of a streamed answer to its client. A client that reads no more is given up after a time, and its model is stopped.

use bytes::Bytes;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Sends the pieces of an answer.
pub(crate) struct Outlet {
    sender: mpsc::Sender<Bytes>,
    unread: Duration,
}

/// The client has gone, or reads no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientGone;

impl Outlet {
    /// Pieces may wait for this long.
    pub(crate) fn new(sender: mpsc::Sender<Bytes>, unread: Duration) -> Self {
        Self { sender, unread }
    }

    /// Sends a piece, as soon as there is room for it.
    pub(crate) async fn send(&self, piece: Bytes) -> Result<(), ClientGone> {
        // Nearly always there is room, and no timer is needed.
        match self.sender.try_send(piece) {
            Ok(()) => Ok(()),
            Err(TrySendError::Closed(_)) => Err(ClientGone),
            Err(TrySendError::Full(piece)) => {
                self.sender.send_timeout(piece, self.unread).await.map_err(|_| ClientGone)
            }
        }
    }

    /// Waits until the client has gone.
    pub(crate) async fn closed(&self) {
        self.sender.closed().await;
    }
}
