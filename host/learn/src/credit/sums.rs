//! The accumulated statistics of all groups.

use super::estimate::{Estimate, effects, estimates, squares};
use super::rows::Rows;
use crate::symmetric::Symmetric;
use crate::{DRAWN_ENTRIES, EntryId, Group};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Groups whose rows are stored, so that residuals can be taken at the latest effects. An entry that concerns a tenth of the
/// tasks needs about this many for its trial; they take some hundred kilobytes.
pub const WINDOW_GROUPS: usize = 1_200;

/// Groups that are settled together when the window is full, so that the effects are computed once for all of them.
const SETTLED_AT_ONCE: usize = WINDOW_GROUPS / 4;

/// One entry in the regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Column {
    pub(super) entry: EntryId,
    /// Groups in which some members were shown the entry and some were not.
    pub(super) groups: u64,
    /// Members of these groups.
    pub(super) episodes: u64,
    /// Sum over rows of shown times reward, both centred.
    pub(super) with_reward: f64,
}

impl Column {
    fn new(entry: EntryId) -> Self {
        Self { entry, groups: 0, episodes: 0, with_reward: 0.0 }
    }
}

/// Aggregates of the rows that left the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Settled {
    pub(super) groups: u64,
    pub(super) episodes: u64,
    /// Products of the scores of groups.
    pub(super) squares: Symmetric,
}

/// What the groups so far say about entries.
///
/// It stores the normal equations (sums of squares and products) and the rows of the last [`WINDOW_GROUPS`] groups. Standard
/// errors need the residual of each row at the latest effects, which no fixed number of sums can provide. Older rows are
/// *settled*: they stay in the normal equations, and their scores enter the variance with the effects at that
/// time, when these hardly change any more. So no observation is lost, and memory is bounded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Credit {
    /// Sorted by entry.
    pub(super) columns: Vec<Column>,
    /// Products of columns.
    pub(super) gram: Symmetric,
    pub(super) settled: Settled,
    /// Oldest first.
    pub(super) window: VecDeque<Rows>,
}

impl Credit {
    /// Adds a group. It informs about those drawn entries that some members were shown and some were not. A group of fewer
    /// than two members, or with a reward that is not finite, is ignored.
    pub fn observe(&mut self, group: &Group) {
        let numbers = group.members.iter().all(|member| member.reward.is_finite());
        let seen_by = |bit: usize| group.members.iter().filter(|member| (member.shown >> bit) & 1 == 1).count();
        let varies = |bit: usize| (1..group.members.len()).contains(&seen_by(bit));
        let drawn = group.drawn.iter().take(DRAWN_ENTRIES).enumerate();
        let varying: Vec<Option<&EntryId>> =
            drawn.map(|(bit, entry)| (numbers && varies(bit)).then_some(entry)).collect();
        // Insert all columns first: a new one shifts those behind it.
        varying.iter().flatten().for_each(|entry| self.ensure_column(entry));
        let mut columns = Vec::with_capacity(varying.len());
        for entry in varying {
            let column = entry.and_then(|entry| self.place(entry).ok());
            // An entry that is listed twice counts once.
            columns.push(column.filter(|_| !columns.contains(&column)));
        }
        let members = group.members.iter().map(|member| (member.shown, member.reward)).collect();
        let rows = Rows { columns, members };
        if !rows.teaches() {
            return;
        }
        self.add(&rows);
        self.window.push_back(rows);
        if self.window.len() > WINDOW_GROUPS {
            self.settle();
        }
    }

    /// The estimate of every entry that has a column.
    pub fn estimates(&self) -> BTreeMap<EntryId, Estimate> {
        estimates(self)
    }

    /// Removes an entry's column. Its effect in past and future groups is noise for the other entries from now on; it was
    /// drawn independently of them, so their estimates stay unbiased. If a later group draws it again, it starts without
    /// evidence.
    pub fn drop_entry(&mut self, entry: &EntryId) {
        let Ok(gone) = self.place(entry) else { return };
        self.columns.remove(gone);
        self.gram.remove(gone);
        self.settled.squares.remove(gone);
        let renamed = |column: usize| match column.cmp(&gone) {
            std::cmp::Ordering::Less => Some(column),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(column - 1),
        };
        self.window.iter_mut().for_each(|rows| rows.rename(renamed));
        self.window.retain(Rows::teaches);
    }

    /// Discards the evidence about an entry, for a new trial: like [`Credit::drop_entry`], but the entry has a column with
    /// no evidence.
    pub fn reset_entry(&mut self, entry: &EntryId) {
        self.drop_entry(entry);
        self.ensure_column(entry);
    }

    /// Index of the entry's column, or where it would be inserted.
    fn place(&self, entry: &EntryId) -> Result<usize, usize> {
        self.columns.binary_search_by(|column| column.entry.cmp(entry))
    }

    fn ensure_column(&mut self, entry: &EntryId) {
        if let Err(place) = self.place(entry) {
            self.columns.insert(place, Column::new(entry.clone()));
            self.gram.insert(place);
            self.settled.squares.insert(place);
            let renamed = |column: usize| Some(if column < place { column } else { column + 1 });
            self.window.iter_mut().for_each(|rows| rows.rename(renamed));
        }
    }

    /// Adds a group to the normal equations.
    fn add(&mut self, rows: &Rows) {
        let centred = rows.centred();
        for (place, shown) in centred.columns() {
            if let Some(column) = self.columns.get_mut(place) {
                column.groups += 1;
                column.episodes += centred.members as u64;
                column.with_reward +=
                    shown.iter().zip(&centred.rewards).map(|(shown, reward)| shown * reward).sum::<f64>();
            }
        }
        let gram = &mut self.gram;
        centred.products(|row, column, product| gram.add(row, column, product));
    }

    /// Settles the oldest groups of a full window.
    fn settle(&mut self) {
        let (effects, inverse) = effects(self);
        for rows in self.window.drain(..SETTLED_AT_ONCE) {
            self.settled.groups += 1;
            self.settled.episodes += rows.episodes();
            squares(&rows, (&effects, &inverse), &mut self.settled.squares);
        }
    }
}
