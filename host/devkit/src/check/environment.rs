//! Checks of an environment.

use super::report::Checked;
use super::{Checking, Results, hostile, schemas};
use crate::TURNS;
use crate::oracle::OpenOracle;
use clawhost_app::SystemClock;
use clawhost_core::{
    Attributes, Context, Digest, Ending, Environment, Episode, FailureKind, Message, Opening, Origin, Role, Sampling,
    StartParams, Task, ToolSpec,
};
use clawhost_engine::EnvironmentPlugin;
use clawhost_follower::RandomPlayer;
use clawhost_play::{Alone, Cancel, ChatPolicy, ReplayOutcome, ScoringRule, fetch_tasks, play_alone, replay_episode};
use clawhost_providers::Scripted;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Tasks that the oracle and the agent that does nothing play, at least where the split has as many.
const PLAYED_TASKS: u64 = 100;
/// Tasks of each split that are compared.
const COMPARED_TASKS: u64 = 512;
/// Tasks that are asked for alone: they are the first of the split, however many are asked for.
const FEW_TASKS: u64 = 7;
/// Episodes that are played twice, and replayed.
const TWICE: u64 = 12;
/// Seeds of which one at least must give another task or another episode.
const OTHER_SEEDS: u64 = 8;
/// A split with so many different tasks need not depend on the seed.
const DIFFERENT_TASKS: u64 = 16;
/// Turns for which a hostile agent goes on after its answer, so that a state that it broke is noticed.
const TURNS_AFTER: u32 = 3;
/// Digits to which a mean is compared with what was promised.
const ROUNDING: f64 = 1e-9;

/// An environment that is checked, with what plays in it.
struct Checks<'a> {
    checking: &'a Checking<'a>,
    environment: &'a EnvironmentPlugin,
    rules: &'a [ScoringRule],
    options: Attributes,
    split: String,
    tasks: Vec<Task>,
    max_turns: u32,
}

/// All checks of an environment.
pub(super) async fn checks(
    checking: &Checking<'_>,
    results: &mut Results<'_>,
    environment: &EnvironmentPlugin,
    rules: &[ScoringRule],
    options: Attributes,
) {
    results.push(published(checking, environment, &options).await);
    let splits = &environment.description().splits;
    let (wanted, turns) = match checking.manifest {
        Some(manifest) => (manifest.tasks.split.clone(), manifest.tasks.max_turns),
        None => (None, None),
    };
    let split = match clawhost_play::split_of(&environment.identity().name, splits, wanted.as_deref()) {
        Ok(split) => split,
        Err(error) => return results.push(Checked::failed("tasks", error.to_string(), "publish tasks of a split")),
    };
    let context = Context { seed: checking.seed, options: options.clone() };
    let tasks = match fetch_tasks(environment, &context, &split, PLAYED_TASKS).await {
        Ok(tasks) => tasks.iter().map(|(task, _)| (**task).clone()).collect(),
        Err(error) => return results.push(Checked::failed("tasks", error.to_string(), "publish tasks of the split")),
    };
    let max_turns = turns.unwrap_or(TURNS);
    let checks = Checks { checking, environment, rules, options, split, tasks, max_turns };
    results.push(checks.tools().await);
    results.push(checks.determinism().await);
    results.push(checks.other_seeds().await);
    results.push(checks.replay().await);
    results.push(checks.hostile().await);
    results.push(checks.oracle().await);
    results.push(checks.floor().await);
    results.push(checks.cost().await);
}

/// Splits are published as described, and no task is in two of them.
async fn published(checking: &Checking<'_>, environment: &EnvironmentPlugin, options: &Attributes) -> Checked {
    const CHECK: &str = "splits";
    let context = Context { seed: checking.seed, options: options.clone() };
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    let mut contents: BTreeMap<Digest, (String, String)> = BTreeMap::new();
    let mut count = 0u64;
    for split in &environment.description().splits {
        let tasks = match fetch_tasks(environment, &context, &split.name, COMPARED_TASKS).await {
            Ok(tasks) => tasks,
            // An empty split has no task that could be in two.
            Err(clawhost_play::PlayError::NoTasks { .. }) => continue,
            Err(error) => return Checked::failed(CHECK, error.to_string(), "publish tasks of every split"),
        };
        let again = fetch_tasks(environment, &context, &split.name, COMPARED_TASKS).await;
        let is_equal = again
            .is_ok_and(|again| again.iter().map(|(_, digest)| *digest).eq(tasks.iter().map(|(_, digest)| *digest)));
        let few = fetch_tasks(environment, &context, &split.name, FEW_TASKS).await;
        let is_equal =
            is_equal && few.is_ok_and(|few| few.iter().zip(tasks.iter()).all(|((_, one), (_, other))| one == other));
        if let Some((task, _)) = tasks.first() {
            let params = StartParams {
                task: task.without_reference(),
                context: context.clone(),
                max_turns: TURNS,
                answers: clawhost_core::ModelCallSource::Live,
            };
            if let Err(failure) = environment.start(params).await {
                let says = format!("split {}: its first task does not begin: {failure}", split.name);
                return Checked::failed(CHECK, says, "begin an episode of every published task");
            }
        }
        if !is_equal {
            let says = format!("split {}: equal contexts gave other tasks", split.name);
            return Checked::failed(CHECK, says, "draw tasks from the context's seed alone");
        }
        for (task, _) in tasks.iter() {
            count = count.saturating_add(1);
            if let Some(other) = ids.insert(task.id.clone(), split.name.clone()) {
                let says = format!("task {} is in split {other} and in split {}", shown(&task.id), split.name);
                return Checked::failed(CHECK, says, "give every task an id of its own");
            }
            // Tasks without a text differ by their ids, from which the environment draws them.
            if task.input.is_empty() {
                continue;
            }
            let content = Digest::of_json(&serde_json::json!([task.input, task.reference, task.extra]));
            if let Some((other, of)) = contents.insert(content, (task.id.clone(), split.name.clone()))
                && of != split.name
            {
                let says = format!(
                    "task {other} of split {of} and task {} of split {} are the same",
                    shown(&task.id),
                    split.name
                );
                return Checked::failed(
                    CHECK,
                    says,
                    "give every task to one split: what is tested must not be trained on",
                );
            }
        }
    }
    let splits = environment.description().splits.len();
    Checked::passed(CHECK, format!("{count} tasks of {splits} splits compared: each in one split, equal each time"))
        .with([("tasks", count as f64), ("splits", splits as f64)])
}

fn shown(text: &str) -> String {
    clawhost_core::escaped(text, 100)
}

/// A mean reward.
struct Mean {
    mean: f64,
    /// Episodes with a reward.
    scored: usize,
    /// Why others have none, failures included.
    unscored: Vec<String>,
    /// Why episodes or verdicts failed.
    failed: Vec<String>,
}

impl Checks<'_> {
    fn alone(&self, task: &Task, seed: u64) -> Alone {
        Alone {
            task: task.clone(),
            seed,
            policy_seed: None,
            options: self.options.clone(),
            max_turns: self.max_turns,
            episode_bytes: self.checking.bench.limits().episode_bytes,
        }
    }

    /// The seed of an episode.
    fn seed(&self, position: u64) -> u64 {
        clawhost_core::derive_seed(self.checking.seed, "check", position)
    }

    async fn play(&self, policy: &ChatPolicy, rules: &[ScoringRule], alone: Alone) -> Arc<Episode> {
        play_alone(self.environment, policy, rules, alone, (&SystemClock::default(), &Cancel::default())).await
    }

    /// Task and seed of the position-th episode.
    fn at(&self, position: u64) -> Option<(&Task, u64)> {
        let count = self.tasks.len() as u64;
        let index = usize::try_from(position.checked_rem(count)?).ok()?;
        Some((self.tasks.get(index)?, self.seed(position)))
    }

    async fn opening(&self, task: &Task, seed: u64) -> Result<Opening, clawhost_core::Failure> {
        let params = StartParams {
            task: task.without_reference(),
            context: Context { seed, options: self.options.clone() },
            max_turns: self.max_turns,
            answers: clawhost_core::ModelCallSource::Live,
        };
        self.environment.start(params).await.map(|(_, opening)| opening)
    }

    async fn tools(&self) -> Checked {
        const CHECK: &str = "tools";
        let mut seen: Vec<ToolSpec> = Vec::new();
        for position in 0..TWICE {
            let Some((task, seed)) = self.at(position) else { continue };
            match self.opening(task, seed).await {
                Ok(opening) => {
                    seen.extend(opening.tools.into_iter().filter(|tool| !seen.contains(tool)).collect::<Vec<_>>())
                }
                Err(failure) => {
                    let says = format!("task {} does not begin: {failure}", shown(&task.id));
                    return Checked::failed(CHECK, says, "see the report of the failure");
                }
            }
        }
        if seen.is_empty() {
            return Checked::skipped(
                CHECK,
                "there are no tools",
                "offer tools in the opening, if agents should have some",
            );
        }
        // The tools of another task may be others with the same name.
        let mut names = BTreeSet::new();
        let first: Vec<ToolSpec> = seen.iter().filter(|tool| names.insert(tool.name.clone())).cloned().collect();
        match schemas::problems(&first).as_slice() {
            [] => Checked::passed(CHECK, format!("{} tools can be offered to models", first.len()))
                .with([("tools", first.len() as f64)]),
            problems => Checked::failed(CHECK, problems.join("; "), "correct the tools that the opening offers"),
        }
    }

    fn random(&self) -> ChatPolicy {
        ChatPolicy::new(Arc::new(RandomPlayer), None, Sampling::default())
    }

    /// What an episode shows, as bytes.
    fn bytes(episode: &Episode) -> Digest {
        let turns: Vec<_> = episode
            .turns
            .iter()
            .map(|turn| {
                serde_json::json!([
                    turn.observation,
                    turn.action,
                    turn.tool_results,
                    turn.signals,
                    turn.fuel,
                    turn.host_calls
                ])
            })
            .collect();
        let ending = episode.ending.to_string();
        Digest::of_json(&serde_json::json!([turns, episode.closing, episode.artefacts, ending, episode.log]))
    }

    async fn determinism(&self) -> Checked {
        const CHECK: &str = "determinism";
        let is_promised = self.checking.expected().is_none_or(|expected| expected.deterministic != Some(false));
        if !is_promised {
            return Checked::skipped(CHECK, "not promised", "say deterministic = true in [expect]");
        }
        for position in 0..TWICE {
            let Some((task, seed)) = self.at(position) else { continue };
            let first = self.play(&self.random(), &[], self.alone(task, seed)).await;
            let second = self.play(&self.random(), &[], self.alone(task, seed)).await;
            if Self::bytes(&first) != Self::bytes(&second) {
                let says =
                    format!("task {} with seed {seed} gave two different episodes to equal actions", shown(&task.id));
                return Checked::failed(
                    CHECK,
                    says,
                    "draw everything from the seed, in a fixed order: maps of Rust have none",
                );
            }
        }
        Checked::passed(CHECK, format!("{TWICE} episodes played twice, equal byte for byte"))
            .with([("episodes", TWICE as f64)])
    }

    /// Tasks or episodes differ with the seed. What the environment says is compared, to an agent whose chance is the same.
    async fn other_seeds(&self) -> Checked {
        const CHECK: &str = "seeds";
        let remedy = "draw tasks or episodes from the seed: equal episodes teach no more than one";
        if self.tasks.len() as u64 >= DIFFERENT_TASKS {
            let inputs: BTreeSet<Digest> = self.tasks.iter().map(|task| shown_by(&task.input, &task.extra)).collect();
            let ids: BTreeSet<&str> = self.tasks.iter().map(|task| task.id.as_str()).collect();
            // A set of different tasks need not depend on the seed.
            if inputs.len() as u64 >= DIFFERENT_TASKS {
                return Checked::passed(
                    CHECK,
                    format!("{} tasks of the split are different", inputs.len().min(ids.len())),
                );
            }
        }
        let context = |seed| Context { seed, options: self.options.clone() };
        let (mut said, mut published) = (BTreeSet::new(), BTreeSet::new());
        for position in 0..OTHER_SEEDS {
            let seed = self.seed(position);
            let Some((task, _)) = self.at(position) else { continue };
            let alone = Alone { policy_seed: Some(self.checking.seed), ..self.alone(task, seed) };
            let episode = self.play(&self.random(), &[], alone).await;
            let heard: Vec<_> =
                episode.turns.iter().map(|turn| (&turn.observation, &turn.tool_results, &turn.signals)).collect();
            said.insert(Digest::of_json(&serde_json::json!([heard, episode.closing, episode.artefacts])));
            let tasks = fetch_tasks(self.environment, &context(seed), &self.split, 1).await;
            published.extend(tasks.iter().flat_map(|tasks| tasks.iter().map(|(_, digest)| *digest)));
        }
        match said.len() > 1 || published.len() > 1 {
            false => Checked::failed(CHECK, format!("{OTHER_SEEDS} seeds gave equal tasks and equal episodes"), remedy),
            true => Checked::passed(CHECK, format!("{OTHER_SEEDS} seeds give different tasks or episodes")),
        }
    }

    async fn replay(&self) -> Checked {
        const CHECK: &str = "replay";
        for position in 0..TWICE {
            let Some((task, seed)) = self.at(position) else { continue };
            let episode = self.play(&self.random(), &[], self.alone(task, seed)).await;
            let limit = self.checking.bench.limits().episode_bytes;
            let outcome = replay_episode(self.environment, &episode, limit, &SystemClock::default()).await;
            let why = match outcome {
                ReplayOutcome::Exact => continue,
                ReplayOutcome::ExactTurns(why) | ReplayOutcome::NotReplayed(why) => why,
                ReplayOutcome::Differs(difference) => {
                    let (recorded, replayed) = (shown(&difference.recorded), shown(&difference.replayed));
                    format!("{} differs: recorded {recorded}, replayed {replayed}", difference.what)
                }
            };
            let says = format!("task {} with seed {seed}: {why}", shown(&task.id));
            return Checked::failed(
                CHECK,
                says,
                "a replay gives the same only if everything follows from seed and actions",
            );
        }
        Checked::passed(CHECK, format!("{TWICE} recorded episodes replayed exactly")).with([("episodes", TWICE as f64)])
    }

    async fn hostile(&self) -> Checked {
        const CHECK: &str = "hostile-agents";
        let Some((task, seed)) = self.at(0) else { return Checked::skipped(CHECK, "there is no task", "publish one") };
        let tools = self.opening(task, seed).await.map(|opening| opening.tools).unwrap_or_default();
        let answers = hostile::answers(&tools);
        let count = answers.len();
        for (name, answer) in answers {
            let Some(model) = Scripted::new(vec![answer]) else { continue };
            let policy = ChatPolicy::new(Arc::new(model), None, Sampling::default());
            let alone = Alone { max_turns: self.max_turns.min(TURNS_AFTER), ..self.alone(task, seed) };
            let episode = self.play(&policy, &[], alone).await;
            if let Ending::Failed(failure) = &episode.ending {
                let says = format!("an agent that sends {name} fails the episode: {failure}");
                let remedy = match failure.kind {
                    FailureKind::Trap => {
                        "return an error for what cannot be understood; indexing, unwrap and arithmetic that overflows trap"
                    }
                    FailureKind::Limit => "look at the length of an answer before anything is done with it",
                    _ => "return an error from `step`: the agent reads it and may try again",
                };
                return Checked::failed(CHECK, says, remedy);
            }
        }
        Checked::passed(CHECK, format!("{count} hostile answers: none failed an episode"))
            .with([("answers", count as f64)])
    }

    async fn mean(&self, policy_of: impl Fn(&Task, u64) -> Result<ChatPolicy, String>) -> Result<Mean, String> {
        let mut mean = Mean { mean: 0.0, scored: 0, unscored: Vec::new(), failed: Vec::new() };
        let mut sum = 0.0;
        // A split may have few tasks: then they come again, with other seeds.
        for position in 0..PLAYED_TASKS {
            let Some((task, seed)) = self.at(position) else { break };
            let episode = self.play(&policy_of(task, seed)?, self.rules, self.alone(task, seed)).await;
            match episode.reward {
                Some(reward) => {
                    sum += reward;
                    mean.scored = mean.scored.saturating_add(1);
                }
                None => {
                    let (why, has_failed) = unscored(&episode);
                    let why = format!("task {}: {why}", shown(&task.id));
                    mean.failed.extend(has_failed.then(|| why.clone()));
                    mean.unscored.push(why);
                }
            }
        }
        mean.mean = sum / mean.scored.max(1) as f64;
        Ok(mean)
    }

    /// What is said where no reward is there. A component alone has the names of its rewards, and not the rewards.
    fn unjudged(&self, check: &str) -> Option<Checked> {
        let rewards = self.checking.manifest.map_or(&[][..], |manifest| &manifest.tasks.rewards);
        match (self.rules.is_empty(), self.checking.folder, rewards) {
            (false, ..) => None,
            (true, None, [first, ..]) => {
                let says = format!("its reward `{}` is not here", clawhost_core::escaped(first, 100));
                Some(Checked::skipped(check, says, "check the plugin's folder, which has its rewards"))
            }
            _ => Some(Checked::failed(check, "nothing judges the episodes", "name `rewards` in [tasks]")),
        }
    }

    async fn oracle(&self) -> Checked {
        const CHECK: &str = "oracle";
        let Some(expected) = self.checking.expected() else {
            return Checked::skipped(
                CHECK,
                "there is no claw.toml that promises a maximum",
                "check the plugin's folder",
            );
        };
        let (Some(oracle), Some(maximum)) = (&expected.oracle, expected.maximum) else {
            return Checked::skipped(CHECK, "no maximum is promised", "name `maximum` and `oracle` in [expect]");
        };
        if let Some(checked) = self.unjudged(CHECK) {
            return checked;
        }
        let Some(folder) = self.checking.folder else {
            return Checked::skipped(CHECK, "there is no claw.toml", "check the plugin's folder");
        };
        let opened = match OpenOracle::open(self.checking.bench, folder, oracle).await {
            Ok(opened) => opened,
            Err(why) => return Checked::failed(CHECK, why, "build the oracle, or name another one"),
        };
        let context = |seed| Context { seed, options: self.options.clone() };
        let acting = |task: &Task, seed| opened.agent(task, context(seed), self.max_turns);
        let measured = match self.mean(acting).await {
            Ok(measured) => measured,
            Err(why) => return Checked::failed(CHECK, why, "name an oracle that can play"),
        };
        if let Some(first) = measured.unscored.first() {
            let says =
                format!("{} of {PLAYED_TASKS} episodes of the oracle have no reward: {first}", measured.unscored.len());
            return Checked::failed(CHECK, says, "see why the episode is not scored");
        }
        let says = format!(
            "the oracle ({oracle}) has {:.3} in {} episodes; promised: {maximum}",
            measured.mean, measured.scored
        );
        let figures = [("reward", measured.mean), ("episodes", measured.scored as f64), ("maximum", maximum)];
        match measured.mean >= maximum - ROUNDING {
            true => Checked::passed(CHECK, says).with(figures),
            false => Checked::failed(CHECK, says, "correct the environment, the reward or the oracle, or promise less")
                .with(figures),
        }
    }

    async fn floor(&self) -> Checked {
        const CHECK: &str = "floor";
        let floor = self.checking.expected().and_then(|expected| expected.floor);
        let Some(floor) = floor else {
            return Checked::skipped(
                CHECK,
                "no floor is promised",
                "name `floor` in [expect]: what an agent that does nothing stays at or below",
            );
        };
        if let Some(checked) = self.unjudged(CHECK) {
            return checked;
        }
        let measured = match self.mean(|_, _| silent()).await {
            Ok(measured) => measured,
            Err(why) => return Checked::failed(CHECK, why, "correct the environment"),
        };
        if let Some(first) = measured.failed.first() {
            let says = format!(
                "{} of {PLAYED_TASKS} episodes of an agent that does nothing fail: {first}",
                measured.failed.len()
            );
            return Checked::failed(
                CHECK,
                says,
                "an agent that does nothing ends an episode without a failure, and is judged",
            );
        }
        if measured.scored == 0 {
            let says = "no reward applies to an episode in which nothing is done";
            return Checked::skipped(CHECK, says, "a reward that judges such an episode");
        }
        let unscored = measured.unscored.len();
        let says = format!(
            "an agent that does nothing has {:.3} in {} episodes{}; promised: at most {floor}",
            measured.mean,
            measured.scored,
            if unscored > 0 { format!(" ({unscored} more are not scored)") } else { String::new() },
        );
        let figures = [("reward", measured.mean), ("episodes", measured.scored as f64), ("floor", floor)];
        match measured.mean <= floor + ROUNDING {
            true => Checked::passed(CHECK, says).with(figures),
            false => Checked::failed(CHECK, says, "do not reward what no answer gets, or promise more").with(figures),
        }
    }

    async fn cost(&self) -> Checked {
        const CHECK: &str = "cost";
        let (mut fuel, mut turns, mut bytes) = (0u64, 0u64, 0u64);
        let mut most = 0u64;
        for position in 0..TWICE {
            let Some((task, seed)) = self.at(position) else { continue };
            let episode = self.play(&self.random(), &[], self.alone(task, seed)).await;
            for turn in &episode.turns {
                let used = turn.fuel.unwrap_or(0);
                (fuel, turns, most) = (fuel.saturating_add(used), turns.saturating_add(1), most.max(used));
                let texts = turn.observation.iter().map(|message| message.plain_text().len() as u64);
                bytes = bytes.saturating_add(texts.sum::<u64>());
            }
        }
        let each = |sum: u64| sum as f64 / turns.max(1) as f64;
        let limit = self.checking.bench.limits().step.fuel;
        let says = format!(
            "{:.3} M instructions a step, {:.3} M at most of {} M; {:.0} bytes an observation",
            each(fuel) / 1e6,
            most as f64 / 1e6,
            limit / 1_000_000,
            each(bytes),
        );
        Checked::passed(CHECK, says).with([
            ("fuel_per_step", each(fuel)),
            ("most_fuel_of_a_step", most as f64),
            ("observation_bytes", each(bytes)),
        ])
    }
}

/// An agent that does nothing.
fn silent() -> Result<ChatPolicy, String> {
    let model = Scripted::new(vec![said(String::new())]).ok_or("no answer")?;
    Ok(ChatPolicy::new(Arc::new(model), None, Sampling::default()))
}

/// What an agent may see of a task.
fn shown_by(input: &str, extra: &Attributes) -> Digest {
    Digest::of_json(&serde_json::json!([input, extra]))
}

fn said(text: String) -> Message {
    Message::text(Role::Assistant, Origin::Policy, text)
}

/// Why an episode has no reward, and whether that is a failure.
fn unscored(episode: &Episode) -> (String, bool) {
    match &episode.ending {
        Ending::Failed(failure) => (failure.to_string(), true),
        _ => match episode.verdicts.first().map(|record| &record.verdict) {
            Some(clawhost_core::Verdict::NotApplicable(why)) => (format!("the reward does not apply: {why}"), false),
            Some(clawhost_core::Verdict::Failed(failure)) => (format!("the reward failed: {failure}"), true),
            _ => ("no reward judged it".to_owned(), false),
        },
    }
}
