//! `clawhost run --learn weights`: the weights of a local model learn from rewards.

mod args;
mod completions;
pub(crate) mod finished;
mod journal;
mod summary;
mod tensorboard;
mod watch;

pub(crate) use args::WeightsOptions;

use crate::args::{Common, Run};
use crate::device::{DeviceOption, described};
use crate::exit::{Exit, UsageError};
use crate::learn_progress::LearnProgress;
use crate::policy;
use crate::run::{Stopping, watch_signals};
use crate::setup::{Policy, Setup};
use crate::{data, resume};
use clawhost_core::{Attributes, Clock as _, Environment as _, PlaybookVersion, RunId};
use clawhost_learn::harness::HarnessSettings;
use clawhost_learn::playbook::Playbook;
use clawhost_learn::policy::{Difficulty, Objective, PolicyGradient};
use clawhost_model::device::ComputeDevice;
use clawhost_model::generate::Sampling;
use clawhost_model::train::{OptimizerSettings, Rule, Schedule};
use clawhost_model::{
    AdapterSettings, Demonstrator, CheckpointWriter, Learned, LearningSettings, LocalModel, ModelFolder, Targets, WeightsLayer,
};
use clawhost_runtime::learn::{
    GatePlan, LearnPlan, LearnPorts, WarmStart, WeightsPlan, learn_digest, learn_run, resume_learning,
};
use clawhost_runtime::{Cancel, ChatPolicy, Plan, Ports, ScoringRule};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Episodes of an iteration, and members of a group, unless chosen otherwise.
const EPISODES: u64 = 64;
/// See [`EPISODES`].
const GROUP: u32 = 8;
/// Most episodes at once where nobody chose: the model computes the next token of all of them together.
const AT_ONCE: u64 = 256;
/// Demonstrations that are played, and those of a step.
const DEMONSTRATIONS: u64 = 4096;
/// See [`DEMONSTRATIONS`].
const DEMONSTRATION_BATCH: u64 = 128;
/// Steps between two looks at what the model samples, and episodes of a look.
const LOOK: (u64, u64) = (10, 256);
/// Below it a draw is hardly ever another than the likeliest, and what single precision loses of a log-prob is multiplied by more than
/// twenty: rollout and trainer would differ by more than they may.
const LEAST_TEMPERATURE: f32 = 0.05;
/// Share of the highest rate that is left at the end.
const FLOOR: f64 = 0.1;
/// Highest rates, unless chosen otherwise: Muon's of whole weights, which the demo was tuned with, and AdamW's of an adapter.
const FULL_RATE: f64 = 2e-3;
/// See [`FULL_RATE`].
const ADAPTER_RATE: f64 = 2e-4;
/// In the data folder.
const LEARNED: &str = "learned";

/// The folder of the model that learns.
fn model_folder(options: &Run) -> Result<PathBuf, UsageError> {
    let named = options.learning.weights.model.clone();
    let policy = || options.play.policy.strip_prefix("local:").map(PathBuf::from);
    named.or_else(policy).ok_or_else(|| {
        let why = "--learn weights needs a model whose weights are here: --model DIR, a folder as Hugging Face has them; \
                   `clawhost model init DIR` makes a tiny one";
        UsageError(why.into())
    })
}

/// What is minimised.
fn objective(options: &WeightsOptions, play: &Plan, max_tokens: u32) -> anyhow::Result<PolicyGradient> {
    let most = NonZeroU32::new(max_tokens.saturating_mul(play.max_turns)).unwrap_or(NonZeroU32::MAX);
    match Objective::named(&options.objective, most)? {
        Objective::Policy(mut gradient) => {
            if let Some(reward) = &mut gradient.reward {
                reward.truncation = options.truncated;
            }
            gradient.kl = options.kl;
            Ok(gradient)
        }
        _ => Err(UsageError(format!("--objective {} does not follow rewards alone", options.objective)).into()),
    }
}

/// Which weights learn.
fn learned(options: &Run) -> Result<Learned, UsageError> {
    let weights = &options.learning.weights;
    let Some(rank) = weights.adapter_rank else { return Ok(Learned::Full) };
    let targets = match weights.adapter_targets.as_slice() {
        [] => Targets::ALL,
        names => Targets::named(names.iter().map(String::as_str))
            .map_err(|error| UsageError(format!("--adapter-targets: {error}")))?,
    };
    let alpha = weights.adapter_alpha.unwrap_or(2.0 * f64::from(rank));
    Ok(Learned::Adapter(AdapterSettings { rank: usize::from(rank), alpha, targets, seed: options.play.seed }))
}

fn settings(options: &Run, play: &Plan) -> anyhow::Result<LearningSettings> {
    let weights = &options.learning.weights;
    let learned = learned(options)?;
    let (usual_rate, usual_rule) = match learned {
        Learned::Full => (FULL_RATE, Rule::Muon),
        Learned::Adapter(_) => (ADAPTER_RATE, Rule::AdamW),
    };
    let rule = match weights.optimizer.as_deref() {
        Some("adamw") => Rule::AdamW,
        Some(_) => Rule::Muon,
        None => usual_rule,
    };
    let (peak, warmup, total) = (weights.rate.unwrap_or(usual_rate), weights.warmup, options.learning.iterations);
    Ok(LearningSettings {
        learned,
        objective: objective(weights, play, options.play.max_tokens)?,
        optimizer: OptimizerSettings { rule, ..OptimizerSettings::default() },
        schedule: Schedule { peak, warmup, total, floor: FLOOR },
    })
}

/// Options under which the environment demonstrates.
fn demonstrating(options: &WeightsOptions) -> Result<Option<Attributes>, UsageError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(UsageError(format!("--demonstrations `{text}`: write OPTION=VALUE, as demonstrate=clumsy"))),
    };
    let pairs = options.demonstrations.iter().map(pair).collect::<Result<Attributes, _>>()?;
    Ok((!pairs.is_empty()).then_some(pairs))
}

/// The plan, as far as it does not depend on what is loaded.
fn plan(options: &Run, play: Plan, settings: &LearningSettings) -> Result<LearnPlan, UsageError> {
    let learning = &options.learning;
    let weights = &learning.weights;
    let warm_start = demonstrating(weights)?.map(|options| WarmStart {
        demonstrations: DEMONSTRATIONS,
        options,
        batch: DEMONSTRATION_BATCH,
        rate: settings.schedule.peak,
        target: weights.demonstrations_until,
        every: LOOK.0,
        episodes: LOOK.1,
        steps: weights.demonstrations_steps,
    });
    Ok(LearnPlan {
        iterations: learning.iterations,
        play,
        harness: HarnessSettings { token_budget: learning.token_budget, ..HarnessSettings::default() },
        reflect_every: u64::MAX,
        gate: GatePlan { every: u64::MAX, pairs: 1, alpha: learning.alpha },
        evolve: None,
        weights: Some(WeightsPlan {
            settings: serde_json::json!(settings),
            warm_start,
            refills: weights.refills,
            difficulty: weights.difficulty_filter.then(Difficulty::default),
            evaluate_every: weights.evaluate_every,
            evaluate_episodes: weights.evaluate_episodes,
        }),
        test_pairs: learning.test_pairs,
        planted: Vec::new(),
    })
}

/// What an operator may have meant, and what is done instead.
fn check(options: &Run) -> Result<(), UsageError> {
    let refuse = |why: String| Err(UsageError(why));
    let (episodes, group) = (options.episodes.unwrap_or(EPISODES), options.group.unwrap_or(GROUP));
    if group < 2 {
        return refuse("--group 1: members of a group are compared with each other; say --group 8".into());
    }
    if !episodes.is_multiple_of(u64::from(group)) {
        return refuse(format!("--episodes {episodes} an iteration is no multiple of --group {group}"));
    }
    if let Some(temperature) = options.play.temperature.filter(|temperature| *temperature < LEAST_TEMPERATURE) {
        return refuse(format!(
            "--temperature {temperature} samples next to nothing, so there is nothing to learn from; say --temperature 1"
        ));
    }
    Ok(())
}

/// A model that learns, and what it was.
struct Learning {
    folder: PathBuf,
    found: ModelFolder,
    before: String,
    device: ComputeDevice,
    model: Arc<LocalModel>,
    weights: Arc<Mutex<WeightsLayer>>,
}

impl Learning {
    fn open(
        folder: PathBuf,
        settings: &LearningSettings,
        device: DeviceOption,
        say: &dyn Fn(&str),
    ) -> anyhow::Result<Self> {
        let mut found = policy::local(&folder)?;
        if found.sampling.restricts() {
            say(
                "note: the model's generation_config.json cuts unlikely tokens off; while it learns it samples from all of them",
            );
        }
        let wanted = found.sampling.clone();
        found.sampling = Sampling::default();
        let name = policy::folder_name(&folder);
        if found.weights.has_adapter() && settings.learned == Learned::Full {
            say(
                "note: the model's folder has an adapter: it is added to the weights, and all of them learn; --adapter-rank goes on with \
                 the adapter alone",
            );
        }
        let (device, chosen) = device.open(found.config.parameters())?;
        described(&chosen).iter().for_each(|line| say(line));
        let (model, weights) = found.open_learning(&name, settings, &device)?;
        found.sampling = wanted;
        let before = model.engine().current().digest.to_string();
        Ok(Self { folder, found, before, device, model, weights: Arc::new(Mutex::new(weights)) })
    }
}

/// Rewards, or the one that everybody has.
fn rewards(setup: &Setup<'_>, say: &dyn Fn(&str)) -> Vec<ScoringRule> {
    if !setup.rewards.is_empty() {
        return setup.rewards.clone();
    }
    say(
        "note: no --reward: an episode that the environment brings to its end earns 1, one that runs out of turns or room earns 0",
    );
    vec![finished::finished()]
}

fn out(options: &Run, folder: &Path, run: &RunId) -> PathBuf {
    let given = options.learning.weights.out.clone();
    given.unwrap_or_else(|| folder.join(LEARNED)).join(&run.0)
}

/// Everything that was asked for.
fn config(
    setup: &Setup<'_>,
    plan: &LearnPlan,
    ports: &LearnPorts,
    sampling: clawhost_core::Sampling,
    learning: &Learning,
    served: Option<&PlaybookVersion>,
) -> serde_json::Value {
    let mut plan = serde_json::json!(plan);
    // Never changes a result, so it is no part of what is compared.
    if let Some(play) = plan.get_mut("play").and_then(serde_json::Value::as_object_mut) {
        play.remove("concurrency");
    }
    serde_json::json!({
        "environment": setup.environment.identity(),
        "policy": setup.model.identity(),
        "weights_before": learning.before,
        "device": learning.device.name().to_string(),
        "playbook": served.map(|version| serde_json::json!({
            "name": version.name, "number": version.number, "digest": version.digest,
        })),
        "reward_rules": ports.play.rewards.iter().map(crate::summary::rule).collect::<Vec<_>>(),
        "learn": plan,
        "grants": setup.grants.names(),
        "system_prompt": setup.system_prompt,
        "sampling": sampling,
        "deterministic": learning.device.is_processor(),
        "version": env!("CARGO_PKG_VERSION"),
    })
}

/// The playbook that the policy is given while its weights learn, if one is named.
async fn served(setup: &Setup<'_>, options: &Run, say: &dyn Fn(&str)) -> anyhow::Result<Option<PlaybookVersion>> {
    let Some(name) = &options.playbook else { return Ok(None) };
    let served = crate::playbook::served(setup, name, None).await?;
    let notes = crate::playbook::notes(setup, options.play.seed, &served, options.learning.token_budget)?;
    notes.iter().for_each(|note| say(note));
    Ok(Some(served))
}

pub(crate) async fn run(common: &Common, options: &Run, given: &[String]) -> anyhow::Result<Exit> {
    check(options)?;
    let progress = LearnProgress::new(options.play.quiet);
    let say = |text: &str| progress.say(text);
    let (episodes, group) = (options.episodes.unwrap_or(EPISODES), options.group.unwrap_or(GROUP));
    // The plan's limits decide what the loss divides by; the rest of it follows when the environment is there.
    let rough = Plan { max_turns: options.play.max_turns, ..Plan::new(episodes, group, options.play.seed) };
    let device = options.play.models.device;
    let learning = Learning::open(model_folder(options)?, &settings(options, &rough)?, device, &say)?;
    let setup = Setup::new(common, &options.play, Policy::Open(learning.model.clone()), &say).await?;
    let mut play = Plan { split: options.tasks.clone(), ..setup.plan(&options.play, episodes, group) };
    if !given.iter().any(|id| id == "concurrency") {
        play.concurrency = play.concurrency.max(usize::try_from(episodes.min(AT_ONCE))?);
    }
    let plan = plan(options, play, &settings(options, &rough)?)?;
    if let Some(warm) = plan.weights.as_ref().and_then(|weights| weights.warm_start.as_ref()) {
        let mut options = setup.environment_options.clone();
        options.extend(warm.options.iter().cloned());
        clawhost_core::check_options(&setup.environment.description().about, &options)
            .map_err(|unknown| UsageError(format!("--demonstrations: {unknown}")))?;
        setup.environment.check_options(&options).await?;
    }
    let served = served(&setup, options, &say).await?;
    let rewards = rewards(&setup, &say);
    let ports = setup.ports();
    let temperature = Some(options.play.temperature.unwrap_or(1.0));
    let sampling = clawhost_core::Sampling { temperature, ..setup.sampling };
    let policy = ChatPolicy::new(setup.model.clone(), setup.system_prompt.clone(), sampling);
    let ports = LearnPorts {
        play: Ports { rewards, policy, ..ports },
        reflectors: Vec::new(),
        evolver: None,
        weights: Some(learning.weights.clone()),
        demonstrator: Some(Arc::new(Demonstrator::new(learning.model.clone()))),
        embedder: None,
        learning: setup.store.clone(),
        // Without a name nothing is served.
        playbook: options.playbook.clone().unwrap_or_default(),
        beginning: Playbook::default(),
    };
    let digest = learn_digest(&plan, &ports)?;
    if options.learning.dry_run {
        return summary::dry_run(common, &setup, &learning, (options, &ports.play.rewards), &plan, &digest);
    }
    let config = config(&setup, &plan, &ports, sampling, &learning, served.as_ref());
    let is_resumed = options.resume.is_some();
    let (run, claim) = match &options.resume {
        Some(wanted) => {
            let (run, claim, spent) = resume::taken_up(&setup.folder, &digest, wanted, &config)?;
            setup.models.paid(spent);
            (run, claim)
        }
        None => data::begin(&setup.folder, setup.clock.now_ms())?,
    };
    let out = out(options, &setup.folder, &run);
    if is_resumed && !out.exists() {
        let why = "there is nothing of this run; give it the --out that it was begun with. If that is gone, make an empty folder there: \
                   its best weights and what was written on the way are lost, what it learned is not";
        return Err(UsageError(format!("{}: {why}", out.display())).into());
    }
    std::fs::create_dir_all(&out)
        .map_err(|error| UsageError(format!("{}: {error}; choose another --out", out.display())))?;
    let keeping = CheckpointWriter::new(&out, learning.found.clone());
    learning.weights.lock().unwrap_or_else(PoisonError::into_inner).keep_in(keeping);
    if !options.play.quiet {
        let again = if is_resumed { format!("{run} is taken up again: ") } else { String::new() };
        progress.say(&format!("{again}{}", summary::header(&setup, &learning.found, &learning.folder, &plan)));
        progress.say(&format!("numbers and models go into {}", out.display()));
    }
    let (iterations, plan_learns) = (plan.iterations, learned(options)?);
    let watch = watch::Watch::new(&progress, &out, options.learning.weights.completions);
    let (cancel, began, started) = (Cancel::default(), std::time::Instant::now(), setup.clock.now_ms());
    let stop_on_signal = tokio::spawn(watch_signals(cancel.clone(), Stopping::Run));
    let report = match is_resumed {
        true => resume_learning(run.clone(), plan, ports, &cancel, &watch).await,
        false => learn_run(run.clone(), plan, ports, config.clone(), &cancel, &watch).await,
    };
    stop_on_signal.abort();
    progress.finish();
    let report = report?;
    if report.stopped.is_none() {
        claim.finish();
    }
    watch.complete(&report.iterations);
    let playbook = options.playbook.as_deref().map(|name| (name, options.learning.token_budget));
    let facts = summary::Facts {
        run,
        config,
        before: learning.before,
        after: learning.model.engine().current().digest.to_string(),
        started,
        wall: began.elapsed(),
        iterations,
        rows: watch.rows(),
        learns: match plan_learns {
            Learned::Full => "weights",
            Learned::Adapter(_) => "adapter",
        },
        play: summary::command(common, &options.play, playbook, &out),
        out,
    };
    if let Err(error) = summary::draw(&facts, &report) {
        say(&format!("note: the curve is not drawn: {error:#}"));
    }
    if common.json {
        summary::json(&facts, &report)?;
    } else {
        summary::text(&facts, &report)?;
    }
    Ok(Exit::of_stop(report.stopped.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demonstrations_are_options_of_the_environment() {
        let given = |texts: &[&str]| {
            let demonstrations = texts.iter().map(|text| (*text).to_owned()).collect();
            demonstrating(&WeightsOptions { demonstrations, ..WeightsOptions::default() })
        };
        assert_eq!(given(&[]).unwrap(), None);
        assert_eq!(given(&["demonstrate=clumsy"]).unwrap(), Some(vec![("demonstrate".into(), "clumsy".into())]));
        for odd in ["clumsy", "=clumsy"] {
            let error = given(&[odd]).unwrap_err().to_string();
            assert!(error.contains("write OPTION=VALUE"), "{error}");
        }
    }
}
