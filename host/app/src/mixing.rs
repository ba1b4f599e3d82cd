//! The environments of a run: one, or the parts of a mixture, loaded and checked against the rewards and the size of the run.

use crate::plugins::{Plugins, check_options};
use crate::{AppError, RequestError};
use clawhost_core::{Attributes, Environment as _};
use clawhost_engine::EnvironmentPlugin;
use clawhost_play::{Environments, Mixture, Part, ScoringRule};
use clawhost_run_config::{Key, LearnSpec, PartSpec, RunSpec, Work, is_part_name};
use std::sync::Arc;

/// Fewest groups of a part in a run, and fewest pairs of it in the gate and in a test: below two nothing of it is compared with anything.
const FEWEST: f64 = 2.0;
/// Fewest groups of a part in an iteration of learning. From one on, the first iteration has the part, so a part without scores is found
/// there.
const FEWEST_OF_AN_ITERATION: f64 = 1.0;

/// Longest part of a name that a message repeats, in bytes.
const SHOWN_BYTES: usize = 80;

/// A mixture that cannot be played or judged. Nothing was paid for it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MixtureError {
    /// The name of an environment cannot be the name of a part.
    #[error("`{name}` cannot name a part; give it a name of its own with #name=PART: {expected}", expected = clawhost_run_config::PART_NAME)]
    Name {
        /// The name.
        name: String,
    },
    /// A reward judges a part that does not exist.
    #[error("{reward} judges the part `{part}`, but the parts are {}", known.join(", "))]
    NoSuchPart {
        /// The reward.
        reward: String,
        /// The part.
        part: String,
        /// The parts.
        known: Vec<String>,
    },
    /// No reward judges a part.
    #[error(
        "no reward judges the part `{part}`, so nothing can be learned or reported about it; name one with #for={part}, or one for all parts"
    )]
    Unscored {
        /// The part.
        part: String,
    },
    /// A part gets too little of the run.
    #[error(
        "the part `{part}` would have {share:.1} of the {of} {what}, and needs {least}; give it a larger weight, or the run more {what}"
    )]
    Starved {
        /// The part.
        part: String,
        /// What it would get.
        share: f64,
        /// What it needs.
        least: f64,
        /// Of how many.
        of: u64,
        /// What is shared: groups or pairs, and whose.
        what: &'static str,
    },
}

/// The loaded environments of a run.
pub(crate) struct Loaded {
    pub(crate) environments: Environments,
    /// Each with its options, in order.
    plugins: Vec<(Arc<EnvironmentPlugin>, Attributes)>,
}

impl Loaded {
    /// Loads the environments of a run, and writes their identities into the specification.
    pub(crate) async fn open(plugins: &Plugins<'_>, spec: &mut RunSpec) -> Result<Self, AppError> {
        let first = Arc::new(plugins.environment(&spec.environment, Key::Plugin).await?);
        spec.environment.plugin = Some(first.identity().clone());
        let mut all = vec![(first.clone(), spec.environment.options.clone())];
        for PartSpec { plugin, .. } in &mut spec.mix {
            let environment = Arc::new(plugins.environment(plugin, Key::Mix).await?);
            plugin.plugin = Some(environment.identity().clone());
            all.push((environment, plugin.options.clone()));
        }
        let environments = match spec.mix.is_empty() {
            true => Environments::One(first),
            false => Environments::Mixture(Arc::new(mixture(spec, &all)?)),
        };
        Ok(Self { environments, plugins: all })
    }

    /// Fails if an environment does not accept these options beside its own.
    pub(crate) async fn check_options(&self, more: &Attributes) -> Result<(), AppError> {
        for (environment, own) in &self.plugins {
            let mut options = own.clone();
            options.extend(more.iter().cloned());
            check_options(&environment.description().about, &options)?;
            environment.check_options(&options).await?;
        }
        Ok(())
    }
}

fn mixture(spec: &RunSpec, loaded: &[(Arc<EnvironmentPlugin>, Attributes)]) -> Result<Mixture, AppError> {
    let names = names(spec).map_err(|error| AppError::from(RequestError::from(error)).of_option(Key::Mix))?;
    let named = names.into_iter().zip(spec.environments()).zip(loaded);
    let parts = named.map(|((name, (_, weight)), (environment, options))| Part {
        name,
        weight,
        environment: environment.clone(),
        options: options.clone(),
    });
    let parts = parts.collect();
    Mixture::new(parts).map_err(|error| AppError::from(error).of_option(Key::Mix))
}

/// The names of the parts, if they can be names of parts: a plugin may have any name.
fn names(spec: &RunSpec) -> Result<Vec<String>, MixtureError> {
    let names = spec.part_names();
    match names.iter().find(|name| !is_part_name(name)) {
        Some(name) => Err(MixtureError::Name { name: clawhost_core::escaped(name, SHOWN_BYTES) }),
        None => Ok(names),
    }
}

/// Fails if rewards and parts do not fit: a reward judges a part that does not exist, or no reward judges a part.
pub(crate) fn check_rewards(environments: &Environments, rewards: &[ScoringRule]) -> Result<(), RequestError> {
    let parts = environments.parts();
    let names = || parts.iter().map(|part| part.name.clone());
    for rule in rewards {
        if let Some(part) = rule.part.clone().filter(|part| names().all(|name| name != *part)) {
            let reward = rule.reward.identity().name.clone();
            return Err(MixtureError::NoSuchPart { reward, part, known: names().collect() }.into());
        }
    }
    let is_judged = |name: &String| rewards.iter().any(|rule| rule.applies_to(Some(name)));
    match names().find(|name| !is_judged(name)) {
        // A run without rewards is one that is judged later.
        Some(part) if !rewards.is_empty() => Err(MixtureError::Unscored { part }.into()),
        _ => Ok(()),
    }
}

/// Fails if a part gets too little of a run to be compared with anything.
pub(crate) fn check_shares(spec: &RunSpec, environments: &Environments) -> Result<(), RequestError> {
    let total: f64 = environments.parts().iter().map(|part| part.weight).sum();
    for (of, what, least) in shared(spec).into_iter().filter(|(of, ..)| *of > 0) {
        for part in environments.parts() {
            let share = of as f64 * part.weight / total;
            if share < least {
                return Err(MixtureError::Starved { part: part.name.clone(), share, least, of, what }.into());
            }
        }
    }
    Ok(())
}

/// What the parts of a run share: how many, their name, and the fewest that a part needs.
fn shared(spec: &RunSpec) -> Vec<(u64, &'static str, f64)> {
    let groups = spec.play.episodes.div_ceil(u64::from(spec.play.group.max(1)));
    match &spec.work {
        Work::Play => vec![(groups, "groups", FEWEST)],
        Work::Evaluate(evaluate) => vec![(evaluate.pairs, "pairs", FEWEST)],
        Work::Learn(LearnSpec { test_pairs, from, .. }) => {
            let played = if from.is_some() { 0 } else { groups };
            let gate = spec.harness().map_or(0, |harness| harness.gate_pairs);
            vec![
                (played, "groups of an iteration", FEWEST_OF_AN_ITERATION),
                (gate, "pairs of the gate", FEWEST),
                (*test_pairs, "test pairs", FEWEST),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::PluginIdentity;
    use clawhost_run_config::{RunSpecPatch, Source, Value, Verb};

    fn spec(first: &str, mix: &str, loaded: &str) -> RunSpec {
        let mut patch = RunSpecPatch::new();
        patch.set(Key::Plugin, Value::Text("first.wasm".to_owned()), Source::Flag);
        patch.set(Key::Mix, Value::Texts(vec![mix.to_owned()]), Source::Flag);
        let mut spec = patch.resolve(Verb::Play).unwrap();
        spec.environment.plugin = Some(PluginIdentity::native(first));
        spec.mix[0].plugin.plugin = Some(PluginIdentity::native(loaded));
        spec
    }

    #[test]
    fn names_of_parts_are_plain() {
        let check = |first: &str, mix: &str, loaded: &str, expect: Result<&[&str], &str>| {
            let found = names(&spec(first, mix, loaded));
            match (&found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found, expect),
                (Err(MixtureError::Name { name }), Err(expect)) => assert_eq!(name, expect),
                _ => panic!("{found:?}"),
            }
        };
        check("shop", "b.wasm", "math", Ok(&["shop", "math"]));
        check("shop", "b.wasm#name=other", "my math", Ok(&["shop", "other"]));
        check("shop", "b.wasm", "my math", Err("my math"));
        check("shop/2", "b.wasm#name=other", "math", Err("shop/2"));
    }

    #[test]
    fn parts_share_iterations_the_gate_and_the_test_of_a_learning_run() {
        let mut patch = RunSpecPatch::new();
        let text = |text: &str| Value::Texts(vec![text.to_owned()]);
        patch.set(Key::Plugin, Value::Text("first.wasm".to_owned()), Source::Flag);
        patch.set(Key::Rewards, text("r.wasm"), Source::Flag);
        patch.set(Key::Reflectors, text("reflector.wasm"), Source::Flag);
        patch.set(Key::Iterations, Value::Whole(20), Source::Flag);
        patch.set_layers(vec!["harness".to_owned()], Source::Flag);
        let spec = patch.clone().resolve(Verb::Learn).unwrap();
        let expect = [(32, "groups of an iteration", 1.0), (512, "pairs of the gate", 2.0), (200, "test pairs", 2.0)];
        assert_eq!(shared(&spec), expect);
        patch.set(Key::From, Value::Text("run-1".to_owned()), Source::Flag);
        assert_eq!(shared(&patch.resolve(Verb::Learn).unwrap())[0].0, 0, "nothing is played for training");
    }

    #[test]
    fn a_mixture_has_the_names_of_its_parts() {
        let spec = spec("shop", "b.wasm#name=other", "math");
        assert_eq!(
            (spec.environment_name().as_deref(), spec.playbook_name().as_deref()),
            (Some("shop+other"), Some("shop-other"))
        );
    }
}
