//! Interprets the tokenizer and the chat template of a model folder with the libraries that know them.

use super::growth;
use super::jinja::{Jinja, Unrendered};
use super::order::{Ask, Facts, Sources, Told};
use super::token_bytes::{TokenBytes, token_bytes};
use clawhost_core::escaped;

/// Characters of a text in an error message.
const SHOWN: usize = 40;

/// A tokenizer and a template that were read.
#[derive(Debug)]
pub(super) struct Library {
    tokenizer: Option<tokenizers::Tokenizer>,
    template: Option<Jinja>,
    facts: Facts,
}

impl Library {
    /// Reads both.
    ///
    /// # Errors
    /// One of them is invalid: [`Told::Tokenizer`] or [`Told::Template`].
    pub(super) fn load(sources: &Sources) -> Result<Self, Told> {
        let tokenizer = sources.tokenizer.as_deref().map(read).transpose().map_err(Told::Tokenizer)?;
        let facts = tokenizer.as_ref().map(facts).unwrap_or_default();
        let template = sources.template.as_deref().map(|template| {
            let tools = sources.tool_template.as_deref();
            Jinja::new(template, tools, &sources.words, facts.control_words.clone())
        });
        let template = template.transpose().map_err(Told::Template)?;
        Ok(Self { tokenizer, template, facts })
    }

    /// What the tokenizer is.
    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Answers a question.
    pub(super) fn answer(&self, ask: &Ask<'_>) -> Told {
        let tokenizer = || self.tokenizer.as_ref().ok_or_else(|| "there is none".to_owned());
        match ask {
            Ask::Load(_) => Told::Loaded(self.facts.clone()),
            Ask::Encode { text, whole } => tokenizer()
                .and_then(|library| {
                    let encoded = library.encode_fast(text.as_ref(), *whole);
                    encoded.map_err(|error| format!("`{}`: {error}", escaped(text, SHOWN)))
                })
                .map_or_else(Told::Tokenizer, |encoded| Told::Tokens(encoded.get_ids().to_vec())),
            Ask::Decode { lists, without_special } => {
                let decode = |library: &tokenizers::Tokenizer| {
                    let texts = lists.iter().map(|tokens| library.decode(tokens, *without_special));
                    texts.collect::<Result<Vec<_>, _>>().map_err(|error| format!("tokens have no text: {error}"))
                };
                tokenizer().and_then(decode).map_or_else(Told::Tokenizer, Told::Texts)
            }
            Ask::Token(text) => {
                tokenizer().map_or_else(Told::Tokenizer, |library| Told::Token(library.token_to_id(text)))
            }
            Ask::Vocabulary => tokenizer().and_then(vocabulary).map_or_else(Told::Tokenizer, Told::Vocabulary),
            Ask::Render { messages, tools, arguments } => match &self.template {
                Some(template) => match template.render(messages, tools, arguments) {
                    Ok(text) => Told::Text(text),
                    Err(Unrendered::Refused(why)) => Told::Template(why),
                    Err(Unrendered::Limit(what)) => Told::Limit(what),
                },
                None => Told::Template("there is none".to_owned()),
            },
        }
    }
}

fn read(text: &str) -> Result<tokenizers::Tokenizer, String> {
    growth::check(text)?;
    let mut library = tokenizers::Tokenizer::from_bytes(text.as_bytes()).map_err(|error| error.to_string())?;
    // Settings of a training run: they would truncate or pad prompts silently.
    library.with_truncation(None).map_err(|error| error.to_string())?;
    library.with_padding(None);
    Ok(library)
}

fn vocabulary(library: &tokenizers::Tokenizer) -> Result<Vec<TokenBytes>, String> {
    let decoder = serde_json::to_value(library.get_decoder()).map_err(|error| error.to_string())?;
    let added = library.get_added_tokens_decoder();
    let added = added.into_iter().map(|(number, token)| (number, (token.content, token.special))).collect();
    token_bytes(&decoder, library.get_vocab(false), &added)
}

fn facts(library: &tokenizers::Tokenizer) -> Facts {
    let added = library.get_added_tokens_decoder();
    let control = added.into_values().filter(|token| token.special && !token.content.is_empty());
    let mut control_words: Vec<String> = control.map(|token| token.content).collect();
    control_words.sort_unstable();
    Facts { size: library.get_vocab_size(true), control_words }
}
