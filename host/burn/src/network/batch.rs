//! One pass over new tokens of several sequences: their rows, and the positions that are read and written in their slots.
//!
//! Sizes are rounded up to a few values, because a device compiles and tunes kernels for each size. Padding of rows and batches attends
//! only to itself, and is written into an additional slot that belongs to no sequence.

use super::rows::MASKED;
use super::slots::Slots;
use burn::tensor::{Device, Int, Tensor, TensorData};
use clawhost_model::ModelConfig;
use clawhost_model::device::slot_capacity;

/// The padded lengths of rows, in tokens.
const LENGTHS: [usize; 4] = [1, 16, 64, MOST_TOKENS];
/// Largest number of tokens of one sequence in one pass.
pub(super) const MOST_TOKENS: usize = 256;
/// Tokens of one pass, including padding: few enough that their memory is small compared with the weights, and enough to keep the device
/// busy.
const TOKENS: usize = 8192;

/// The padded length of a row with this number of tokens.
pub(super) fn padded(length: usize) -> usize {
    LENGTHS.into_iter().find(|one| *one >= length).unwrap_or(MOST_TOKENS)
}

/// Largest number of rows of one pass with this padded length.
pub(super) fn most_rows(length: usize) -> usize {
    (TOKENS / length).max(1)
}

/// New tokens of one sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    /// Its slot.
    pub(super) slot: usize,
    /// Number of tokens that are in the slot already.
    pub(super) start: usize,
    /// The new tokens: at least one, at most [`MOST_TOKENS`].
    pub(super) tokens: &'a [u32],
}

/// One pass.
#[derive(Debug)]
pub(super) struct Batch {
    /// Number of rows, and their length.
    pub(super) shape: [usize; 2],
    /// The tokens: `[rows, length]`.
    pub(super) tokens: Tensor<2, Int>,
    /// The positions of the tokens, row by row.
    pub(super) positions: Vec<u32>,
    /// `[rows · heads · length, 3]`: slot, head and position of every computed key and value.
    pub(super) writes: Tensor<2, Int>,
    /// `[rows]`: the slots of the rows. `None`: the first slots, in order.
    pub(super) slots: Option<Tensor<1, Int>>,
    /// The number of positions of a slot that the rows may see.
    pub(super) seen: usize,
    /// `[rows, 1, length, seen]`: 0 where the position may be seen, [`MASKED`] elsewhere.
    pub(super) bias: Tensor<4>,
    /// `[rows]`: the index of the last token of each row among all tokens.
    pub(super) last: Tensor<1, Int>,
    /// Replaces the slots while they are written.
    pub(super) empty: Tensor<4>,
}

fn ints<const D: usize>(values: Vec<i32>, shape: [usize; D], device: &Device) -> Tensor<D, Int> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

impl Batch {
    /// A pass over rows of at most `length` tokens each. The slots have to be large enough.
    pub(super) fn of(rows: &[Row<'_>], length: usize, config: &ModelConfig, slots: &Slots, device: &Device) -> Self {
        let count = rows.len().next_power_of_two();
        let heads = config.key_value_heads;
        let nobody = slots.count as i32;
        let mut tokens = vec![0i32; count * length];
        let mut positions = vec![0u32; count * length];
        let mut last = vec![0i32; count];
        let mut writes = Vec::with_capacity(count * heads * length * 3);
        let mut seen = 1;
        for row in 0..count {
            let given = rows.get(row);
            let (start, new) = given.map_or((0, &[][..]), |row| (row.start, row.tokens));
            let cells = tokens.iter_mut().zip(&mut positions).skip(row * length);
            for ((cell, position), (token, place)) in cells.zip(new.iter().zip(start..)) {
                (*cell, *position) = (*token as i32, place as u32);
            }
            for head in 0..heads {
                writes.extend((0..length).flat_map(|place| match given {
                    Some(row) if place < new.len() => [row.slot as i32, head as i32, (start + place) as i32],
                    _ => [nobody, head as i32, 0],
                }));
            }
            last.iter_mut().skip(row).take(1).for_each(|last| *last = (row * length + new.len().max(1) - 1) as i32);
            seen = seen.max(start + new.len());
        }
        let seen = slot_capacity(seen).min(slots.capacity);
        let in_order = count <= slots.count && rows.iter().enumerate().all(|(number, row)| row.slot == number);
        let numbers = || (0..count).map(|row| rows.get(row).map_or(nobody, |row| row.slot as i32)).collect();
        Self {
            shape: [count, length],
            tokens: ints(tokens, [count, length], device),
            bias: bias(&positions, [count, length], seen, device),
            positions,
            writes: ints(writes, [count * heads * length, 3], device),
            slots: (!in_order).then(|| ints(numbers(), [count], device)),
            seen,
            last: ints(last, [count], device),
            empty: Tensor::zeros([1, 1, 1, 1], device),
        }
    }
}

/// The bias of a pass. It is computed on the device from the positions, because it is the largest input of a pass.
fn bias(positions: &[u32], [count, length]: [usize; 2], seen: usize, device: &Device) -> Tensor<4> {
    let whole = [count, 1, length, seen];
    let positions = positions.iter().map(|position| *position as i32).collect();
    let positions = ints(positions, [count, 1, length, 1], device).expand(whole);
    let columns = ints((0..seen as i32).collect(), [1, 1, 1, seen], device).expand(whole);
    Tensor::<4>::zeros(whole, device).mask_fill(columns.greater(positions), MASKED)
}
