//! The command line of `clawhost model`.

use crate::device::DeviceOption;
use clap::{Args, Subcommand, ValueEnum};
use clawhost_app::local_models::{CONTEXT, HEADS, LAYERS, MAX_TOKENS, SEED, Stored, WIDTH};
use std::path::PathBuf;

/// What an option is, and what it is where nobody says.
fn with_default(what: &str, default: impl std::fmt::Display) -> String {
    format!("{what} [default: {default}]")
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelCommand {
    /// Make a tiny model whose tokens are characters, from a seed: equal settings, equal weights
    Init(InitArgs),
    /// What a model is: its shape, size, context, tokenizer, sampling, adapter, and the digest of its weights
    Info {
        /// The model's folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Go on with a text
    Generate(Box<GenerateArgs>),
    /// Converse on a terminal, or with lines from standard input. Ctrl-C ends an answer, Ctrl-D the conversation
    Chat(ChatArgs),
    /// Take over a model as Hugging Face has them: every weight is checked by name and shape, then its files are copied
    Import {
        /// A folder with config.json, tokenizer.json and weights in safetensors
        #[arg(value_name = "SRC")]
        source: PathBuf,
        /// Where it goes: a new or an empty folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// An adapter as PEFT has them (LoRA), which is put beside its weights, into DIR/adapter
        #[arg(long, value_name = "ADAPTER")]
        adapter: Option<PathBuf>,
    },
    /// Write a model for transformers, and its adapter for PEFT, or both as one
    Export(ExportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where it goes
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Where the weights come from", SEED))]
    pub(crate) seed: Option<u64>,
    /// Its characters, each once; the last ends an answer. Fewer learn faster: `0123456789+=<>?#` is enough for games of numbers
    /// as `env_guess.wasm?talk=terse` [default: those of plain text]
    #[arg(long, value_name = "TEXT")]
    pub(crate) alphabet: Option<String>,
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
    /// With a chat template that includes the system prompt, so that a playbook reaches the model: then lessons and weights learn
    /// together. Its characters must be those of the lessons, as those of plain text are
    #[arg(long)]
    pub(crate) system: bool,
    /// Write into a folder that is not empty; files of the same names are overwritten
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// The model's folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The text that it goes on with, as it stands: no chat template [default: standard input]
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// So many answers, drawn apart from each other [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) n: Option<u16>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Only tokens that together are so likely, 0 to 1 [default: the model's own]
    #[arg(long, value_name = "P", value_parser = crate::args::share)]
    pub(crate) top_p: Option<f64>,
    /// Only the so many likeliest tokens; 0: all [default: the model's own]
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<u32>,
    /// A text that ends an answer, and is no part of it; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SamplingArgs {
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help = with_default("Largest number of tokens per answer", MAX_TOKENS))]
    pub(crate) max_tokens: Option<u32>,
    /// Sampling temperature, 0 to 2; 0: always the likeliest token [default: the model's own]
    #[arg(long, value_name = "T", value_parser = crate::args::temperature)]
    pub(crate) temperature: Option<f32>,
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(..1 << 53), help = with_default("Where all chance comes from: equal seeds, equal answers", SEED))]
    pub(crate) seed: Option<u64>,
    /// Answer with this adapter (PEFT, LoRA) instead of the one in the model's folder
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
    /// What the model is told first
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
    /// Where it goes: a new or an empty folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// With this adapter (PEFT, LoRA) instead of the one in the model's folder; it goes into DIR/adapter
    #[arg(long, value_name = "ADAPTER")]
    pub(crate) adapter: Option<PathBuf>,
    /// Add the adapter to the weights: one model, no DIR/adapter
    #[arg(long)]
    pub(crate) merge: bool,
    /// As which numbers the weights are written [default: f32]
    #[arg(long, value_name = "TYPE", value_enum)]
    pub(crate) dtype: Option<NumberType>,
    /// Largest file of weights, as 500MB or 5GB [default: one file]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_shard_size: Option<u64>,
}

/// Of weights in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NumberType {
    /// As they are here
    F32,
    /// Half the size; large values are refused
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

/// `500MB`, in the units of transformers: powers of 1000.
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
