//! The command line of `clawhost model`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Model {
    /// Make a tiny model whose tokens are characters, from a seed: equal settings, equal weights
    Init(Init),
    /// What a model is: its shape, size, context, tokenizer, sampling, adapter, and the digest of its weights
    Info {
        /// The model's folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Go on with a text
    Generate(Box<Generate>),
    /// Converse on a terminal, or with lines from standard input. Ctrl-C ends an answer, Ctrl-D the conversation
    Chat(Chat),
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
    Export(Export),
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Where it goes
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Where the weights come from
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub(crate) seed: u64,
    /// Its characters, each once; the last ends an answer. Fewer learn faster: `0123456789+=<>?#` is enough for games of numbers
    /// as `env_guess.wasm?talk=terse` [default: those of plain text]
    #[arg(long, value_name = "TEXT")]
    pub(crate) alphabet: Option<String>,
    /// Width of the residual stream; twice the heads divide it
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub(crate) width: u16,
    /// Blocks
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) layers: u16,
    /// Heads of attention
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) heads: u16,
    /// Width inside the MLP [default: 8/3 of the width]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16_384))]
    pub(crate) mlp: Option<u16>,
    /// Most characters of a conversation
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(2..=65_536))]
    pub(crate) context: u32,
    /// Write into a folder that is not empty; files of the same names are overwritten
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Generate {
    /// The model's folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The text that it goes on with, as it stands: no chat template [default: standard input]
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// So many answers, drawn apart from each other
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) n: u16,
    #[command(flatten)]
    pub(crate) sampling: SamplingOptions,
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
pub(crate) struct SamplingOptions {
    /// Most tokens per answer
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: u32,
    /// Sampling temperature, 0 to 2; 0: always the likeliest token [default: the model's own]
    #[arg(long, value_name = "T", value_parser = crate::args::temperature)]
    pub(crate) temperature: Option<f32>,
    /// Where all chance comes from: equal seeds, equal answers
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    pub(crate) seed: u64,
    /// Answer with this adapter (PEFT, LoRA) instead of the one in the model's folder
    #[arg(long, value_name = "ADAPTER")]
    pub(crate) adapter: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) device: crate::device::DeviceOption,
}

#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// The model's folder
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// What the model is told first
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    #[command(flatten)]
    pub(crate) sampling: SamplingOptions,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
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
    /// As which numbers the weights are written
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = NumberType::F32)]
    pub(crate) dtype: NumberType,
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
