//! The learning loop inside a Rust program, without command line, plugins and database. The meaning of the lights must be learned.
#![allow(clippy::print_stdout, reason = "a program of its own")]

use async_trait::async_trait;
use clawhost_core::*;
use clawhost_learning::{LearnPlan, LearnPorts, LearnStart, LearningError, ReflectorFunction, learn};
use clawhost_play::{Cancel, ChatPolicy, RewardFunction};

const MEANING: [(&str, &str); 3] = [("red", "stop"), ("green", "go"), ("amber", "wait")];

struct Crossing(PluginIdentity, EnvironmentDescription);
struct Light(&'static str);

#[async_trait]
impl Environment for Crossing {
    fn identity(&self) -> &PluginIdentity {
        &self.0
    }
    fn description(&self) -> &EnvironmentDescription {
        &self.1
    }
    async fn tasks(&self, _: &Context, split: &str, offset: u64, limit: u32) -> Result<Vec<Task>, Failure> {
        let end = offset.saturating_add(limit.into()).min(300);
        Ok((offset..end).map(|n| Task::new(split, format!("{split}-{n}"))).collect())
    }
    async fn start(&self, params: StartParams) -> Result<(Box<dyn LiveEpisode>, Opening), Failure> {
        let (light, right) = MEANING.into_iter().cycle().nth((params.context.seed % 3) as usize).unwrap_or_default();
        Ok((Box::new(Light(right)), Opening::text(format!("light: {light}\nWhat do you do?"))))
    }
}

#[async_trait]
impl LiveEpisode for Light {
    async fn step(&mut self, action: &Message, _: &[Message]) -> Result<StepResult, Failure> {
        Ok(StepResult::over(if action.plain_text() == self.0 { "safe" } else { "a horn" }))
    }
}

#[tokio::main]
async fn main() -> Result<(), LearningError> {
    let about = EnvironmentDescription::new("crossing", &[("train", 300), ("val", 300), ("test", 300)]);
    let crossing = Crossing(PluginIdentity::native("crossing"), about);
    let safe = RewardFunction::new("safe", |episode| {
        Some(f64::from(u8::from(episode.closing.iter().any(|message| message.plain_text() == "safe"))))
    });
    let guesses = ReflectorFunction::new("guesses", |_| {
        let actions = |light| MEANING.map(|(_, action)| format!("when light is {light}: answer {action}"));
        MEANING.iter().flat_map(|(light, _)| actions(light)).collect()
    });
    let policy = ChatPolicy::new(std::sync::Arc::new(clawhost_follower::Follower), None, Sampling::default());
    let ports = LearnPorts::in_memory(crossing, safe, policy, guesses);
    let (run, plan, start) = (RunId("crossing".into()), LearnPlan::new(20, 1), LearnStart::New(SpecDocument::none()));
    let report = learn(run, plan, ports, start, &Cancel::default(), &()).await?;
    println!("{}: {:?}", report.outcome.words(), report.evaluation.as_ref().and_then(|evaluation| evaluation.lift));
    let entries = report.harness().into_iter().flat_map(|harness| &harness.entries);
    let kept = entries.filter(|entry| entry.status == "deployed");
    kept.for_each(|entry| println!("  {}", entry.lesson));
    Ok(())
}
