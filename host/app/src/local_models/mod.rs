//! Operations on local models in folders: create, describe, chat, complete, tune, import and export.

mod card;
mod chat;
mod create;
mod describe;
mod exchange;
mod folder;
mod generate;
mod list;
mod tuning;

pub use chat::{Answered, ChatSettings, Conversation, Heard, Turn};
pub use clawhost_learn::policy::LabelledSettings;
pub use clawhost_model::generate::{Finish, Penalties, Sampling};
pub use clawhost_model::tokens::TemplateArguments;
pub use clawhost_model::{
    AdapterSettings, AnswerShape, Dtype, GgufNumbers, LocalModelError, ModelConfig, RotaryScaling, Vocabulary,
};
pub use create::{CONTEXT, CreatedModel, HEADS, LAYERS, NewModel, WIDTH, create_model};
pub use describe::{ModelDescription, describe_model};
pub use exchange::{Exchanged, ExchangedForm, Export, export_model, import_model};
pub use folder::LocalSource;
pub use generate::{GenerateRequest, GeneratedText, GeneratedTexts, TextGenerator, TextSink};
pub use list::{ListedKind, ListedModel, list_models};
pub use tuning::{
    ExampleCounts, TUNE_ADAPTER_RATE, TUNE_BATCH, TUNE_BETA, TUNE_EPOCHS, TUNE_HELD_OUT, TUNE_LABEL_WEIGHT,
    TUNE_PREFERENCE_SHARE, TUNE_RATE, TuneData, TuneObjective, TuneReport, TuneRequest, TunedEpoch, tune,
};

/// Default largest number of tokens of an answer.
pub const MAX_TOKENS: u32 = 256;
/// Default seed of weights, of answers, and of the order of examples.
pub const SEED: u64 = 0;
