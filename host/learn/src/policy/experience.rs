//! Experience: the trajectories of an iteration with their advantages.
//!
//! Advantages compare whole groups, so they are worked out here, once, before anything is cut into optimiser steps. What
//! teaches nothing is left out and counted.

use super::advantage::{
    Advantage, GroupAdvantages, Truncation, group_advantages, mean, standard_deviation, varies, whiten,
};
use super::loss::PolicyStep;
use super::objective::{PolicyGradient, RewardTerm};
use super::sample::{Trajectory, TrajectoryGroup};
use crate::{LearnError, Measurements, Metric};

/// Times that groups without variance are played anew before an iteration is trained with what there is (dynamic sampling,
/// DAPO: Yu et al. 2025). Late in training a third of all groups has none.
pub const REFILLS: u32 = 3;

/// A trajectory that is trained on.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    trajectory: Trajectory,
    group: usize,
    member: usize,
    /// Per token.
    advantages: Vec<f64>,
}

impl Trained {
    /// What was recorded.
    pub fn trajectory(&self) -> &Trajectory {
        &self.trajectory
    }

    /// Number of its group among those handed over.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Its number in the group as handed over.
    pub fn member(&self) -> usize {
        self.member
    }

    /// What its reward says about each token, unweighted.
    pub fn advantages(&self) -> &[f64] {
        &self.advantages
    }
}

/// What an iteration's trajectories were like, and what was left out of training.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExperienceReport {
    /// Groups that were handed over.
    pub groups: u64,
    /// Tasks of groups of two or more whose rewards are equal. Unless a teacher has something to say, they are left out; play them
    /// or others anew, at most [`REFILLS`] times.
    pub zero_variance: Vec<String>,
    /// Groups with fewer than two scored members: left out where a group is compared.
    pub too_small: u64,
    /// Trajectories without reward: failed, or not scored. Left out.
    pub failed: u64,
    /// Trajectories left out because they were cut off.
    pub truncated: u64,
    /// Trajectories of which no token was the policy's choice. Left out.
    pub untrained: u64,
    /// Rewards, before penalties.
    rewards: Vec<f64>,
    lengths: Vec<f64>,
    cut_off: u64,
    comparable: u64,
}

impl ExperienceReport {
    /// By the names people look for. Means and shares are over all trajectories (of rewards: all scored ones), whatever was left out;
    /// `zero_variance_share` is over groups of two or more. Lengths are trained tokens.
    pub fn named(&self) -> Measurements {
        let mut named = Measurements::from([
            (Metric::Failed, self.failed as f64),
            (Metric::Groups, self.groups as f64),
            (Metric::GroupsTooSmall, self.too_small as f64),
        ]);
        if self.truncated > 0 {
            named.set(Metric::TruncatedLeftOut, self.truncated as f64);
        }
        if self.comparable > 0 {
            named.set(Metric::ZeroVarianceShare, self.zero_variance.len() as f64 / self.comparable as f64);
        }
        if !self.rewards.is_empty() {
            named.set(Metric::RewardMean, mean(&self.rewards));
            named.set(Metric::RewardStd, standard_deviation(&self.rewards));
        }
        if !self.lengths.is_empty() {
            named.set(Metric::LengthMean, mean(&self.lengths));
            named.set(Metric::TruncationShare, self.cut_off as f64 / self.lengths.len() as f64);
        }
        named
    }

    /// Groups that could have variance: those of two or more scored members.
    pub fn comparable(&self) -> u64 {
        self.comparable
    }
}

/// Trajectories with their advantages under one objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Experience {
    objective: PolicyGradient,
    trained: Vec<Trained>,
    report: ExperienceReport,
}

impl Experience {
    /// Works out advantages.
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`] for settings that make no sense; [`LearnError::Sequence`] for a trajectory that lacks what
    /// the objective is computed from: a reference, a teacher, or, for one of earlier weights, the trainer's log-probs.
    pub fn new(objective: PolicyGradient, groups: Vec<TrajectoryGroup>) -> Result<Self, LearnError> {
        objective.check()?;
        let mut experience = Self { objective, trained: Vec::new(), report: ExperienceReport::default() };
        for (number, group) in groups.into_iter().enumerate() {
            group.members.iter().try_for_each(|member| experience.check(member))?;
            experience.take(number, group);
        }
        let estimation = objective.reward.map(|reward| reward.advantage);
        if matches!(estimation, Some(Advantage::Generalised(estimation)) if estimation.whiten) {
            let column = |trained: &mut Trained| std::mem::take(&mut trained.advantages);
            let taken: Vec<Vec<f64>> = experience.trained.iter_mut().map(column).collect();
            let masks = experience.trained.iter().map(|trained| trained.trajectory.recorded().mask.as_slice());
            let mut columns: Vec<_> = taken.into_iter().zip(masks).collect();
            whiten(&mut columns);
            let whitened: Vec<Vec<f64>> = columns.into_iter().map(|(advantages, _)| advantages).collect();
            experience.trained.iter_mut().zip(whitened).for_each(|(trained, white)| trained.advantages = white);
        }
        Ok(experience)
    }

    /// One optimiser step over some of the trajectories, by their numbers in [`Self::trained`].
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`] for numbers that are not there or stand twice, and for a step without any token.
    pub fn step(&self, sequences: &[usize]) -> Result<PolicyStep<'_>, LearnError> {
        PolicyStep::new(self.objective, &self.trained, sequences)
    }

    /// One optimiser step over all trajectories.
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`] if nothing is left to train on.
    pub fn whole(&self) -> Result<PolicyStep<'_>, LearnError> {
        self.step(&(0..self.trained.len()).collect::<Vec<usize>>())
    }

    /// What is trained on, in the order of groups and members.
    pub fn trained(&self) -> &[Trained] {
        &self.trained
    }

    /// What there was, and what was left out.
    pub fn report(&self) -> &ExperienceReport {
        &self.report
    }

    fn check(&self, member: &Trajectory) -> Result<(), LearnError> {
        let recorded = member.recorded();
        let refuse = |what: String| Err(LearnError::Sequence { sequence: recorded.sequence.clone(), what });
        if self.objective.kl > 0.0 && recorded.reference.is_none() {
            return refuse("has no reference log-probs, but kl is over 0: compute them with the adapter off".into());
        }
        if self.objective.distillation.is_some() && recorded.teacher.is_none() {
            return refuse("has no teacher log-probs, but the objective follows a teacher".into());
        }
        if recorded.version_lag > 0 && self.objective.truncated_importance.is_none() {
            let lag = recorded.version_lag;
            return refuse(format!("is {lag} versions old: turn truncated importance sampling on (cap 2), or drop it"));
        }
        if recorded.version_lag > 0 && recorded.trainer.is_none() {
            let lag = recorded.version_lag;
            return refuse(format!("is {lag} versions old and has no trainer log-probs: compute them, they weigh it"));
        }
        Ok(())
    }

    fn take(&mut self, number: usize, group: TrajectoryGroup) {
        self.report.groups += 1;
        for member in &group.members {
            self.report.lengths.push(member.trained_tokens() as f64);
            self.report.cut_off += u64::from(member.recorded().truncated);
            self.report.rewards.extend(member.recorded().reward);
        }
        let members = group.members.into_iter().enumerate();
        let Some(term) = self.objective.reward else {
            for (member, trajectory) in members {
                let nothing = vec![0.0; trajectory.recorded().rollout.len()];
                self.keep(Trained { trajectory, group: number, member, advantages: nothing });
            }
            return;
        };
        let mut scored = Vec::new();
        for (member, trajectory) in members {
            let recorded = trajectory.recorded();
            match recorded.reward {
                None => self.report.failed += 1,
                Some(_) if recorded.truncated && term.truncation == Truncation::Mask => self.report.truncated += 1,
                Some(reward) => scored.push((member, reward - penalty(&term, &trajectory), trajectory)),
            }
        }
        let rewards: Vec<f64> = scored.iter().map(|(_, reward, _)| *reward).collect();
        if rewards.len() < 2 {
            self.report.too_small += 1;
        } else {
            self.report.comparable += 1;
            if !varies(&rewards) {
                self.report.zero_variance.push(group.task);
            }
        }
        let advantages = match (term.advantage, group_advantages(term.advantage, &rewards)) {
            // Turns are compared with values, not with the group.
            (Advantage::Generalised(_), _) => rewards,
            (_, GroupAdvantages::Advantages(advantages)) => advantages,
            // Rewards say nothing about these, but the teacher does.
            _ if self.objective.distillation.is_some() => vec![0.0; scored.len()],
            _ => return,
        };
        for ((member, _, trajectory), advantage) in scored.into_iter().zip(advantages) {
            let by_turn = by_turn(&term, &trajectory, advantage);
            let advantages = trajectory.over_tokens(&by_turn);
            self.keep(Trained { trajectory, group: number, member, advantages });
        }
    }

    fn keep(&mut self, trained: Trained) {
        if trained.trajectory.trained_tokens() == 0 {
            self.report.untrained += 1;
        } else {
            self.trained.push(trained);
        }
    }
}

fn penalty(term: &RewardTerm, trajectory: &Trajectory) -> f64 {
    match term.truncation {
        Truncation::Penalty(penalty) if trajectory.recorded().truncated => penalty,
        _ => 0.0,
    }
}

/// The advantage of each turn. What was compared in a group is the same for all of them; `number` is then the advantage, else
/// the reward.
fn by_turn(term: &RewardTerm, trajectory: &Trajectory, number: f64) -> Vec<f64> {
    let recorded = trajectory.recorded();
    let turns = recorded.turn_ends.len();
    let Advantage::Generalised(estimation) = term.advantage else { return vec![number; turns] };
    let mut rewards = recorded.turn_rewards.clone().unwrap_or_else(|| vec![0.0; turns]);
    if let Some(last) = rewards.last_mut() {
        *last += if recorded.turn_rewards.is_some() { -penalty(term, trajectory) } else { number };
    }
    estimation.of(&rewards, recorded.values.as_deref().unwrap_or_default())
}
