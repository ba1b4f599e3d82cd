//! The regression rows of one group.

use serde::{Deserialize, Serialize};

/// The rows of one group in the regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Rows {
    /// The column of each drawn entry, in the order of the bits in `shown`. `None`: every member or no member was shown the
    /// entry, or its column was dropped.
    pub(super) columns: Vec<Option<usize>>,
    /// Per member: a bit mask of the entries it was shown, and its reward.
    pub(super) members: Vec<(u64, f64)>,
}

/// Rows minus the group mean, which is equivalent to an intercept per group.
pub(super) struct Centred {
    /// Number of members.
    pub(super) members: usize,
    columns: Vec<usize>,
    /// Column by column; within a column one value per member.
    values: Vec<f64>,
    /// One per member.
    pub(super) rewards: Vec<f64>,
}

impl Rows {
    /// Whether any column is left.
    pub(super) fn teaches(&self) -> bool {
        self.columns.iter().any(Option::is_some)
    }

    /// Number of members.
    pub(super) fn episodes(&self) -> u64 {
        self.members.len() as u64
    }

    /// Renumbers the columns; `None` drops one.
    pub(super) fn rename(&mut self, new: impl Fn(usize) -> Option<usize>) {
        self.columns.iter_mut().for_each(|column| *column = column.and_then(&new));
    }

    /// The rows, centred for the regression.
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
    /// Each column's number and its centred indicator, one value per member.
    pub(super) fn columns(&self) -> impl Iterator<Item = (usize, &[f64])> + Clone {
        self.columns.iter().copied().zip(self.values.chunks_exact(self.members))
    }

    /// Residual of each member's reward under these effects.
    pub(super) fn residuals(&self, effects: &[f64]) -> Vec<f64> {
        let mut left = self.rewards.clone();
        for (column, shown) in self.columns() {
            let effect = effects.get(column).copied().unwrap_or_default();
            left.iter_mut().zip(shown).for_each(|(left, shown)| *left -= effect * shown);
        }
        left
    }

    /// Calls `each` once per pair of columns with the weighted sum of their products over members.
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
