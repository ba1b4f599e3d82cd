//! The table of options: each option once, with its range, its default and its help.

use crate::{Layer, Scope, Verb};
use std::ops::RangeInclusive;

/// The type of a value, so that a front end can parse it. Ranges are checked by the validator alone.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A whole number.
    Whole {
        /// The allowed range.
        range: RangeInclusive<u64>,
    },
    /// A finite number. A range that begins at the smallest positive number excludes 0.
    Number {
        /// The allowed range.
        range: RangeInclusive<f64>,
    },
    /// One text.
    Text,
    /// True or false.
    Flag,
    /// A list of texts.
    Texts,
}

impl Kind {
    /// The expectation in a message.
    pub(crate) fn expected(&self) -> String {
        match self {
            Self::Whole { range } if *range.end() == u64::MAX => {
                format!("a whole number of at least {}", range.start())
            }
            Self::Whole { range } => format!("a whole number from {} to {}", range.start(), range.end()),
            Self::Number { range } if *range.end() == f64::MAX => "a number".to_owned(),
            Self::Number { range } if *range.start() == f64::MIN_POSITIVE => {
                format!("a number above 0 and at most {}", range.end())
            }
            Self::Number { range } => format!("a number from {} to {}", range.start(), range.end()),
            Self::Text => "a text that is not empty".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Texts => "a list of texts, as in [\"one\", \"two\"]".to_owned(),
        }
    }
}

/// A heading of help, with a group of options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// What is played, and how much of it.
    Run,
    /// What models may be asked, and how.
    Model,
    /// Options of every learning run.
    Learning,
    /// Options of the harness layer.
    Harness,
    /// Options of the weights layer.
    Weights,
    /// Options of an evaluation.
    Evaluation,
}

impl Topic {
    /// The heading.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Run => "Run",
            Self::Model => "Model",
            Self::Learning => "Learning",
            Self::Harness => "Harness",
            Self::Weights => "Weights",
            Self::Evaluation => "Evaluation",
        }
    }
}

/// A default that is stated in the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Preset {
    Whole(u64),
    Number(f64),
    Text(&'static str),
    Flag(bool),
}

/// One row of the table.
struct Row {
    name: &'static str,
    scope: Scope,
    kind: Kind,
    presets: &'static [Preset],
    default_text: Option<&'static str>,
    verbs: &'static [Verb],
    decides: bool,
    topic: Topic,
    value_name: &'static str,
    summary: &'static str,
}

const RUN: Scope = Scope::Run;
const HARNESS: Scope = Scope::Layer(Layer::Harness);
const WEIGHTS: Scope = Scope::Layer(Layer::Weights);
const EVALUATE: Scope = Scope::Evaluate;

const ANY: &[Verb] = &Verb::ALL;
const PLAYS: &[Verb] = &[Verb::Play, Verb::Learn];
const PLAY: &[Verb] = &[Verb::Play];
const LEARN: &[Verb] = &[Verb::Learn];
const EVAL: &[Verb] = &[Verb::Evaluate];

/// Largest integer that JSON numbers represent exactly.
const LARGEST_SEED: u64 = (1 << 53) - 1;
/// Largest integer of TOML and of the database.
const LARGEST_TOTAL: u64 = i64::MAX as u64;

/// Defines [`Key`] and its rows. A row has: variant, name, table, kind with its range, default, verbs, whether it
/// decides results, topic, the name of its value in help, and one line of help.
///
/// Defaults are `none`; `words("...")` where another part of the run decides; `fixed(value)`; or
/// `cases(value, "words", value, "words")`, of which the validator picks one.
macro_rules! keys {
    ($($variant:ident, $name:literal, $scope:ident, $kind:ident $(($range:expr))?,
        $default:ident $(($($given:literal),+))?, $verbs:ident, $weight:ident, $topic:ident, $unit:literal,
        $summary:literal;)+) => {
        /// An option of a run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Key {
            $(#[doc = $summary] $variant,)+
        }

        /// The objective that learns from a teacher, and from no rewards.
pub(crate) const DISTILLATION: &str = "opd";

impl Key {
            /// All options, in the order in which help and files show them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            fn row(self) -> Row {
                match self {
                    $(Self::$variant => Row {
                        name: $name,
                        scope: $scope,
                        kind: keys!(@kind $kind $($range)?),
                        presets: keys!(@presets $kind $default $($($given),+)?),
                        default_text: keys!(@text $default $($($given),+)?),
                        verbs: $verbs,
                        decides: keys!(@decides $weight),
                        topic: Topic::$topic,
                        value_name: $unit,
                        summary: $summary,
                    },)+
                }
            }
        }
    };
    (@kind whole $range:expr) => { Kind::Whole { range: $range } };
    (@kind number $range:expr) => { Kind::Number { range: $range } };
    (@kind text) => { Kind::Text };
    (@kind flag) => { Kind::Flag };
    (@kind texts) => { Kind::Texts };
    (@preset whole $value:literal) => { Preset::Whole($value) };
    (@preset number $value:literal) => { Preset::Number($value) };
    (@preset text $value:literal) => { Preset::Text($value) };
    (@preset flag $value:literal) => { Preset::Flag($value) };
    (@presets $kind:ident none) => { &[] };
    (@presets $kind:ident words $text:literal) => { &[] };
    (@presets $kind:ident fixed $value:literal) => { &[keys!(@preset $kind $value)] };
    (@presets $kind:ident cases $($value:literal, $words:literal),+) => { &[$(keys!(@preset $kind $value)),+] };
    (@text none) => { None };
    (@text words $text:literal) => { Some($text) };
    (@text fixed $value:literal) => { Some(concat!($value)) };
    (@text cases $($part:literal),+) => { Some(concat!($($part),+)) };
    (@decides decides) => { true };
    (@decides free) => { false };
}

keys! {
    Plugin, "plugin", RUN, text, none, ANY, decides, Run, "PLUGIN.wasm",
        "The environment, with options as in PLUGIN.wasm?size=10&guesses=5";
    Mix, "mix", RUN, texts, none, ANY, decides, Run, "PLUGIN.wasm[?OPTION=VALUE][#weight=W][&name=PART]",
        "Another environment of the run: each is a part with a share of the groups, 1 for the first and W (default 1) for this one; rewards and lifts are reported for each part too";
    Name, "name", RUN, text, none, ANY, free, Run, "NAME",
        "A name for the run, unique in the data folder, that every command accepts in place of the id";
    Tags, "tags", RUN, texts, none, ANY, free, Run, "TAG",
        "Tags of the run, for filtering lists; at most 32";
    Rewards, "rewards", RUN, texts, none, ANY, decides, Run, "R.wasm[?OPTION=VALUE][#weight=W]",
        "Rewards that judge the episodes; #weight=W and #source=S (user, outcome, execution, judge) override its weight and source; #for=PART judges the episodes of one environment of several";
    Policy, "policy", RUN, text, fixed("follower"), ANY, decides, Model, "SPEC",
        "The policy: follower, random, openai:MODEL@URL, anthropic:MODEL@URL, local:DIR (a model in a folder), tinker:BASE=DIR@URL (a model at a Tinker-compatible service), script:FILE (a turn per line: text, or calls TOOL {...}) or router:NAME (chooses between models)";
    Model, "model", RUN, text, none, ANY, decides, Model, "DIR",
        "The folder of a local model as policy: short for the policy local:DIR";
    Tasks, "tasks", RUN, text, words("train, or the environment's first split"), PLAYS, decides, Run, "SPLIT",
        "The split of the environment whose tasks are played; learning never uses test or val";
    Seed, "seed", RUN, whole(0..=LARGEST_SEED), fixed(0), ANY, decides, Run, "S",
        "The seed of all random choices: equal seeds, equal runs";
    From, "from", RUN, text, none, LEARN, decides, Learning, "RUN",
        "Learn from the decided episodes of this recorded run and their rewards, instead of playing training tasks";
    Iterations, "iterations", RUN, whole(1..=100_000), fixed(20), LEARN, decides, Learning, "N",
        "Batches of episodes that are played and learned from";
    Schedule, "schedule", RUN, text, cases("turns", " where several layers learn, else ", "joint", ""), LEARN, decides, Learning, "NAME",
        "When each of several layers learns: joint (all of them in every iteration, from the same episodes) or turns (one after the other: lessons with their budget first, then the weights, then the router; without a budget again and again, the weights for four iterations and the others for one)";
    Episodes, "episodes", RUN, whole(1..=10_000_000), cases(20, "; learning ", 64, " an iteration"), PLAYS, decides, Run, "N",
        "Episodes to play; when learning, episodes per iteration";
    Group, "group", RUN, whole(1..=1024), cases(1, "; harness ", 4, ", or ", 2, " where the policy always answers alike; weights ", 8, ""), PLAYS, decides, Run, "G",
        "Episodes per task and seed, judged together";
    BranchAt, "branch_at", RUN, whole(1..=9_999), none, PLAY, decides, Run, "K",
        "The episodes of a group share their first K turns and branch from there";
    MaxTurns, "max_turns", RUN, whole(1..=10_000), fixed(64), ANY, decides, Run, "N",
        "Turns of an episode, after which it is truncated";
    TestPairs, "test_pairs", RUN, whole(0..=1_000_000), fixed(200), LEARN, decides, Learning, "N",
        "Pairs of test episodes, before and after, for the final report; 0: none";
    Expect, "expect", RUN, texts, none, PLAY, decides, Run, "SOURCE=TIME",
        "Wait for a verdict of this source: with user=24h, learning uses an episode when a person has judged it, or 24 hours after its end";
    Concurrency, "concurrency", RUN, whole(1..=4096), cases(16, "; weights: all of an iteration, at most ", 256, ""), ANY,
        free, Run, "C",
        "Episodes that are played concurrently; never changes a result";
    FailureBudget, "failure_budget", RUN, number(0.0..=1.0), fixed(0.1), ANY, free, Run, "SHARE",
        "Share of the episodes that may fail before the run stops, rounded down: 0.1 of 9 is 0";
    Playbook, "playbook", RUN, text, words("learning the harness and evaluating: the environment's name"), ANY, decides, Run,
        "NAME",
        "The playbook that the policy reads, by name; the harness learns it";
    TokenBudget, "token_budget", RUN, whole(1..=1_000_000), fixed(2000), ANY, decides, Run, "N",
        "Largest number of tokens of lessons in one prompt";
    SystemPrompt, "system_prompt", RUN, text, words("the environment's own hint"), ANY, decides, Model, "TEXT",
        "The system prompt of the model";
    SystemPromptFile, "system_prompt_file", RUN, text, none, ANY, decides, Model, "FILE",
        "The system prompt of the model, from a file";
    Temperature, "temperature", RUN, number(0.0..=2.0), cases(1.0, " where weights learn; else the model's own"), ANY,
        decides, Model, "T",
        "Sampling temperature, 0 to 2";
    TopP, "top_p", RUN, number(f64::MIN_POSITIVE..=1.0), words("the model's own"), ANY, decides, Model, "P",
        "Draw from the smallest set of tokens whose probabilities add up to P, above 0 and at most 1";
    MaxTokens, "max_tokens", RUN, whole(1..=u64::from(u32::MAX)), fixed(1024), ANY, decides, Model, "N",
        "Largest number of tokens per answer";
    Grants, "grants", RUN, texts, none, ANY, decides, Model, "GRANT",
        "What plugins may do beyond computing and logging: kv (keys and values that last for an episode), or llm:ALIAS=SPEC (a model; SPEC as for a policy)";
    MaxTokensTotal, "max_tokens_total", RUN, whole(0..=LARGEST_TOTAL), words("no limit"), ANY, free, Model, "N",
        "Stop requests to models after this many tokens in total, read and generated; answers in flight still count";
    MaxGrantTokens, "max_grant_tokens", RUN, whole(0..=LARGEST_TOTAL), words("no limit"), ANY, free, Model, "N",
        "Stop requests of plugins to granted models after this many tokens in total; one episode or group has at most 200,000";
    MaxCost, "max_cost", RUN, number(0.0..=1e9), words("no limit"), ANY, free, Model, "MONEY",
        "Stop requests to models after this amount of money; needs a price";
    Price, "price", RUN, text, words("unknown"), ANY, decides, Model, "IN,OUT",
        "Price per million tokens, read and generated, as 0.15,0.60";

    Reflectors, "reflectors", HARNESS, texts, none, LEARN, decides, Harness, "R.wasm[?OPTION=VALUE]",
        "Reflectors that propose lessons";
    Budget, "budget", HARNESS, whole(48..=1_000_000), cases(300, " where trials and the gate are left open, and iterations and episodes, too, if the harness alone learns; else every lesson is measured alone, which takes thousands of episodes"),
        LEARN, decides, Harness, "N",
        "Learn with this many episodes, training and gate together; lessons are judged together, and the test is played besides";
    BudgetTokens, "budget_tokens", HARNESS, whole(1_000..=LARGEST_TOTAL), none, LEARN, decides, Harness, "N",
        "As the budget of episodes, for this many tokens: as many episodes as they pay for, by the mean of an earlier run of the same environment and policy";
    BudgetMoney, "budget_money", HARNESS, number(1e-6..=1e9), none, LEARN, decides, Harness, "MONEY",
        "As the budget of episodes, for this amount of money: as many episodes as it pays for, by the mean of an earlier run of the same environment and policy; needs a price";
    TrialSlots, "trial_slots", HARNESS, whole(1..=16), fixed(16), LEARN, decides, Harness, "N",
        "Lessons on trial at once";
    ReflectEvery, "reflect_every", HARNESS, whole(1..=100_000), fixed(1), LEARN, decides, Harness, "N",
        "Call reflectors after every N-th batch, beginning with the first";
    GateEvery, "gate_every", HARNESS, whole(1..=100_000), fixed(10), LEARN, decides, Harness, "N",
        "Iterations between two candidates for the gate";
    GatePairs, "gate_pairs", HARNESS, whole(8..=1_000_000), fixed(512), LEARN, decides, Harness, "N",
        "Pairs of episodes that one session of the gate may use";
    Alpha, "alpha", HARNESS, number(1e-6..=0.5), fixed(0.05), LEARN, decides, Harness, "SHARE",
        "Largest probability that the gate passes, in the whole run, a candidate that is not better";
    Forbid, "forbid", HARNESS, texts, none, LEARN, decides, Harness, "TEXT",
        "Texts of 8 characters or more that no lesson may quote; the data folder keeps them";
    Evolve, "evolve", HARNESS, whole(0..=1_000_000), fixed(0), LEARN, decides, Harness, "BUDGET",
        "Before learning, evolve a section of the prompt with this many episodes: each plays one task with one candidate text; 0: none";
    EvolveSection, "evolve_section", HARNESS, text, fixed("rules"), LEARN, decides, Harness, "NAME",
        "The section that evolves";
    EvolveMinibatch, "evolve_minibatch", HARNESS, whole(1..=64), fixed(3), LEARN, decides, Harness, "N",
        "Training tasks on which a new text is compared with its parent";
    EvolveReflector, "evolve_reflector", HARNESS, text, words("the first reflector, with write=section"), LEARN, decides,
        Harness, "R.wasm[?OPTION=VALUE]",
        "The reflector that rewrites the section";

    Objective, "objective", WEIGHTS, text, fixed("dapo"), LEARN, decides, Weights, "NAME",
        "The objective that is minimised: grpo, dapo, dr_grpo, rloo, is, cispo or gspo from rewards, or opd from a teacher; with one step per iteration, dapo and cispo are the same";
    Teacher, "teacher", WEIGHTS, text, none, LEARN, decides, Weights, "DIR|openai:MODEL@ADDRESS",
        "A model with the same tokenizer, for the objective opd: a local folder, or an endpoint that scores given tokens (vLLM, SGLang, a gateway). Its log-probs of the answers are learned from, and no rewards";
    TeacherTop, "teacher_top", WEIGHTS, whole(0..=20), fixed(0), LEARN, decides, Weights, "K",
        "Most likely tokens of the teacher that are compared at every position, with all others as one more; 0: the drawn token alone";
    Credit, "credit", WEIGHTS, text, fixed("episode"), LEARN, decides, Weights, "UNIT",
        "What answers are credited with: episode (its reward against those of its group); turn (besides, what followed a turn against what followed other turns of the group after the same observation); or judge (besides, what rewards say of a turn against what they say of the turns at the same place in the group)";
    CreditWeight, "credit_weight", WEIGHTS, number(f64::MIN_POSITIVE..=10.0), fixed(1.0), LEARN, decides, Weights, "WEIGHT",
        "Weight of what turns are credited with, beside that of their episode";
    Epochs, "epochs", WEIGHTS, whole(1..=64), fixed(1), LEARN, decides, Weights, "N",
        "Passes over the episodes of an iteration; the bounds of an objective act only with more than one step per iteration";
    Minibatches, "minibatches", WEIGHTS, whole(1..=1024), fixed(1), LEARN, decides, Weights, "N",
        "Most parts of a pass, of whole groups, with a step for each";
    Rate, "rate", WEIGHTS, number(f64::MIN_POSITIVE..=1.0), cases(0.002, "; of an adapter ", 0.0002, ""), LEARN, decides,
        Weights, "RATE",
        "Highest learning rate: it rises during the warm-up, then falls to a tenth";
    Warmup, "warmup", WEIGHTS, whole(0..=100_000), fixed(5), LEARN, decides, Weights, "N",
        "Steps until the rate is at its highest";
    Optimizer, "optimizer", WEIGHTS, text, cases("muon", "; of an adapter ", "adamw", ""), LEARN, decides, Weights, "RULE",
        "muon for the matrices inside the blocks and AdamW for the others, or adamw for all";
    AdapterRank, "adapter_rank", WEIGHTS, whole(1..=1024), words("all weights learn"), LEARN, decides, Weights, "RANK",
        "Train an adapter of this rank (LoRA) instead of all weights; an adapter in the model's folder continues learning";
    AdapterAlpha, "adapter_alpha", WEIGHTS, number(f64::MIN_POSITIVE..=1e6), words("twice the rank"), LEARN, decides, Weights,
        "ALPHA",
        "The adapter's output is scaled by ALPHA / RANK";
    AdapterTargets, "adapter_targets", WEIGHTS, texts, words("all seven"), LEARN, decides, Weights, "NAMES",
        "Projections that have an adapter: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj";
    Truncated, "truncated", WEIGHTS, text, fixed("keep"), LEARN, decides, Weights, "RULE",
        "Truncated episodes: keep them, mask them (they are not learned from), or penalty=P (P less reward, 0 to 2)";
    Kl, "kl", WEIGHTS, number(0.0..=10.0), fixed(0.0), LEARN, decides, Weights, "BETA",
        "Weight of the divergence from the initial model, or of an adapter from the base model; 0: none";
    Refills, "refills", WEIGHTS, whole(0..=3), fixed(3), LEARN, decides, Weights, "N",
        "How often an iteration plays new groups in place of groups whose members all have equal rewards, which teach nothing";
    DifficultyFilter, "difficulty_filter", WEIGHTS, flag, fixed(false), LEARN, decides, Weights, "BOOL",
        "Skip a task whose last two groups were all correct or all wrong, except every eighth time that it would be played";
    EvaluateEvery, "evaluate_every", WEIGHTS, whole(0..=100_000), fixed(10), LEARN, decides, Weights, "N",
        "Iterations between two evaluations on validation tasks, which select the best weights, the starting ones among them; 0: none";
    EvaluateEpisodes, "evaluate_episodes", WEIGHTS, whole(1..=1_000_000), fixed(100), LEARN, decides, Weights, "N",
        "Validation episodes of an evaluation";
    Demonstrations, "demonstrations", WEIGHTS, texts, words("none"), LEARN, decides, Weights, "OPTION=VALUE",
        "Options under which the environment demonstrates: the weights learn from its demonstrations before rewards";
    DemonstrationsUntil, "demonstrations_until", WEIGHTS, number(f64::MIN..=f64::MAX), fixed(0.4), LEARN, decides, Weights,
        "REWARD",
        "Mean reward of sampled episodes at which demonstrations end";
    DemonstrationsSteps, "demonstrations_steps", WEIGHTS, whole(1..=1_000_000), fixed(400), LEARN, decides, Weights, "N",
        "Largest number of steps of demonstrations, of 128 each; every tenth step samples episodes";
    Completions, "completions", WEIGHTS, whole(0..=1000), fixed(4), LEARN, free, Weights, "N",
        "Episodes per iteration that are written as text";
    Out, "out", WEIGHTS, text, words("`learned` in the data folder"), LEARN, free, Weights, "DIR",
        "The folder for models, metrics and curves; each run has its own folder inside";

    Pairs, "pairs", EVALUATE, whole(2..=1_000_000), fixed(200), EVAL, decides, Evaluation, "N",
        "Pairs of test episodes: with and without, on the same tasks with the same seeds";
    Tries, "tries", EVALUATE, whole(1..=512), fixed(1), EVAL, decides, Evaluation, "K",
        "Tries of each side at every pair's task and seed; of several, pass@k, mean@k and best-of-k are reported";
    PlaybookVersion, "playbook_version", EVALUATE, whole(1..=u64::MAX), words("the newest"), EVAL, decides, Evaluation, "N",
        "The version of the playbook that is judged";
    Against, "against", EVALUATE, whole(1..=u64::MAX), words("no playbook"), EVAL, decides, Evaluation, "N",
        "The version of the playbook that it is judged against";
}

impl Key {
    /// Its name, as in `run.toml`. No two options share a name.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its name with its table, for messages about files: `seed`, `[[learn]] harness, gate_every`.
    pub fn label(self) -> String {
        crate::problem::label(self.scope(), self.name())
    }

    /// The table that it belongs to.
    pub fn scope(self) -> Scope {
        self.row().scope
    }

    /// The type of its value.
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// One line of help.
    pub fn summary(self) -> &'static str {
        self.row().summary
    }

    /// The default in help. `None`: it has none.
    pub fn default_text(self) -> Option<&'static str> {
        self.row().default_text
    }

    /// The name of its value in help.
    pub fn value_name(self) -> &'static str {
        self.row().value_name
    }

    /// Its heading in help.
    pub fn topic(self) -> Topic {
        self.row().topic
    }

    /// Whether it can change a result. Options that cannot may differ when a run is resumed.
    pub fn decides(self) -> bool {
        self.row().decides
    }

    /// The verbs of runs that have this option.
    pub fn verbs(self) -> &'static [Verb] {
        self.row().verbs
    }

    /// Whether a run with this verb has the option.
    pub fn applies_to(self, verb: Verb) -> bool {
        self.row().verbs.contains(&verb)
    }

    /// The allowed words, if only some are allowed.
    pub fn choices(self) -> &'static [&'static str] {
        match self {
            Self::Objective => &["grpo", "dapo", "dr_grpo", "rloo", "is", "cispo", "gspo", DISTILLATION],
            Self::Credit => &["episode", "turn", "judge"],
            Self::Schedule => &["joint", "turns"],
            Self::Optimizer => &["muon", "adamw"],
            Self::AdapterTargets => &["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
            _ => &[],
        }
    }

    /// Why a word that users of other programs expect here is not among the choices, with what to use instead.
    pub(crate) fn instead_of(self, word: &str) -> Option<&'static str> {
        match (self, word) {
            (Self::Objective, "ppo") => Some("ppo needs a critic, and there is none: dapo and grpo have its clip"),
            (Self::Objective, "sft" | "dpo" | "kto") => Some("it needs no environment: `model tune` trains by it"),
            _ => None,
        }
    }

    /// The option of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|key| key.name() == name)
    }

    /// The options of a table, in order.
    pub fn within(scope: Scope) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |key| key.scope() == scope)
    }

    /// The option that excludes this one: both set the same thing in different ways.
    pub(crate) fn rival(self) -> Option<Self> {
        match self {
            Self::Policy => Some(Self::Model),
            Self::Model => Some(Self::Policy),
            Self::SystemPrompt => Some(Self::SystemPromptFile),
            Self::SystemPromptFile => Some(Self::SystemPrompt),
            _ => None,
        }
    }

    /// The defaults in the table: one, or one for each case.
    pub(crate) fn presets(self) -> &'static [Preset] {
        self.row().presets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_of_options_are_unique() {
        let names: BTreeSet<_> = Key::ALL.iter().map(|key| key.name()).collect();
        assert_eq!(names.len(), Key::ALL.len());
        assert!(Key::ALL.iter().all(|key| Key::named(key.name()) == Some(*key)));
        assert_eq!(Key::named("layer"), None);
    }

    #[test]
    fn every_option_has_help_that_names_no_flag() {
        for key in Key::ALL {
            let texts = [key.summary(), key.value_name(), key.default_text().unwrap_or("none")];
            for text in texts {
                assert!(!text.is_empty() && !text.contains("--") && !text.contains('\n'), "{key:?}: {text}");
            }
            assert!(!key.verbs().is_empty(), "{key:?}");
        }
    }

    #[test]
    fn layer_options_belong_to_learning_and_only_host_options_change_no_result() {
        for key in Key::ALL {
            match key.scope() {
                Scope::Layer(_) => assert_eq!(key.verbs(), LEARN, "{key:?}"),
                Scope::Evaluate => assert_eq!(key.verbs(), EVAL, "{key:?}"),
                Scope::Run => {}
            }
        }
        let free: Vec<_> = Key::ALL.iter().filter(|key| !key.decides()).map(|key| key.name()).collect();
        let expected = [
            "name",
            "tags",
            "concurrency",
            "failure_budget",
            "max_tokens_total",
            "max_grant_tokens",
            "max_cost",
            "completions",
            "out",
        ];
        assert_eq!(free, expected);
    }

    #[test]
    fn help_shows_the_defaults_of_the_table() {
        assert_eq!(Key::Episodes.default_text(), Some("20; learning 64 an iteration"));
        assert_eq!(
            Key::Group.default_text(),
            Some("1; harness 4, or 2 where the policy always answers alike; weights 8")
        );
        assert_eq!(Key::Rate.default_text(), Some("0.002; of an adapter 0.0002"));
        assert_eq!(Key::Policy.default_text(), Some("follower"));
        assert_eq!(Key::BranchAt.default_text(), None);
        assert_eq!(Key::Rate.presets(), [Preset::Number(0.002), Preset::Number(0.0002)]);
    }

    #[test]
    fn every_default_is_in_its_range() {
        for key in Key::ALL {
            for preset in key.presets() {
                match (preset, key.kind()) {
                    (Preset::Whole(value), Kind::Whole { range }) => assert!(range.contains(value), "{key:?}"),
                    (Preset::Number(value), Kind::Number { range }) => assert!(range.contains(value), "{key:?}"),
                    (Preset::Text(value), Kind::Text) => {
                        assert!(key.choices().is_empty() || key.choices().contains(value), "{key:?}");
                    }
                    (Preset::Flag(_), Kind::Flag) => {}
                    other => panic!("{key:?}: {other:?}"),
                }
            }
        }
    }

    #[test]
    fn an_option_and_its_rival_exclude_each_other() {
        for key in Key::ALL {
            assert!(key.rival().is_none_or(|rival| rival.rival() == Some(*key)), "{key:?}");
        }
    }
}
