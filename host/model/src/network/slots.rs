//! Keys and values of all sequences that one version of the weights has under way, in slots of equal size.

use crate::ModelConfig;
use burn::tensor::{Device, Tensor};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Positions that a slot begins with.
const FIRST: usize = 64;

/// Positions of a slot that holds so many: few sizes, because a device compiles kernels for each.
pub(super) fn capacity(length: usize) -> usize {
    length.next_power_of_two().max(FIRST)
}

/// Numbers of slots: the lowest that is free is given away first, so that those in use lie together.
#[derive(Debug, Default)]
struct Numbers {
    free: BTreeSet<usize>,
    /// All below were given away once.
    next: usize,
}

/// Gives slots away and takes them back.
#[derive(Debug, Clone, Default)]
pub(super) struct Desk(Arc<Mutex<Numbers>>);

impl Desk {
    /// A slot for a sequence. `bytes`: what a position takes.
    pub(super) fn begin(&self, epoch: u64, bytes: usize) -> Held {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = numbers.free.pop_first().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next - 1
        });
        drop(numbers);
        Held { tokens: Vec::new(), number, epoch, bytes, desk: self.clone() }
    }

    pub(super) fn is_of(&self, held: &Held) -> bool {
        Arc::ptr_eq(&self.0, &held.desk.0)
    }
}

/// A sequence's slot. It goes back when this is dropped.
#[derive(Debug)]
pub struct Held {
    pub(super) tokens: Vec<u32>,
    pub(super) number: usize,
    /// Slots that were lost with a failure are of an older one.
    pub(super) epoch: u64,
    bytes: usize,
    desk: Desk,
}

impl Held {
    /// The tokens whose keys and values it holds.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Memory that it takes on the device.
    pub fn bytes(&self) -> usize {
        capacity(self.tokens.len()) * self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.desk.0.lock().unwrap_or_else(PoisonError::into_inner).free.insert(self.number);
    }
}

/// Of one layer.
#[derive(Debug)]
pub(super) struct LayerSlots {
    /// `[slots + 1, key_value_heads, capacity, head_width]`. The last is no sequence's: what fills a batch up is written there.
    pub(super) key: Tensor<4>,
    pub(super) value: Tensor<4>,
}

/// Of all layers.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) count: usize,
    pub(super) capacity: usize,
    pub(super) layers: Vec<LayerSlots>,
}

impl Slots {
    /// Makes room for so many slots of so many positions, keeping what they hold.
    pub(super) fn grow(&mut self, config: &ModelConfig, device: &Device, count: usize, positions: usize) {
        let count = count.next_power_of_two().max(self.count);
        let positions = capacity(positions).max(self.capacity);
        if (count, positions) == (self.count, self.capacity) {
            return;
        }
        let (heads, width) = (config.key_value_heads, config.head_width);
        let (was, held) = (self.count, self.capacity);
        // Zeros: a share of exactly 0 of something that is no number would be none either.
        let larger = |old: Option<Tensor<4>>| {
            let new = Tensor::<4>::zeros([count + 1, heads, positions, width], device);
            match old.filter(|_| was > 0) {
                None => new,
                Some(old) => {
                    let place = [0..was, 0..heads, 0..held, 0..width];
                    new.slice_assign(place.clone(), old.slice(place))
                }
            }
        };
        let mut old = std::mem::take(&mut self.layers).into_iter();
        for _ in 0..config.layers {
            let (key, value) = old.next().map(|layer| (layer.key, layer.value)).unzip();
            self.layers.push(LayerSlots { key: larger(key), value: larger(value) });
        }
        (self.count, self.capacity) = (count, positions);
    }

    /// What one slot holds, into another.
    pub(super) fn copy(&mut self, from: usize, to: usize) {
        let copied = |tensor: &mut Tensor<4>| {
            let [_, heads, capacity, width] = tensor.dims();
            let at = |number: usize| [number..number + 1, 0..heads, 0..capacity, 0..width];
            let one = tensor.clone().slice(at(from));
            *tensor = tensor.clone().slice_assign(at(to), one);
        };
        for layer in &mut self.layers {
            copied(&mut layer.key);
            copied(&mut layer.value);
        }
    }
}
