//! Slots for keys and values in an accelerator's memory: which are in use, and what each holds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Initial capacity of a slot in positions.
const FIRST: usize = 64;

/// The capacity of a slot that holds `length` tokens. There are few sizes, because a device compiles kernels for each.
pub fn slot_capacity(length: usize) -> usize {
    length.next_power_of_two().max(FIRST)
}

/// Slot numbers. The lowest free number is given out first, so that slots in use are adjacent.
#[derive(Debug, Default)]
struct Numbers {
    free: BTreeSet<usize>,
    /// All numbers below were given out at least once.
    next: usize,
}

/// Gives out the slots of one model. Clones share the slots.
#[derive(Debug, Clone, Default)]
pub struct SlotAllocator(Arc<Mutex<Numbers>>);

impl SlotAllocator {
    /// A slot for a sequence. `epoch` counts the losses of all slots so far; a position takes `position_bytes`.
    pub fn begin(&self, epoch: u64, position_bytes: usize) -> Slot {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = numbers.free.pop_first().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next - 1
        });
        drop(numbers);
        Slot { tokens: Vec::new(), number, epoch, position_bytes, allocator: self.clone() }
    }

    /// Whether it gave out this slot.
    pub fn owns(&self, slot: &Slot) -> bool {
        Arc::ptr_eq(&self.0, &slot.allocator.0)
    }
}

/// The slot of one sequence. Its number is free again when this is dropped.
#[derive(Debug)]
pub struct Slot {
    tokens: Vec<u32>,
    number: usize,
    epoch: u64,
    position_bytes: usize,
    allocator: SlotAllocator,
}

impl Slot {
    /// The tokens whose keys and values it holds.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Appends tokens whose keys and values were written.
    pub fn extend<'a>(&mut self, tokens: impl IntoIterator<Item = &'a u32>) {
        self.tokens.extend(tokens);
    }

    /// Its place in the device's memory, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The number of losses of all slots before this one was given out. A slot of an earlier epoch holds nothing.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Bytes that it takes on the device.
    pub fn bytes(&self) -> usize {
        slot_capacity(self.tokens.len()) * self.position_bytes
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.allocator.0.lock().unwrap_or_else(PoisonError::into_inner).free.insert(self.number);
    }
}
