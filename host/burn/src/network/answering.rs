//! Generation on a device: computes the new tokens of many sequences in one pass. Each continues the tokens in its slot.

use super::attention::{Heads, mix};
use super::batch::{Batch, MOST_TOKENS, Row, most_rows, padded};
use super::slots::{LayerSlots, Slots};
use super::{Network, Rotary, apply_block, normalised, project, values};
use crate::BurnDevice;
use burn::tensor::module::embedding;
use burn::tensor::{IndexingUpdateOp, Tensor};
use clawhost_model::device::{AcceleratedModel, Accelerator, Slot, SlotAllocator, guarded, slot_capacity};
use clawhost_model::{HostDecoder, LocalModelError, ModelConfig};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Memory of a device for keys and values, in bytes: half of a small GPU. It limits the number of concurrent answers.
const KEY_VALUE_BYTES: usize = 4 << 30;

/// A model whose weights are on a device.
#[derive(Debug)]
pub struct DeviceModel {
    config: Arc<ModelConfig>,
    pub(super) network: Network,
    device: BurnDevice,
    allocator: SlotAllocator,
    slots: Mutex<SlotMemory>,
}

/// The slots of all sequences, and the number of times that all of them were lost.
#[derive(Debug, Default)]
struct SlotMemory {
    slots: Slots,
    epoch: u64,
}

/// The part of a pass that belongs to one sequence.
struct Piece<'a> {
    number: usize,
    row: Row<'a>,
}

impl DeviceModel {
    /// Copies weights to a device, as 32-bit floats.
    pub fn new(device: &BurnDevice, config: Arc<ModelConfig>, host: &HostDecoder) -> Self {
        let network = Network::new(config.clone(), host, device.burn());
        let (allocator, slots) = (SlotAllocator::default(), Mutex::default());
        Self { config, network, device: device.clone(), allocator, slots }
    }

    /// Bytes of the keys and values of one position.
    fn position_bytes(&self) -> usize {
        2 * self.config.layers * self.config.key_value_heads * self.config.head_width * size_of::<f32>()
    }

    fn memory(&self) -> std::sync::MutexGuard<'_, SlotMemory> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a computation on the slots. If it fails, all slots are lost, and slots of earlier epochs are refused.
    fn with_slots<T>(
        &self,
        used: &[&Slot],
        run: impl FnOnce(&mut Slots) -> Result<T, LocalModelError>,
    ) -> Result<T, LocalModelError> {
        let mut memory = self.memory();
        if !used.iter().all(|slot| self.allocator.owns(slot) && slot.epoch() == memory.epoch) {
            let name = self.device.name().to_string();
            return Err(LocalModelError::DeviceLost {
                name,
                why: "its keys and values were lost when it failed before".into(),
            });
        }
        let mut slots = std::mem::take(&mut memory.slots);
        let done = guarded(self.device.name(), || run(&mut slots)).flatten();
        match &done {
            Ok(_) => memory.slots = slots,
            Err(_) => memory.epoch += 1,
        }
        done
    }

    /// Computes one pass. Returns the logits after the last token of every row.
    fn pass(&self, rows: &[Row<'_>], length: usize, slots: &mut Slots) -> Result<Vec<Vec<f32>>, LocalModelError> {
        let (config, device) = (&*self.config, self.device.burn());
        let batch = Batch::of(rows, length, config, slots, device);
        let rotary = Rotary::at(config, &batch.positions, batch.shape, device);
        let mut x = embedding(self.network.weights.embedding.clone(), batch.tokens.clone());
        for (block, layer) in self.network.weights.blocks.iter().zip(&mut slots.layers) {
            x = apply_block(block, x, config, |block, x| {
                let heads = Heads::of(block, x, config, &rotary);
                project(&block.output, attend(heads, layer, &batch))
            });
        }
        let [count, length] = batch.shape;
        let last = x.reshape([count * length, config.width]).select(0, batch.last);
        let last = normalised(last, &self.network.weights.norm, config.norm_epsilon);
        let logits = values(&last.matmul(self.network.head()))?;
        Ok(logits.chunks(config.vocabulary).take(rows.len()).map(<[f32]>::to_vec).collect())
    }
}

impl AcceleratedModel for DeviceModel {
    fn config(&self) -> &Arc<ModelConfig> {
        &self.config
    }

    fn most_at_once(&self) -> usize {
        let whole = slot_capacity(self.config.context).saturating_mul(self.position_bytes()).max(1);
        (KEY_VALUE_BYTES / whole).max(1)
    }

    fn begin(&self) -> Slot {
        self.allocator.begin(self.memory().epoch, self.position_bytes())
    }

    fn knows(&self, slot: &Slot) -> bool {
        self.allocator.owns(slot) && self.memory().epoch == slot.epoch()
    }

    fn copy(&self, from: &Slot, length: usize) -> Result<Slot, LocalModelError> {
        let mut to = self.begin();
        let (from_number, to_number) = (from.number(), to.number());
        self.with_slots(&[from], |slots| {
            slots.grow(&self.config, self.device.burn(), from_number.max(to_number) + 1, length);
            slots.copy(from_number, to_number);
            Ok(())
        })?;
        to.extend(from.tokens().iter().take(length));
        Ok(to)
    }

    /// Longer texts are computed in pieces of at most [`MOST_TOKENS`] tokens.
    fn forward(&self, work: &mut [(&mut Slot, &[u32])]) -> Result<Vec<Vec<f32>>, LocalModelError> {
        let mut logits = vec![Vec::new(); work.len()];
        let longest = work.iter().map(|(_, tokens)| tokens.len()).max().unwrap_or(0);
        for done in (0..longest).step_by(MOST_TOKENS) {
            // Rows with the same padded length are computed together, up to the number that fits into a pass.
            let mut by_length: BTreeMap<usize, Vec<Piece<'_>>> = BTreeMap::new();
            for (number, (slot, tokens)) in work.iter().enumerate() {
                let Some(rest) = tokens.get(done..).filter(|rest| !rest.is_empty()) else { continue };
                let tokens = rest.get(..MOST_TOKENS).unwrap_or(rest);
                let row = Row { slot: slot.number(), start: slot.tokens().len(), tokens };
                by_length.entry(padded(tokens.len())).or_default().push(Piece { number, row });
            }
            let used: Vec<&Slot> = work.iter().map(|(slot, _)| &**slot).collect();
            let found = self.with_slots(&used, |slots| {
                let most = work.iter().map(|(slot, _)| slot.number() + 1).max().unwrap_or(1);
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
            for (slot, tokens) in work.iter_mut() {
                slot.extend(tokens.iter().skip(done).take(MOST_TOKENS));
            }
        }
        Ok(logits)
    }
}

/// Writes the new keys and values into the slots, and computes attention over both.
fn attend(heads: Heads, layer: &mut LayerSlots, batch: &Batch) -> Tensor<3> {
    let Heads { query, key, value } = heads;
    let key = written(&mut layer.key, key, batch);
    let value = written(&mut layer.value, value, batch);
    mix(query, key, value, batch.bias.clone())
}

/// Writes new keys or values into the slots. Returns the positions that the rows may see.
fn written(kept: &mut Tensor<4>, new: Tensor<4>, batch: &Batch) -> Tensor<4> {
    let [rows, heads, length, width] = new.dims();
    let new = new.reshape([rows * heads * length, width]);
    // There must be no other reference to the tensor, or the assignment would copy all of it.
    let whole = std::mem::replace(kept, batch.empty.clone());
    // Positions are unique, except in the padding slot, which is never read.
    *kept = whole.scatter_nd(batch.writes.clone(), new, IndexingUpdateOp::Assign);
    let mine = match &batch.slots {
        None => kept.clone().narrow(0, 0, rows),
        Some(slots) => kept.clone().select(0, slots.clone()),
    };
    mine.narrow(2, 0, batch.seen)
}
