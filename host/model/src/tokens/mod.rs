//! Text to tokens and back: Hugging Face tokenizers, chat templates, and single-character alphabets.

mod alphabet;
mod incremental;
mod json;
mod template;
mod tokenizer;
mod tool_calls;

pub use alphabet::alphabet_json;
pub use incremental::IncrementalText;
pub use template::ChatTemplate;
pub use tokenizer::Tokenizer;
pub(crate) use tool_calls::{CALL, tool_calls};
