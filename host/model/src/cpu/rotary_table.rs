//! Angles of positions, computed once.

use crate::rotary::angles;
use std::sync::{Arc, PoisonError, RwLock};

/// Cosine and sine of every channel pair, position by position.
pub(crate) type Table = Arc<[(f32, f32)]>;

/// Smallest number of positions that are computed.
const FIRST: usize = 64;

/// Angles of the positions that were requested so far.
#[derive(Debug)]
pub(crate) struct RotaryTable {
    frequencies: Vec<f64>,
    known: RwLock<Table>,
}

impl RotaryTable {
    pub(crate) fn new(frequencies: Vec<f64>) -> Self {
        Self { frequencies, known: RwLock::new(Arc::from([])) }
    }

    /// Angles of the first `length` positions, or more.
    pub(super) fn of(&self, length: usize) -> Table {
        let enough = |table: &Table| table.len() >= length * self.frequencies.len();
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        if enough(&known) {
            return known;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !enough(&known) {
            let length = length.next_power_of_two().max(FIRST) as u32;
            *known = (0..length).flat_map(|position| angles(&self.frequencies, position)).collect();
        }
        known.clone()
    }
}
