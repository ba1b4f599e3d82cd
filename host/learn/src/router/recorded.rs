//! What policies would have earned on a recorded log.
//!
//! A policy that was learned from a log looks better on it than it is. So the log is halved in the order of time: a fresh router learns
//! from the earlier half, and every policy is judged on the later one.

use super::offline::{Estimate, Refusal, Target, Value, evaluate};
use super::promotion::{Verdict, judge};
use super::{CostWeight, Earned, Features, Fixed, Logged, Policy, Router, RouterSettings};
use crate::LearnError;
use crate::gate::ALPHA;
use serde::Serialize;
use std::num::NonZeroU32;

/// Name of the policy that [`replay`] learns from the earlier half.
pub const GREEDY: &str = "greedy";
/// Name of the policy that chooses every action equally often.
const RANDOM: &str = "random";

/// A policy on a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replayed {
    /// Name of the policy: `greedy`, `random`, `always …` for each model, `tiers` if they are the incumbent.
    pub policy: String,
    /// What it would have earned.
    #[serde(flatten)]
    pub value: Value,
}

/// Policies on a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Replay {
    /// Outcomes of the log.
    pub outcomes: usize,
    /// Outcomes of the earlier half, which the greedy policy learned from.
    pub learned: u64,
    /// Outcomes that were judged.
    pub judged: usize,
    /// Outcomes of the later half that were left out, because their action is not in the table any more.
    pub left_out: usize,
    /// What the log itself earned in its later half, at today's prices.
    pub recorded: Earned,
    /// The policies.
    pub policies: Vec<Replayed>,
    /// Name of the policy that the greedy one is compared with: the incumbent, or `random` if it has left the table.
    pub compared_with: String,
    /// Whether the greedy policy would replace that one.
    pub verdict: Verdict,
    /// Utility of the greedy policy minus that of the other one.
    pub gain: Estimate,
}

impl Replay {
    /// Why the figures of a policy are not to be trusted; `None` if they are, or if there is no such policy.
    pub fn refusal(&self, policy: &str) -> Option<&Refusal> {
        self.policies.iter().find(|replayed| replayed.policy == policy)?.value.refusal.as_ref()
    }
}

/// Judges policies on a log with the settings, the table and the weight of cost of a router.
///
/// # Errors
/// A record of another format, features of other names, an outcome out of range, or tiers that
/// have no model for a request.
pub fn replay(router: &Router, log: &[Logged]) -> Result<Replay, LearnError> {
    for logged in log {
        logged.decision.check()?;
        logged.outcome.check(router.settings().rewards)?;
    }
    let mut log = log.to_vec();
    log.sort_by(|one, other| {
        (one.decision.time, &one.decision.session).cmp(&(other.decision.time, &other.decision.session))
    });
    let (earlier, later) = log.split_at(log.len() / 2);
    let cost_weight = CostWeight::Fixed(router.cost_weight());
    let settings = RouterSettings { cost_weight, ..router.settings().clone() };
    let mut fresh = Router::new(settings, router.table().clone(), router.names().to_vec())?;
    let learned = fresh.learn(earlier)?.used;

    let (compared_with, other) = incumbent(router).unwrap_or((RANDOM.to_owned(), Policy::Random));
    let served = Target { router: &fresh, policy: &other };
    let mut policies = Vec::new();
    let (mut judged, mut left_out) = (0, 0);
    for (name, policy) in policies_of(router) {
        let evaluation = evaluate(later, Target { router: &fresh, policy: &policy }, served, ALPHA)?;
        (judged, left_out) = (evaluation.judged, evaluation.left_out);
        policies.push(Replayed { policy: name, value: evaluation.candidate });
    }
    let (verdict, evaluation) = judge(later, Target { policy: &Policy::Greedy, ..served }, served, NonZeroU32::MIN)?;
    Ok(Replay {
        outcomes: log.len(),
        learned,
        judged,
        left_out,
        recorded: recorded(&fresh, later)?,
        policies,
        compared_with,
        verdict,
        gain: evaluation.gain,
    })
}

fn named(fixed: Fixed) -> (String, Policy) {
    let name = match &fixed {
        Fixed::Model(model) => format!("always {model}"),
        Fixed::Tiers(_) => "tiers".to_owned(),
    };
    (name, Policy::Fixed(fixed))
}

/// The incumbent by name; `None` if the table has no model of it.
fn incumbent(router: &Router) -> Option<(String, Policy)> {
    let incumbent = &router.settings().incumbent;
    incumbent.model(&Features::default(), router.table()).ok()?;
    Some(named(incumbent.clone()))
}

/// The policies that a log is asked about, by name.
fn policies_of(router: &Router) -> Vec<(String, Policy)> {
    let mut policies = vec![(GREEDY.to_owned(), Policy::Greedy), (RANDOM.to_owned(), Policy::Random)];
    policies.extend(router.table().models().map(|model| named(Fixed::Model(model.to_owned()))));
    if let Some(incumbent) = incumbent(router).filter(|incumbent| !policies.contains(incumbent)) {
        policies.push(incumbent);
    }
    policies
}

/// What a log earned, as it was played.
fn recorded(router: &Router, log: &[Logged]) -> Result<Earned, LearnError> {
    let mut earned = Earned { policy: "as recorded".to_owned(), reward: 0.0, cost: 0.0, utility: 0.0 };
    let mut count: f64 = 0.0;
    for logged in log {
        let Some(cost) = router.cost(logged.decision.action()?, &logged.outcome) else { continue };
        count += 1.0;
        earned.reward += logged.outcome.reward;
        earned.cost += cost;
        earned.utility += router.utility(logged.outcome.reward, cost);
    }
    let count = count.max(1.0);
    Ok(Earned { reward: earned.reward / count, cost: earned.cost / count, utility: earned.utility / count, ..earned })
}
