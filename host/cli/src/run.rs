//! `clawhost run`.

use crate::args::{self, Common};
use crate::data;
use crate::exit::{Exit, UsageError};
use crate::progress::Progress;
use crate::resume;
use crate::run_file;
use crate::setup::Setup;
use crate::summary::{self, Facts};
use crate::weights::WeightsOptions;
use clap::Args as _;
use clawhost_core::{Clock as _, Environment as _, Episode, RunId};
use clawhost_runtime::{Cancel, EpisodeSummary, Plan, play_run, resume_run, run_digest};
use clawhost_store::{Filter, Reader};
use std::path::Path;
use std::sync::PoisonError;

/// Episodes of a run that learns nothing, unless chosen otherwise.
const EPISODES: u64 = 20;
/// Options that mean something where lessons are learned, and nowhere else; those of weights are [`WeightsOptions`].
const OF_HARNESS: [&str; 11] = [
    "reflector",
    "trial_slots",
    "reflect_every",
    "gate_every",
    "gate_pairs",
    "alpha",
    "evolve",
    "evolve_section",
    "evolve_minibatch",
    "evolve_reflector",
    "forbid",
];

/// An option that would do nothing is a mistake: of which layer it is, is said at once.
fn of_the_layer(given: &[String], learns: Option<&str>) -> Result<(), UsageError> {
    let weights = WeightsOptions::augment_args(clap::Command::new(""));
    // Any run may be played by the model of a folder.
    let of_weights = |id: &str| id != "model" && weights.get_arguments().any(|option| option.get_id() == id);
    for id in given {
        let layer = match id.as_str() {
            id if OF_HARNESS.contains(&id) => "harness",
            id if of_weights(id) => "weights",
            _ => continue,
        };
        if learns != Some(layer) {
            return Err(UsageError(format!(
                "--{} goes with --learn {layer}; without it it does nothing",
                id.replace('_', "-")
            )));
        }
    }
    Ok(())
}

pub(crate) fn main(common: &Common, options: &args::Run, given: &[String]) -> anyhow::Result<Exit> {
    let written;
    let options = if run_file::is_run_file(&options.play.plugin) {
        written = run_file::read(options, given)?;
        &written
    } else {
        options
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(run(common, options, given));
    // Episodes that were cancelled may sit in a slow call: they are recorded, nobody waits for them.
    runtime.shutdown_background();
    exit
}

async fn run(common: &Common, options: &args::Run, given: &[String]) -> anyhow::Result<Exit> {
    of_the_layer(given, options.learning.learn.as_deref())?;
    if options.learning.dry_run && options.learning.learn.is_none() {
        return Err(UsageError("--dry-run goes with --learn, or with a run.toml that learns".into()).into());
    }
    if options.learning.dry_run && options.resume.is_some() {
        return Err(UsageError("--dry-run rehearses a new run: leave --resume out".into()).into());
    }
    match options.learning.learn.as_deref() {
        Some("weights") => return crate::weights::run(common, options, given).await,
        Some(_) => return crate::learn::run(common, options).await,
        None => {}
    }
    let episodes = options.episodes.unwrap_or(EPISODES);
    let group = options.group.unwrap_or(1);
    if let Some(at) = options.branch_at {
        if group < 2 {
            return Err(UsageError(
                "--branch-at shares turns among the episodes of a group: say --group 2 or more".into(),
            )
            .into());
        }
        if at >= options.play.max_turns {
            let most = options.play.max_turns;
            return Err(UsageError(format!(
                "--branch-at {at} leaves no turn of their own; it must be below --max-turns {most}"
            ))
            .into());
        }
    }
    let progress = Progress::new(episodes, options.play.quiet);
    let setup = Setup::new(common, &options.play, options.policy(), &|text| progress.say(text)).await?;
    let plan = Plan {
        split: options.tasks.clone(),
        branch_at: options.branch_at,
        ..setup.plan(&options.play, episodes, group)
    };
    let mut ports = setup.ports();
    let served = match &options.playbook {
        Some(name) => Some(crate::playbook::served(&setup, name, None).await?),
        None => None,
    };
    if let Some(served) = &served {
        let notes = crate::playbook::notes(&setup, options.play.seed, served, options.learning.token_budget)?;
        notes.iter().for_each(|note| progress.say(note));
        ports.policy = crate::playbook::guided(&setup, &ports.policy, served, options.learning.token_budget)?;
    }
    let playbook = served
        .as_ref()
        .map(|version| serde_json::json!({ "name": version.name, "number": version.number, "digest": version.digest }));
    let config = serde_json::json!({
        "environment": setup.environment.identity(), "policy": setup.model.identity(), "plan": plan,
        "reward_rules": setup.rewards.iter().map(summary::rule).collect::<Vec<_>>(),
        "grants": setup.grants.names(), "system_prompt": setup.system_prompt, "sampling": setup.sampling,
        "playbook": playbook, "version": env!("CARGO_PKG_VERSION"),
    });
    let Setup { folder, models, store, clock, rewards, .. } = &setup;
    let (run, claim, earlier) = match &options.resume {
        Some(name) => {
            let (run, claim, spent) = resume::taken_up(folder, &run_digest(&plan, &ports)?, name, &config)?;
            // What was paid for then counts to the budget of today.
            models.paid(spent);
            let earlier = earlier(folder, &run)?;
            progress.begin(earlier.len() as u64);
            (run, claim, Some(earlier))
        }
        None => {
            let (run, claim) = data::begin(folder, clock.now_ms())?;
            (run, claim, None)
        }
    };
    let facts = Facts {
        environment: setup.environment.identity().clone(),
        rewards: rewards.clone(),
        policy: setup.model.identity(),
        playbook: served.as_ref().map(crate::playbook::told).transpose()?,
        plan: plan.clone(),
        run: run.clone(),
        database: store.path().to_owned(),
        step_fuel: setup.host.limits().step.fuel,
        token_limit: options.play.models.max_tokens_total,
        cost_limit: options.play.models.max_cost,
        priced: options.play.models.price.is_some(),
    };
    let cancel = Cancel::default();
    let started = clock.now_ms();
    let began = std::time::Instant::now();
    let stop_on_signal = tokio::spawn(watch_signals(cancel.clone(), Stopping::Run));
    let report = match earlier {
        None => play_run(run, plan, ports, config, &cancel, &progress).await,
        Some(earlier) => resume_run(run, plan, ports, earlier, &cancel, &progress).await,
    };
    stop_on_signal.abort();
    progress.finish();
    let report = report?;
    if report.stopped.is_none() {
        claim.finish();
    }
    let wall = began.elapsed();
    let spent = *models.spent.lock().unwrap_or_else(PoisonError::into_inner);
    if common.json {
        summary::json(&facts, &report, &spent, started, wall)?;
    } else {
        summary::text(&facts, &report, &spent, wall)?;
    }
    Ok(Exit::of_stop(report.stopped.as_ref()))
}

/// What a run has recorded.
fn earlier(folder: &Path, run: &RunId) -> anyhow::Result<Vec<EpisodeSummary>> {
    let mut earlier = Vec::new();
    let filter = Filter { run: Some(run.0.clone()), limit: None };
    let each = |episode: Episode| {
        earlier.push(EpisodeSummary::of(&episode));
        Ok::<_, std::convert::Infallible>(())
    };
    // The second result is of `each`, which cannot fail.
    let _ = Reader::open(folder)?.export(&filter, each)?;
    Ok(earlier)
}

/// What is stopped: it says what becomes of what was done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stopping {
    /// Episodes are played and recorded.
    Run,
    /// Recorded episodes are judged.
    Scoring,
    /// Nothing is recorded.
    Demo,
}

impl Stopping {
    fn words(self) -> &'static str {
        match self {
            Self::Run => "stopping: what was played is being recorded (press Ctrl-C again to leave at once)",
            Self::Scoring => "stopping: what was judged is being recorded (press Ctrl-C again to leave at once)",
            Self::Demo => "stopping (the demo records nothing)",
        }
    }
}

/// The first Ctrl-C (or SIGTERM) ends the run in order; the second ends the process.
pub(crate) async fn watch_signals(cancel: Cancel, what: Stopping) {
    use std::io::Write as _;
    wait_for_signal().await;
    // Said first: what stops may have its own last word.
    let _ = writeln!(anstream::stderr(), "{}", what.words());
    cancel.request();
    wait_for_signal().await;
    #[allow(clippy::disallowed_methods, reason = "asked for twice; every finished transaction is on disk")]
    std::process::exit(Exit::Interrupted as i32);
}

async fn wait_for_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    // Without a handler the signal ends the process, as it always did.
    let _ = tokio::signal::ctrl_c().await;
}
