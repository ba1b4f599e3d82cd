//! What is kept of the groups.

use super::estimate::{Estimate, effects, estimates, squares};
use super::rows::Rows;
use super::symmetric::Symmetric;
use crate::{DRAWN_ENTRIES, EntryId, Group};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Most groups of which every row is kept, so that residuals are taken at the latest effects: as many as an entry that
/// concerns a tenth of the tasks needs for its whole trial, in some hundred kilobytes.
pub const WINDOW_GROUPS: usize = 1_200;

/// So many of the oldest groups are settled at once when the window is full: the effects are worked out once for all of
/// them.
const SETTLED_AT_ONCE: usize = WINDOW_GROUPS / 4;

/// One entry in the regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Column {
    pub(super) entry: EntryId,
    /// In which some members were shown it and some were not.
    pub(super) groups: u64,
    /// Members of these.
    pub(super) episodes: u64,
    /// Sum over rows of shown times reward, both centred.
    pub(super) with_reward: f64,
}

impl Column {
    fn new(entry: EntryId) -> Self {
        Self { entry, groups: 0, episodes: 0, with_reward: 0.0 }
    }
}

/// What is left of rows that are no longer kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Settled {
    pub(super) groups: u64,
    pub(super) episodes: u64,
    /// Products of columns times squared residuals.
    pub(super) squares: Symmetric,
}

/// What was learned about entries from groups.
///
/// Kept are the sums of squares and products (the normal equations), and the rows of the last [`WINDOW_GROUPS`] groups.
/// Standard errors need each row's residual at the latest effects, and no small number of sums holds these. Older rows
/// are *settled*: they stay in the normal equations, and their squared residuals in the variance, taken with the
/// effects of that moment, which a thousand groups had already fixed. So nothing that was seen is forgotten, and memory
/// is bounded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Credit {
    /// By entry.
    pub(super) columns: Vec<Column>,
    /// Products of columns.
    pub(super) gram: Symmetric,
    pub(super) settled: Settled,
    /// Oldest first.
    pub(super) window: VecDeque<Rows>,
}

impl Credit {
    /// Takes a group in. It teaches about those of its drawn entries that some of its members were shown and some were
    /// not; a group of fewer than two members, or with a reward that is no number, teaches nothing.
    pub fn observe(&mut self, group: &Group) {
        let numbers = group.members.iter().all(|member| member.reward.is_finite());
        let seen_by = |bit: usize| group.members.iter().filter(|member| (member.shown >> bit) & 1 == 1).count();
        let varies = |bit: usize| (1..group.members.len()).contains(&seen_by(bit));
        let drawn = group.drawn.iter().take(DRAWN_ENTRIES).enumerate();
        let varying: Vec<Option<&EntryId>> =
            drawn.map(|(bit, entry)| (numbers && varies(bit)).then_some(entry)).collect();
        // All columns first: a new one moves those behind it.
        varying.iter().flatten().for_each(|entry| self.ensure_column(entry));
        let mut columns = Vec::with_capacity(varying.len());
        for entry in varying {
            let column = entry.and_then(|entry| self.place(entry).ok());
            // An entry that stands twice counts once.
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

    /// Takes an entry's column out. What it did in groups that were seen, or will be seen without being told, is noise
    /// for the others from now on: they were drawn independently of it, so none of their estimates is biased. Seen in a
    /// later group again, it begins anew.
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

    /// Forgets what was seen of an entry, for a re-trial: like [`Credit::drop_entry`], but the entry keeps a column,
    /// without evidence.
    pub fn reset_entry(&mut self, entry: &EntryId) {
        self.drop_entry(entry);
        self.ensure_column(entry);
    }

    /// Where its column is, or would be.
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
        centred.products(&vec![1.0; centred.members], |row, column, product| gram.add(row, column, product));
    }

    /// Settles the oldest groups of a full window.
    fn settle(&mut self) {
        let (effects, _) = effects(self);
        for rows in self.window.drain(..SETTLED_AT_ONCE) {
            self.settled.groups += 1;
            self.settled.episodes += rows.episodes();
            squares(&rows, &effects, &mut self.settled.squares);
        }
    }
}
