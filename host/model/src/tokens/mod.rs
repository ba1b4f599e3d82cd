//! Text to tokens and back: tokenizers as Hugging Face has them, chat templates, and alphabets made here.

mod alphabet;
mod json;
mod template;
mod tokenizer;

pub use alphabet::alphabet_json;
pub use template::ChatTemplate;
pub use tokenizer::Tokenizer;
