//! Keys and values of all sequences that one version of the weights is generating, in slots of equal size.

use burn::tensor::{Device, Tensor};
use clawhost_model::ModelConfig;
use clawhost_model::device::slot_capacity;

/// The slots of one layer.
#[derive(Debug)]
pub(super) struct LayerSlots {
    /// `[slots + 1, key_value_heads, capacity, head_width]`. Padding is written into the last slot, which belongs to no sequence.
    pub(super) key: Tensor<4>,
    pub(super) value: Tensor<4>,
}

/// The slots of all layers.
#[derive(Debug, Default)]
pub(super) struct Slots {
    pub(super) count: usize,
    pub(super) capacity: usize,
    pub(super) layers: Vec<LayerSlots>,
}

impl Slots {
    /// Grows to at least this number of slots and positions, and keeps the contents.
    pub(super) fn grow(&mut self, config: &ModelConfig, device: &Device, count: usize, positions: usize) {
        let count = count.next_power_of_two().max(self.count);
        let positions = slot_capacity(positions).max(self.capacity);
        if (count, positions) == (self.count, self.capacity) {
            return;
        }
        let (heads, width) = (config.key_value_heads, config.head_width);
        let (was, held) = (self.count, self.capacity);
        // Zeros, because 0 times NaN is NaN: masked positions must hold finite numbers.
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

    /// Copies the contents of one slot to another.
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
