//! Operations on local models in folders: create, describe, chat, complete, import and export.

mod chat;
mod create;
mod describe;
mod exchange;
mod folder;
mod generate;

pub use chat::{Answered, ChatSettings, Conversation, Turn};
pub use clawhost_model::Vocabulary;
pub use clawhost_model::generate::{Finish, Sampling};
pub use clawhost_model::{AdapterSettings, LocalModelError, ModelConfig, RotaryScaling, Stored};
pub use create::{CONTEXT, CreatedModel, HEADS, LAYERS, NewModel, WIDTH, create_model};
pub use describe::{ModelDescription, describe_model};
pub use exchange::{Exchanged, Export, export_model, import_model};
pub use generate::{GenerateRequest, GeneratedText, GeneratedTexts, TextGenerator, TextSink};

/// Default largest number of tokens of an answer.
pub const MAX_TOKENS: u32 = 256;
/// Default seed of weights and answers.
pub const SEED: u64 = 0;
