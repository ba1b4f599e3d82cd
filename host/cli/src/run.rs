//! `clawhost run`.

use crate::args::{self, Common};
use crate::data::{self, SystemClock};
use crate::exit::{Exit, UsageError};
use crate::hosting;
use crate::plugin::{PluginSpec, RewardSpec};
use crate::policy::Models;
use crate::progress::Progress;
use crate::summary::{self, Facts};
use anyhow::Context as _;
use clawhost_core::{Clock as _, Digest, Environment as _, Episode, Reward as _, RunId, Sampling, StoreError, Usage};
use clawhost_engine::{ComponentOutline, Host, ModelGrants};
use clawhost_providers::Ledger;
use clawhost_runtime::{
    Cancel, ChatPolicy, EpisodeSummary, Plan, Ports, ScoringRule, play_run, resume_run, run_digest,
};
use clawhost_store::{Filter, Reader, Store, StoreOptions};
use std::path::Path;
use std::sync::{Arc, PoisonError};

pub(crate) fn main(common: &Common, options: &args::Run) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(run(common, options));
    // Episodes that were cancelled may sit in a slow call: they are recorded, nobody waits for them.
    runtime.shutdown_background();
    exit
}

/// Tells what a plugin asks for and does not get. Its calls will be denied by name.
fn mention_missing_grants(say: &dyn Fn(&str), name: &str, outline: &ComponentOutline, grants: &ModelGrants) {
    if outline.wants("clawhost:kv/kv") && !grants.kv {
        say(&format!("note: {name} asks for kv, which is not granted: its calls are denied (--grant kv)"));
    }
    if outline.wants("clawhost:llm/llm") && grants.models.is_empty() {
        let hint = "its calls are denied (--grant llm:ALIAS=SPEC)";
        say(&format!("note: {name} asks for models, and none is granted: {hint}"));
    }
}

async fn run(common: &Common, options: &args::Run) -> anyhow::Result<Exit> {
    let clock = Arc::new(SystemClock::new());
    let environment_spec = PluginSpec::parse(&options.plugin)?;
    let reward_specs = options.reward.iter().map(|text| RewardSpec::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let models = Models::new(&options.models, usize::from(options.concurrency));
    let model = models.model(&options.policy)?;
    let grants = models.grants()?;
    let system_prompt = match &options.system_prompt_file {
        Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
            UsageError(format!("{}: {error}; --system-prompt-file names a text file", path.display()))
        })?),
        None => options.system_prompt.clone(),
    };

    if let Some(at) = options.branch_at {
        if options.group < 2 {
            return Err(UsageError(
                "--branch-at shares turns among the episodes of a group: say --group 2 or more".into(),
            )
            .into());
        }
        if at >= options.max_turns {
            let most = options.max_turns;
            return Err(UsageError(format!(
                "--branch-at {at} leaves no turn of their own; it must be below --max-turns {most}"
            ))
            .into());
        }
    }
    let folder = data::folder(common)?;
    let host = hosting::host(Some(data::cache(&folder)?), options.host.on_demand, options.host.allow_interpreters)?;
    let progress = Progress::new(options.episodes, options.quiet);
    let store = Store::open(&folder, StoreOptions { max_bytes: options.store_limit.map(|mib| mib << 20) })?;

    let bytes = host.read(&environment_spec.path)?;
    let environment = host.environment(&environment_spec.name(), &bytes, grants.clone()).await?;
    environment_spec.check(&environment.description().about)?;
    environment.check_options(&environment_spec.options).await?;
    mention_missing_grants(&|text| progress.say(text), &environment.identity().name, environment.outline(), &grants);
    keep(&store, environment.identity(), "environment", bytes).await?;
    let say = |text: &str| progress.say(text);
    let rewards = load_rewards(&host, &store, &reward_specs, &grants, &say).await?;

    let sampling = Sampling { temperature: options.temperature, max_tokens: options.max_tokens };
    let plan = Plan {
        episodes: options.episodes,
        group: options.group,
        concurrency: usize::from(options.concurrency),
        seed: options.seed,
        split: options.tasks.clone(),
        options: environment_spec.options.clone(),
        max_turns: options.max_turns,
        branch_at: options.branch_at,
        episode_bytes: host.limits().episode_bytes,
        failure_budget: options.failure_budget,
    };
    let database = store.path().to_owned();
    let identity = environment.identity().clone();
    let ports = Ports {
        environment: Arc::new(environment),
        rewards: rewards.clone(),
        policy: ChatPolicy::new(model.clone(), system_prompt.clone(), sampling),
        store: Arc::new(store),
        clock: clock.clone(),
        meter: Arc::new(Ledger(models.spent.clone())),
    };
    let (run, claim, earlier) = match &options.resume {
        Some(name) => {
            let (run, claim, spent) = unfinished(&folder, &run_digest(&plan, &ports)?, name)?;
            // What was paid for then counts to the budget of today.
            models.paid(spent);
            let earlier = earlier(&folder, &run)?;
            progress.begin(earlier.len() as u64);
            (run, claim, Some(earlier))
        }
        None => {
            let run = data::run_id(clock.now_ms())?;
            let claim = data::Claim::new(&folder, &run)?;
            (run.clone(), claim.with_context(|| format!("{run} is being played already"))?, None)
        }
    };
    let facts = Facts {
        environment: identity,
        rewards: rewards.clone(),
        policy: model.identity(),
        plan: plan.clone(),
        run: run.clone(),
        database,
        step_fuel: host.limits().step.fuel,
        token_limit: options.models.max_tokens_total,
        cost_limit: options.models.max_cost,
        priced: options.models.price.is_some(),
    };
    let config = serde_json::json!({
        "environment": facts.environment,
        "policy": facts.policy, "plan": plan,
        "reward_rules": rewards.iter().map(summary::rule).collect::<Vec<_>>(),
        "grants": grants.names(), "system_prompt": system_prompt, "sampling": sampling, "version": env!("CARGO_PKG_VERSION"),
    });
    let cancel = Cancel::default();
    let started = clock.now_ms();
    let began = std::time::Instant::now();
    let stop_on_signal = tokio::spawn(watch_signals(cancel.clone()));
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

/// The run to take up again, claimed for this process.
fn unfinished(folder: &Path, digest: &Digest, name: &str) -> anyhow::Result<(RunId, data::Claim, Usage)> {
    let runs = Reader::open(folder)?.unfinished(digest)?;
    let newest = runs.into_iter().find(|(run, _)| name.is_empty() || run == name);
    if let Some((run, spent)) = &newest
        && let Some(claim) = data::Claim::new(folder, &RunId(run.clone()))?
    {
        return Ok((RunId(run.clone()), claim, *spent));
    }
    let why = match newest {
        Some((run, _)) => format!("{run} is being played by another process; wait for it, or stop it"),
        None if name.is_empty() => {
            "no run of this configuration was interrupted here; without --resume a new one begins".to_owned()
        }
        None => format!(
            "`{name}` is no interrupted run of this configuration; give it the command it was begun with, or see `clawhost episodes list --runs`"
        ),
    };
    Err(UsageError(why).into())
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

/// Loads the rewards of a run, and keeps them by digest.
pub(crate) async fn load_rewards(
    host: &Host,
    store: &Store,
    specs: &[RewardSpec],
    grants: &ModelGrants,
    say: &dyn Fn(&str),
) -> anyhow::Result<Vec<ScoringRule>> {
    let mut rewards = Vec::new();
    for RewardSpec { plugin, weight, source } in specs {
        let bytes = host.read(&plugin.path)?;
        let reward = host.reward(&plugin.name(), &bytes, grants.clone()).await?;
        plugin.check(&reward.description().about)?;
        reward.check_options(&plugin.options).await?;
        mention_missing_grants(say, &reward.identity().name, reward.outline(), grants);
        keep(store, reward.identity(), "reward", bytes).await?;
        let rule = ScoringRule::new(Arc::new(reward), plugin.options.clone());
        rewards.push(ScoringRule { weight: *weight, source: source.unwrap_or(rule.source), ..rule });
    }
    refuse_twins(&rewards)?;
    Ok(rewards)
}

/// One reward with the same options twice would count twice in every mean.
fn refuse_twins(rewards: &[ScoringRule]) -> Result<(), UsageError> {
    let mut seen: Vec<(Digest, _)> = Vec::new();
    for rule in rewards {
        let mut options = rule.options.clone();
        options.sort();
        let key = (rule.reward.identity().digest, options);
        if seen.contains(&key) {
            return Err(UsageError(format!("{} is given twice with equal options", rule.reward.identity().name)));
        }
        seen.push(key);
    }
    Ok(())
}

/// Plugins are kept by digest, so that what was played can be played again.
async fn keep(
    store: &Store,
    plugin: &clawhost_core::PluginIdentity,
    world: &str,
    bytes: Vec<u8>,
) -> Result<(), StoreError> {
    store.keep_plugin(plugin.digest, &plugin.name, &plugin.version, world, bytes).await
}

/// The first Ctrl-C (or SIGTERM) ends the run in order; the second ends the process.
pub(crate) async fn watch_signals(cancel: Cancel) {
    use std::io::Write as _;
    wait_for_signal().await;
    cancel.request();
    let message = "stopping: what was played is being recorded (press Ctrl-C again to leave at once)";
    let _ = writeln!(anstream::stderr(), "{message}");
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
