//! The progress of a demonstration, for a terminal, a log or a page.

use super::full::FullDemo;
use super::full_trial::Routing;
use super::harness::HarnessDemo;
use super::harness_curve::BUDGETS;
use super::router::RouterDemo;
use super::step::{DemoStep, FullStep, HarnessArm};
use super::weights::WeightsDemo;
use crate::Event;
use std::time::{Duration, Instant};

/// The share of an arm's time that its iterations take. The test at the end takes the rest.
const ARM_ITERATIONS: f64 = 0.9;
/// The share that the iterations of a small budget take.
const SMALL_ITERATIONS: f64 = 0.3;
/// Below this share there is no estimate of the time left, because it would vary too much.
const EARLIEST_ESTIMATE: f64 = 0.02;

/// The steps of a demonstration in order, each with its share of the time.
///
/// The shares were measured on two cores. They affect only the shown progress and the estimated time left.
#[derive(Debug, Clone, PartialEq)]
pub struct DemoOutline {
    shares: Vec<f64>,
}

impl DemoOutline {
    /// The steps of the harness demonstration: scouting, every arm, small budgets, and the ceiling.
    pub fn harness(_: &HarnessDemo) -> Self {
        let mut shares = vec![1.0];
        shares.extend(HarnessArm::ALL.map(|_| 20.0));
        let small = BUDGETS.into_iter().flat_map(|budget| HarnessArm::SMALL.map(|_| budget as f64 / 500.0 + 0.5));
        shares.extend(small);
        shares.push(1.0);
        Self { shares }
    }

    /// The steps of the weights demonstration. For each game: demonstrations, two measurements, rewards, two measurements; then one step
    /// of learning and two measurements for each of the two controls.
    pub fn weights(demo: &WeightsDemo) -> Self {
        let measured = [0.5, 0.5];
        let rewards = if demo.quick { 8.0 } else { 24.0 };
        let mut game = [vec![4.0], measured.to_vec(), vec![rewards], measured.to_vec()].concat();
        if !demo.quick {
            game.extend([vec![9.0], measured.to_vec(), vec![rewards], measured.to_vec()].concat());
        }
        Self { shares: game.repeat(2) }
    }

    /// The steps of the router demonstration: models alone, with escalation, and the regret of many decisions.
    pub fn router(_: &RouterDemo) -> Self {
        Self { shares: vec![2.0, 2.0, 5.0] }
    }

    /// The one step of the demonstration of live learning.
    pub fn live() -> Self {
        Self { shares: vec![1.0] }
    }

    /// The steps of the demonstration of all layers: practice, learning, another house's playbook, and each way of routing.
    pub fn full(_: &FullDemo) -> Self {
        let routing = Routing::ALL.map(|_| 1.0);
        Self { shares: [vec![60.0, 40.0, 5.0], routing.to_vec()].concat() }
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.shares.len()
    }

    /// The share that is done: all steps before this one (numbered from 0), and the share `within` of it.
    fn part(&self, step: usize, within: f64) -> f64 {
        let before: f64 = self.shares.iter().take(step).sum();
        let now = self.shares.get(step).copied().unwrap_or(0.0);
        let all: f64 = self.shares.iter().sum();
        if all > 0.0 { ((before + now * within) / all).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Follows a demonstration by its events.
#[derive(Debug)]
pub struct DemoProgress {
    outline: DemoOutline,
    began: Instant,
    /// Steps that have begun.
    begun: usize,
    step: Option<DemoStep>,
    /// The share of the step that is done, 0 to 1.
    within: f64,
    activity: Activity,
    /// Mean rewards of the latest learning step.
    curve: Vec<f64>,
}

/// The work inside a step.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Activity {
    /// No work was reported yet.
    #[default]
    Preparing,
    /// Iterations of learning.
    Iterations {
        /// The last completed iteration, from 1.
        done: u64,
        /// Number of iterations.
        of: u64,
    },
    /// Steps of demonstrations until the sampled reward reaches a target.
    Demonstrations {
        /// Steps so far.
        steps: u64,
        /// The target.
        target: f64,
    },
    /// Episodes without learning, or learning steps without episodes.
    Work {
        /// Number so far.
        done: u64,
        /// Number in total.
        of: u64,
    },
}

/// The progress at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DemoStatus<'a> {
    /// The current step. `None`: none has begun.
    pub step: Option<DemoStep>,
    /// The number of the step, from 1, and the number of steps.
    pub number: (usize, usize),
    /// The work in the step.
    pub activity: Activity,
    /// Mean rewards of the latest learning step, in order.
    pub curve: &'a [f64],
    /// The share of the demonstration that is done, 0 to 1.
    pub part: f64,
    /// Time since the beginning.
    pub elapsed: Duration,
    /// Estimated time until the end. `None`: too early for an estimate.
    pub left: Option<Duration>,
}

impl DemoProgress {
    /// The progress of a demonstration with these steps that begins now.
    pub fn new(outline: DemoOutline, now: Instant) -> Self {
        let (activity, curve) = (Activity::Preparing, Vec::new());
        Self { outline, began: now, begun: 0, step: None, within: 0.0, activity, curve }
    }

    /// Applies an event. Returns whether a new step begins.
    pub fn event(&mut self, event: &Event) -> bool {
        match event {
            Event::Demo(step) => {
                self.begin(*step);
                return true;
            }
            Event::Iteration { report, of } => {
                self.curve.extend(report.reward);
                let done = report.iteration as f64 / (*of).max(1) as f64;
                let share = match self.step {
                    Some(DemoStep::Arm { .. }) => ARM_ITERATIONS,
                    Some(DemoStep::Budget { .. }) => SMALL_ITERATIONS,
                    _ => 1.0,
                };
                self.advance(Activity::Iterations { done: report.iteration, of: *of }, done * share);
            }
            Event::WarmedUp { report, plan } => {
                let reward = report.looks.last().and_then(|(_, reward)| *reward);
                self.curve.extend(reward);
                let activity = Activity::Demonstrations { steps: report.steps, target: plan.target };
                let reached = reward.unwrap_or(0.0) / plan.target.max(f64::MIN_POSITIVE);
                self.advance(activity, reached.max(report.steps as f64 / plan.steps.max(1) as f64));
            }
            Event::Recorded { done, total, .. } if !self.is_learning() => self.work(*done, *total),
            Event::Progress { done, total } => self.work(*done, *total),
            _ => {}
        }
        false
    }

    fn begin(&mut self, step: DemoStep) {
        self.begun += 1;
        (self.step, self.within, self.activity) = (Some(step), 0.0, Activity::Preparing);
        // While a learned model is measured, the curve of its learning stays.
        if self.is_learning() || matches!(step, DemoStep::MoreDemonstrations { .. }) {
            self.curve.clear();
        }
    }

    /// Whether episodes of this step belong to iterations.
    fn is_learning(&self) -> bool {
        let learns = |step: &DemoStep| match step {
            DemoStep::Arm { .. } | DemoStep::Budget { .. } | DemoStep::Learning { .. } => true,
            DemoStep::Full(step) => matches!(step, FullStep::Practice | FullStep::Learning),
            _ => false,
        };
        self.step.as_ref().is_some_and(learns)
    }

    fn work(&mut self, done: u64, of: u64) {
        self.advance(Activity::Work { done, of }, done as f64 / of.max(1) as f64);
    }

    fn advance(&mut self, activity: Activity, within: f64) {
        self.activity = activity;
        if within.is_finite() {
            self.within = within.clamp(self.within, 1.0);
        }
    }

    /// The current status.
    pub fn status(&self, now: Instant) -> DemoStatus<'_> {
        let elapsed = now.saturating_duration_since(self.began);
        let part = match self.begun.checked_sub(1) {
            Some(step) => self.outline.part(step, self.within),
            None => 0.0,
        };
        let left = (part >= EARLIEST_ESTIMATE).then(|| elapsed.mul_f64((1.0 - part) / part));
        let number = (self.begun, self.outline.steps());
        DemoStatus { step: self.step, number, activity: self.activity, curve: &self.curve, part, elapsed, left }
    }
}

#[cfg(test)]
mod tests {
    use super::super::game::Game;
    use super::super::step::{Measurement, Teacher};
    use super::*;
    use clawhost_core::{Digest, Usage};
    use clawhost_learning::{IterationReport, WarmStart, WarmStartReport};

    fn iteration(iteration: u64, reward: Option<f64>, of: u64) -> Event {
        let report = IterationReport {
            iteration,
            reward,
            parts: Vec::new(),
            episodes: 1,
            removed: 0,
            revised: 0,
            learned: Ok(()),
            layers: Vec::new(),
            state: Digest::of(b""),
            usage: Usage::default(),
        };
        Event::Iteration { report: Box::new(report), of }
    }

    fn outline(shares: &[f64]) -> DemoOutline {
        DemoOutline { shares: shares.to_vec() }
    }

    const LEARNING: DemoStep = DemoStep::Learning { game: "guess", teacher: Teacher::Rewards };
    const MEASURING: DemoStep = DemoStep::Measuring { game: "guess", measurement: Measurement::After, sampled: true };

    #[test]
    fn the_time_left_follows_from_the_shares_of_the_steps() {
        let began = Instant::now();
        let mut progress = DemoProgress::new(outline(&[3.0, 1.0]), began);
        let at = |progress: &DemoProgress, seconds| {
            let status = progress.status(began + Duration::from_secs(seconds));
            (status.part, status.left.map(|left| left.as_secs()))
        };
        assert_eq!(at(&progress, 5), (0.0, None), "no step has begun");
        assert!(progress.event(&Event::Demo(LEARNING)));
        assert_eq!(at(&progress, 5), (0.0, None));
        assert!(!progress.event(&iteration(1, Some(0.5), 2)));
        assert_eq!(at(&progress, 30), (0.375, Some(50)));
        progress.event(&iteration(2, Some(0.5), 2));
        progress.event(&Event::Demo(MEASURING));
        assert_eq!(at(&progress, 60), (0.75, Some(20)));
        progress.event(&Event::Progress { done: 5, total: 10 });
        assert_eq!(at(&progress, 70), (0.875, Some(10)));
        progress.event(&Event::Progress { done: 10, total: 10 });
        assert_eq!(at(&progress, 80), (1.0, Some(0)));
        progress.event(&Event::Demo(MEASURING));
        assert_eq!(at(&progress, 80), (1.0, Some(0)), "a step that is not in the outline adds nothing");
    }

    #[test]
    fn the_curve_of_the_latest_learning_step_stays_during_measurements() {
        let now = Instant::now();
        let mut progress = DemoProgress::new(outline(&[1.0; 4]), now);
        progress.event(&Event::Demo(LEARNING));
        for (number, reward) in [(1, Some(0.1)), (2, None), (3, Some(0.3))] {
            progress.event(&iteration(number, reward, 3));
        }
        progress.event(&Event::Demo(MEASURING));
        assert_eq!(progress.status(now).curve, [0.1, 0.3]);
        progress.event(&Event::Demo(LEARNING));
        assert!(progress.status(now).curve.is_empty());
    }

    #[test]
    fn progress_of_demonstrations_is_the_share_of_the_target_reward_and_never_falls() {
        let now = Instant::now();
        let mut progress = DemoProgress::new(outline(&[1.0]), now);
        progress.event(&Event::Demo(LEARNING));
        let plan = WarmStart { target: 0.5, ..Game::guess().warm_start() };
        for (reward, part) in [(Some(0.25), 0.5), (Some(0.2), 0.5), (None, 0.5), (Some(0.6), 1.0)] {
            let report = WarmStartReport { looks: vec![(10, reward)], steps: 10, ..WarmStartReport::default() };
            progress.event(&Event::WarmedUp { report: Box::new(report), plan: Box::new(plan.clone()) });
            assert_eq!(progress.status(now).part, part);
            assert_eq!(progress.status(now).activity, Activity::Demonstrations { steps: 10, target: 0.5 });
        }
    }
}
