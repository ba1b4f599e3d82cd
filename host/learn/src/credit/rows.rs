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

fn sum_of_products(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
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

    /// Each column's number and the sum over members of its indicator times a value.
    pub(super) fn scores(&self, values: &[f64]) -> impl Iterator<Item = (usize, f64)> {
        self.columns().map(|(column, shown)| (column, sum_of_products(shown, values)))
    }

    /// The projection of values onto the columns, where `inverse` is that of the normal equations of all groups.
    pub(super) fn projected(&self, values: &[f64], inverse: &[Vec<f64>]) -> Vec<f64> {
        let scores: Vec<(usize, f64)> = self.scores(values).collect();
        let mut projected = vec![0.0; self.members];
        for (row, shown) in self.columns() {
            let line = inverse.get(row).map_or(&[][..], Vec::as_slice);
            let cell = |column: usize| line.get(column).copied().unwrap_or_default();
            let weight: f64 = scores.iter().map(|(column, score)| cell(*column) * score).sum();
            projected.iter_mut().zip(shown).for_each(|(value, shown)| *value += weight * shown);
        }
        projected
    }

    /// Calls `each` once per pair of columns with the sum of their products over members.
    pub(super) fn products(&self, mut each: impl FnMut(usize, usize, f64)) {
        for (place, (row, left)) in self.columns().enumerate() {
            self.columns().take(place + 1).for_each(|(column, right)| each(row, column, sum_of_products(left, right)));
        }
    }
}
