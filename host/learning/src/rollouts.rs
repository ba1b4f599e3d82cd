//! Rollouts: plays the environment with the current policy. If weights learn, groups without reward variance are replaced a
//! few times (dynamic sampling, DAPO: Yu et al. 2025).

use crate::Staged;
use crate::experience::{Experience, by_group};
use crate::source::{ExperienceRequest, ExperienceSource};
use crate::stage::StageContext;
use async_trait::async_trait;
use clawhost_play::Plan;
use serde_json::Value;

/// Plays groups of training tasks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rollouts;

/// Name of the training phase of an iteration; `number` counts from 0.
fn training_phase(number: u64) -> String {
    format!("i{:05}-train", number + 1)
}

/// Name of a phase that replaces groups.
fn refill_phase(number: u64, round: u32) -> String {
    format!("i{:05}-refill-{round}", number + 1)
}

/// Whether a phase plays the initial training episodes of an iteration.
pub fn is_training_phase(name: &str) -> bool {
    name.ends_with("-train")
}

#[async_trait]
impl ExperienceSource for Rollouts {
    fn plan(&self) -> Value {
        Value::Null
    }

    fn save(&self) -> Value {
        Value::Null
    }

    fn restore(&mut self, _: Value) -> Staged<()> {
        Ok(())
    }

    async fn next(&mut self, request: ExperienceRequest<'_>, context: &StageContext<'_>) -> Staged<Option<Experience>> {
        let ExperienceRequest { policy, mut curriculum } = request;
        let number = context.iteration;
        let plan = Plan {
            split: Some(context.splits.train.clone()),
            first_group: context.turn.first_group,
            paired: false,
            branch_at: None,
            ..context.turn.play.clone()
        };
        let groups = plan.episodes.div_ceil(u64::from(plan.group.max(1)));
        let train = context.train.clone();
        let state_id = policy.state_id();
        let positions = curriculum.as_mut().and_then(|curriculum| curriculum.positions(groups, &train));
        let first = Plan { positions, ..plan.clone() };
        let phase = context.phase(&training_phase(number), first, policy.clone(), train.clone()).await?;
        let played = by_group(&phase.episodes);
        let mut experience =
            Experience { id: phase.id, number, state_id, selected: played.clone(), played, refilled: 0 };
        let Some(curriculum) = curriculum else { return Ok(Some(experience)) };
        curriculum.note(&experience.played);
        for round in 1..=curriculum.refills() {
            let flat = experience.selected.iter().filter(|(_, group)| !curriculum.teaches(group));
            let flat: Vec<u64> = flat.map(|(place, _)| *place).collect();
            if flat.is_empty() {
                break;
            }
            let positions = curriculum.positions(flat.len() as u64, &train);
            let episodes = (flat.len() as u64).saturating_mul(u64::from(plan.group));
            let again = Plan { positions, episodes, ..plan.clone() };
            let phase = context.phase(&refill_phase(number, round), again, policy.clone(), train.clone()).await?;
            let more = by_group(&phase.episodes);
            curriculum.note(&more);
            experience.refilled += more.len() as u64;
            for (place, group) in flat.into_iter().zip(more.into_values()) {
                if curriculum.teaches(&group) {
                    experience.selected.insert(place, group);
                }
            }
        }
        Ok(Some(experience))
    }
}
