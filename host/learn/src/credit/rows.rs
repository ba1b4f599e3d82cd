//! What one group teaches.

use serde::{Deserialize, Serialize};

/// The rows of one group in the regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rows {
    /// The column of each drawn entry, in the order of the bits in `shown`; none where the group says nothing about the
    /// entry, or the entry is gone.
    pub(super) columns: Vec<Option<usize>>,
    /// Which entries each member was shown, and its reward.
    pub(super) members: Vec<(u64, f64)>,
}

/// Rows with the group's mean taken out of everything: that is what an intercept per group comes to.
pub(super) struct Centred {
    /// Members.
    pub(super) members: usize,
    columns: Vec<usize>,
    /// Column after column, members side by side.
    values: Vec<f64>,
    /// Of each member.
    pub(super) rewards: Vec<f64>,
}

impl Rows {
    /// Whether it has a column left.
    pub(super) fn teaches(&self) -> bool {
        self.columns.iter().any(Option::is_some)
    }

    /// Members.
    pub(super) fn episodes(&self) -> u64 {
        self.members.len() as u64
    }

    /// Calls columns by their new numbers; none: it is gone.
    pub(super) fn rename(&mut self, new: impl Fn(usize) -> Option<usize>) {
        self.columns.iter_mut().for_each(|column| *column = column.and_then(&new));
    }

    /// Rows as the regression takes them.
    pub(super) fn centred(&self) -> Centred {
        let members = self.members.len();
        let count = members as f64;
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut values = Vec::with_capacity(self.columns.len() * members);
        for (bit, column) in self.columns.iter().enumerate().filter_map(|(bit, column)| Some((bit, (*column)?))) {
            let shown = |mask: u64| ((mask >> bit) & 1) as f64;
            let mean = self.members.iter().map(|(mask, _)| shown(*mask)).sum::<f64>() / count;
            columns.push(column);
            values.extend(self.members.iter().map(|(mask, _)| shown(*mask) - mean));
        }
        let mean = self.members.iter().map(|(_, reward)| reward).sum::<f64>() / count;
        let rewards = self.members.iter().map(|(_, reward)| reward - mean).collect();
        Centred { members, columns, values, rewards }
    }
}

impl Centred {
    /// Each column's number, and who was shown its entry, less the mean.
    pub(super) fn columns(&self) -> impl Iterator<Item = (usize, &[f64])> + Clone {
        self.columns.iter().copied().zip(self.values.chunks_exact(self.members))
    }

    /// What these effects leave unexplained of each member's reward.
    pub(super) fn residuals(&self, effects: &[f64]) -> Vec<f64> {
        let mut left = self.rewards.clone();
        for (column, shown) in self.columns() {
            let effect = effects.get(column).copied().unwrap_or_default();
            left.iter_mut().zip(shown).for_each(|(left, shown)| *left -= effect * shown);
        }
        left
    }

    /// Each pair of columns once, with the sum over members of the product of both and a weight.
    pub(super) fn products(&self, weights: &[f64], mut each: impl FnMut(usize, usize, f64)) {
        let mut weighted = Vec::with_capacity(self.members);
        for (place, (row, left)) in self.columns().enumerate() {
            weighted.clear();
            weighted.extend(left.iter().zip(weights).map(|(left, weight)| left * weight));
            for (column, right) in self.columns().take(place + 1) {
                each(row, column, weighted.iter().zip(right).map(|(left, right)| left * right).sum());
            }
        }
    }
}
