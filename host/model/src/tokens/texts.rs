//! The texts of a model folder: its tokenizer and its chat template, and where they are interpreted.

use super::alphabet::ALPHABET_BYTES;
use super::library::Library;
use super::limits::TEMPLATE_BYTES;
use super::order::{Ask, Facts, Sources, Told};
use super::process::{TextProcess, refused};
use super::{ChatTemplate, TemplateArguments, Tokenizer, alphabet};
use crate::LocalModelError;
use crate::answers::AnswerFormat;
use clawhost_child::ChildProgram;
use clawhost_core::{Message, Origin, Role};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the tokenizer and the chat template of a model folder are interpreted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TextHost {
    /// In this process. What they cost in memory and time is not limited: for folders that you trust, and for tests.
    #[default]
    InProcess,
    /// In a child process that calls [`super::serve_texts`], within limits.
    Process(ChildProgram),
}

/// Interprets texts, here or elsewhere.
#[derive(Debug)]
pub(super) enum Interpreter {
    Here(Box<Library>),
    Process(Box<TextProcess>),
}

impl Interpreter {
    fn open(sources: Sources, host: &TextHost) -> Result<Self, LocalModelError> {
        match host {
            TextHost::InProcess => {
                Library::load(&sources).map(|library| Self::Here(Box::new(library))).map_err(refused)
            }
            TextHost::Process(program) => {
                TextProcess::load(program, sources).map(|process| Self::Process(Box::new(process)))
            }
        }
    }

    pub(super) fn facts(&self) -> &Facts {
        match self {
            Self::Here(library) => library.facts(),
            Self::Process(process) => process.facts(),
        }
    }

    pub(super) fn ask(&self, ask: &Ask<'_>) -> Result<Told, LocalModelError> {
        match self {
            Self::Here(library) => Ok(library.answer(ask)),
            Self::Process(process) => process.ask(ask),
        }
    }
}

/// The texts of a model folder, as its files have them.
#[derive(Debug, Clone, Copy)]
pub struct TextFiles<'a> {
    /// `tokenizer.json`.
    pub tokenizer_json: &'a str,
    /// The Jinja source of the chat template.
    pub template: Option<&'a str>,
    /// The template for conversations that offer tools.
    pub tool_template: Option<&'a str>,
    /// The texts of special tokens by name, which the template may use: `bos_token`, for example.
    pub words: &'a BTreeMap<String, String>,
}

/// Longest control word that is looked for, in bytes. Known ones have up to 30.
const CONTROL_BYTES: usize = 64;

/// The words of a text that look like control tokens: `<|im_start|>`, for example.
fn control_like(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("<|").filter_map(|(begin, _)| {
        let word = text.get(begin..)?;
        let end = word.get(2..)?.find("|>")? + 4;
        let word = word.get(..end).filter(|word| word.len() <= CONTROL_BYTES)?;
        word.bytes().all(|byte| byte.is_ascii_graphic()).then_some(word)
    })
}

/// A tokenizer, and the chat template that was made for it.
#[derive(Debug, Clone)]
pub struct Texts {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// `None`: the model completes texts and cannot hold a conversation.
    pub template: Option<ChatTemplate>,
}

impl Texts {
    /// Reads the texts. `own`: templates that this program writes itself; with an alphabet they need no other process.
    ///
    /// # Errors
    /// A text is invalid, or reading it reaches a limit.
    pub fn open(files: &TextFiles<'_>, own: &[&str], host: &TextHost) -> Result<Self, LocalModelError> {
        for template in files.template.iter().chain(&files.tool_template) {
            if template.len() as u64 > TEMPLATE_BYTES {
                let most = TEMPLATE_BYTES >> 20;
                return Err(LocalModelError::Template(format!(
                    "{} bytes; at most {most} MiB are read",
                    template.len()
                )));
            }
        }
        let characters = match files.tokenizer_json.len() <= ALPHABET_BYTES {
            true => serde_json::from_str(files.tokenizer_json).ok().as_ref().and_then(alphabet::characters),
            false => None,
        };
        let needs_no_process = characters.is_some()
            && files.tool_template.is_none()
            && files.template.is_none_or(|template| own.contains(&template));
        let sources = Sources {
            tokenizer: characters.is_none().then(|| files.tokenizer_json.to_owned()),
            template: files.template.map(str::to_owned),
            tool_template: files.tool_template.map(str::to_owned),
            words: files.words.clone(),
        };
        let host = if needs_no_process { &TextHost::InProcess } else { host };
        let interpreter = Arc::new(Interpreter::open(sources, host)?);
        let control = interpreter.facts().control_words.clone();
        Ok(Self {
            tokenizer: match &characters {
                Some(characters) => Tokenizer::of_alphabet(characters),
                None => Tokenizer::of(interpreter.clone()),
            },
            template: files.template.map(|source| {
                let format = AnswerFormat::of_template(&[source, files.tool_template.unwrap_or_default()].concat());
                ChatTemplate::of(interpreter, control, format)
            }),
        })
    }

    /// Renders a short conversation, tokenises it, and reads it back.
    ///
    /// # Errors
    /// The template refuses it, the tokenizer cannot read it, or one of them reaches a limit.
    pub fn probe(&self) -> Result<(), LocalModelError> {
        let Some(template) = &self.template else { return Ok(()) };
        let said = |role| Message::text(role, Origin::Host, "1");
        let text = template.render(
            &[said(Role::User), said(Role::Assistant), said(Role::User)],
            &[],
            &TemplateArguments::default(),
        )?;
        for word in control_like(&text) {
            if self.tokenizer.token(word)?.is_none() {
                return Err(LocalModelError::Template(format!(
                    "it writes {word}, which is no token of tokenizer.json; does it belong to another family of models?"
                )));
            }
        }
        match self.tokenizer.encode(&text) {
            // An alphabet may lack the character.
            Err(LocalModelError::Alphabet { .. }) => Ok(()),
            encoded => self.tokenizer.decode(&encoded?, false).map(|_| ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_of_another_family_is_refused_by_the_word_that_is_no_token() {
        let tokenizer_json = include_str!("../../../../tests/transformers/reference/llama/tokenizer.json");
        let check = |template: &str, expect: Option<&str>| {
            let (tool_template, words) = (None, &BTreeMap::new());
            let files = TextFiles { tokenizer_json, template: Some(template), tool_template, words };
            let found = Texts::open(&files, &[], &TextHost::InProcess).unwrap().probe();
            let word = |error: LocalModelError| error.to_string().split(' ').nth(4).map(|word| word.replace(',', ""));
            assert_eq!(found.err().and_then(word).as_deref(), expect, "{template}");
        };
        check("{% for m in messages %}<|start_header_id|>{{ m.role }}<|eot_id|>{% endfor %}", None);
        check("{% for m in messages %}<|im_start|>{{ m.role }}<|eot_id|>{% endfor %}", Some("<|im_start|>"));
        // What a conversation does not have does not matter.
        check("{% if tools %}<|python_tag|>{% endif %}<|eot_id|>", None);
        check("a <| b |> c <|", None);
    }
}
