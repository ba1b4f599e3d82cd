//! Local language models (floor 2): decoders of the Llama and Qwen architectures, generation, training, checkpoints.
//!
//! ```text
//! folder of a model ─▶ HostDecoder ─▶ CpuModel ─▶ answers: tokens, log-probs, version
//!                          │  ▲
//!                          ▼  │ after every step
//!                       Trainer ─▶ log-probs ─▶ loss ─▶ gradients ─▶ optimiser
//! ```
//!
//! Everything here computes on the processor. `clawhost-burn` implements [`device::Accelerator`] for GPUs.

mod adapter;
mod answers;
mod blocking;
mod chat_folder;
mod checkpoint_writer;
mod config;
mod config_keys;
pub mod cpu;
mod decoder;
mod demonstrator;
pub mod device;
mod dtype;
mod error;
mod folder;
mod folder_stamp;
mod foreign_format;
pub mod generate;
mod gguf;
mod given;
mod grammar;
mod hindsight;
mod host_weights;
mod hub_cache;
mod import;
mod layer;
mod local_teacher;
mod memory;
mod open;
mod remembered;
mod rotary;
mod service;
mod stored_tensors;
mod tiny;
mod token_calls;
mod token_mask;
mod token_texts;
pub mod tokens;
pub mod train;
mod tuner;
mod weight_files;

pub use adapter::{AdapterFolder, AdapterSettings, Learned, PROJECTIONS, Targets};
pub use chat_folder::ChatFolder;
pub use checkpoint_writer::CheckpointWriter;
pub use config::{Architecture, ModelConfig, RotaryScaling};
pub use decoder::{Block, Convert, Decoder, LowRank, Projection, Weight, is_adapter};
pub use demonstrator::{DEMONSTRATION, Demonstrator};
pub use dtype::Dtype;
pub use error::LocalModelError;
pub use folder::ModelFolder;
pub use folder_stamp::FolderStamp;
pub use gguf::GgufNumbers;
pub use grammar::{AnswerShape, Grammar, GrammarState, Grammars};
pub use host_weights::{HostDecoder, HostMatrix, digest, initial};
pub use hub_cache::{CachedModel, HubCache};
pub use layer::{Between, WeightsLayer, with_likely};
pub use local_teacher::LocalTeacher;
pub use open::LearningSettings;
pub use rotary::angles;
pub use service::{ChatFormat, ChatModel, LEFT_OUT, LocalModel, Overlong};
pub use tiny::{TinyModel, Vocabulary};
pub use token_calls::TokenCalls;
pub use token_mask::TokenMask;
pub use tuner::{Example, Tuner, TuningSettings};
pub use weight_files::Stored;
