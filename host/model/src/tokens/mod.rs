//! Text to tokens and back: Hugging Face tokenizers, chat templates, and single-character alphabets.
//!
//! The texts of a model folder may come from anybody, and the libraries that interpret them limit neither memory nor time. So a child process
//! interprets them ([`TextHost`]); alphabets and templates that this program writes itself are interpreted here.

mod alphabet;
mod generation_tags;
mod growth;
mod incremental;
mod jinja;
mod json;
mod library;
mod limits;
mod order;
mod process;
mod python_text;
mod serve;
mod template;
mod template_arguments;
mod texts;
mod token_bytes;
mod tokenizer;

pub use alphabet::{alphabet_json, words_json};
pub use incremental::IncrementalText;
pub(crate) use limits::{ADDED_TOKENS, TOKENIZER_BYTES, VOCABULARY};
pub use serve::serve_texts;
pub use template::ChatTemplate;
pub use template_arguments::{NOW, TemplateArguments};
pub use texts::{TextFiles, TextHost, Texts};
pub use token_bytes::TokenBytes;
pub use tokenizer::Tokenizer;
