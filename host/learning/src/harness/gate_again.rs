//! Computes the sessions of the gate again from their recorded episodes, and so the decision of each.

use super::gate::SESSIONS;
use super::reward_scale::RewardScale;
use crate::experience::reward_bounds;
use crate::recompute::RecordedPhase;
use crate::report::Missing;
use clawhost_core::Digest;
use clawhost_learn::LearnError;
use clawhost_learn::gate::{Decision, Form, GateEvidence, Question, Report, Test, difference_of_failed};
use clawhost_play::ScoringRule;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

/// What a session of the gate says of itself, and its episodes do not.
#[derive(Deserialize)]
struct Session {
    candidate: u32,
    playbook: Digest,
    added: Vec<Value>,
    #[serde(default)]
    rewritten: Vec<Value>,
    #[serde(default)]
    merged_into: Option<Value>,
}

/// The numbers of a session that follow from its episodes, under the names of [`crate::GateReport`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateNumbers {
    /// The decision.
    pub decision: Decision,
    /// The evidence.
    pub evidence: Report,
    /// Size of an evidence difference of 1, in units of reward.
    pub scale: f64,
    /// Episodes of the session.
    pub episodes: u64,
    /// Different tasks in it.
    pub tasks: u64,
    /// Pairs without a score.
    pub missing: Missing,
}

/// An undecided candidate.
struct Open {
    playbook: Digest,
    form: Form,
    evidence: GateEvidence,
    sessions: u32,
}

/// Follows the gate through the iterations of a run. The numbers of candidates are taken from the reports: each makes the threshold of the next one
/// higher, also over earlier runs of the playbook.
pub struct GateAgain<'a> {
    phases: &'a BTreeMap<String, RecordedPhase>,
    rewards: &'a [ScoringRule],
    scale: RewardScale,
    open: Option<Open>,
    pairs: u64,
    alpha: f64,
    has_budget: bool,
}

impl<'a> GateAgain<'a> {
    /// Before the first iteration. `plan`: the plan of the stage in the basis of the run. `None`: the harness does not learn, or a section evolved
    /// first, whose rewards belong to the scale.
    pub fn new(plan: &Value, phases: &'a BTreeMap<String, RecordedPhase>, rewards: &'a [ScoringRule]) -> Option<Self> {
        let of_gate = |name: &str| plan.pointer(&format!("/plan/gate/{name}"));
        let is_set = |name: &str| plan.pointer(name).is_some_and(|value| !value.is_null());
        if is_set("/plan/evolve") {
            return None;
        }
        Some(Self {
            phases,
            rewards,
            scale: RewardScale::default(),
            open: None,
            pairs: of_gate("pairs")?.as_u64()?,
            alpha: of_gate("alpha")?.as_f64()?,
            has_budget: is_set("/plan/budget"),
        })
    }

    /// Takes the training episodes of an iteration.
    pub fn train(&mut self, training: &RecordedPhase) {
        for reward in training.results.iter().filter_map(|result| result.reward) {
            self.scale.add(reward);
        }
    }

    /// The session after an iteration, from its episodes. `recorded`: its report. `None`: the report is not one, or its episodes are missing.
    pub fn session(&mut self, iteration: u64, recorded: &Value) -> Option<GateNumbers> {
        let session: Session = serde_json::from_value(recorded.clone()).ok()?;
        let (mut evidence, sessions) = match self.open.take() {
            Some(mut open) if open.playbook == session.playbook && open.form == self.scale.form() => {
                open.evidence.extend(self.pairs);
                (open.evidence, open.sessions + 1)
            }
            _ => (self.evidence(&session).ok()?, 1),
        };
        let (worst, best) = reward_bounds(self.rewards);
        let range = best - worst;
        let (mut missing, mut tasks, mut episodes) = (Missing::default(), BTreeSet::new(), 0);
        for phase in self.looks(iteration) {
            episodes += phase.results.len() as u64;
            let [deployed, proposed] = phase.tested().try_into().ok()?;
            for (group, (task, before)) in &deployed {
                let before = *before;
                let after = proposed.get(group).and_then(|(_, reward)| *reward);
                let seen = [before, after].into_iter().flatten();
                if seen.fold(false, |is_new, reward| self.scale.add(reward) | is_new) {
                    evidence = self.evidence(&session).ok()?;
                }
                let difference = match (before, after) {
                    (Some(before), Some(after)) => Some(self.scale.difference(before, after, range)),
                    (before, after) => {
                        missing.add(before.is_none(), after.is_none());
                        let void = (evidence.report().test == Test::Sign).then_some(0.0);
                        difference_of_failed(before.is_none(), after.is_none()).or(void)
                    }
                };
                if let Some(difference) = difference {
                    tasks.insert(task.clone());
                    evidence.observe(difference).ok()?;
                }
            }
        }
        let decision = match evidence.decision() {
            _ if missing.second_fails_more() => Decision::Futile,
            Decision::Continue => Decision::Undecided,
            decided => decided,
        };
        let (report, scale, form) = (evidence.report(), self.scale.scale(range), self.scale.form());
        if decision == Decision::Undecided && sessions < SESSIONS {
            self.open = Some(Open { playbook: session.playbook, form, evidence, sessions });
        }
        let tasks = tasks.len() as u64;
        Some(GateNumbers { decision, evidence: report, scale, episodes, tasks, missing })
    }

    /// The phases of a session, in the order in which they were played.
    fn looks(&self, iteration: u64) -> Vec<&'a RecordedPhase> {
        let start = format!("i{iteration:05}-gate-");
        let played = |name: &str| name.strip_prefix(&start)?.parse::<u64>().ok();
        let mut looks: Vec<(u64, &RecordedPhase)> =
            self.phases.iter().filter_map(|(name, phase)| Some((played(name)?, phase))).collect();
        looks.sort_by_key(|(played, _)| *played);
        looks.into_iter().map(|(_, phase)| phase).collect()
    }

    fn evidence(&self, session: &Session) -> Result<GateEvidence, LearnError> {
        let number = NonZeroU32::new(session.candidate).unwrap_or(NonZeroU32::MIN);
        // A candidate that only takes away may be no worse.
        let only_less = session.added.is_empty() && session.rewritten.is_empty();
        let question = match only_less || session.merged_into.is_some() {
            true => Question::NotWorse,
            false => Question::Better,
        };
        let form = self.scale.form();
        if self.has_budget && form == Form::Binary && question == Question::Better {
            return GateEvidence::planned(number, self.alpha, self.pairs);
        }
        let evidence = GateEvidence::new(number, form, question, self.alpha, self.pairs)?;
        Ok(if self.has_budget { evidence.of_one_session() } else { evidence })
    }
}
