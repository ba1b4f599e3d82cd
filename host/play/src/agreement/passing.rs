//! Agreement on who passes: the confusion of two judges, the share of agreement, and Cohen's kappa.

use super::bootstrap::interval;
use super::{Lacking, Measure, Scored, Sides};
use serde::Serialize;
use std::collections::BTreeMap;

/// Numbers of episodes by who passes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Confusion {
    /// Both judges pass them.
    pub both: u64,
    /// Only the first judge passes them.
    pub only_a: u64,
    /// Only the second judge passes them.
    pub only_b: u64,
    /// No judge passes them.
    pub neither: u64,
}

impl Confusion {
    /// Number of episodes.
    pub fn episodes(&self) -> u64 {
        self.both + self.only_a + self.only_b + self.neither
    }

    /// The share of episodes that both pass or both fail. `None`: there are no episodes.
    pub fn agreement(&self) -> Option<f64> {
        let all = self.episodes();
        (all > 0).then(|| (self.both + self.neither) as f64 / all as f64)
    }

    /// Cohen's kappa: agreement beyond that of independent judges with these shares of passes, as a share of what is possible beyond it
    /// (Cohen, A coefficient of agreement for nominal scales, 1960). `None`: a judge passes all episodes or none.
    pub fn kappa(&self) -> Option<f64> {
        let all = self.episodes() as f64;
        let (by_a, by_b) = ((self.both + self.only_a) as f64, (self.both + self.only_b) as f64);
        if self.lacking().is_some() {
            return None;
        }
        let chance = (by_a * by_b + (all - by_a) * (all - by_b)) / (all * all);
        Some((self.agreement()? - chance) / (1.0 - chance))
    }

    /// Why there is no kappa.
    fn lacking(&self) -> Option<Lacking> {
        let all = self.episodes();
        let is_constant = |passed: u64| passed == 0 || passed == all;
        match (is_constant(self.both + self.only_a), is_constant(self.both + self.only_b)) {
            _ if all < 2 => Some(Lacking::TooFewEpisodes),
            (true, true) => Some(Lacking::BothAreConstant),
            (true, false) => Some(Lacking::AIsConstant),
            (false, true) => Some(Lacking::BIsConstant),
            (false, false) => None,
        }
    }

    fn add(&mut self, passes: Sides<bool>) {
        *match (passes.a, passes.b) {
            (true, true) => &mut self.both,
            (true, false) => &mut self.only_a,
            (false, true) => &mut self.only_b,
            (false, false) => &mut self.neither,
        } += 1;
    }

    fn add_times(&mut self, other: &Self, times: u64) {
        self.both += times * other.both;
        self.only_a += times * other.only_a;
        self.only_b += times * other.only_b;
        self.neither += times * other.neither;
    }
}

/// Who passes and fails, and how far two judges agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Passing {
    /// The numbers.
    pub confusion: Confusion,
    /// The share of episodes that both pass or both fail, with Student's t over tasks.
    pub agreement: Measure,
    /// Cohen's kappa, with the bootstrap over tasks.
    pub kappa: Measure,
}

impl Passing {
    /// Of these episodes. A score passes if it is the threshold or more.
    pub(super) fn of<'a>(episodes: impl Iterator<Item = &'a Scored<'a>>, thresholds: Sides<f64>) -> Self {
        let mut units: BTreeMap<usize, Confusion> = BTreeMap::new();
        for one in episodes {
            let passes = Sides { a: one.scores.a >= thresholds.a, b: one.scores.b >= thresholds.b };
            units.entry(one.unit).or_default().add(passes);
        }
        let units: Vec<Confusion> = units.into_values().collect();
        let mut confusion = Confusion::default();
        units.iter().for_each(|unit| confusion.add_times(unit, 1));
        let same: Vec<Vec<f64>> = units
            .iter()
            .map(|unit| {
                let (same, other) = (unit.both + unit.neither, unit.only_a + unit.only_b);
                [vec![1.0; same as usize], vec![0.0; other as usize]].concat()
            })
            .collect();
        let kappa = match (confusion.kappa(), confusion.lacking()) {
            (Some(kappa), _) => Measure::of(
                kappa,
                interval(units.len(), |drawn| {
                    let mut resample = Confusion::default();
                    units.iter().zip(drawn).for_each(|(unit, times)| resample.add_times(unit, u64::from(*times)));
                    resample.kappa()
                }),
            ),
            (None, lacking) => Measure::without(lacking.unwrap_or(Lacking::TooFewEpisodes)),
        };
        Self { confusion, agreement: Measure::mean(&same, (0.0, 1.0)), kappa }
    }
}
