//! The environments of a run: one, or a mixture whose parts share the run's groups by weight.
//!
//! Each part keeps its own tasks, options and grants. Tasks are shuffled inside their part and then interleaved, so that every prefix
//! of the list holds each part in proportion to its weight: no batch of groups leaves out a part that has a share of it.

use crate::PlayError;
use clawhost_core::{Attributes, Digest, Environment, Grants, PluginIdentity, Split, Task};
use std::sync::Arc;

/// A part of a mixture.
#[derive(Clone)]
pub struct Part {
    /// Its name, unique in the mixture.
    pub name: String,
    /// Its share of the groups, relative to the other parts: finite and above 0.
    pub weight: f64,
    /// Its environment.
    pub environment: Arc<dyn Environment>,
    /// The options of its environment.
    pub options: Attributes,
}

impl Part {
    /// The options of its episodes: its own, and those of the run, which replace its own of the same name.
    pub(crate) fn options_with(&self, of_run: &Attributes) -> Attributes {
        let own = self.options.iter().filter(|(name, _)| of_run.iter().all(|(other, _)| other != name));
        own.chain(of_run).cloned().collect()
    }
}

/// Several environments that share the groups of a run.
pub struct Mixture {
    identity: PluginIdentity,
    splits: Vec<Split>,
    parts: Vec<Part>,
}

impl Mixture {
    /// A mixture of at least two parts. It has the splits that all of its parts have.
    ///
    /// # Errors
    /// There are fewer than two parts, two have one name, a weight is not a finite number above 0, or no split is common to all.
    pub fn new(parts: Vec<Part>) -> Result<Self, PlayError> {
        let refused = |why: String| Err(PlayError::Mixture { why });
        if parts.len() < 2 {
            return refused("it needs at least two environments".to_owned());
        }
        for (place, part) in parts.iter().enumerate() {
            if parts.iter().take(place).any(|other| other.name == part.name) {
                return refused(format!("two of its parts have the name `{}`", part.name));
            }
            if !(part.weight.is_finite() && part.weight > 0.0) {
                return refused(format!("the weight of `{}` is {}, not a number above 0", part.name, part.weight));
            }
        }
        let splits = common_splits(&parts);
        if splits.is_empty() {
            let told = |part: &Part| {
                let names = part.environment.description().splits.iter().map(|split| split.name.as_str());
                format!("{} has {}", part.name, names.collect::<Vec<_>>().join(", "))
            };
            let told: Vec<String> = parts.iter().map(told).collect();
            return refused(format!("its parts have no split in common: {}", told.join("; ")));
        }
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let basis = serde_json::json!(parts.iter().map(basis_of).collect::<Vec<_>>());
        let identity =
            PluginIdentity { name: names.join("+"), version: String::new(), digest: Digest::of_json(&basis) };
        Ok(Self { identity, splits, parts })
    }

    /// Its parts, in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }
}

fn basis_of(part: &Part) -> serde_json::Value {
    let environment = &part.environment;
    serde_json::json!((&part.name, part.weight, environment.identity().digest, &part.options, environment.grants()))
}

/// The splits that all parts have, with the tasks of all of them, in the order of the first part.
fn common_splits(parts: &[Part]) -> Vec<Split> {
    let Some((first, others)) = parts.split_first() else { return Vec::new() };
    let common = |split: &Split| {
        let of = |part: &Part| {
            part.environment.description().splits.iter().find(|other| other.name == split.name).map(|other| other.tasks)
        };
        let tasks = others.iter().map(of).collect::<Option<Vec<u64>>>()?;
        // A split that is empty in one part is no split of the mixture: the part would be missing in it.
        let has_all = split.tasks > 0 && tasks.iter().all(|tasks| *tasks > 0);
        let all = tasks.iter().fold(split.tasks, |sum, tasks| sum.saturating_add(*tasks));
        has_all.then(|| Split { name: split.name.clone(), tasks: all })
    };
    first.environment.description().splits.iter().filter_map(common).collect()
}

/// The environments of a run.
#[derive(Clone)]
pub enum Environments {
    /// One environment, with the options of the run's plan.
    One(Arc<dyn Environment>),
    /// A mixture. The options of the run's plan are added to those of each part.
    Mixture(Arc<Mixture>),
}

impl Environments {
    /// The identity of the environment, or of the mixture: the names of its parts with `+` between them, and the digest of everything that
    /// determines it.
    pub fn identity(&self) -> &PluginIdentity {
        match self {
            Self::One(environment) => environment.identity(),
            Self::Mixture(mixture) => &mixture.identity,
        }
    }

    /// The splits.
    pub fn splits(&self) -> &[Split] {
        match self {
            Self::One(environment) => &environment.description().splits,
            Self::Mixture(mixture) => &mixture.splits,
        }
    }

    /// The parts of a mixture; empty: it is one environment.
    pub fn parts(&self) -> &[Part] {
        match self {
            Self::One(_) => &[],
            Self::Mixture(mixture) => &mixture.parts,
        }
    }

    /// The grants of the one environment. Those of parts belong to the parts.
    pub(crate) fn grants(&self) -> Grants {
        match self {
            Self::One(environment) => environment.grants(),
            Self::Mixture(_) => Grants::default(),
        }
    }

    /// Whether a task belongs to one of the environments.
    pub(crate) fn has(&self, task: &Task) -> bool {
        match self {
            Self::One(_) => true,
            Self::Mixture(mixture) => mixture.parts.iter().any(|part| task.part.as_ref() == Some(&part.name)),
        }
    }

    /// The environment that plays a task, and the options of its episodes in a run with the options `of_run`. `None`: the task belongs to
    /// no part.
    pub(crate) fn of_task(&self, task: &Task, of_run: &Attributes) -> Option<(Arc<dyn Environment>, Attributes)> {
        match self {
            Self::One(environment) => Some((environment.clone(), of_run.clone())),
            Self::Mixture(mixture) => {
                let part = mixture.parts.iter().find(|part| task.part.as_ref() == Some(&part.name))?;
                Some((part.environment.clone(), part.options_with(of_run)))
            }
        }
    }
}

/// The order of `count` items by weight: for each item the index of its part. After n items each part has less than one item more or
/// less than its share of n (the chairman assignment: R. Tijdeman, Discrete Mathematics 32, 1980).
pub(crate) fn interleaved(weights: &[f64], count: u64) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let shares: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    // The largest deviation that is reached: 1 - 1 / (2 k - 2) for k parts.
    let slack = match shares.len() {
        0 | 1 => 0.0,
        parts => 1.0 / (2 * parts - 2) as f64,
    };
    let mut taken = vec![0u64; shares.len()];
    let mut order = Vec::new();
    for number in 1..=count {
        let deficits = shares.iter().zip(&taken).map(|(share, taken)| share * number as f64 - *taken as f64);
        let due = shares.iter().zip(deficits).enumerate();
        // Of the parts that are behind, the one that reaches its largest permitted deficit first.
        let is_behind = |(_, (_, deficit)): &(usize, (&f64, f64))| *deficit >= slack - ROUNDING;
        let deadline = |(place, (share, deficit)): (usize, (&f64, f64))| (place, (1.0 - slack - deficit) / share);
        let first = due.filter(is_behind).map(deadline).min_by(|one, other| one.1.total_cmp(&other.1));
        let Some((place, _)) = first else { break };
        if let Some(taken) = taken.get_mut(place) {
            *taken += 1;
        }
        order.push(place);
    }
    order
}

/// Tolerance for rounding when a deficit is compared with its bound.
const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn items_are_interleaved_by_weight() {
        let check = |weights: &[f64], expect: &[usize]| {
            assert_eq!(interleaved(weights, expect.len() as u64), expect, "{weights:?}");
        };
        check(&[1.0], &[0, 0, 0]);
        check(&[1.0, 1.0], &[0, 1, 0, 1, 0, 1]);
        check(&[2.0, 1.0], &[0, 1, 0, 0, 1, 0]);
        check(&[1.0, 3.0], &[1, 0, 1, 1, 1, 0, 1, 1]);
        check(&[], &[]);
    }

    proptest! {
        #[test]
        fn every_prefix_holds_each_part_in_proportion(weights in prop::collection::vec(0.01_f64..100.0, 1..7), count in 1..400_u64) {
            let total: f64 = weights.iter().sum();
            let order = interleaved(&weights, count);
            prop_assert_eq!(order.len() as u64, count);
            let mut taken = vec![0.0_f64; weights.len()];
            for (number, place) in order.iter().enumerate() {
                taken[*place] += 1.0;
                for (weight, taken) in weights.iter().zip(&taken) {
                    let share = weight / total * (number + 1) as f64;
                    prop_assert!((taken - share).abs() < 1.0, "{taken} of {share} after {}", number + 1);
                }
            }
        }

        #[test]
        fn fewer_items_are_a_prefix_of_more(weights in prop::collection::vec(0.01_f64..100.0, 1..5), few in 0..50_u64) {
            let many = interleaved(&weights, few + 20);
            prop_assert_eq!(&interleaved(&weights, few)[..], &many[..few as usize]);
        }
    }
}
