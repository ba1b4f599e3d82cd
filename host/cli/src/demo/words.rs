//! Texts for the steps of a demo and their progress.

use clawhost_app::demo::{Activity, DemoStatus, DemoStep, FullStep, HarnessArm, Measurement, RouterTrial, Teacher};
use clawhost_core::{counted, thousands};
use std::time::Duration;

/// An arm and its purpose.
fn arm_words(arm: HarnessArm) -> &'static str {
    match arm {
        HarnessArm::Full => "reflector, credit and gate, which is to be proved",
        HarnessArm::SilentReflector => "a silent reflector, so that nothing is learned",
        HarnessArm::ShuffledProposals => "shuffled proposals, whose lessons say the wrong thing",
        HarnessArm::EverythingAdmitted => "everything admitted, so that nothing is measured",
    }
}

/// Describes a step.
pub(super) fn step_words(step: DemoStep) -> String {
    match step {
        DemoStep::Scouting { episodes } => {
            format!("{} without a playbook, to make a harmful lesson from", counted(episodes, "episode"))
        }
        DemoStep::Budget { budget, arm } => format!("with {} only: {}", counted(budget, "episode"), arm_words(arm)),
        DemoStep::Arm { number, of, arm } => format!("arm {number} of {of}: {}", arm_words(arm)),
        DemoStep::Ceiling => "the test tasks for a policy that is told every rule, as the ceiling".to_owned(),
        DemoStep::Crowds => "crowds talk to four gateways, of which one learns".to_owned(),
        DemoStep::Learning { game, teacher } => {
            let teacher = match teacher {
                Teacher::Demonstrations => "demonstrations",
                Teacher::Rewards => "rewards",
                Teacher::ShuffledRewards => "shuffled rewards, as a control",
            };
            format!("{game}: learning from {teacher}")
        }
        DemoStep::MoreDemonstrations { game, .. } => format!("{game}: more demonstrations instead, as a control"),
        DemoStep::Measuring { game, measurement, sampled } => {
            let after = match measurement {
                Measurement::Before => "demonstrations",
                Measurement::After => "rewards",
                Measurement::MoreDemonstrations => "more demonstrations",
                Measurement::ShuffledRewards => "shuffled rewards",
            };
            let kind = if sampled { "sampled" } else { "likeliest" };
            format!("{game}: test tasks after {after}, {kind} answers")
        }
        DemoStep::Routing { trial } => match trial {
            RouterTrial::Models => "routers between two models".to_owned(),
            RouterTrial::Escalation => "routers that may escalate".to_owned(),
            RouterTrial::Regret => "the regret of many decisions".to_owned(),
        },
        DemoStep::Full(step) => match step {
            FullStep::Practice => "practice in other houses".to_owned(),
            FullStep::Learning => "playbook, weights and router learn in one run".to_owned(),
            FullStep::Foreign => "the playbook of another house, as a control".to_owned(),
            FullStep::Routing(routing) => format!("test tasks with this routing: {}", routing.words()),
        },
    }
}

/// Describes the work inside a step. `None`: not known yet.
pub(super) fn work_words(status: &DemoStatus<'_>) -> Option<String> {
    match status.activity {
        Activity::Preparing => None,
        Activity::Iterations { done, of } => Some(format!("iteration {done} of {of}")),
        Activity::Demonstrations { steps, target } => {
            Some(format!("{} of demonstrations, until reward {target:.2}", counted(steps, "step")))
        }
        Activity::Work { done, of } => {
            let noun = match status.step {
                Some(DemoStep::MoreDemonstrations { .. }) => "step",
                Some(DemoStep::Routing { .. }) => "world",
                Some(DemoStep::Crowds) => "round",
                _ => "episode",
            };
            Some(format!("{} of {}", thousands(done), counted(of, noun)))
        }
    }
}

/// The estimated time left, if there is an estimate.
pub(super) fn left(status: &DemoStatus<'_>) -> Option<String> {
    let left = Duration::from_secs(status.left?.as_secs());
    Some(format!("about {} left", humantime::format_duration(left)))
}

/// The whole status in one line, for a log.
pub(super) fn status_line(status: &DemoStatus<'_>) -> String {
    let is_learning = matches!(status.activity, Activity::Iterations { .. } | Activity::Demonstrations { .. });
    let reward = status.curve.last().filter(|_| is_learning).map(|reward| format!("reward {reward:.3}"));
    let parts = [status.step.map(step_words), work_words(status), reward, left(status)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{:>3.0} %  {}", status.part * 100.0, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_has_the_share_step_work_reward_and_time_left() {
        let check = |step, activity, curve: &[f64], left: Option<u64>, expect: &str| {
            let left = left.map(Duration::from_secs);
            let elapsed = Duration::from_secs(9);
            let status = DemoStatus { step: Some(step), number: (1, 2), activity, curve, part: 0.254, elapsed, left };
            assert_eq!(status_line(&status), expect);
        };
        check(
            DemoStep::Learning { game: "guess", teacher: Teacher::Rewards },
            Activity::Iterations { done: 3, of: 180 },
            &[0.5, 0.25],
            Some(125),
            " 25 %  guess: learning from rewards, iteration 3 of 180, reward 0.250, about 2m 5s left",
        );
        check(
            DemoStep::Learning { game: "guess", teacher: Teacher::Demonstrations },
            Activity::Demonstrations { steps: 1, target: 0.45 },
            &[],
            None,
            " 25 %  guess: learning from demonstrations, 1 step of demonstrations, until reward 0.45",
        );
        check(
            DemoStep::MoreDemonstrations { game: "guess", steps: 1200 },
            Activity::Work { done: 1100, of: 1200 },
            &[],
            Some(1),
            " 25 %  guess: more demonstrations instead, as a control, 1,100 of 1,200 steps, about 1s left",
        );
        check(
            DemoStep::Measuring { game: "guess", measurement: Measurement::Before, sampled: false },
            Activity::Work { done: 7, of: 400 },
            &[0.4],
            None,
            " 25 %  guess: test tasks after demonstrations, likeliest answers, 7 of 400 episodes",
        );
        check(
            DemoStep::Budget { budget: 150, arm: HarnessArm::SilentReflector },
            Activity::Preparing,
            &[],
            None,
            " 25 %  with 150 episodes only: a silent reflector, so that nothing is learned",
        );
        check(
            DemoStep::Routing { trial: RouterTrial::Escalation },
            Activity::Work { done: 3, of: 10 },
            &[],
            None,
            " 25 %  routers that may escalate, 3 of 10 worlds",
        );
        check(
            DemoStep::Scouting { episodes: 64 },
            Activity::Preparing,
            &[],
            None,
            " 25 %  64 episodes without a playbook, to make a harmful lesson from",
        );
    }
}
