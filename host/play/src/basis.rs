//! The basis of a run: everything that determines its episodes, as a document that is stored with the run. The run's digest and the
//! ids of its episodes follow from it, so both can be computed again.

use crate::plan::{Plan, is_one, position};
use crate::run::Ports;
use crate::{PlayError, tasks};
use clawhost_core::{Attributes, Digest, EpisodeId, Grants, RewardSource, StateId};
use serde::{Deserialize, Serialize};

/// Runs that were recorded before there were several tries have one.
fn one() -> u32 {
    1
}

/// A reward of a run: its digest, options and grants, the source of its verdicts, and its weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BasisReward(
    /// The reward.
    pub Digest,
    /// Its options.
    pub Attributes,
    /// Its grants.
    pub Grants,
    /// The source of its verdicts.
    pub RewardSource,
    /// Its weight among rewards of its source.
    pub f64,
    /// The part of a mixture whose episodes it scores; `None`: all episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub Option<String>,
);

/// A part of a mixture: what determines its episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BasisPart {
    /// Its name.
    pub name: String,
    /// Its share of the groups, relative to the other parts.
    pub weight: f64,
    /// The environment.
    pub environment: Digest,
    /// Its grants.
    pub grants: Grants,
    /// The options of its episodes.
    pub options: Attributes,
}

/// Everything that determines an episode of a run, except its position.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// The environment; of a mixture, the digest of what its parts are.
    pub environment: Digest,
    /// The parts of a mixture; empty: there is one environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<BasisPart>,
    /// The grants of the environment. Those of parts belong to the parts.
    pub grants: Grants,
    /// Turns that the episodes of a group share.
    pub branch_at: Option<u32>,
    /// The options of the environment.
    pub options: Attributes,
    /// The rewards, in order.
    pub rewards: Vec<BasisReward>,
    /// Identity of the policy.
    pub state_id: StateId,
    /// The seed of all random choices.
    pub seed: u64,
    /// The split.
    pub split: String,
    /// Episodes per task and seed.
    pub group: u32,
    /// Position of the first group in the split.
    pub first_group: u64,
    /// Whether the members of a group have the same policy seed.
    pub paired: bool,
    /// Tries of each side in a paired group.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub tries: u32,
    /// Turns of an episode, after which it is truncated.
    pub max_turns: u32,
}

/// Everything that determines the episodes of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Basis {
    /// What determines each episode.
    pub conditions: Conditions,
    /// Positions of the groups in the split; `None`: from the first group on.
    pub positions: Option<Vec<u64>>,
    /// Number of episodes: part of the run's identity, though not of the episodes' ids.
    pub episodes: u64,
}

impl Basis {
    /// The basis of a run with this plan and these ports.
    ///
    /// # Errors
    /// The environment does not have this split.
    pub fn of(plan: &Plan, ports: &Ports) -> Result<Self, PlayError> {
        let environments = &ports.environments;
        let split = tasks::split_of(&environments.identity().name, environments.splits(), plan.split.as_deref())?;
        let parts = environments.parts().iter().map(|part| BasisPart {
            name: part.name.clone(),
            weight: part.weight,
            environment: part.environment.identity().digest,
            grants: part.environment.grants(),
            options: part.options_with(&plan.options),
        });
        let rewards = ports.rewards.iter().map(|rule| {
            let reward = &rule.reward;
            let (digest, grants) = (reward.identity().digest, reward.grants());
            BasisReward(digest, rule.options.clone(), grants, rule.source, rule.weight, rule.part.clone())
        });
        let conditions = Conditions {
            environment: environments.identity().digest,
            parts: parts.collect(),
            grants: environments.grants(),
            branch_at: plan.branch_at,
            options: plan.options.clone(),
            rewards: rewards.collect(),
            state_id: ports.policy.state_id(),
            seed: plan.seed,
            split,
            group: plan.group,
            first_group: plan.first_group,
            paired: plan.paired,
            tries: plan.tries,
            max_turns: plan.max_turns,
        };
        Ok(Self { conditions, positions: plan.positions.clone(), episodes: plan.episodes })
    }

    /// As a document.
    pub fn document(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    /// The digest of the run.
    pub fn digest(&self) -> Digest {
        Digest::of_json(&self.document())
    }

    /// The configuration from which the ids of episodes follow.
    pub(crate) fn config(&self) -> Digest {
        let config = Digest::of_json(&serde_json::json!(self.conditions));
        let positions = self.positions.iter().flatten();
        positions.fold(config, |config, position| config.extended(&position.to_be_bytes()))
    }

    /// The id of an episode.
    pub(crate) fn id(&self, index: u64) -> EpisodeId {
        EpisodeId::new(&self.config(), index)
    }

    /// The environment of an episode with this part, its grants and its options; `None`: the run has no such part.
    pub(crate) fn environment(&self, part: Option<&str>) -> Option<(&Digest, &Grants, &Attributes)> {
        let Conditions { environment, parts, grants, options, .. } = &self.conditions;
        if parts.is_empty() {
            return part.is_none().then_some((environment, grants, options));
        }
        let part = parts.iter().find(|known| Some(known.name.as_str()) == part)?;
        Some((&part.environment, &part.grants, &part.options))
    }

    /// The group of an episode.
    pub(crate) fn group(&self, index: u64) -> u64 {
        index / u64::from(self.conditions.group.max(1))
    }

    /// The seed of the environment in an episode.
    pub(crate) fn seed(&self, index: u64) -> u64 {
        let Conditions { seed, split, first_group, .. } = &self.conditions;
        crate::environment_seed(*seed, split, position(self.positions.as_ref(), *first_group, self.group(index)))
    }
}

/// Digest of everything that determines the episodes of a run. An interrupted run is found by it.
///
/// # Errors
/// The environment does not have this split.
pub fn run_digest(plan: &Plan, ports: &Ports) -> Result<Digest, PlayError> {
    Ok(Basis::of(plan, ports)?.digest())
}
