//! Steps of a demo in words, in front of the progress of what is played.

use crate::terminal::Progress;
use clawhost_app::demo::{DemoStep, HarnessArm, Teacher};
use clawhost_app::{Event, EventSink};

/// Shows steps, and all other events as any command does.
pub(super) struct Steps<'a>(pub(super) &'a Progress);

/// What an arm is, and what it is for.
fn arm_words(arm: HarnessArm) -> (&'static str, &'static str) {
    match arm {
        HarnessArm::Full => ("reflector, credit and gate", "what is to be proved"),
        HarnessArm::SilentReflector => ("a silent reflector", "so that nothing is learned"),
        HarnessArm::ShuffledProposals => ("shuffled proposals", "whose lessons say the wrong thing"),
        HarnessArm::EverythingAdmitted => ("everything admitted", "so that nothing is measured"),
    }
}

fn teacher_words(teacher: Teacher) -> &'static str {
    match teacher {
        Teacher::Demonstrations => "demonstrations",
        Teacher::Rewards => "rewards",
        Teacher::ShuffledRewards => "shuffled rewards",
    }
}

impl Steps<'_> {
    fn step(&self, step: DemoStep) {
        let Self(progress) = self;
        match step {
            DemoStep::Scouting { episodes } => {
                progress
                    .mention(&format!("first: {episodes} episodes without a playbook, to make a harmful lesson of"));
            }
            DemoStep::Arm { number, of, arm } => {
                let (place, (name, purpose)) = (format!("arm {number} of {of}"), arm_words(arm));
                progress.mention(&format!("{place}: {name}, {purpose}"));
                progress.within(&place);
            }
            DemoStep::Ceiling => {
                progress.mention("last: the test tasks for who is told every rule, as the ceiling");
            }
            DemoStep::Learning { game, teacher } => progress.within(&format!("{game}, {}", teacher_words(teacher))),
            DemoStep::MoreDemonstrations { game, steps } => {
                progress.mention(&format!("{game}: {steps} more steps of demonstrations, as a control"));
            }
            DemoStep::Measuring { game, measurement, sampled } => {
                let kind = if sampled { "sampled" } else { "greedy" };
                progress.mention(&format!("{game}: {}-{kind}", measurement.words()));
            }
        }
    }
}

impl EventSink for Steps<'_> {
    fn event(&self, event: Event) {
        match event {
            Event::Demo(step) => self.step(step),
            other => self.0.event(other),
        }
    }
}
