//! The command line of `clawhost model`.

use crate::device::DeviceOption;
use clap::{Args, Subcommand, ValueEnum};
use clawhost_app::local_models::{CONTEXT, HEADS, LAYERS, MAX_TOKENS, SEED, Stored, WIDTH};
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
    },
    /// Complete a text
    Generate(Box<GenerateArgs>),
    /// Chat on a terminal, or with lines from standard input. Ctrl-C ends an answer, Ctrl-D the conversation
    Chat(ChatArgs),
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
    /// Export a model for transformers, with its adapter for PEFT, or merged
    Export(ExportArgs),
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
    #[arg(long, value_name = "P", value_parser = crate::args::share)]
    pub(crate) top_p: Option<f64>,
    /// Top-k: draw only from this number of most likely tokens; 0: all [default: the model's own]
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<u32>,
    /// A text that ends an answer and is not part of it; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help = with_default("Largest number of tokens per answer", MAX_TOKENS))]
    pub(crate) max_tokens: Option<u32>,
    /// Sampling temperature, 0 to 2; 0: greedy [default: the model's own]
    #[arg(long, value_name = "T", value_parser = crate::args::temperature)]
    pub(crate) temperature: Option<f32>,
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Where all chance comes from: equal seeds, equal answers", SEED))]
    pub(crate) seed: Option<u64>,
    /// Use this adapter (PEFT, LoRA) instead of the one in the model's folder
    #[arg(long, value_name = "ADAPTER")]
    pub(crate) adapter: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) device: DeviceOption,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The model's folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The system prompt
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The model's folder
    #[arg(value_name = "SRC")]
    pub(crate) source: PathBuf,
    /// The target: a new or an empty folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Use this adapter (PEFT, LoRA) instead of the one in the model's folder; it is written to DIR/adapter
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
}

impl NumberType {
    pub(super) fn stored(self) -> Stored {
        match self {
            Self::F32 => Stored::F32,
            Self::F16 => Stored::F16,
            Self::Bf16 => Stored::BF16,
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
