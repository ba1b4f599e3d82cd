//! The way back through a head that does not learn: logits of some tokens become gradients, and these a part of a sum, before the next tokens are
//! computed. So no row of logits of the whole vocabulary is in memory.

#![allow(clippy::indexing_slicing, reason = "sizes follow from the model's shape, which made all of the buffers")]

use super::head::Slope;
use super::{Block, Watch, each};
use crate::cpu::Laid;

/// Rows whose logits are computed at once. The head is read once for all of them.
const ROWS: usize = 256;
/// Tokens whose logits are computed at once: with [`ROWS`] they fill 1 MiB, which fits a core's second-level cache. A multiple of 32.
const TOKENS: usize = 1024;

/// Replaces `hidden` of each block by the gradient with respect to it.
pub(super) fn backward(head: &Laid, blocks: &mut [Block], wanted: &[f32], (threads, watch): (bool, &Watch<'_>)) {
    let mut rest = wanted;
    let mut both: Vec<(&mut Block, &[f32])> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (mine, others) = rest.split_at(block.text.targets.len().min(rest.len()));
        rest = others;
        both.push((block, mine));
    }
    each(threads, &mut both, |(block, wanted)| back(head, block, wanted, watch));
}

fn back(head: &Laid, block: &mut Block, wanted: &[f32], watch: &Watch<'_>) {
    let Block { text, hidden, wholes, .. } = block;
    let width = head.inputs;
    let (mut logits, mut slope) = (Vec::new(), Vec::new());
    for (number, hidden) in hidden.chunks_mut(ROWS * width).enumerate() {
        let (first, rows) = (number * ROWS, hidden.len() / width);
        let (targets, softmax) = (&text.targets[first..first + rows], &wholes[first..first + rows]);
        let Some(wanted) = wanted.get(first..first + rows) else {
            hidden.fill(0.0);
            continue;
        };
        slope.clear();
        slope.resize(hidden.len(), 0.0);
        for start in (0..head.outputs).step_by(TOKENS) {
            if watch.stops() {
                return;
            }
            let count = TOKENS.min(head.outputs - start);
            logits.resize(rows * count, 0.0);
            head.multiply_some(hidden, (start, count), &mut logits);
            text.exclude(first, &mut logits, (start, count));
            let tokens = start..start + count;
            pulp::Arch::new().dispatch(Slope { targets, softmax, wanted, logits: &mut logits, tokens });
            head.add_back_some(&logits, count, (start, count), &mut slope);
        }
        hidden.copy_from_slice(&slope);
    }
}
