//! The command line of `clawhost model`.

use crate::device::DeviceOption;
use clap::{Args, Subcommand, ValueEnum};
use clawhost_app::Scope;
use clawhost_app::local_models::{
    CONTEXT, Dtype, GgufNumbers, HEADS, LAYERS, MAX_TOKENS, SEED, TUNE_ADAPTER_RATE, TUNE_BATCH, TUNE_BETA,
    TUNE_EPOCHS, TUNE_HELD_OUT, TUNE_LABEL_WEIGHT, TUNE_PREFERENCE_SHARE, TUNE_RATE, WIDTH,
};
use std::path::PathBuf;

/// The help of an option, with its default.
fn with_default(what: &str, default: impl std::fmt::Display) -> String {
    format!("{what} [default: {default}]")
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Create a tiny model whose tokens are characters, from a seed: equal settings give equal weights
    Init(InitArgs),
    /// Describe a model: shape, size, context, tokenizer, sampling, adapter, and the digest of its weights
    Info {
        /// The model's folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        #[command(flatten)]
        kept: KeptOption,
    },
    /// Complete a text
    Generate(Box<GenerateArgs>),
    /// Chat on a terminal, or with lines from standard input. Ctrl-C ends an answer, Ctrl-D the conversation
    Chat(ChatArgs),
    /// Train a model on given conversations, without an environment: imitation (sft), pairs (dpo) or labels (kto)
    Tune(Box<TuneArgs>),
    /// Import a Hugging Face model: every weight is checked by name and shape, then its files are copied
    Import {
        /// A folder with config.json, tokenizer.json and weights in safetensors
        #[arg(value_name = "SRC")]
        source: PathBuf,
        /// The target: a new or an empty folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// A PEFT adapter (LoRA) for the model, copied to DIR/adapter
        #[arg(long, value_name = "ADAPTER")]
        adapter: Option<PathBuf>,
    },
    /// Export a model for transformers, with its adapter for PEFT, or merged; or, as FILE.gguf, for llama.cpp
    Export(ExportArgs),
    /// List the models in the Hugging Face cache, and the adapters that were pulled
    List,
    /// Pull an adapter (PEFT, LoRA) from a registry. Its signatures are checked as those of every module. Models of the
    /// Hugging Face hub are not pulled: `hf download OWNER/NAME` gets one, and its name is enough then
    Pull {
        /// The module: TEAM/NAME, with @VERSION behind it if you like
        #[arg(value_name = "MODULE")]
        module: String,
        /// The registry: oci://HOST/PATH or file:FOLDER [default: --registry]
        #[arg(long, value_name = "REGISTRY")]
        from: Option<String>,
    },
    /// List the versions of weights that learned from live sessions
    Log {
        /// The alias of the model [default: all]
        #[arg(value_name = "ALIAS")]
        alias: Option<String>,
    },
    /// Serve an earlier version of weights that learned from live sessions again. A gateway follows within seconds
    Rollback {
        /// The alias of the model
        #[arg(value_name = "ALIAS")]
        alias: String,
        /// The version; 0 is the configured model
        #[arg(long, value_name = "N")]
        to: u64,
        /// Whose adapter, as user:KEY/NAME or project:KEY/NAME, if each has one of its own
        #[arg(long, value_name = "SCOPE")]
        scope: Option<Scope>,
        /// Serve it even if it learned from something that was forgotten since
        #[arg(long)]
        confirm: bool,
    },
}

impl ModelCommand {
    /// The folder of the model that it reads. `None`: it reads none.
    pub(super) fn folder_mut(&mut self) -> Option<&mut PathBuf> {
        match self {
            Self::Info { folder, .. } => Some(folder),
            Self::Generate(arguments) => Some(&mut arguments.folder),
            Self::Chat(arguments) => Some(&mut arguments.folder),
            Self::Tune(arguments) => Some(&mut arguments.folder),
            Self::Import { source, .. } => Some(source),
            Self::Export(arguments) => Some(&mut arguments.source),
            Self::Init(_) | Self::List | Self::Pull { .. } | Self::Log { .. } | Self::Rollback { .. } => None,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The target folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Where the weights come from", SEED))]
    pub(crate) seed: Option<u64>,
    /// Its characters, each once; the last one ends an answer. Fewer characters learn faster: `0123456789+=<>?#` is
    /// enough for number games such as `env_guess.wasm?talk=terse` [default: those of plain text]
    #[arg(long, value_name = "TEXT")]
    pub(crate) alphabet: Option<String>,
    /// Its words and marks, separated by spaces, in place of characters. A few dozen suffice for tasks in few words, such as
    /// `env_shop.wasm?talk=terse`
    #[arg(long, value_name = "TEXT", conflicts_with = "alphabet")]
    pub(crate) words: Option<String>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=4096), help = with_default("Width of the residual stream; twice the heads divide it", WIDTH))]
    pub(crate) width: Option<u16>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help = with_default("Blocks", LAYERS))]
    pub(crate) layers: Option<u16>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), help = with_default("Heads of attention", HEADS))]
    pub(crate) heads: Option<u16>,
    /// Width inside the MLP [default: 8/3 of the width]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16_384))]
    pub(crate) mlp: Option<u16>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=65_536), help = with_default("Most characters of a conversation", CONTEXT))]
    pub(crate) context: Option<u32>,
    /// Use a chat template that includes the system prompt, so that a playbook has an effect and both layers can learn
    /// together. The alphabet must cover the characters of lessons, as that of plain text does
    #[arg(long)]
    pub(crate) system: bool,
    /// Write into a folder that is not empty; files with the same names are overwritten
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The model's folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The text to complete, unchanged: no chat template [default: standard input]
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Number of independent answers [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) n: Option<u16>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Top-p: draw only from the most likely tokens that together have this probability, 0 to 1 [default: the model's
    /// own]
    #[arg(long, value_name = "P", value_parser = crate::args::share, allow_negative_numbers = true)]
    pub(crate) top_p: Option<f64>,
    /// Top-k: draw only from this number of most likely tokens; 0: all [default: the model's own]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(0..), allow_negative_numbers = true)]
    pub(crate) top_k: Option<u32>,
    /// Divides the logits of tokens that occurred before, above 0 to 10; 1: none [default: the model's own]
    #[arg(long, value_name = "P", value_parser = repetition_penalty, allow_negative_numbers = true)]
    pub(crate) repetition_penalty: Option<f32>,
    /// Subtracted from the logits of tokens of the answer, -2 to 2 [default: 0]
    #[arg(long, value_name = "P", value_parser = penalty, allow_negative_numbers = true)]
    pub(crate) presence_penalty: Option<f32>,
    /// Subtracted from the logits of tokens of the answer, once for each occurrence, -2 to 2 [default: 0]
    #[arg(long, value_name = "P", value_parser = penalty, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: Option<f32>,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
    /// A text that ends an answer and is not part of it; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
}

/// What answers are to be.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct ShapeArgs {
    /// Answer with JSON of the schema in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,
    /// Answer with a text that this regular expression matches as a whole
    #[arg(long, value_name = "PATTERN")]
    pub(crate) regex: Option<String>,
    /// Answer within the grammar in this file, in the Lark dialect of llguidance
    #[arg(long, value_name = "FILE")]
    pub(crate) grammar: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help = with_default("Largest number of tokens per answer", MAX_TOKENS))]
    pub(crate) max_tokens: Option<u32>,
    /// Sampling temperature, 0 to 2; 0: greedy [default: the model's own]
    #[arg(long, value_name = "T", value_parser = crate::args::temperature, allow_negative_numbers = true)]
    pub(crate) temperature: Option<f32>,
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Where all chance comes from: equal seeds, equal answers", SEED))]
    pub(crate) seed: Option<u64>,
    /// Use this adapter (PEFT, LoRA) instead of the one in the model's folder
    #[arg(long, value_name = "ADAPTER")]
    pub(crate) adapter: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) kept: KeptOption,
    #[command(flatten)]
    pub(crate) device: DeviceOption,
}

/// How weights are kept in memory.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct KeptOption {
    /// The number format of the weights in memory: int8 takes half of bf16, and rounds [default: as they are stored]
    #[arg(long, value_name = "TYPE", value_enum)]
    dtype: Option<KeptType>,
}

impl KeptOption {
    pub(super) fn dtype(self) -> Option<Dtype> {
        self.dtype.map(|kept| match kept {
            KeptType::F32 => Dtype::F32,
            KeptType::Bf16 => Dtype::BF16,
            KeptType::F16 => Dtype::F16,
            KeptType::Int8 => Dtype::Int8,
        })
    }
}

/// A number format of weights in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KeptType {
    /// 4 bytes a weight
    F32,
    /// 2 bytes a weight
    Bf16,
    /// 2 bytes a weight; values that are too large are refused
    F16,
    /// 1.06 bytes a weight: 8 bits, and a scale for 32 of them
    Int8,
}

/// An argument of the chat template: JSON, or else a text.
fn template_argument(text: &str) -> Result<(String, serde_json::Value), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected NAME=VALUE")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((name.to_owned(), value))
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The model's folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// An argument of the chat template, for example enable_thinking=false or now=2026-11-29 for its date; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = template_argument)]
    pub(crate) template_arg: Vec<(String, serde_json::Value)>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
}

const TUNE_HELP: &str = "A line of a file, in the forms of TRL (a prompt, an answer and a completion are texts or lists of messages):
  sft  {\"messages\": [...]}
  dpo  {\"prompt\": ..., \"chosen\": ..., \"rejected\": ...}
  kto  {\"prompt\": ..., \"completion\": ..., \"label\": true}

Of a recorded run sft imitates the best episodes of each group, dpo compares the best with the worst, and kto labels episodes by their \
reward or feedback. Only answers are trained, with the token that ends them. DIR/last and DIR/best are models, metrics.jsonl has every step.

  clawhost model tune tiny --objective sft --data chats.jsonl --out tuned
  clawhost model tune qwen --objective dpo --from last --adapter-rank 16 --out preferred
  clawhost model chat tuned/best";

/// The highest rates, by default.
fn rates() -> String {
    let (all, adapter) = (TUNE_RATE, TUNE_ADAPTER_RATE);
    let share = (1.0 / TUNE_PREFERENCE_SHARE).round();
    format!("Highest learning rate, up to 1 [default: {all}; of an adapter {adapter}; for dpo and kto a {share:.0}th]")
}

#[derive(Debug, Args)]
#[command(after_help = TUNE_HELP)]
pub(crate) struct TuneArgs {
    /// The model's folder, which is not changed
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// What the examples are: answers to imitate, pairs, or answers with labels
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) objective: TunedBy,
    /// A file with one example per line, as JSON; may be repeated
    #[arg(long, value_name = "FILE", required_unless_present = "from")]
    pub(crate) data: Vec<PathBuf>,
    /// Learn from the decided episodes of this recorded run instead: an id, a name, or `last`
    #[arg(long, value_name = "RUN", conflicts_with = "data")]
    pub(crate) from: Option<String>,
    /// Reward from which an episode of the run is good [default: the mean reward of the run]
    #[arg(long, value_name = "REWARD", requires = "from", allow_negative_numbers = true, value_parser = reward)]
    pub(crate) threshold: Option<f64>,
    /// The folder for the results: a new or an empty one
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help = with_default("Passes over the examples", TUNE_EPOCHS))]
    pub(crate) epochs: Option<u32>,
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), help = with_default("Examples per step", TUNE_BATCH))]
    pub(crate) batch: Option<u32>,
    #[arg(long, value_name = "RATE", value_parser = rate, help = rates())]
    pub(crate) rate: Option<f64>,
    /// Train an adapter of this rank (LoRA) instead of all weights; an adapter in the model's folder continues learning
    #[arg(long, value_name = "RANK", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) adapter_rank: Option<u32>,
    #[arg(long, value_name = "SHARE", value_parser = held_out, help = with_default("Share of the examples that is held out for the validation loss, 0 to 0.5; it chooses the best weights", TUNE_HELD_OUT))]
    pub(crate) held_out: Option<f64>,
    #[arg(long, value_name = "BETA", value_parser = above_zero, help = with_default("dpo and kto: strength of the tie to the model as it was opened, or to the base of an adapter", TUNE_BETA))]
    pub(crate) beta: Option<f64>,
    #[arg(long, value_name = "WEIGHT", value_parser = above_zero, help = with_default("kto: weight of examples labelled true", TUNE_LABEL_WEIGHT))]
    pub(crate) desirable_weight: Option<f64>,
    #[arg(long, value_name = "WEIGHT", value_parser = above_zero, help = with_default("kto: weight of examples labelled false", TUNE_LABEL_WEIGHT))]
    pub(crate) undesirable_weight: Option<f64>,
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Where the order and the held-out part come from", SEED))]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) device: DeviceOption,
    /// No progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// What examples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TunedBy {
    /// Answers to imitate
    Sft,
    /// Pairs of answers, of which the first is better (Rafailov et al. 2023)
    Dpo,
    /// Answers with a label: desirable or not (Ethayarajh et al. 2024)
    Kto,
}

/// A number in a range, whose words an error repeats.
fn within(text: &str, is_in: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number| is_in(*number)).ok_or_else(|| format!("expected {expected}"))
}

fn rate(text: &str) -> Result<f64, String> {
    within(text, |rate| rate > 0.0 && rate <= 1.0, "a number above 0 and at most 1")
}

fn above_zero(text: &str) -> Result<f64, String> {
    within(text, |number| number > 0.0 && number <= 1e6, "a number above 0 and at most 1000000")
}

fn penalty(text: &str) -> Result<f32, String> {
    within(text, |number| number.abs() <= 2.0, "a number from -2 to 2").map(|number| number as f32)
}

fn repetition_penalty(text: &str) -> Result<f32, String> {
    let is_in = |number| number > 0.0 && number <= 10.0;
    within(text, is_in, "a number above 0 and at most 10").map(|number| number as f32)
}

fn held_out(text: &str) -> Result<f64, String> {
    within(text, |share| (0.0..=0.5).contains(&share), "a number from 0 to 0.5")
}

fn reward(text: &str) -> Result<f64, String> {
    within(text, |reward| (-1.0..=1.0).contains(&reward), "a number from -1 to 1")
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The model's folder
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,
    /// The target: a new or an empty folder, or a new file that ends in .gguf
    #[arg(value_name = "DIR|FILE.gguf")]
    pub(crate) target: PathBuf,
    /// Use this adapter (PEFT, LoRA) instead of the one in the model's folder; it is written to DIR/adapter, or alone into FILE.gguf
    #[arg(long, value_name = "ADAPTER")]
    pub(crate) adapter: Option<PathBuf>,
    /// Merge the adapter into the weights: one model, no DIR/adapter
    #[arg(long)]
    pub(crate) merge: bool,
    /// The number format of the weights [default: f32]
    #[arg(long, value_name = "TYPE", value_enum)]
    pub(crate) dtype: Option<NumberType>,
    /// Largest size of a weight file, as 500MB or 5GB [default: one file]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_shard_size: Option<u64>,
    /// A bundle of `clawhost prove` about the run that learned these weights: it is checked, copied to DIR, and the model card in
    /// DIR/README.md says what it claims
    #[arg(long, value_name = "BUNDLE")]
    pub(crate) proof: Option<PathBuf>,
}

/// The number format of weights in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NumberType {
    /// Unchanged
    F32,
    /// Half the size; values that are too large are refused
    F16,
    /// Half the size; fewer digits
    Bf16,
    /// 1.06 bytes a weight: 8 bits, and a scale for 32 of them; in GGUF files
    #[value(name = "q8_0")]
    Q8,
}

impl NumberType {
    pub(super) fn numbers(self) -> GgufNumbers {
        match self {
            Self::F32 => GgufNumbers::F32,
            Self::F16 => GgufNumbers::F16,
            Self::Bf16 => GgufNumbers::BF16,
            Self::Q8 => GgufNumbers::Q8_0,
        }
    }
}

/// Parses `500MB`, in the units of transformers: powers of 1000.
fn size(text: &str) -> Result<u64, String> {
    let units = [("KB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)];
    let upper = text.trim().to_uppercase();
    let found = units.iter().find_map(|(unit, factor)| Some((upper.strip_suffix(unit)?, factor)));
    found
        .and_then(|(number, factor)| number.trim().parse::<u64>().ok()?.checked_mul(*factor))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a size like 500MB or 5GB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!((size("5GB"), size("2 kb")), (Ok(5_000_000_000), Ok(2_000)));
        for text in ["", "5", "GB", "0MB", "-1MB", "99999999999999999999GB", "1.5GB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
