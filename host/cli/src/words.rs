//! Commands of this program as text, for a person to paste.

use crate::args::flag;
use crate::shell::{program, quoted};
use clawhost_run_config::{Key, RunSpecPatch, Value};

/// The words of a command.
pub(crate) struct Words(Vec<String>);

impl Words {
    /// A command of the program, with the name with which it was called.
    pub(crate) fn of(command: &str) -> Self {
        Self(vec![program(), command.to_owned()])
    }

    /// A word.
    pub(crate) fn word(&mut self, word: impl Into<String>) {
        self.0.push(word.into());
    }

    /// An option with its value.
    pub(crate) fn option(&mut self, flag: &str, value: &str) {
        match value.starts_with('-') {
            // Otherwise it would be parsed as an option.
            true => self.0.push(format!("{flag}={value}")),
            false => self.0.extend([flag.to_owned(), value.to_owned()]),
        }
    }

    /// An option as it was set; nothing if it was not.
    pub(crate) fn said(&mut self, said: &RunSpecPatch, key: Key) {
        match said.get(key).map(|(value, _)| value) {
            None => {}
            Some(Value::Texts(texts)) => texts.iter().for_each(|text| self.option(&flag(key), text)),
            Some(Value::Text(text)) => self.option(&flag(key), text),
            Some(Value::Whole(number)) => self.option(&flag(key), &number.to_string()),
            Some(Value::Number(number)) => self.option(&flag(key), &number.to_string()),
            Some(Value::Flag(value)) => self.word(format!("{}={value}", flag(key))),
        }
    }

    /// The command in one line for a shell.
    pub(crate) fn line(&self) -> String {
        self.0.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}
