//! The epoch ticker: a plain thread, so that a busy executor cannot stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wasmtime::Engine;

/// Interval of ticks. Short enough for fairness, long enough to be cheap: nearly every call ends before its first tick.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// Increments the epoch of its engines until it is dropped.
pub(crate) struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Ticker {
    pub(crate) fn start(engines: Vec<Engine>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("clawhost-epoch".into()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::thread::park_timeout(TICK);
                engines.iter().for_each(Engine::increment_epoch);
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // If the ticker panicked, there is nothing left to stop.
            let _ = thread.join();
        }
    }
}
