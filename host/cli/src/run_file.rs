//! `clawhost run run.toml`: the same run as on a command line, written down.

use crate::args::{EndpointOptions, HostOptions, LearnOptions, ModelOptions, PlayOptions, Run};
use crate::exit::UsageError;
use crate::weights::WeightsOptions;
use clawhost_package::{Evolve, RunFile, SystemPrompt, Work};
use std::path::Path;

/// What may stand on the command line beside a run file: how it is shown, hosted and taken up, by the ids of the options; and
/// groups of options, which are no options.
const BESIDE: [&str; 21] = [
    "plugin",
    "resume",
    "dry_run",
    "quiet",
    "store_limit",
    "device",
    "api_key_file",
    "model_timeout",
    "retries",
    "allow_interpreters",
    "on_demand",
    "data",
    "json",
    "Run",
    "PlayOptions",
    "ModelOptions",
    "DeviceOption",
    "EndpointOptions",
    "HostOptions",
    "LearnOptions",
    "WeightsOptions",
];

/// Whether a plugin is a run file.
pub(crate) fn is_run_file(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "toml")
}

/// A path as it stands in the file, seen from here. Options behind it stay.
fn from_here(folder: &Path, spec: &str) -> String {
    let end = spec.find(['?', '#']).unwrap_or(spec.len());
    let (path, rest) = spec.split_at(end);
    format!("{}{rest}", folder.join(path).display())
}

/// Reads a run file. What the command line is for is taken from `given`: resuming, rehearsing, and how things are shown.
///
/// # Errors
/// It cannot be read, or says something that cannot be: everything that is wrong with it is told.
pub(crate) fn read(given: &Run, typed: &[String]) -> anyhow::Result<Run> {
    let path = Path::new(&given.play.plugin);
    let shown = path.display();
    // What the file decides is decided there alone: an option beside it that did nothing would be a trap.
    if let Some(option) = typed.iter().find(|option| !BESIDE.contains(&option.as_str())) {
        if option == "learn" && given.learning.learn.as_deref() == Some("weights") {
            let why = "a run file learns the harness alone so far: for weights say it all on the command line, with the plugin in its place";
            return Err(UsageError(format!("--learn weights beside {shown}: {why}")).into());
        }
        let option = option.replace('_', "-");
        return Err(UsageError(format!("--{option} beside {shown}: the file says everything; write it there")).into());
    }
    let text = std::fs::read_to_string(path).map_err(|error| UsageError(format!("{shown}: {error}")))?;
    let file = RunFile::parse(&text).map_err(|wrong| UsageError(format!("{shown}:\n{wrong}")))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let (system_prompt, system_prompt_file) = match file.system_prompt {
        Some(SystemPrompt::Text(text)) => (Some(text), None),
        Some(SystemPrompt::File(name)) => (None, Some(folder.join(name))),
        None => (None, None),
    };
    let mut run = Run {
        play: PlayOptions {
            plugin: from_here(folder, &file.plugin),
            reward: file.rewards.iter().map(|reward| from_here(folder, reward)).collect(),
            policy: match file.policy.strip_prefix("script:") {
                Some(script) => format!("script:{}", folder.join(script).display()),
                None => file.policy,
            },
            concurrency: file.concurrency,
            seed: file.seed,
            max_turns: file.max_turns,
            failure_budget: file.failure_budget,
            system_prompt,
            system_prompt_file,
            temperature: file.temperature,
            max_tokens: file.max_tokens,
            models: ModelOptions {
                grant: file.grants.iter().map(ToString::to_string).collect(),
                max_tokens_total: file.max_tokens_total,
                max_cost: file.max_cost,
                price: file.price.map(|price| (price.input, price.output)),
                // The machine's, not the run's.
                device: given.play.models.device,
                endpoint: EndpointOptions {
                    api_key_file: given.play.models.endpoint.api_key_file.clone(),
                    model_timeout: given.play.models.endpoint.model_timeout,
                    retries: given.play.models.endpoint.retries,
                },
            },
            host: HostOptions {
                allow_interpreters: given.play.host.allow_interpreters,
                on_demand: given.play.host.on_demand,
            },
            store_limit: given.play.store_limit,
            quiet: given.play.quiet,
        },
        tasks: file.tasks,
        episodes: None,
        group: None,
        branch_at: None,
        resume: given.resume.clone(),
        playbook: None,
        learning: LearnOptions { dry_run: given.learning.dry_run, ..LearnOptions::default() },
    };
    match file.work {
        Work::Play(play) => {
            (run.episodes, run.group) = (Some(play.episodes), Some(play.group));
        }
        Work::Learn(learn) => {
            (run.episodes, run.group) = (Some(learn.episodes), Some(learn.group));
            run.playbook = learn.harness.playbook;
            // Nobody named: it follows from the other reflector and the section, as on a command line.
            let named = learn.evolve.reflector != Evolve::new(&learn.harness.reflector).reflector;
            let evolve_reflector = named.then(|| from_here(folder, &learn.evolve.reflector));
            run.learning = LearnOptions {
                learn: Some(clawhost_package::HARNESS.to_owned()),
                reflector: vec![from_here(folder, &learn.harness.reflector)],
                iterations: learn.iterations,
                trial_slots: u8::try_from(learn.harness.trial_slots).unwrap_or(u8::MAX),
                token_budget: learn.harness.token_budget,
                reflect_every: learn.harness.reflect_every,
                gate_every: learn.gate.every,
                gate_pairs: learn.gate.pairs,
                alpha: learn.gate.alpha,
                evolve: learn.evolve.budget,
                evolve_section: learn.evolve.section,
                evolve_minibatch: u64::from(learn.evolve.minibatch),
                evolve_reflector,
                test_pairs: learn.eval.pairs,
                forbid: learn.harness.forbid,
                dry_run: given.learning.dry_run,
                weights: WeightsOptions::default(),
            };
        }
    }
    Ok(run)
}
