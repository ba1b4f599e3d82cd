//! The difference of a run from another one, or why there is none.

use super::reading::Reading;
use clawhost_core::RunId;
use clawhost_learning::Missing;
use clawhost_play::{Contrast, Design, contrast};
use clawhost_run_config::{PartSpec, PluginSpec, RunSpec};
use serde::Serialize;

/// Why two runs cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Obstacle {
    /// They played other environments, or the environment asked other models.
    Environment {
        /// That of the first run.
        first: String,
        /// That of the second run.
        second: String,
    },
    /// They were judged by other rewards, or the rewards have other options, sources, weights or models.
    Rewards {
        /// Those of the first run.
        first: String,
        /// Those of the second run.
        second: String,
    },
    /// A run has no score to compare: of one that learned, no test was played or scored.
    Unscored {
        /// The run.
        run: RunId,
    },
    /// One run lacks scores where the other has them, by more than three standard errors: failures could hide losses.
    UnequalFailures {
        /// Pairs that only the first run lacks.
        first: u64,
        /// Pairs that only the second run lacks.
        second: u64,
    },
}

/// Why runs are not compared pair by pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unlike {
    /// The environment has other options, so its tasks may be others.
    Options,
    /// Another split.
    Split,
    /// Another seed: equal ids may be other tasks.
    Seed,
    /// They share too few tasks and seeds.
    Tasks,
}

/// The result of a comparison of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Compared {
    /// They cannot be compared.
    NotComparable {
        /// The reasons.
        obstacles: Vec<Obstacle>,
    },
    /// The difference, second minus first.
    Measured {
        /// In mean reward.
        reward: Contrast,
        /// In lift. `None`: one of them has none.
        lift: Option<Contrast>,
        /// Why it is unpaired. `None`: it is paired.
        unlike: Option<Unlike>,
    },
}

/// The difference of a run from another one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunDifference {
    /// The first run.
    pub from: RunId,
    /// The second run.
    pub run: RunId,
    /// The result.
    #[serde(flatten)]
    pub compared: Compared,
}

fn named(plugin: &PluginSpec) -> String {
    let options: Vec<String> = plugin.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let options = if options.is_empty() { String::new() } else { format!("?{}", options.join("&")) };
    match &plugin.plugin {
        Some(known) => format!("{} {} ({}){options}", known.name, known.version, known.digest.short()),
        None => format!("{}{options}", plugin.path),
    }
}

/// The environment; of a mixture, all parts with their weights.
fn environments(spec: &RunSpec) -> String {
    let part = |part: &PartSpec| {
        let name = part.name.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
        format!(" + {}{name}, weight {}", named(&part.plugin), part.weight)
    };
    named(&spec.environment) + &spec.mix.iter().map(part).collect::<String>()
}

fn rewards(spec: &RunSpec) -> String {
    let rewards = spec.rewards.iter().map(|reward| {
        let source = reward.source.map(|source| format!(", {}", source.name())).unwrap_or_default();
        let weight = if reward.weight == 1.0 { String::new() } else { format!(", weight {}", reward.weight) };
        let part = reward.part.as_ref().map(|part| format!(" for {part}")).unwrap_or_default();
        named(&reward.plugin) + &part + &source + &weight
    });
    let rewards: Vec<String> = rewards.collect();
    if rewards.is_empty() { "no reward that was chosen".to_owned() } else { rewards.join("; ") }
}

fn obstacles(first: &Reading, second: &Reading) -> Vec<Obstacle> {
    let mut found = Vec::new();
    if let (Some(one), Some(other)) = (&first.conditions, &second.conditions) {
        if (one.environment, &one.grants) != (other.environment, &other.grants) {
            let (first, second) = (environments(&first.spec), environments(&second.spec));
            found.push(Obstacle::Environment { first, second });
        }
        if one.rewards != other.rewards {
            found.push(Obstacle::Rewards { first: rewards(&first.spec), second: rewards(&second.spec) });
        }
    }
    let unscored = [first, second].into_iter().filter(|reading| reading.reward.is_none());
    found.extend(unscored.map(|reading| Obstacle::Unscored { run: reading.row.id.clone() }));
    found
}

/// How the tasks of two runs differ. `None`: not by what chose them.
fn unlike(first: &Reading, second: &Reading) -> Option<Unlike> {
    let (one, other) = (first.conditions.as_ref()?, second.conditions.as_ref()?);
    match (one.options == other.options, one.split == other.split, one.seed == other.seed) {
        (false, ..) => Some(Unlike::Options),
        (_, false, _) => Some(Unlike::Split),
        (.., false) => Some(Unlike::Seed),
        (true, true, true) => None,
    }
}

fn compared(first: &Reading, second: &Reading) -> Compared {
    let obstacles = obstacles(first, second);
    let unlike = unlike(first, second);
    let may_pair = unlike.is_none();
    let reward = contrast(&first.after, &second.after, may_pair).filter(|_| obstacles.is_empty());
    let Some(reward) = reward else { return Compared::NotComparable { obstacles } };
    let unlike = match reward.design {
        Design::Paired { missing_first, missing_second, .. } => {
            if (Missing { before: missing_first, after: missing_second, both: 0 }).is_lopsided() {
                let obstacle = Obstacle::UnequalFailures { first: missing_first, second: missing_second };
                return Compared::NotComparable { obstacles: vec![obstacle] };
            }
            None
        }
        Design::Unpaired { .. } => Some(unlike.unwrap_or(Unlike::Tasks)),
    };
    let lifts = first.before.as_ref().zip(second.before.as_ref());
    let lift = lifts.and_then(|(one, other)| contrast(&first.after.minus(one), &second.after.minus(other), may_pair));
    Compared::Measured { reward, lift, unlike }
}

impl RunDifference {
    pub(super) fn between(first: &Reading, second: &Reading) -> Self {
        Self { from: first.row.id.clone(), run: second.row.id.clone(), compared: compared(first, second) }
    }
}
