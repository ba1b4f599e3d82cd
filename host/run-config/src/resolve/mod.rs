//! The validator: a patch becomes a resolved run, or the list of its problems.
//!
//! First every option is checked on its own (`check.rs`) and against the verb of the run. Options that fail count as
//! absent from then on, so that no consequential problems are reported. Then the rules between options are checked, in
//! the code that builds each part of the spec.

pub(crate) mod learn;
mod play;
mod weights;

use crate::check::{Exists, expected, wrong};
use crate::key::Preset;
use crate::problem::Problem;
use crate::value::found_text;
use crate::{
    EvaluateSpec, Grant, Key, Layer, Part, PartSpec, PlaybookSpec, PluginSpec, Problems, RewardSpec, RunSpec,
    RunSpecPatch, SPEC_VERSION, Scope, Source, Value, Verb, Work,
};
use std::collections::BTreeSet;

impl RunSpecPatch {
    /// The run that this patch describes, with all defaults filled in. No file counts as existing, so a path ends at
    /// its first `?`.
    ///
    /// # Errors
    /// All problems.
    pub fn resolve(self, verb: Verb) -> Result<RunSpec, Problems> {
        self.resolve_with(verb, &|_| false)
    }

    /// As [`RunSpecPatch::resolve`]. `exists` returns whether a file of a name exists, for names that contain `?` or
    /// `#`.
    ///
    /// # Errors
    /// All problems.
    pub fn resolve_with(self, verb: Verb, exists: &dyn Fn(&str) -> bool) -> Result<RunSpec, Problems> {
        let mut resolver =
            Resolver { patch: self, verb, exists, layers: Vec::new(), refused: BTreeSet::new(), problems: Vec::new() };
        resolver.name_layers();
        resolver.check_options();
        let spec = resolver.run();
        match Problems::of(resolver.problems) {
            None => Ok(spec),
            Some(problems) => Err(problems),
        }
    }
}

struct Resolver<'e> {
    patch: RunSpecPatch,
    verb: Verb,
    exists: Exists<'e>,
    /// Layers that learn, the harness first.
    layers: Vec<Layer>,
    /// Options with a problem of their own.
    refused: BTreeSet<Key>,
    problems: Vec<Problem>,
}

impl Resolver<'_> {
    /// Reads the layers, and checks whether there are any if there must be.
    fn name_layers(&mut self) {
        let label = "[[learn]]";
        let known = Layer::known();
        let Some((names, source)) = self.patch.layers().cloned() else {
            if self.verb == Verb::Learn {
                self.problems.push(Problem::at(label, None, format!("names no layer; known: {known}")));
            }
            return;
        };
        let mut refuse = |why: String| self.problems.push(Problem::at(label, Some(source), why));
        if self.verb != Verb::Learn {
            if !names.is_empty() {
                refuse(format!("layers belong to learning; this run is for {}", self.verb.activity()));
            }
            return;
        }
        if names.is_empty() {
            refuse(format!("names no layer; known: {known}"));
        }
        let mut named = BTreeSet::new();
        for name in &names {
            match name.parse::<Layer>() {
                Ok(layer) if named.insert(layer) => {}
                Ok(_) => refuse(expected(&found_text(name), "each layer once")),
                Err(why) => refuse(expected(&found_text(name), &why)),
            }
        }
        self.layers = named.into_iter().collect();
    }

    /// Checks every option on its own, and whether this run has it.
    fn check_options(&mut self) {
        let mut problems = Vec::new();
        for (key, value, source) in self.patch.values() {
            let out_of_place = self.out_of_place(key);
            let wrong = wrong(key, value, self.exists);
            problems.extend(out_of_place.into_iter().chain(wrong).map(|why| (key, source, why)));
        }
        for (key, source, why) in problems {
            self.refused.insert(key);
            self.problems.push(Problem::of(key, Some(source), [why.into()]));
        }
    }

    /// Why this run does not have the option.
    fn out_of_place(&self, key: Key) -> Option<String> {
        if !key.applies_to(self.verb) {
            let verbs: Vec<_> = key.verbs().iter().map(|verb| verb.activity()).collect();
            return Some(format!("belongs to {}; this run is for {}", verbs.join(" and "), self.verb.activity()));
        }
        match key.scope() {
            // Without any layer that is the problem, and not the options.
            Scope::Layer(layer) if !self.layers.is_empty() && !self.layers.contains(&layer) => {
                Some(format!("belongs to layer {layer}, which this run does not name"))
            }
            _ => None,
        }
    }

    fn run(&mut self) -> RunSpec {
        if !self.has(Key::Plugin) {
            self.refuse(Key::Plugin, ["missing; name the environment, as in \"env_shop.wasm\"".into()]);
        }
        if self.verb == Verb::Evaluate && self.is_without_rewards() {
            self.refuse(Key::Rewards, ["missing; an evaluation needs a reward".into()]);
        }
        let exists = self.exists;
        let plugin = self.text(Key::Plugin).and_then(|text| PluginSpec::parse(text, exists).ok());
        let mix = self.texts(Key::Mix).iter().filter_map(|text| PartSpec::parse(text, exists).ok());
        let mix: Vec<PartSpec> = mix.collect();
        self.check_parts(&mix);
        let rewards = self.texts(Key::Rewards).iter().filter_map(|text| RewardSpec::parse(text, exists).ok());
        let rewards = rewards.collect();
        let grants = self.texts(Key::Grants).iter().filter_map(|text| text.parse::<Grant>().ok());
        let mut grants: Vec<Grant> = grants.collect();
        grants.sort();
        let playbook =
            self.text(Key::Playbook).map(|name| PlaybookSpec { name: name.to_owned(), number: None, digest: None });
        let (play, policy, budget) = (self.play(), self.policy(), self.budget());
        RunSpec {
            version: SPEC_VERSION,
            name: self.text(Key::Name).and_then(|name| name.parse().ok()),
            tags: self.texts(Key::Tags).iter().filter_map(|tag| tag.parse().ok()).collect(),
            // A run without an environment has a problem, and is not returned.
            environment: plugin.unwrap_or(PluginSpec { path: String::new(), options: Vec::new(), plugin: None }),
            mix,
            rewards,
            policy,
            playbook,
            token_budget: self.whole_or(Key::TokenBudget, 0),
            grants,
            play,
            budget,
            work: match self.verb {
                Verb::Play => Work::Play,
                Verb::Learn => Work::Learn(self.learn()),
                Verb::Evaluate => Work::Evaluate(EvaluateSpec {
                    pairs: self.whole_or(Key::Pairs, 0),
                    tries: self.small_or(Key::Tries, 0),
                    version: self.whole(Key::PlaybookVersion),
                    against: self.whole(Key::Against),
                }),
            },
        }
    }

    /// The names of parts that are known before their plugins are loaded must differ, and rewards of parts need parts.
    fn check_parts(&mut self, mix: &[PartSpec]) {
        let names: Vec<&str> = mix.iter().filter_map(|part| part.name.as_deref()).collect();
        let twice =
            names.iter().enumerate().find(|(place, name)| names.iter().take(*place).any(|other| other == *name));
        if let Some((_, name)) = twice {
            let why = format!("two parts have the name `{name}`; each needs its own");
            self.refuse(Key::Mix, [why.into()]);
        }
        let exists = self.exists;
        let mut rewards = self.texts(Key::Rewards).iter().filter_map(|text| RewardSpec::parse(text, exists).ok());
        let alone = rewards.find_map(|reward| reward.part.filter(|_| mix.is_empty()));
        if let Some(part) = alone.filter(|_| !self.refused.contains(&Key::Mix)) {
            let begin = format!("judges the part `{part}`, but the run has one environment; name others with ");
            self.refuse(Key::Rewards, [begin.into(), Key::Mix.into()]);
        }
    }

    fn learns(&self, layer: Layer) -> bool {
        self.layers.contains(&layer)
    }

    fn is_without_rewards(&self) -> bool {
        !self.refused.contains(&Key::Rewards) && self.texts(Key::Rewards).is_empty()
    }

    /// Records a problem of an option. For an absent option it has no source.
    fn refuse(&mut self, key: Key, message: impl IntoIterator<Item = Part>) {
        self.refused.insert(key);
        self.problems.push(Problem::of(key, self.source(key), message));
    }

    /// Whether an option is set, valid or not. An empty list counts as absent: a command line has no empty lists.
    fn has(&self, key: Key) -> bool {
        self.patch.get(key).is_some_and(|(value, _)| !matches!(value, Value::Texts(texts) if texts.is_empty()))
    }

    fn source(&self, key: Key) -> Option<Source> {
        self.patch.get(key).map(|(_, source)| *source)
    }

    /// An option that has no problem of its own.
    fn value(&self, key: Key) -> Option<&Value> {
        self.patch.get(key).map(|(value, _)| value).filter(|_| !self.refused.contains(&key))
    }

    fn whole(&self, key: Key) -> Option<u64> {
        match self.value(key) {
            Some(Value::Whole(number)) => Some(*number),
            _ => None,
        }
    }

    fn number(&self, key: Key) -> Option<f64> {
        match self.value(key) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    fn text(&self, key: Key) -> Option<&str> {
        match self.value(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn texts(&self, key: Key) -> &[String] {
        match self.value(key) {
            Some(Value::Texts(texts)) => texts,
            _ => &[],
        }
    }

    /// A whole number, or its default of this case.
    fn whole_or(&self, key: Key, case: usize) -> u64 {
        self.whole(key).unwrap_or_else(|| preset_whole(key, case))
    }

    /// A whole number of a smaller type; the range of the option guarantees that it fits.
    fn small_or<N: TryFrom<u64> + Default>(&self, key: Key, case: usize) -> N {
        small(self.whole_or(key, case))
    }

    fn number_or(&self, key: Key, case: usize) -> f64 {
        self.number(key).unwrap_or_else(|| preset_number(key, case))
    }

    fn text_or(&self, key: Key, case: usize) -> &str {
        self.text(key).unwrap_or_else(|| preset_text(key, case))
    }
}

/// A number that fits the type because of its range.
fn small<N: TryFrom<u64> + Default>(number: u64) -> N {
    N::try_from(number).unwrap_or_default()
}

/// The default of a case in the table.
fn preset_whole(key: Key, case: usize) -> u64 {
    match key.presets().get(case) {
        Some(Preset::Whole(number)) => *number,
        _ => 0,
    }
}

/// See [`preset_whole`].
fn preset_number(key: Key, case: usize) -> f64 {
    match key.presets().get(case) {
        Some(Preset::Number(number)) => *number,
        _ => 0.0,
    }
}

/// See [`preset_whole`].
fn preset_text(key: Key, case: usize) -> &'static str {
    match key.presets().get(case) {
        Some(Preset::Text(text)) => text,
        _ => "",
    }
}

/// See [`preset_whole`].
fn preset_flag(key: Key) -> bool {
    matches!(key.presets().first(), Some(Preset::Flag(true)))
}
