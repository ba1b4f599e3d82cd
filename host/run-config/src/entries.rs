//! A resolved run as a flat list. Each entry has a place, a value, and the option that decides it.

use crate::{Key, LayerSpec, PluginSpec, RunSpec, Scope, Value, Work};
use clawhost_core::{PluginIdentity, escaped};

/// The text of an absent value.
pub(crate) const NONE: &str = "none";
/// Entries of the policy as a text and as an identity. If both are known, only the identity counts.
pub(crate) const POLICY: &str = "policy";
/// See [`POLICY`].
pub(crate) const IDENTITY: [&str; 3] =
    ["the model's provider", "the model's name", "the model (weights or chat format)"];
/// Whether a section evolves.
const EVOLVE: &str = "learn.harness.evolve";
/// The layers.
const LAYERS: &str = "layers";
/// The verb.
const VERB: &str = "verb";

/// A value of an entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shown {
    /// A text, or a whole number.
    Text(String),
    /// A number, which may have lost its last digit in the store.
    Number(f64),
    /// A plugin in this role.
    Plugin { role: &'static str, path: String, identity: Option<PluginIdentity> },
}

impl Shown {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => format!("{number:?}"),
            Self::Plugin { identity: Some(PluginIdentity { name, version, digest }), .. } => {
                format!("{name} {version} {}", digest.short())
            }
            Self::Plugin { path, identity: None, .. } => path.clone(),
        }
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) place: String,
    pub(crate) key: Option<Key>,
    pub(crate) shown: Shown,
    /// The place that decides whether this entry exists.
    pub(crate) below: Option<String>,
}

impl RunSpec {
    /// Every value with its place, such as `seed`, `environment.options.size`, `learn.weights.rate` or
    /// `reward.reward-state.weight`, and the option that decides it. Values are safe for a terminal.
    pub fn entries(&self) -> Vec<(String, Option<Key>, String)> {
        let shown = |entry: Entry| (entry.place, entry.key, escaped(&entry.shown.text(), usize::MAX));
        self.all_entries().into_iter().map(shown).collect()
    }

    pub(crate) fn all_entries(&self) -> Vec<Entry> {
        let mut out = Entries(Vec::new());
        out.text(VERB, None, self.work.verb().name());
        if let Work::Learn(learn) = &self.work {
            let names: Vec<&str> = learn.layers.iter().map(|layer| layer.layer().name()).collect();
            out.text(LAYERS, None, names.join(", ")).below(VERB);
        }
        out.plugin("environment", "environment", Key::Plugin, &self.environment, None);
        let parts: Vec<&PluginSpec> = self.mix.iter().map(|part| &part.plugin).collect();
        if !parts.is_empty() {
            let places = out.plugins("part", "mix", Key::Mix, &parts, None);
            for (place, part) in places.iter().zip(&self.mix) {
                out.push(format!("{place}.weight"), Some(Key::Mix), Shown::Number(part.weight)).below("mix");
                let name = part.name.as_deref().unwrap_or("its own");
                out.text(&format!("{place}.name"), Some(Key::Mix), name).below("mix");
            }
        }
        let rewards: Vec<&PluginSpec> = self.rewards.iter().map(|reward| &reward.plugin).collect();
        let places = out.plugins("reward", "rewards", Key::Rewards, &rewards, None);
        for (place, reward) in places.iter().zip(&self.rewards) {
            out.push(format!("{place}.weight"), Some(Key::Rewards), Shown::Number(reward.weight)).below("rewards");
            let source = reward.source.map_or("its own", |source| source.name());
            out.text(&format!("{place}.source"), Some(Key::Rewards), source).below("rewards");
            if let Some(part) = &reward.part {
                out.text(&format!("{place}.for"), Some(Key::Rewards), part.as_str()).below("rewards");
            }
        }
        self.policy_entries(&mut out);
        if let Some(playbook) = &self.playbook {
            out.text("playbook", Some(Key::Playbook), playbook.name.as_str());
            if let Some(number) = playbook.number {
                out.text("playbook.number", Some(Key::Playbook), number.to_string()).below("playbook");
            }
            if let Some(digest) = playbook.digest {
                out.text("playbook.digest", Some(Key::Playbook), digest.to_string()).below("playbook");
            }
        }
        for grant in &self.grants {
            let spec = match grant {
                crate::Grant::Kv => "granted",
                crate::Grant::Model { spec, .. } => spec,
            };
            out.text(&format!("grants.{}", grant.name()), Some(Key::Grants), spec);
        }
        self.learning_entries(&mut out);
        self.option_entries(&mut out);
        out.0
    }

    fn policy_entries(&self, out: &mut Entries) {
        let policy = &self.policy;
        out.text(POLICY, Some(Key::Policy), policy.model.as_str());
        if let Some(identity) = &policy.identity {
            for (place, part) in IDENTITY.iter().zip([&identity.provider, &identity.model, &identity.version]) {
                out.text(place, Some(Key::Policy), part.as_str());
            }
        }
        // The text counts, whatever file it came from.
        match (&policy.system_prompt, &policy.system_prompt_file) {
            (Some(text), _) => out.text("system_prompt", Some(Key::SystemPrompt), text.as_str()),
            (None, Some(file)) => out.text("system_prompt", Some(Key::SystemPromptFile), format!("the file {file}")),
            (None, None) => return,
        };
    }

    /// Entries of learning layers that are not plain options.
    fn learning_entries(&self, out: &mut Entries) {
        let Work::Learn(learn) = &self.work else { return };
        for layer in &learn.layers {
            match layer {
                LayerSpec::Harness(harness) => {
                    let reflectors: Vec<&PluginSpec> = harness.reflectors.iter().collect();
                    out.plugins("reflector", "reflectors", Key::Reflectors, &reflectors, Some(LAYERS));
                    if let Some(evolve) = &harness.evolve {
                        let place = "learn.harness.evolve_reflector";
                        out.plugin("reflector", place, Key::EvolveReflector, &evolve.reflector, Some(EVOLVE));
                    }
                }
                LayerSpec::Weights(weights) => {
                    if let Some(digest) = weights.before {
                        let place = "the digest of the model's weights";
                        out.text(place, Some(Key::Policy), digest.to_string()).below(LAYERS);
                    }
                }
                // Everything that it depends on is in the identity of the policy.
                LayerSpec::Router(_) => {}
            }
        }
    }

    /// Plain options: one value each.
    fn option_entries(&self, out: &mut Entries) {
        let special = [
            Key::Plugin,
            Key::Mix,
            Key::Rewards,
            Key::Policy,
            Key::SystemPrompt,
            Key::SystemPromptFile,
            Key::Playbook,
            Key::Grants,
            Key::Reflectors,
            Key::EvolveReflector,
        ];
        let patch = self.to_patch();
        for (key, value, _) in patch.values().filter(|(key, ..)| !special.contains(key)) {
            let shown = match value {
                Value::Whole(number) => Shown::Text(number.to_string()),
                Value::Number(number) => Shown::Number(*number),
                Value::Text(text) => Shown::Text(text.clone()),
                Value::Flag(flag) => Shown::Text(flag.to_string()),
                Value::Texts(texts) if texts.is_empty() && key == Key::AdapterTargets => Shown::Text("all".to_owned()),
                Value::Texts(texts) if texts.is_empty() => Shown::Text(NONE.to_owned()),
                Value::Texts(texts) => Shown::Text(texts.join(", ")),
            };
            let entry = out.push(place(key), Some(key), shown);
            if let Some(head) = head(key) {
                entry.below(&head);
            }
        }
    }
}

/// The place of an option.
fn place(key: Key) -> String {
    match key.scope() {
        Scope::Layer(layer) => format!("learn.{layer}.{}", key.name()),
        Scope::Run | Scope::Evaluate => key.name().to_owned(),
    }
}

/// The place that decides whether a run has the option.
fn head(key: Key) -> Option<String> {
    match key {
        // A single layer has none.
        Key::Schedule => Some(LAYERS.to_owned()),
        Key::EvolveSection | Key::EvolveMinibatch => Some(EVOLVE.to_owned()),
        Key::AdapterAlpha | Key::AdapterTargets => Some(place(Key::AdapterRank)),
        Key::DemonstrationsUntil | Key::DemonstrationsSteps => Some(place(Key::Demonstrations)),
        _ => match key.scope() {
            Scope::Layer(_) => Some(LAYERS.to_owned()),
            Scope::Run | Scope::Evaluate => Some(VERB.to_owned()).filter(|_| key.verbs().len() < 3),
        },
    }
}

struct Entries(Vec<Entry>);

impl Entry {
    fn below(&mut self, place: &str) {
        self.below = Some(place.to_owned());
    }
}

impl Entries {
    fn push(&mut self, place: String, key: Option<Key>, shown: Shown) -> &mut Entry {
        self.0.push_mut(Entry { place, key, shown, below: None })
    }

    fn text(&mut self, place: &str, key: Option<Key>, text: impl Into<String>) -> &mut Entry {
        self.push(place.to_owned(), key, Shown::Text(text.into()))
    }

    /// A plugin and its options.
    fn plugin(&mut self, role: &'static str, place: &str, key: Key, plugin: &PluginSpec, below: Option<&str>) {
        let shown = Shown::Plugin { role, path: plugin.path.clone(), identity: plugin.plugin.clone() };
        self.push(place.to_owned(), Some(key), shown).below = below.map(str::to_owned);
        let head = below.unwrap_or(place);
        for (name, value) in &plugin.options {
            self.text(&format!("{place}.options.{name}"), Some(key), value.as_str()).below(head);
        }
    }

    /// Plugins of one role, by name. Returns the place of each.
    fn plugins(
        &mut self,
        role: &'static str,
        list: &str,
        key: Key,
        plugins: &[&PluginSpec],
        below: Option<&str>,
    ) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for plugin in plugins {
            let name = name(plugin);
            let same = names.iter().filter(|known| **known == name || known.starts_with(&format!("{name}."))).count();
            names.push(if same == 0 { name } else { format!("{name}.{}", same + 1) });
        }
        let listed = if names.is_empty() { NONE.to_owned() } else { names.join(", ") };
        self.text(list, Some(key), listed).below = below.map(str::to_owned);
        let places: Vec<String> = names.iter().map(|name| format!("{role}.{name}")).collect();
        for (place, plugin) in places.iter().zip(plugins) {
            self.plugin(role, place, key, plugin, Some(list));
        }
        places
    }
}

/// The name of a plugin, or the name of its file while it is not loaded.
fn name(plugin: &PluginSpec) -> String {
    match &plugin.plugin {
        Some(identity) => identity.name.clone(),
        None => {
            let file = plugin.path.rsplit(['/', '\\']).next().unwrap_or_default();
            file.strip_suffix(".wasm").unwrap_or(file).to_owned()
        }
    }
}
