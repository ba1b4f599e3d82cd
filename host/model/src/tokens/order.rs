//! What the interpreting process is asked and answers, one line of JSON each.

use super::{TemplateArguments, TokenBytes};
use clawhost_core::{Message, ToolSpec};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The texts of a model folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Sources {
    /// `tokenizer.json`. `None`: an alphabet, which the host interprets itself.
    pub(super) tokenizer: Option<String>,
    /// The Jinja source of the chat template.
    pub(super) template: Option<String>,
    /// The template for conversations that offer tools.
    pub(super) tool_template: Option<String>,
    /// The texts of special tokens by name: `bos_token`, for example.
    pub(super) words: BTreeMap<String, String>,
}

/// A question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask<'a> {
    Load(Cow<'a, Sources>),
    Encode {
        text: Cow<'a, str>,
        whole: bool,
    },
    /// Of several lists at once.
    Decode {
        lists: Vec<Vec<u32>>,
        without_special: bool,
    },
    Token(Cow<'a, str>),
    /// The bytes of all tokens.
    Vocabulary,
    Render {
        messages: Cow<'a, [Message]>,
        tools: Cow<'a, [ToolSpec]>,
        arguments: Cow<'a, TemplateArguments>,
    },
}

/// What a tokenizer is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// The number of tokens.
    pub(super) size: usize,
    /// The texts of control tokens, sorted.
    pub(super) control_words: Vec<String>,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    Loaded(Facts),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
    Token(Option<u32>),
    Vocabulary(Vec<TokenBytes>),
    Text(String),
    Tokenizer(String),
    Template(String),
    /// The template reached a limit.
    Limit(String),
}
