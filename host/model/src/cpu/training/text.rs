//! Sequences in contiguous rows, without padding.

use crate::TokenMask;
use crate::cpu::rotary_table::RotaryTable;
use crate::train::Sequence;
use std::sync::Arc;

/// The logit of an excluded token: at any temperature its share is nothing beside that of an allowed one. The exponential here is never below 1e-38, and the entropy
/// multiplies it with the logit, so the logit must not be much larger.
const EXCLUDED: f32 = -1e6;

/// A token that is scored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    /// The row that predicts it.
    pub(super) row: usize,
    /// The token.
    pub(super) token: usize,
    /// The logits are multiplied by it: one over the temperature.
    pub(super) scale: f32,
}

/// Some sequences.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) tokens: Vec<u32>,
    /// The beginning of each sequence, and the end of the last one.
    pub(super) bounds: Vec<usize>,
    /// Angles of every token's position.
    pub(super) turns: Vec<(f32, f32)>,
    /// In order. Tokens beside a trained one have its row.
    pub(super) targets: Vec<Target>,
    /// The tokens that were allowed at the position of each target. Empty: all were, everywhere.
    pub(super) masks: Vec<Option<Arc<TokenMask>>>,
    /// Targets of each sequence.
    pub(super) counts: Vec<usize>,
}

impl Text {
    /// Replaces the contents by these sequences.
    pub(super) fn set(&mut self, sequences: &[&Sequence], turns: &RotaryTable, pairs: usize) {
        self.tokens.clear();
        self.turns.clear();
        self.targets.clear();
        self.masks.clear();
        self.counts.clear();
        self.bounds.clear();
        self.bounds.push(0);
        let longest = sequences.iter().map(|one| one.tokens().len()).max().unwrap_or(0);
        let table = turns.of(longest);
        for sequence in sequences {
            let (start, tokens) = (self.tokens.len(), sequence.tokens());
            self.tokens.extend_from_slice(tokens);
            self.turns.extend(table.iter().take(tokens.len() * pairs));
            let scale = 1.0 / sequence.temperature();
            // The first position of a sequence is never trained.
            self.targets.extend(sequence.targets().filter_map(|(place, token)| {
                Some(Target { row: start + place.checked_sub(1)?, token: token as usize, scale })
            }));
            let before = self.targets.len() - sequence.scored().min(self.targets.len());
            let mut masks = sequence.masks().peekable();
            if masks.peek().is_some() {
                self.masks.resize(before, None);
                self.masks.extend(masks.map(|mask| mask.cloned()));
            }
            self.counts.push(sequence.scored());
            self.bounds.push(self.tokens.len());
        }
        if !self.masks.is_empty() {
            self.masks.resize(self.targets.len(), None);
        }
    }

    /// Excludes the tokens that were not allowed from rows of logits, which predict the targets from `first` on. A row has `width` logits, from the token
    /// `from` on, a multiple of 32.
    pub(super) fn exclude(&self, first: usize, logits: &mut [f32], (from, width): (usize, usize)) {
        let masks = self.masks.get(first..).unwrap_or_default();
        for (mask, row) in masks.iter().zip(logits.chunks_exact_mut(width)) {
            if let Some(mask) = mask {
                mask.exclude_some(from, row, EXCLUDED);
            }
        }
    }

    /// Rows of each sequence.
    pub(super) fn sequences(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.bounds.iter().zip(self.bounds.iter().skip(1)).map(|(start, end)| *start..*end)
    }
}
