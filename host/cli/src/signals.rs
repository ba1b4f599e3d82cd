//! Ctrl-C and SIGTERM: the first signal stops the work in order, the second ends the process.

use crate::exit::Exit;
use clawhost_play::Cancel;
use tokio::task::JoinHandle;

/// The kind of work, which decides the message about its results.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stopping {
    /// Episodes are played and recorded.
    Run,
    /// Recorded episodes are judged.
    Scoring,
    /// Recorded episodes are played again.
    Replay,
    /// Nothing is recorded.
    Demo,
}

impl Stopping {
    fn words(self) -> &'static str {
        match self {
            Self::Run => "stopping: played episodes are being recorded (press Ctrl-C again to exit at once)",
            Self::Scoring => "stopping: verdicts are being recorded (press Ctrl-C again to exit at once)",
            Self::Replay => "stopping (press Ctrl-C again to exit at once)",
            Self::Demo => "stopping (the demo records nothing)",
        }
    }
}

/// Work that a signal cancels. After it is dropped, signals end the process again.
#[derive(Debug)]
pub(crate) struct Cancellable {
    cancel: Cancel,
    watcher: JoinHandle<()>,
}

impl Cancellable {
    /// The cancellation token of the work.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}

impl Drop for Cancellable {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

/// Watches for signals during this work. Must be called inside the async runtime.
pub(crate) fn cancel_on_signal(stopping: Stopping) -> Cancellable {
    let cancel = Cancel::default();
    let watcher = tokio::spawn(watch(cancel.clone(), stopping));
    Cancellable { cancel, watcher }
}

async fn watch(cancel: Cancel, stopping: Stopping) {
    use std::io::Write as _;
    wait().await;
    // Printed first: the cancelled work may print its own last message.
    let _ = writeln!(crate::terminal::stderr(), "{}", stopping.words());
    cancel.request();
    wait().await;
    #[allow(clippy::disallowed_methods, reason = "asked for twice; every finished transaction is on disk")]
    std::process::exit(Exit::Interrupted as i32);
}

async fn wait() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // Without a handler the signal ends the process, as usual.
    let _ = tokio::signal::ctrl_c().await;
}
