//! A model that stops answering at a chosen request, until it is let go on. So a program can be interrupted at a known point.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// A program that has not asked after this has failed. A longer wait would not change that.
const PATIENCE: Duration = Duration::from_secs(300);

/// Holds back requests.
pub(crate) struct Gate {
    first_held: usize,
    is_open: Mutex<bool>,
    opened: Condvar,
    reached: Sender<()>,
    told: Mutex<Receiver<()>>,
}

impl Gate {
    /// Holds back requests from this number on, counted from 0.
    pub(crate) fn new(first_held: usize) -> Self {
        let (reached, told) = channel();
        Self { first_held, is_open: Mutex::new(false), opened: Condvar::new(), reached, told: Mutex::new(told) }
    }

    /// Passes a request, or waits until the gate is opened.
    pub(crate) fn pass(&self, number: usize) {
        if number >= self.first_held {
            let _ = self.reached.send(());
            drop(self.opened.wait_while(self.is_open.lock().unwrap(), |is_open| !*is_open).unwrap());
        }
    }

    /// Waits until a request is held back.
    pub(crate) fn reached(&self) {
        self.told.lock().unwrap().recv_timeout(PATIENCE).unwrap();
    }

    /// Lets all requests pass.
    pub(crate) fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}
