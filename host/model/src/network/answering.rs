//! Answering on a device: new tokens of many sequences at once, each behind what its slot holds.

use super::attention::{Heads, mix};
use super::batch::{Batch, MOST_TOKENS, Row, most_rows, padded};
use super::slots::{Desk, Held, LayerSlots, Slots};
use super::{Network, Rotary, normalised, values};
use crate::device::ComputeDevice;
use crate::{HostDecoder, LocalModelError, ModelConfig};
use burn::tensor::module::embedding;
use burn::tensor::{IndexingUpdateOp, Tensor};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Memory of a device for keys and values, in bytes: half of a small GPU. It bounds how many answers are under way at once.
const KEY_VALUE_BYTES: usize = 4 << 30;

/// A model whose weights lie on a device.
#[derive(Debug)]
pub struct DeviceModel {
    /// Its shape.
    pub config: Arc<ModelConfig>,
    pub(super) network: Network,
    device: ComputeDevice,
    desk: Desk,
    slots: Mutex<Kept>,
}

/// Slots with what counts their losses.
#[derive(Debug, Default)]
struct Kept {
    slots: Slots,
    epoch: u64,
}

/// The part of a pass that belongs to one sequence.
struct Piece<'a> {
    number: usize,
    row: Row<'a>,
}

impl DeviceModel {
    /// Puts weights on a device, in 32-bit floats.
    ///
    /// # Errors
    /// The device does not take them.
    pub fn new(device: &ComputeDevice, config: Arc<ModelConfig>, host: &HostDecoder) -> Result<Self, LocalModelError> {
        let network = device.guarded(|| Network::new(config.clone(), host, device.burn()))?;
        Ok(Self { config, network, device: device.clone(), desk: Desk::default(), slots: Mutex::default() })
    }

    /// Bytes of keys and values that one position takes.
    fn position_bytes(&self) -> usize {
        2 * self.config.layers * self.config.key_value_heads * self.config.head_width * size_of::<f32>()
    }

    /// Sequences that fit at once, each as long as the context.
    pub fn most_at_once(&self) -> usize {
        let whole = super::slots::capacity(self.config.context).saturating_mul(self.position_bytes()).max(1);
        (KEY_VALUE_BYTES / whole).max(1)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a sequence.
    pub fn begin(&self) -> Held {
        self.desk.begin(self.kept().epoch, self.position_bytes())
    }

    /// Whether it still has what this place holds.
    pub fn knows(&self, held: &Held) -> bool {
        self.desk.is_of(held) && self.kept().epoch == held.epoch
    }

    /// Another place with the first tokens of this one.
    ///
    /// # Errors
    /// The device failed; all places are lost.
    pub fn copy(&self, from: &Held, length: usize) -> Result<Held, LocalModelError> {
        let mut to = self.begin();
        let (from_number, to_number) = (from.number, to.number);
        self.with_slots(&[from], |slots| {
            slots.grow(&self.config, self.device.burn(), from_number.max(to_number) + 1, length);
            slots.copy(from_number, to_number);
            Ok(())
        })?;
        to.tokens = from.tokens.iter().copied().take(length).collect();
        Ok(to)
    }

    /// Does something with the slots. Where it fails all of them are lost, and whoever has one is told so.
    fn with_slots<T>(
        &self,
        held: &[&Held],
        run: impl FnOnce(&mut Slots) -> Result<T, LocalModelError>,
    ) -> Result<T, LocalModelError> {
        let mut kept = self.kept();
        if !held.iter().all(|one| self.desk.is_of(one) && one.epoch == kept.epoch) {
            let name = self.device.name().to_string();
            return Err(LocalModelError::DeviceLost {
                name,
                why: "what it held was lost with a failure before".into(),
            });
        }
        let mut slots = std::mem::take(&mut kept.slots);
        let done = self.device.guarded(|| run(&mut slots)).flatten();
        match &done {
            Ok(_) => kept.slots = slots,
            Err(_) => kept.epoch += 1,
        }
        done
    }

    /// Computes new tokens of several sequences, at least one of each: the logits behind the last of each. Longer texts are computed in
    /// pieces.
    ///
    /// # Errors
    /// The device failed; these places and all others are lost, the weights are not.
    pub fn forward(&self, work: &mut [(&mut Held, &[u32])]) -> Result<Vec<Vec<f32>>, LocalModelError> {
        let mut logits = vec![Vec::new(); work.len()];
        let longest = work.iter().map(|(_, tokens)| tokens.len()).max().unwrap_or(0);
        for done in (0..longest).step_by(MOST_TOKENS) {
            // Rows of one padded length go together, and are as many as go into a pass.
            let mut by_length: BTreeMap<usize, Vec<Piece<'_>>> = BTreeMap::new();
            for (number, (held, tokens)) in work.iter().enumerate() {
                let Some(rest) = tokens.get(done..).filter(|rest| !rest.is_empty()) else { continue };
                let tokens = rest.get(..MOST_TOKENS).unwrap_or(rest);
                let row = Row { slot: held.number, start: held.tokens.len(), tokens };
                by_length.entry(padded(tokens.len())).or_default().push(Piece { number, row });
            }
            let held: Vec<&Held> = work.iter().map(|(held, _)| &**held).collect();
            let found = self.with_slots(&held, |slots| {
                let most = work.iter().map(|(held, _)| held.number + 1).max().unwrap_or(1);
                let ends = by_length.values().flatten().map(|piece| piece.row.start + piece.row.tokens.len());
                slots.grow(&self.config, self.device.burn(), most, ends.max().unwrap_or(1));
                let mut found = Vec::with_capacity(work.len());
                for (length, mut pieces) in by_length {
                    pieces.sort_by_key(|piece| piece.row.slot);
                    for pieces in pieces.chunks(most_rows(length)) {
                        let rows: Vec<Row<'_>> = pieces.iter().map(|piece| piece.row).collect();
                        let of_rows = self.pass(&rows, length, slots)?;
                        found.extend(pieces.iter().map(|piece| piece.number).zip(of_rows));
                    }
                }
                Ok(found)
            })?;
            for (number, of_row) in found {
                logits.iter_mut().skip(number).take(1).for_each(|logits| logits.clone_from(&of_row));
            }
            for (held, tokens) in work.iter_mut() {
                held.tokens.extend(tokens.iter().skip(done).take(MOST_TOKENS));
            }
        }
        Ok(logits)
    }

    /// One pass: the logits behind the last token of every row.
    fn pass(&self, rows: &[Row<'_>], length: usize, slots: &mut Slots) -> Result<Vec<Vec<f32>>, LocalModelError> {
        let (config, device) = (&*self.config, self.device.burn());
        let batch = Batch::of(rows, length, config, slots, device);
        let rotary = Rotary::at(config, &batch.positions, batch.shape, device);
        let mut x = embedding(self.network.weights.embedding.clone(), batch.tokens.clone());
        for (block, layer) in self.network.weights.blocks.iter().zip(&mut slots.layers) {
            x = block.apply(x, config, |block, x| {
                let heads = Heads::of(block, x, config, &rotary);
                block.output.apply(attend(heads, layer, &batch))
            });
        }
        let [count, length] = batch.shape;
        let last = x.reshape([count * length, config.width]).select(0, batch.last);
        let last = normalised(last, &self.network.weights.norm, config.norm_epsilon);
        let logits = values(&last.matmul(self.network.head()))?;
        Ok(logits.chunks(config.vocabulary).take(rows.len()).map(<[f32]>::to_vec).collect())
    }
}

/// Attention over what the slots hold and what is new, which is written there.
fn attend(heads: Heads, layer: &mut LayerSlots, batch: &Batch) -> Tensor<3> {
    let Heads { query, key, value } = heads;
    let key = written(&mut layer.key, key, batch);
    let value = written(&mut layer.value, value, batch);
    mix(query, key, value, batch.bias.clone())
}

/// Writes what is new, and gives back what the rows see.
fn written(kept: &mut Tensor<4>, new: Tensor<4>, batch: &Batch) -> Tensor<4> {
    let [rows, heads, length, width] = new.dims();
    let new = new.reshape([rows * heads * length, width]);
    // Nothing else may point to it meanwhile, or all of it would be copied: an empty one stands in its place.
    let empty = Tensor::zeros([1, 1, 1, 1], &kept.device());
    let whole = std::mem::replace(kept, empty);
    // Places are given once each, but for what nobody reads.
    *kept = whole.scatter_nd(batch.writes.clone(), new, IndexingUpdateOp::Assign);
    let mine = match &batch.slots {
        None => kept.clone().narrow(0, 0, rows),
        Some(slots) => kept.clone().select(0, slots.clone()),
    };
    mine.narrow(2, 0, batch.seen)
}
