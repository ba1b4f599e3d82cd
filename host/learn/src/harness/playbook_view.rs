//! Which entries an episode is shown: relevance, token budget, randomisation.
//!
//! Eligibility comes first: an entry must be relevant to the task's text and fit the token budget. Only then is each
//! eligible entry on trial randomised, independently of the others: half of the members of a group are shown it. So all
//! differences between members of a group are random, and the comparison is unbiased.
//!
//! Entries that need each other are one factor: an entry is shown only together with all that it needs, within one token budget, and of two
//! entries of which one needs the other at most one is drawn in a group. Held out is what cannot be shown without what is held out.

use super::{Admission, HELD_OUT, Harness, MAINTENANCE};
use crate::playbook::{Candidate as Priced, Index, Playbook, Query, Rendering, fit, needs, render};
use crate::{Entry, EntryId, Status};
use clawhost_core::{Digest, derive_seed};
use std::collections::{BTreeMap, BTreeSet};

/// When an entry is randomised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Draw {
    /// Never: it is always shown.
    Never,
    /// In one of [`MAINTENANCE`] groups.
    Seldom,
    /// In every group: it is on trial.
    Trial,
    /// In every group: it is deployed and under test.
    Questioned,
    /// Never: it is shown only with an entry on trial that needs it.
    Carried,
}

/// Selects the entries of a playbook for episodes.
pub struct PlaybookView {
    playbook: Playbook,
    draws: Vec<Draw>,
    /// The positions of all that each entry needs. `None`: something is missing, and the entry is not shown.
    needs: Vec<Option<Vec<usize>>>,
    /// Lower bound of each entry's effect.
    worth: Vec<f64>,
    index: Index,
    budget: u64,
    /// Most entries on trial in one prompt.
    crowd: usize,
    seed: u64,
    digest: Digest,
}

/// The entries that one episode is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// The prompt text.
    pub text: String,
    /// The entries in it.
    pub shown: Vec<EntryId>,
    /// Eligible entries that were randomised, and whether this episode is shown them.
    pub drawn: Vec<(EntryId, bool)>,
    /// Probability that a randomised entry is shown.
    pub propensity: f64,
    /// Estimated tokens of what is held out.
    pub held_out_tokens: u64,
}

/// Lower bound for entries without an estimate.
const UNKNOWN_WORTH: f64 = 0.0;

impl PlaybookView {
    /// A view of a playbook for serving: all eligible entries are shown.
    pub fn serving(playbook: Playbook, worth: &BTreeMap<EntryId, f64>, budget: u64) -> Self {
        let draws = vec![Draw::Never; playbook.entries.len()];
        Self::new(playbook, draws, worth, (budget, 0), 0)
    }

    /// A view of a playbook for live sessions: its eligible entries, and one of those on trial in what they leave of the budget.
    pub fn live(playbook: Playbook, trials: Vec<Entry>, worth: &BTreeMap<EntryId, f64>, budget: u64) -> Self {
        let served = vec![Draw::Never; playbook.entries.len()];
        let draws = served.into_iter().chain(trials.iter().map(|_| Draw::Trial)).collect();
        let entries = playbook.entries.into_iter().chain(trials).collect();
        Self::new(Playbook { entries, ..playbook }, draws, worth, (budget, 1), 0)
    }

    fn new(
        playbook: Playbook,
        draws: Vec<Draw>,
        worth: &BTreeMap<EntryId, f64>,
        (budget, crowd): (u64, usize),
        seed: u64,
    ) -> Self {
        let worth: Vec<f64> =
            playbook.entries.iter().map(|entry| worth.get(&entry.id).copied().unwrap_or(UNKNOWN_WORTH)).collect();
        let index = Index::new(&playbook.entries);
        let needs = needs::positions(&playbook.entries);
        // Sections are always shown; lessons use the rest of the budget.
        let budget = Rendering { token_budget: budget }.room(&playbook.sections);
        let drawn: Vec<u8> = draws.iter().map(|draw| *draw as u8).collect();
        let worths: Vec<u8> = worth.iter().flat_map(|worth| worth.to_be_bytes()).collect();
        let digest = playbook
            .digest()
            .extended(b"showing 1")
            .extended(&drawn)
            .extended(&worths)
            .extended(&budget.to_be_bytes())
            .extended(&(crowd as u64).to_be_bytes())
            .extended(&seed.to_be_bytes());
        Self { playbook, draws, needs, worth, index, budget, crowd, seed, digest }
    }

    /// The entries that it selects from.
    pub fn entries(&self) -> &[Entry] {
        &self.playbook.entries
    }

    /// Digest of everything that determines the selection.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The entries for one member of a group whose task shows this text. `members` is the size of the group.
    pub fn choose(&self, group: u64, member: u32, members: u32, text: &str) -> Chosen {
        let own = self.eligible(group, text.into(), |_| true);
        let drawn = self.randomised(&own, group);
        let sees = |position: &usize| {
            sees(derive_seed(self.seed, &format!("draw/{}", self.id(*position)), group), member, members)
        };
        let hidden: BTreeSet<usize> = drawn.iter().copied().filter(|position| !sees(position)).collect();
        let propensity = if members < 2 { 1.0 } else { f64::from(members / 2) / f64::from(members) };
        Chosen { propensity, ..self.chosen(own, &drawn, &hidden) }
    }

    /// The entries for a live session that asks this. `drawn_by` says which of the entries on trial may be drawn. `draw`: whether an entry is shown, if that is drawn for the session; an
    /// entry on trial that is not drawn is neither shown nor held out. The room of what is held out stays empty. The propensities are the caller's.
    pub fn choose_drawn(&self, drawn_by: u64, query: Query<'_>, draw: impl Fn(&Entry) -> Option<bool>) -> Chosen {
        let drawn = |position: usize| self.playbook.entries.get(position).and_then(&draw);
        let own = self.eligible(drawn_by, query, |position| drawn(position).is_some());
        let draws: BTreeMap<usize, bool> =
            own.iter().filter_map(|position| Some((*position, drawn(*position)?))).collect();
        let drawn = self.first_of_units(draws.keys().copied().collect(), 0);
        let hidden = drawn.iter().copied().filter(|position| draws.get(position) == Some(&false)).collect();
        self.chosen(own, &drawn, &hidden)
    }

    /// The positions that are relevant and fit the budget, on their own account. `tries`: whether an entry on trial may be among them.
    fn eligible(&self, group: u64, query: Query<'_>, tries: impl Fn(usize) -> bool) -> BTreeSet<usize> {
        let mut relevant: Vec<usize> = self.index.relevant(query).into_iter().map(|hit| hit.position).collect();
        relevant.retain(|position| self.needed(*position).is_some() && self.draw(*position) != Draw::Carried);
        relevant.sort_unstable();
        // Entries on trial use what the measured ones leave of the budget.
        let (measured, mut tried): (Vec<usize>, Vec<usize>) =
            relevant.into_iter().partition(|position| self.draw(*position) != Draw::Trial);
        tried.retain(|position| tries(*position));
        if tried.len() > self.crowd {
            tried.sort_by_key(|position| {
                (derive_seed(self.seed, &format!("crowd/{}", self.id(*position)), group), *position)
            });
            tried.truncate(self.crowd);
        }
        let mut eligible: BTreeSet<usize> =
            self.affordable(&measured, &BTreeSet::new(), self.budget).into_iter().collect();
        let spent: u64 = eligible.iter().map(|position| self.tokens(*position)).sum();
        let more = self.affordable(&tried, &eligible, self.budget.saturating_sub(spent));
        eligible.extend(more);
        // What is only needed by others is shown with these.
        measured.into_iter().chain(tried).filter(|position| eligible.contains(position)).collect()
    }

    /// What is shown of eligible positions, if some are drawn and of these some hidden.
    fn chosen(&self, own: BTreeSet<usize>, drawn: &[usize], hidden: &BTreeSet<usize>) -> Chosen {
        let is_shown = |position: &usize| match drawn.contains(position) {
            true => !hidden.contains(position),
            // Another entry of its unit is drawn.
            false if self.draw(*position) == Draw::Trial => false,
            false => self.needed(*position).is_some_and(|needed| needed.iter().all(|other| !hidden.contains(other))),
        };
        let (mut shown, held_out): (BTreeSet<usize>, BTreeSet<usize>) = own.into_iter().partition(is_shown);
        let held_out_tokens = held_out.iter().map(|position| self.tokens(*position)).sum();
        let needed: Vec<usize> =
            shown.iter().filter_map(|position| self.needed(*position)).flatten().copied().collect();
        shown.extend(needed);
        let entry = |position: usize| self.playbook.entries.get(position);
        let drawn = drawn.iter().filter_map(|at| Some((entry(*at)?.id.clone(), !hidden.contains(at)))).collect();
        let shown: Vec<&Entry> = shown.into_iter().filter_map(entry).collect();
        Chosen {
            text: render(&shown, &self.playbook.sections),
            shown: shown.into_iter().map(|entry| entry.id.clone()).collect(),
            drawn,
            propensity: 1.0,
            held_out_tokens,
        }
    }

    /// The positions that are randomised in a group. Of entries that need each other at most one is: which, is drawn.
    fn randomised(&self, own: &BTreeSet<usize>, group: u64) -> Vec<usize> {
        let mut held_out = 0;
        let wants = |position: &usize| match self.draw(*position) {
            Draw::Never | Draw::Carried => false,
            Draw::Seldom => {
                let seed = || derive_seed(self.seed, &format!("hold out/{}", self.id(*position)), group);
                let is_held_out = held_out < HELD_OUT && seed().is_multiple_of(MAINTENANCE);
                held_out += usize::from(is_held_out);
                is_held_out
            }
            Draw::Trial | Draw::Questioned => true,
        };
        let wanted: Vec<usize> = own.iter().copied().filter(wants).collect();
        self.first_of_units(wanted, group)
    }

    /// Of positions that need each other one: which, is drawn for the group.
    fn first_of_units(&self, wanted: Vec<usize>, group: u64) -> Vec<usize> {
        let needs = |one: usize, other: usize| self.needed(one).is_some_and(|needed| needed.contains(&other));
        let rank = |position: usize| (derive_seed(self.seed, &format!("unit/{}", self.id(position)), group), position);
        let is_first = |position: &usize| {
            let mut related = wanted.iter().filter(|other| needs(*position, **other) || needs(**other, *position));
            related.all(|other| rank(*position) < rank(*other))
        };
        wanted.iter().copied().filter(is_first).collect()
    }

    fn draw(&self, position: usize) -> Draw {
        self.draws.get(position).copied().unwrap_or(Draw::Never)
    }

    /// All that an entry needs; `None`: something is missing.
    fn needed(&self, position: usize) -> Option<&Vec<usize>> {
        self.needs.get(position).and_then(Option::as_ref)
    }

    fn id(&self, position: usize) -> &str {
        self.playbook.entries.get(position).map_or("", |entry| &entry.id.0)
    }

    fn tokens(&self, position: usize) -> u64 {
        self.playbook.entries.get(position).map_or(0, |entry| entry.lesson.tokens())
    }

    /// The entries that fit, with all that they need. `paid` are shown anyhow.
    fn affordable(&self, positions: &[usize], paid: &BTreeSet<usize>, budget: u64) -> Vec<usize> {
        let priced: Vec<Priced> = positions
            .iter()
            .map(|position| Priced {
                position: *position,
                tokens: self.tokens(*position),
                lower_bound: self.worth.get(*position).copied().unwrap_or(UNKNOWN_WORTH),
                needs: self
                    .needed(*position)
                    .into_iter()
                    .flatten()
                    .map(|other| (*other, self.tokens(*other)))
                    .collect(),
            })
            .collect();
        fit(&priced, paid, budget)
    }
}

/// Whether a member is in the half that is shown an entry: the first half of a seeded shuffle of the members, rounded down.
fn sees(seed: u64, member: u32, members: u32) -> bool {
    if members < 2 {
        return true;
    }
    let mut order: Vec<u32> = (0..members).collect();
    let mut state = seed;
    for position in (1..order.len()).rev() {
        state = mixed(state);
        let other = ((u128::from(state) * (position as u128 + 1)) >> 64) as usize;
        order.swap(position, other);
    }
    order.iter().take(members as usize / 2).any(|one| *one == member)
}

/// SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

impl Harness {
    /// The view for training episodes: deployed and admitted entries, and those on trial.
    pub fn training(&self, seed: u64) -> PlaybookView {
        let carried = self.carried();
        let mut records = self.in_order();
        records.retain(|record| {
            let is_shown =
                matches!(record.entry.status, Status::OnTrial | Status::Admitted | Status::Bundled | Status::Deployed);
            (is_shown || carried.contains(&record.entry.id)) && !self.left_out.contains(&record.entry.id)
        });
        let is_tried = |status: &Status| matches!(status, Status::OnTrial | Status::Queued);
        let served = |id: &EntryId| self.deployed.iter().position(|known| known == id).unwrap_or(usize::MAX);
        // Deployed entries in their order, then admitted ones by first proposal, then those on trial.
        records.sort_by_key(|record| (is_tried(&record.entry.status), served(&record.entry.id), record.position));
        let draw = |status: &Status, id: &EntryId| match status {
            _ if self.settings.admission != Admission::Measured => Draw::Never,
            Status::OnTrial => Draw::Trial,
            Status::Queued => Draw::Carried,
            _ if self.questioned.contains(id) || self.is_provisional(id) => Draw::Questioned,
            _ => Draw::Seldom,
        };
        let draws = records.iter().map(|record| draw(&record.entry.status, &record.entry.id)).collect();
        let entries = records.iter().map(|record| record.entry.clone()).collect();
        let playbook = Playbook { sections: self.sections.clone(), entries };
        PlaybookView::new(playbook, draws, &self.worth(), (self.settings.token_budget, self.settings.trial_crowd), seed)
    }

    /// The view of a playbook for serving.
    pub fn serving(&self, playbook: Playbook) -> PlaybookView {
        PlaybookView::serving(playbook, &self.worth(), self.settings.token_budget)
    }

    /// Lower bounds of the effects: the lower end of the interval at the time of the decision.
    pub fn worth(&self) -> BTreeMap<EntryId, f64> {
        let worth = |(id, record): (&EntryId, &super::Record)| {
            Some((id.clone(), record.decided.as_ref().map(|decided| decided.interval.0)?))
        };
        self.records.iter().filter_map(worth).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_members_see_an_entry_and_members_are_drawn_uniformly() {
        let mut times = [0u32; 4];
        for seed in 0..4_000 {
            let seen: Vec<u32> = (0..4).filter(|member| sees(seed, *member, 4)).collect();
            assert_eq!(seen.len(), 2);
            seen.iter().for_each(|member| times[*member as usize] += 1);
        }
        assert!(times.iter().all(|times| (1_850..2_150).contains(times)), "{times:?}");
        assert_eq!((0..5).filter(|member| sees(7, *member, 5)).count(), 2, "an odd number is rounded down");
        assert!(sees(7, 0, 1), "a single member sees everything");
    }
}
