//! `clawhost run --learn`.

use crate::args::{self, Common};
use crate::data;
use crate::exit::{Exit, UsageError};
use crate::learn_progress::LearnProgress;
use crate::resume;
use crate::run::{Stopping, watch_signals};
use crate::setup::Setup;
use crate::{learn_summary, summary};
use clawhost_core::{Clock as _, Environment as _, RunId};
use clawhost_learn::harness::{Admission, HarnessSettings, TRIAL_CROWD};
use clawhost_learn::playbook::Playbook;
use clawhost_package::Evolve;
use clawhost_runtime::Cancel;
use clawhost_runtime::learn::{
    EvolvePlan, GatePlan, LearnPlan, LearnPorts, Reflecting, learn_digest, learn_run, resume_learning,
};
use clawhost_store::Reader;
use std::path::Path;
use std::sync::PoisonError;

/// Training episodes of an iteration, unless chosen otherwise.
const EPISODES: u64 = 64;
/// Members of a credit group, unless chosen otherwise.
const GROUP: u32 = 4;

/// Tasks of the fixed set: a look at it takes a twentieth of the budget, so that there are several, but is at least large
/// enough to tell candidates apart a little, and at most what tells them apart well.
fn fixed_set(budget: u64) -> u64 {
    (budget / 20).clamp(4, 50)
}

/// What the options say about evolving; none: nothing evolves.
fn evolve(learning: &args::LearnOptions) -> Option<EvolvePlan> {
    (learning.evolve > 0).then(|| EvolvePlan {
        budget: learning.evolve,
        minibatch: learning.evolve_minibatch,
        pareto: fixed_set(learning.evolve),
        section: learning.evolve_section.clone(),
    })
}

/// Who rewrites the section: whoever is named, or the first reflector, told to write sections.
fn evolver(learning: &args::LearnOptions) -> Option<String> {
    if learning.evolve == 0 {
        return None;
    }
    let written = || {
        let spec = Evolve::new(learning.reflector.first()?).reflector;
        let own = learning.evolve_section == args::SECTION;
        Some(if own { spec } else { format!("{spec}&section={}", learning.evolve_section) })
    };
    learning.evolve_reflector.clone().or_else(written)
}

/// What the options say about learning.
fn plan(setup: &Setup<'_>, options: &args::Run) -> Result<LearnPlan, UsageError> {
    let learning = &options.learning;
    let (episodes, group) = (options.episodes.unwrap_or(EPISODES), options.group.unwrap_or(GROUP));
    if group < 2 || group % 2 == 1 {
        return Err(UsageError(format!(
            "--group {group}: half of a group sees a lesson, so it has an even number of members; say --group 4"
        )));
    }
    if !episodes.is_multiple_of(u64::from(group)) {
        return Err(UsageError(format!("--episodes {episodes} an iteration is no multiple of --group {group}")));
    }
    Ok(LearnPlan {
        iterations: learning.iterations,
        play: clawhost_runtime::Plan { split: options.tasks.clone(), ..setup.plan(&options.play, episodes, group) },
        harness: HarnessSettings {
            trial_slots: usize::from(learning.trial_slots),
            trial_crowd: TRIAL_CROWD,
            token_budget: learning.token_budget,
            admission: Admission::Measured,
            forbidden: learning.forbid.clone(),
        },
        reflect_every: learning.reflect_every,
        gate: GatePlan { every: learning.gate_every, pairs: learning.gate_pairs, alpha: learning.alpha },
        evolve: evolve(learning),
        weights: None,
        test_pairs: learning.test_pairs,
        planted: Vec::new(),
    })
}

pub(crate) async fn run(common: &Common, options: &args::Run) -> anyhow::Result<Exit> {
    let learning = &options.learning;
    let evolver = evolver(learning);
    if learning.reflector.is_empty() && evolver.is_none() {
        return Err(UsageError(
            "--learn harness needs somebody who proposes lessons: --reflector R.wasm, for example reflector_rules.wasm"
                .into(),
        )
        .into());
    }
    if options.play.reward.is_empty() {
        return Err(UsageError("nothing is learned without a reward: --reward R.wasm".into()).into());
    }
    let progress = LearnProgress::new(options.play.quiet);
    let say = |text: &str| progress.say(text);
    let setup = Setup::new(common, &options.play, options.policy(), &say).await?;
    setup.needs_system("a playbook")?;
    let mut reflectors = Vec::new();
    for text in &learning.reflector {
        reflectors.push(setup.reflector(text, &say).await?);
    }
    let evolver = match &evolver {
        Some(text) => Some(setup.reflector(text, &say).await?),
        None => None,
    };
    let plan = plan(&setup, options)?;
    let name = options.playbook.clone().unwrap_or_else(|| setup.environment.identity().name.clone());
    crate::playbook::check_name(&name)?;
    let ports = LearnPorts {
        play: setup.ports(),
        reflectors,
        evolver,
        weights: None,
        demonstrator: None,
        // This program brings no model of that kind.
        embedder: None,
        learning: setup.store.clone(),
        playbook: name.clone(),
        beginning: Playbook::default(),
    };
    let digest = learn_digest(&plan, &ports)?;
    if learning.dry_run {
        return learn_summary::dry_run(common, &setup, options, &plan, &name, &digest);
    }
    let folder = &setup.folder;
    // Two runs that learn one playbook would overwrite each other's evidence.
    let busy = || {
        UsageError(format!(
            "playbook {name} is being learned by another process; wait for it, or choose another --playbook"
        ))
    };
    let _learned_here = data::Claim::new(folder, &RunId(format!("playbook-{name}")))?.ok_or_else(busy)?;
    let resumed = match &options.resume {
        Some(wanted) => {
            let config = config(&setup, &plan, &ports, &name);
            let (run, claim, spent) = resume::taken_up(folder, &digest, wanted, &config)?;
            setup.models.paid(spent);
            Some((run, claim))
        }
        None => None,
    };
    let is_resumed = resumed.is_some();
    let (run, claim) = match resumed {
        Some(found) => found,
        None => data::begin(folder, setup.clock.now_ms())?,
    };
    let config = config(&setup, &plan, &ports, &name);
    let began_with = began_with(folder, &name, is_resumed.then_some(&run))?;
    if !options.play.quiet {
        progress.say(&header(&setup, &plan, &name, began_with, is_resumed.then_some(&run)));
    }
    let cancel = Cancel::default();
    let began = std::time::Instant::now();
    let started = setup.clock.now_ms();
    let stop_on_signal = tokio::spawn(watch_signals(cancel.clone(), Stopping::Run));
    let report = if is_resumed {
        resume_learning(run.clone(), plan.clone(), ports, &cancel, &progress).await
    } else {
        learn_run(run.clone(), plan.clone(), ports, config.clone(), &cancel, &progress).await
    };
    stop_on_signal.abort();
    progress.finish();
    let report = report?;
    if report.stopped.is_none() {
        claim.finish();
    }
    let spent = *setup.models.spent.lock().unwrap_or_else(PoisonError::into_inner);
    let facts = learn_summary::Facts {
        run,
        playbook: name,
        began_with,
        config,
        spent,
        priced: options.play.models.price.is_some(),
        started,
        wall: began.elapsed(),
        iterations: learning.iterations,
        concurrency: options.play.concurrency,
    };
    if common.json {
        learn_summary::json(&facts, &report)?;
    } else {
        learn_summary::text(&facts, &report)?;
    }
    Ok(Exit::of_stop(report.stopped.as_ref()))
}

/// The version that a run begins with: the newest that is not its own.
fn began_with(folder: &Path, name: &str, resumed: Option<&RunId>) -> anyhow::Result<Option<u64>> {
    let versions = Reader::open(folder)?.versions(name)?;
    Ok(versions.into_iter().find(|version| version.run.as_ref() != resumed || resumed.is_none()).map(|one| one.number))
}

/// What is played, for whoever waits.
fn header(setup: &Setup<'_>, plan: &LearnPlan, name: &str, began_with: Option<u64>, resumed: Option<&RunId>) -> String {
    let (environment, model) = (setup.environment.identity(), setup.model.identity());
    let playbook = match began_with {
        Some(number) => format!("goes on from version {number}"),
        None => "begins empty".to_owned(),
    };
    let again = resumed.map_or(String::new(), |run| format!("{run} is taken up again: "));
    format!(
        "{again}{} {} with {}:{}, seed {}; playbook {name} {playbook}; {} iterations of {} episodes",
        environment.name,
        environment.version,
        model.provider,
        model.model,
        plan.play.seed,
        plan.iterations,
        plan.play.episodes
    )
}

/// Everything that was asked for, with every plugin's digest.
fn config(setup: &Setup<'_>, plan: &LearnPlan, ports: &LearnPorts, name: &str) -> serde_json::Value {
    let reflecting =
        |one: &Reflecting| serde_json::json!({ "plugin": one.reflector.identity(), "options": one.options });
    let reflectors: Vec<_> = ports.reflectors.iter().map(reflecting).collect();
    let evolver: Vec<_> = ports.evolver.iter().map(reflecting).collect();
    let mut plan = serde_json::json!(plan);
    // Never changes a result, so it is no part of what is compared.
    if let Some(play) = plan.get_mut("play").and_then(serde_json::Value::as_object_mut) {
        play.remove("concurrency");
    }
    serde_json::json!({
        "environment": setup.environment.identity(),
        "policy": setup.model.identity(),
        "reward_rules": setup.rewards.iter().map(summary::rule).collect::<Vec<_>>(),
        "reflectors": reflectors,
        "evolver": evolver,
        "learn": plan,
        "playbook": name,
        "grants": setup.grants.names(),
        "system_prompt": setup.system_prompt,
        "sampling": setup.sampling,
        "deterministic": true,
        "version": env!("CARGO_PKG_VERSION"),
    })
}
