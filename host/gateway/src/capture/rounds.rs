//! Rounds of the importer: a request that reads the store waits for one that began after it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// Longest wait for a round. A store that takes longer is locked, or its disk is full.
const PATIENCE: Duration = Duration::from_secs(10);

/// The rounds.
#[derive(Debug)]
pub(crate) struct Rounds {
    /// Requests for a round.
    asked: AtomicU64,
    /// Requests up to which rounds have ended.
    ended: watch::Sender<u64>,
}

impl Default for Rounds {
    fn default() -> Self {
        Self { asked: AtomicU64::new(0), ended: watch::Sender::new(0) }
    }
}

impl Rounds {
    /// The requests so far: a round that begins now serves them.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Whether a request waits.
    pub(crate) fn is_awaited(&self) -> bool {
        *self.ended.borrow() < self.asked()
    }

    /// A round has ended that served these requests.
    pub(crate) fn end(&self, asked: u64) {
        self.ended.send_replace(asked);
    }

    /// Asks for a round. The future waits for its end; `false`: it took too long.
    pub(crate) fn next(&self) -> impl Future<Output = bool> + use<> {
        let ticket = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut ended = self.ended.subscribe();
        async move {
            let reached = async { ended.wait_for(|ended| *ended >= ticket).await.is_ok() };
            tokio::time::timeout(PATIENCE, reached).await.unwrap_or(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_a_round_that_began_after_it() {
        let rounds = Rounds::default();
        let began = rounds.asked();
        let waiting = rounds.next();
        assert!(rounds.is_awaited());
        tokio::pin!(waiting);
        rounds.end(began);
        assert!(futures_poll(&mut waiting).await.is_none(), "that round began before");
        rounds.end(rounds.asked());
        assert_eq!(futures_poll(&mut waiting).await, Some(true));
        assert!(!rounds.is_awaited());
        assert!(!rounds.next().await, "no round ends");
    }

    /// The result of a future that has one already.
    async fn futures_poll<T>(future: &mut std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        tokio::select! {
            biased;
            result = future => Some(result),
            () = std::future::ready(()) => None,
        }
    }
}
