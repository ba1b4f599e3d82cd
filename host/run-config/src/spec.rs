//! A resolved run: every default is filled in, and every rule holds.

use crate::LocalModelText;
use crate::{Expected, Grant, Layer, PartSpec, PluginSpec, Price, RewardSpec, Verb, WeightsSpec};
use clawhost_core::{Digest, LlmIdentity, RunLabels, RunName, RunTag, counted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A run. The store keeps it as a document. Equal runs have equal specs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// The version of the document: [`crate::SPEC_VERSION`].
    pub version: u32,
    /// The name that the run starts with. It may be renamed later, and no result depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<RunName>,
    /// The tags that the run starts with, sorted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<RunTag>,
    /// The environment; in a mixture, its first part, with weight 1 and the environment's name.
    pub environment: PluginSpec,
    /// The other parts of a mixture. Empty: there is one environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<PartSpec>,
    /// The rewards.
    pub rewards: Vec<RewardSpec>,
    /// The policy.
    pub policy: PolicySpec,
    /// The playbook that the policy reads. `None`: no playbook, or the one with the environment's name if the harness
    /// learns or is evaluated.
    pub playbook: Option<PlaybookSpec>,
    /// Largest number of tokens of lessons in one prompt.
    pub token_budget: u64,
    /// Permissions of plugins beyond computing and logging, sorted.
    pub grants: Vec<Grant>,
    /// The number of episodes, and limits.
    pub play: PlaySpec,
    /// The budget of models.
    pub budget: BudgetSpec,
    /// What the run does.
    pub work: Work,
}

impl RunSpec {
    /// The name and tags that the run starts with.
    pub fn labels(&self) -> RunLabels {
        RunLabels { name: self.name.clone(), tags: self.tags.clone() }
    }

    /// All environments with their weights: the first has 1.
    pub fn environments(&self) -> impl Iterator<Item = (&PluginSpec, f64)> {
        std::iter::once((&self.environment, 1.0)).chain(self.mix.iter().map(|part| (&part.plugin, part.weight)))
    }

    /// All plugins that it names: environments, rewards, reflectors.
    pub fn plugins(&self) -> impl Iterator<Item = &PluginSpec> {
        let environments = self.environments().map(|(plugin, _)| plugin);
        let rewards = self.rewards.iter().map(|reward| &reward.plugin);
        environments.chain(rewards).chain(self.harness().into_iter().flat_map(|harness| &harness.reflectors))
    }

    /// The names of the parts of a mixture, in order: given ones, or those of their environments. Empty before the plugins are loaded; one
    /// name if there is one environment.
    pub fn part_names(&self) -> Vec<String> {
        let own = |plugin: &PluginSpec| plugin.plugin.as_ref().map(|plugin| plugin.name.clone());
        let others = self.mix.iter().map(|part| part.name.clone().or_else(|| own(&part.plugin)));
        std::iter::once(own(&self.environment)).chain(others).collect::<Option<Vec<String>>>().unwrap_or_default()
    }

    /// The name of the environment, or those of the parts of a mixture with `+` between them. `None` before the plugins are loaded.
    pub fn environment_name(&self) -> Option<String> {
        Some(self.part_names().join("+")).filter(|name| !name.is_empty())
    }

    /// The name of the playbook that a harness learns: the configured one, or the names of the environments with `-` between them. `None`:
    /// it has none, and the plugins are not loaded.
    pub fn playbook_name(&self) -> Option<String> {
        let named = self.playbook.as_ref().map(|playbook| playbook.name.clone());
        named.or_else(|| Some(self.part_names().join("-")).filter(|name| !name.is_empty()))
    }

    /// The settings of learning, if the run learns.
    pub fn learn(&self) -> Option<&LearnSpec> {
        match &self.work {
            Work::Learn(learn) => Some(learn),
            Work::Play | Work::Evaluate(_) => None,
        }
    }

    /// The settings of the harness layer, if it learns.
    pub fn harness(&self) -> Option<&HarnessSpec> {
        self.learn().and_then(LearnSpec::harness)
    }

    /// The same, for filling in the identities of its plugins.
    pub fn harness_mut(&mut self) -> Option<&mut HarnessSpec> {
        self.layers_mut().iter_mut().find_map(|layer| match layer {
            LayerSpec::Harness(harness) => Some(harness),
            _ => None,
        })
    }

    /// The settings of the weights layer, if it learns.
    pub fn weights(&self) -> Option<&WeightsSpec> {
        self.learn().and_then(LearnSpec::weights)
    }

    /// The same, for filling in the digest of the initial weights.
    pub fn weights_mut(&mut self) -> Option<&mut WeightsSpec> {
        self.layers_mut().iter_mut().find_map(|layer| match layer {
            LayerSpec::Weights(weights) => Some(weights),
            _ => None,
        })
    }

    /// Whether a router learns.
    pub fn routes(&self) -> bool {
        self.learn().is_some_and(|learn| learn.layers.iter().any(|layer| layer.layer() == Layer::Router))
    }

    fn layers_mut(&mut self) -> &mut [LayerSpec] {
        match &mut self.work {
            Work::Learn(learn) => &mut learn.layers,
            Work::Play | Work::Evaluate(_) => &mut [],
        }
    }
}

/// The policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// `follower`, `random`, `openai:MODEL@URL`, `anthropic:MODEL@URL`, `local:DIR`, `script:FILE` or `router:NAME`.
    pub model: String,
    /// The identity of the model. The program sets it when the model is opened.
    #[serde(default)]
    pub identity: Option<LlmIdentity>,
    /// The system prompt, which may be empty. `None`: the environment's hint, or the text of the file.
    pub system_prompt: Option<String>,
    /// The file of the system prompt. The program sets `system_prompt` when the file is read.
    pub system_prompt_file: Option<String>,
    /// Sampling temperature. `None`: the model's own.
    pub temperature: Option<f32>,
    /// Top-p: tokens are drawn from the smallest set whose probabilities add up to it. `None`: the model's own.
    pub top_p: Option<f32>,
    /// Largest number of tokens per answer.
    pub max_tokens: u32,
}

impl PolicySpec {
    /// The folder of a local model.
    pub fn local_folder(&self) -> Option<&str> {
        LocalModelText::of(&self.model).map(|text| text.folder)
    }
}

/// A playbook, and its version when that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaybookSpec {
    /// Its name.
    pub name: String,
    /// The version that is read. The program sets it.
    pub number: Option<u64>,
    /// The digest of that version. The program sets it.
    pub digest: Option<Digest>,
}

/// The number of episodes, and limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaySpec {
    /// The split. `None`: `train`, or the environment's first; an evaluation plays the test split.
    pub tasks: Option<String>,
    /// The seed of all random choices.
    pub seed: u64,
    /// Episodes of the run, or per iteration if a layer learns; in an evaluation two for every pair and try.
    pub episodes: u64,
    /// Episodes per task and seed.
    pub group: u32,
    /// Turns that the episodes of a group share.
    pub branch_at: Option<u32>,
    /// Turns of an episode, after which it is truncated.
    pub max_turns: u32,
    /// Expected verdicts of every episode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect: Vec<Expected>,
    /// Episodes that are played concurrently; never changes a result.
    pub concurrency: u16,
    /// Share of the episodes that may fail before the run stops.
    pub failure_budget: f64,
}

/// The budget of models. By default there is no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetSpec {
    /// Largest number of tokens, read and generated. `None`: no limit.
    pub max_tokens_total: Option<u64>,
    /// Largest number of tokens of granted models, which plugins use. They count towards the other budgets too. `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_grant_tokens: Option<u64>,
    /// Largest amount of money. `None`: no limit.
    pub max_cost: Option<f64>,
    /// The price of tokens. `None`: unknown.
    pub price: Option<Price>,
}

/// What a run does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// Episodes are played, judged and recorded.
    Play,
    /// Layers learn from episodes.
    Learn(LearnSpec),
    /// A playbook is measured on the test split.
    Evaluate(EvaluateSpec),
}

impl Work {
    /// Its verb.
    pub fn verb(&self) -> Verb {
        match self {
            Self::Play => Verb::Play,
            Self::Learn(_) => Verb::Learn,
            Self::Evaluate(_) => Verb::Evaluate,
        }
    }
}

/// The settings of learning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearnSpec {
    /// Number of batches of episodes.
    pub iterations: u64,
    /// When each layer learns.
    #[serde(default)]
    pub schedule: ScheduleKind,
    /// Pairs of test episodes for the final report. 0: none.
    pub test_pairs: u64,
    /// The recorded run whose decided episodes are learned from. `None`: episodes are played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The layers that learn: each once, the harness first; at least one.
    pub layers: Vec<LayerSpec>,
}

impl LearnSpec {
    /// The settings of the harness layer, if it learns.
    pub fn harness(&self) -> Option<&HarnessSpec> {
        self.layers.iter().find_map(|layer| match layer {
            LayerSpec::Harness(harness) => Some(harness),
            _ => None,
        })
    }

    /// The settings of the weights layer, if it learns.
    pub fn weights(&self) -> Option<&WeightsSpec> {
        self.layers.iter().find_map(|layer| match layer {
            LayerSpec::Weights(weights) => Some(weights),
            _ => None,
        })
    }
}

/// A layer that learns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "layer", rename_all = "snake_case", deny_unknown_fields)]
pub enum LayerSpec {
    /// A playbook of lessons.
    Harness(HarnessSpec),
    /// The weights of a local model.
    Weights(WeightsSpec),
    /// The router that the policy names.
    Router(RouterSpec),
}

impl LayerSpec {
    /// The layer.
    pub fn layer(&self) -> Layer {
        match self {
            Self::Harness(_) => Layer::Harness,
            Self::Weights(_) => Layer::Weights,
            Self::Router(_) => Layer::Router,
        }
    }
}

/// The settings of the router layer. Models, prices and the weight of cost are in the router's own file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterSpec {}

/// The settings of the harness layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HarnessSpec {
    /// The reflectors.
    pub reflectors: Vec<PluginSpec>,
    /// Episodes of training and gate together. The program then sets iterations, episodes, groups and pairs. `None`: as these say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// What the budget may cost. The program converts it into episodes before anything is played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<AllowanceSpec>,
    /// Lessons on trial at once.
    pub trial_slots: u32,
    /// Reflectors are called after every n-th batch, beginning with the first.
    pub reflect_every: u64,
    /// Texts that no lesson may quote.
    pub forbid: Vec<String>,
    /// Iterations between two candidates for the gate.
    pub gate_every: u64,
    /// Pairs of episodes that one session of the gate may use.
    pub gate_pairs: u64,
    /// Probability of promoting a candidate that is no better.
    pub alpha: f64,
    /// The evolution of a section of the prompt. `None`: none.
    pub evolve: Option<EvolveSpec>,
}

impl HarnessSpec {
    /// Whether the program divides a budget, and sets iterations, episodes, groups and pairs.
    pub fn divides(&self) -> bool {
        self.budget.is_some() || self.allowance.is_some()
    }

    /// The allowance, if it was converted into episodes, and the cost by which.
    pub fn converted(&self) -> Option<(&AllowanceSpec, &EpisodeCost)> {
        let allowance = self.allowance.as_ref()?;
        Some((allowance, allowance.rate.as_ref()?))
    }
}

/// What training and gate together may cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowanceSpec {
    /// The amount.
    pub amount: Amount,
    /// How the amount was converted into episodes. `None`: it was not yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<EpisodeCost>,
}

/// An amount of tokens or money.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// Tokens of all models, read and generated.
    Tokens(u64),
    /// Money, in the currency of the price.
    Money(f64),
}

impl Amount {
    /// The number, in its unit.
    pub fn number(self) -> f64 {
        match self {
            Self::Tokens(tokens) => tokens as f64,
            Self::Money(money) => money,
        }
    }

    /// A number of the same unit in words.
    pub fn worded(self, number: f64) -> String {
        match self {
            Self::Tokens(_) => counted(number.round() as u64, "token"),
            // Four digits: an episode may cost a ten-thousandth.
            Self::Money(_) => format!("a cost of {number:.4}"),
        }
    }
}

/// What an episode cost on average in an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpisodeCost {
    /// The mean, in the unit of the amount.
    pub mean: f64,
    /// The episodes of the run.
    pub episodes: u64,
    /// The run.
    pub run: String,
}

/// The evolution of a section of the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvolveSpec {
    /// Evaluations; at least one.
    pub budget: u64,
    /// Tasks on which a new text is compared with its parent.
    pub minibatch: u32,
    /// The section.
    pub section: String,
    /// The reflector that rewrites it.
    pub reflector: PluginSpec,
}

/// When each of several layers learns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleKind {
    /// All layers in every iteration.
    #[default]
    Joint,
    /// One layer after the other.
    Turns,
}

impl ScheduleKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Joint, Self::Turns];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Joint => "joint",
            Self::Turns => "turns",
        }
    }
}

/// Documents from before there were several tries have one.
fn one() -> u32 {
    1
}

fn is_one(tries: &u32) -> bool {
    *tries == 1
}

/// What an evaluation measures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluateSpec {
    /// Pairs of test episodes.
    pub pairs: u64,
    /// Tries of each side at the task and seed of every pair.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub tries: u32,
    /// The version of the playbook. `None`: the newest.
    pub version: Option<u64>,
    /// The version that it is compared with. `None`: no playbook.
    pub against: Option<u64>,
}
