//! Experience: the trajectories of an iteration with their advantages.
//!
//! Advantages compare whole groups, so they are computed here, once, before the experience is divided into optimiser steps.
//! Trajectories without a gradient are left out and counted.

use super::advantage::{Advantage, GroupAdvantages, Truncation, group_advantages, mean, standard_deviation, varies};
use super::credit::{Credit, MemberTurns, judged_advantages, turn_advantages};
use super::loss::PolicyStep;
use super::objective::{PolicyGradient, RewardTerm};
use super::sample::{Trajectory, TrajectoryGroup};
use super::single::{Single, single_advantages};
use crate::{LearnError, Measurements, Metric};
use std::iter::repeat;

/// Times that groups without variance are replaced before an iteration is trained on what there is (dynamic sampling, DAPO:
/// Yu et al. 2025). Late in training about a third of the groups has no variance.
pub const REFILLS: u32 = 3;

/// A trajectory with its advantages.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    trajectory: Trajectory,
    group: usize,
    member: usize,
    /// One per token.
    advantages: Vec<f64>,
}

impl Trained {
    /// The recorded columns.
    pub fn trajectory(&self) -> &Trajectory {
        &self.trajectory
    }

    /// Index of its group in the input.
    pub fn group(&self) -> usize {
        self.group
    }

    /// Index of the trajectory in its group.
    pub fn member(&self) -> usize {
        self.member
    }

    /// Reward advantage of each token, before weighting.
    pub fn advantages(&self) -> &[f64] {
        &self.advantages
    }
}

/// Statistics of an iteration's trajectories, and what was left out of training.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExperienceReport {
    /// Groups in the input.
    pub groups: u64,
    /// Tasks of groups of two or more members with equal rewards. They are left out, unless the objective has a teacher. The
    /// caller may replace them, at most [`REFILLS`] times.
    pub zero_variance: Vec<String>,
    /// Groups with fewer than two scored members. Left out: they have no baseline.
    pub too_small: u64,
    /// Trajectories without a reward: failed or not scored. Left out.
    pub failed: u64,
    /// Truncated trajectories that were left out.
    pub truncated: u64,
    /// Trajectories without a trained token. Left out.
    pub untrained: u64,
    /// Rewards before penalties.
    rewards: Vec<f64>,
    lengths: Vec<f64>,
    cut_off: u64,
    comparable: u64,
}

impl ExperienceReport {
    /// The statistics as metrics. Means and shares are over all trajectories (of rewards: all scored ones), including those
    /// left out; `zero_variance_share` is over groups of two or more. Lengths are trained tokens.
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

    /// Groups that can have variance: those with two or more scored members.
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
    /// Computes the advantages.
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`]: invalid settings, or turns are credited by a judge and none was judged.
    /// [`LearnError::Sequence`]: a trajectory lacks a column that the objective needs: the reference, the teacher, its most likely
    /// tokens, or, for a version lag above 0, the trainer's log-probs.
    pub fn new(objective: PolicyGradient, groups: Vec<TrajectoryGroup>) -> Result<Self, LearnError> {
        objective.check()?;
        let mut experience = Self { objective, trained: Vec::new(), report: ExperienceReport::default() };
        let mut members = groups.iter().flat_map(|group| &group.members).peekable();
        let is_judged = matches!(objective.credit, Credit::Judge(_)) && objective.reward.is_some();
        if is_judged && members.peek().is_some() && members.all(|member| member.recorded().turn_rewards.is_none()) {
            let why =
                "no reward scored the turns of any episode, and turns are credited with what a judge says of them";
            return Err(LearnError::Objective(why.to_owned()));
        }
        groups.iter().flat_map(|group| &group.members).try_for_each(|member| experience.check(member))?;
        match objective.reward {
            Some(term) if term.advantage == Advantage::Single => experience.take_singles(&term, groups),
            _ => (0..).zip(groups).for_each(|(number, group)| experience.take(number, group)),
        }
        Ok(experience)
    }

    /// One optimiser step over some of the trajectories, by their indices in [`Self::trained`].
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`]: an index is out of range or repeated, or the step has no trained token.
    pub fn step(&self, sequences: &[usize]) -> Result<PolicyStep<'_>, LearnError> {
        PolicyStep::new(self.objective, &self.trained, sequences)
    }

    /// One optimiser step over all trajectories.
    ///
    /// # Errors
    ///
    /// [`LearnError::Objective`]: there is no trained token.
    pub fn whole(&self) -> Result<PolicyStep<'_>, LearnError> {
        self.step(&(0..self.trained.len()).collect::<Vec<usize>>())
    }

    /// The trajectories to train on, in the order of groups and members.
    pub fn trained(&self) -> &[Trained] {
        &self.trained
    }

    /// Statistics of the input, and what was left out.
    pub fn report(&self) -> &ExperienceReport {
        &self.report
    }

    fn check(&self, member: &Trajectory) -> Result<(), LearnError> {
        let recorded = member.recorded();
        let refuse = |what: String| Err(LearnError::Sequence { sequence: recorded.sequence.clone(), what });
        if self.objective.kl > 0.0 && recorded.reference.is_none() {
            return refuse(
                "has no reference log-probs, but kl is greater than 0: compute them with the adapter off".into(),
            );
        }
        // Of single trajectories, a teacher may have something to say of some alone: those with a correction.
        if self.objective.distillation.is_some() && recorded.teacher.is_none() && !self.has_singles() {
            return refuse("has no teacher log-probs, but the objective has a teacher".into());
        }
        let is_taught = recorded.teacher.is_some() || !self.has_singles();
        if self.objective.distillation.is_some_and(|rule| rule.top > 0) && is_taught && recorded.likely.is_empty() {
            return refuse("has no most likely tokens of the teacher, but the objective compares them".into());
        }
        if recorded.version_lag > 0 && self.objective.truncated_importance.is_none() {
            let lag = recorded.version_lag;
            return refuse(format!(
                "has a version lag of {lag}: enable truncated importance sampling (cap 2), or drop it"
            ));
        }
        if recorded.version_lag > 0 && recorded.trainer.is_none() {
            let lag = recorded.version_lag;
            return refuse(format!(
                "has a version lag of {lag} and no trainer log-probs: compute them for its importance weight"
            ));
        }
        Ok(())
    }

    /// Whether trajectories are compared over the whole batch.
    fn has_singles(&self) -> bool {
        self.objective.reward.is_some_and(|term| term.advantage == Advantage::Single)
    }

    fn note(&mut self, group: &TrajectoryGroup) {
        self.report.groups += 1;
        for member in &group.members {
            self.report.lengths.push(member.trained_tokens() as f64);
            self.report.cut_off += u64::from(member.recorded().truncated);
            self.report.rewards.extend(member.recorded().reward);
        }
    }

    /// Takes trajectories that were played once, each compared with the others of its class. One without a reward is trained on if a teacher
    /// has something to say of it.
    fn take_singles(&mut self, term: &RewardTerm, groups: Vec<TrajectoryGroup>) {
        let teaches = self.objective.distillation.is_some();
        let is_taught = |trajectory: &Trajectory| teaches && trajectory.recorded().teacher.is_some();
        let (mut rewarded, mut singles) = (Vec::new(), Vec::new());
        let mut taught = Vec::new();
        for (number, group) in groups.into_iter().enumerate() {
            self.note(&group);
            for (member, trajectory) in group.members.into_iter().enumerate() {
                let recorded = trajectory.recorded();
                match recorded.reward {
                    Some(_) if recorded.truncated && term.truncation == Truncation::Mask => self.report.truncated += 1,
                    Some(reward) => {
                        singles.push((group.task.clone(), reward - penalty(term, &trajectory)));
                        rewarded.push((number, member, trajectory));
                    }
                    None if is_taught(&trajectory) => taught.push((number, member, trajectory)),
                    None => self.report.failed += 1,
                }
            }
        }
        let batch: Vec<Single<'_>> = singles.iter().map(|(class, reward)| Single { class, reward: *reward }).collect();
        let advantages = match single_advantages(&batch) {
            GroupAdvantages::Advantages(advantages) => {
                self.report.comparable += 1;
                advantages
            }
            none => {
                match none {
                    GroupAdvantages::TooFew => self.report.too_small += 1,
                    _ => {
                        self.report.comparable += 1;
                        self.report.zero_variance.extend(singles.first().map(|(class, _)| class.clone()));
                    }
                }
                // Without a difference of rewards, only a teacher gives a gradient.
                rewarded.retain(|(_, _, trajectory)| is_taught(trajectory));
                vec![0.0; rewarded.len()]
            }
        };
        let without = taught.into_iter().map(|one| (one, 0.0));
        for ((group, member, trajectory), advantage) in rewarded.into_iter().zip(advantages).chain(without) {
            let advantages = vec![advantage; trajectory.recorded().rollout.len()];
            self.keep(Trained { trajectory, group, member, advantages });
        }
        self.trained.sort_by_key(|trained| (trained.group, trained.member));
    }

    fn take(&mut self, number: usize, group: TrajectoryGroup) {
        self.note(&group);
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
        let by_turn = self.by_turn(&term, &scored);
        let advantages = match group_advantages(term.advantage, &rewards) {
            GroupAdvantages::Advantages(advantages) => advantages,
            // Equal episodes may still have turns that differ.
            _ if by_turn.iter().flatten().any(|advantage| *advantage != 0.0) => vec![0.0; scored.len()],
            // Without variance the reward advantages are 0; the teacher still gives a gradient.
            _ if self.objective.distillation.is_some() => vec![0.0; scored.len()],
            _ => return,
        };
        let by_turn = by_turn.into_iter().chain(repeat(Vec::new()));
        for (((member, _, trajectory), advantage), by_turn) in scored.into_iter().zip(advantages).zip(by_turn) {
            let mut advantages = trajectory.over_tokens(&by_turn);
            advantages.iter_mut().for_each(|token| *token += advantage);
            self.keep(Trained { trajectory, group: number, member, advantages });
        }
    }

    /// The advantages of turns. Empty: tokens are credited with their episode.
    fn by_turn(&self, term: &RewardTerm, scored: &[(usize, f64, Trajectory)]) -> Vec<Vec<f64>> {
        let members: Vec<MemberTurns<'_>> = scored
            .iter()
            .map(|(_, reward, trajectory)| {
                let recorded = trajectory.recorded();
                MemberTurns { states: &recorded.states, rewards: recorded.turn_rewards.as_deref(), reward: *reward }
            })
            .collect();
        match self.objective.credit {
            Credit::Episode => Vec::new(),
            Credit::Turn(settings) => turn_advantages(settings, term.advantage, &members),
            Credit::Judge(settings) => judged_advantages(settings, term.advantage, &members),
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
