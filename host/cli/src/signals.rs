//! Ctrl-C and SIGTERM: the first signal stops the work in order, the second ends the process.

use crate::exit::Exit;
use clawhost_play::Cancel;
use tokio::sync::oneshot;

/// The kind of work, which decides the message about its results.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stopping {
    /// Episodes are played and recorded.
    Run,
    /// Recorded episodes are judged.
    Scoring,
    /// Commands of agents run.
    Collecting,
    /// Recorded episodes are played again.
    Replay,
    /// A model is trained.
    Tuning,
    /// A plugin is built and tried.
    Trying,
    /// Nothing is recorded.
    Demo,
}

impl Stopping {
    fn words(self) -> &'static str {
        match self {
            Self::Run => "stopping: played episodes are being recorded (press Ctrl-C again to exit at once)",
            Self::Scoring => "stopping: verdicts are being recorded (press Ctrl-C again to exit at once)",
            Self::Collecting => {
                "stopping: commands are ended, and the same call continues (press Ctrl-C again to exit at once)"
            }
            Self::Replay => "stopping (press Ctrl-C again to exit at once)",
            Self::Tuning => "stopping: the last weights are being written (press Ctrl-C again to exit at once)",
            Self::Trying => "stopping",
            Self::Demo => "stopping (the demo records nothing)",
        }
    }
}

/// Work that a signal cancels. After it is dropped, signals end the process again.
#[derive(Debug)]
pub(crate) struct Cancellable {
    cancel: Cancel,
    /// Dropping it ends the watching thread.
    _watching: oneshot::Sender<()>,
}

impl Cancellable {
    /// The cancellation token of the work.
    pub(crate) fn cancel(&self) -> &Cancel {
        &self.cancel
    }
}

/// Watches for signals during this work, on a thread of its own: whatever occupies the threads of the work, the second signal ends the
/// process. Signals count from the return of this function on.
pub(crate) fn cancel_on_signal(stopping: Stopping) -> Cancellable {
    let cancel = Cancel::default();
    let (watching, over) = oneshot::channel();
    let (ready, is_ready) = std::sync::mpsc::channel();
    let seen = cancel.clone();
    let watch = move || {
        // Without a runtime signals end the process, as usual.
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_io().build() else { return };
        runtime.block_on(async move {
            let Ok(signals) = Signals::new() else { return };
            // The receiver waits for it.
            let _ = ready.send(());
            tokio::select! {
                () = watch(signals, seen, stopping) => {}
                _ = over => {}
            }
        });
    };
    if std::thread::Builder::new().name("signals".to_owned()).spawn(watch).is_ok() {
        let _ = is_ready.recv();
    }
    Cancellable { cancel, _watching: watching }
}

async fn watch(mut signals: Signals, cancel: Cancel, stopping: Stopping) {
    use std::io::Write as _;
    signals.next().await;
    // Printed first: the cancelled work may print its own last message.
    let _ = writeln!(crate::terminal::stderr(), "{}", stopping.words());
    cancel.request();
    signals.next().await;
    #[allow(clippy::disallowed_methods, reason = "asked for twice; every finished transaction is on disk")]
    std::process::exit(Exit::Interrupted as i32);
}

/// Ctrl-C and SIGTERM. No signal is lost between two waits.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> std::io::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        // Without a handler the signal ends the process, as usual.
        let _ = tokio::signal::ctrl_c().await;
    }
}
