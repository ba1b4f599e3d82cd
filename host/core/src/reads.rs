//! The parts of an episode that a reward declares to read, and whether an episode has them.
//!
//! A reward declares them in [`About::extra`](crate::About::extra), under the name [`READS`], one pair for each part:
//!
//! | value | what is read |
//! |---|---|
//! | `reference` | the task's reference |
//! | `reference-value` | the task's reference, if it is a text or a number |
//! | `reference-field NAME` | a field of the task's reference |
//! | `artefact NAME` | an artefact |
//! | `signal NAME` | a signal |
//! | `tool-results` | results of tool calls |
//!
//! `<OPTION>` as a name is replaced by the value of the reward's option. Several parts may be alternatives. So only one case is
//! certainly a mistake: no episode has any of them.

use crate::{About, Attributes, Episode, escaped};
use std::fmt;

/// The name in [`About::extra`] under which a reward declares the parts that it reads.
pub const READS: &str = "reads";

/// Largest number of bytes of a name in a message.
const SHOWN_BYTES: usize = 80;

/// One part that a reward reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// The task's reference.
    Reference,
    /// The task's reference, if it is a text or a number.
    ReferenceValue,
    /// A field of the task's reference.
    ReferenceField(String),
    /// An artefact.
    Artefact(String),
    /// A signal.
    Signal(String),
    /// Results of tool calls.
    ToolResults,
}

impl Read {
    /// Parses a declaration. `None`: this host does not know its first word.
    fn parse(text: &str, about: &About, options: &Attributes) -> Option<Self> {
        let (kind, name) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let name = || Some(named(name.trim(), about, options)).filter(|name| !name.is_empty());
        match kind {
            "reference" => Some(Self::Reference),
            "reference-value" => Some(Self::ReferenceValue),
            "reference-field" => name().map(Self::ReferenceField),
            "artefact" => name().map(Self::Artefact),
            "signal" => name().map(Self::Signal),
            "tool-results" => Some(Self::ToolResults),
            _ => None,
        }
    }

    /// Whether an episode has it.
    pub fn is_in(&self, episode: &Episode) -> bool {
        let reference = || serde_json::from_str::<serde_json::Value>(episode.task.reference.as_deref()?).ok();
        match self {
            Self::Reference => episode.task.reference.is_some(),
            Self::ReferenceValue => reference().is_some_and(|value| value.is_string() || value.is_number()),
            Self::ReferenceField(name) => reference().is_some_and(|value| value.get(name.as_str()).is_some()),
            Self::Artefact(name) => episode.artefacts.iter().any(|artefact| artefact.name == *name),
            Self::Signal(name) => episode.signals.iter().any(|signal| signal.name == *name),
            Self::ToolResults => episode.turns.iter().any(|turn| !turn.tool_results.is_empty()),
        }
    }
}

/// A name; `<OPTION>` is the value that the operator chose for the option, or its default.
fn named(name: &str, about: &About, options: &Attributes) -> String {
    let Some(option) = name.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) else { return name.to_owned() };
    let chosen = options.iter().find(|(known, _)| known == option).map(|(_, value)| value);
    let default = about.options.iter().find(|known| known.name == option).map(|known| &known.default_value);
    // Without a value, the name shows the option.
    chosen.or(default).filter(|value| !value.is_empty()).map_or_else(|| name.to_owned(), Clone::clone)
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference => f.write_str("a reference"),
            Self::ReferenceValue => f.write_str("a reference that is a text or a number"),
            Self::ReferenceField(name) => write!(f, "a reference with `{}`", escaped(name, SHOWN_BYTES)),
            Self::Artefact(name) => write!(f, "artefact `{}`", escaped(name, SHOWN_BYTES)),
            Self::Signal(name) => write!(f, "signal `{}`", escaped(name, SHOWN_BYTES)),
            Self::ToolResults => f.write_str("tool results"),
        }
    }
}

/// All parts that a reward reads: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reads(Vec<Read>);

impl Reads {
    /// The declared parts. `None`: the reward declares nothing, or something that this host does not know. Then missing parts cannot
    /// be detected.
    pub fn declared(about: &About, options: &Attributes) -> Option<Self> {
        let all: Option<Vec<Read>> = about.declared(READS).map(|text| Read::parse(text, about, options)).collect();
        all.filter(|all| !all.is_empty()).map(Self)
    }

    /// Whether an episode has any of the parts.
    pub fn any_in(&self, episode: &Episode) -> bool {
        self.0.iter().any(|read| read.is_in(episode))
    }
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.0.len().saturating_sub(1);
        self.0.iter().enumerate().try_for_each(|(position, read)| match position {
            0 => write!(f, "{read}"),
            _ if position == last => write!(f, " and {read}"),
            _ => write!(f, ", {read}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OptionSpec;

    fn about(reads: &[&str]) -> About {
        let option = |name: &str, default: &str| OptionSpec {
            name: name.into(),
            summary: String::new(),
            default_value: default.into(),
        };
        About {
            extra: reads.iter().map(|read| (READS.to_owned(), (*read).to_owned())).collect(),
            options: vec![option("artefact", "state.json"), option("name", "")],
            ..About::named("reward")
        }
    }

    fn episode() -> Episode {
        serde_json::from_str(include_str!("../../../tests/golden/episode-2.json")).unwrap()
    }

    #[test]
    fn a_declaration_is_shown_as_text() {
        let check = |reads: &[&str], options: &[(&str, &str)], expect: Option<&str>| {
            let options: Attributes = options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let told = Reads::declared(&about(reads), &options).map(|reads| reads.to_string());
            assert_eq!(told.as_deref(), expect, "{reads:?}");
        };
        check(&[], &[], None);
        check(&["reference"], &[], Some("a reference"));
        check(
            &["artefact records", "reference-field records"],
            &[],
            Some("artefact `records` and a reference with `records`"),
        );
        check(&["artefact <artefact>"], &[], Some("artefact `state.json`"));
        check(&["artefact <artefact>"], &[("artefact", "board.txt")], Some("artefact `board.txt`"));
        check(&["signal <name>"], &[], Some("signal `<name>`"));
        check(
            &["reference-value", "signal \u{1b}[31m", "tool-results"],
            &[],
            Some("a reference that is a text or a number, signal `\\u{1b}[31m` and tool results"),
        );
        check(&["reference", "the weather"], &[], None);
        check(&["artefact"], &[], None);
    }

    #[test]
    fn declared_parts_are_found_in_an_episode_or_missing() {
        let mut episode = episode();
        let mut check = |reference: Option<&str>, read: &str, expect: bool| {
            episode.task.reference = reference.map(str::to_owned);
            let reads = Reads::declared(&about(&[read]), &Vec::new()).unwrap();
            assert_eq!(reads.any_in(&episode), expect, "{read} in {reference:?}");
        };
        check(Some("{}"), "reference", true);
        check(None, "reference", false);
        check(Some("\"Paris\""), "reference-value", true);
        check(Some("7"), "reference-value", true);
        check(Some("{\"answer\": 7}"), "reference-value", false);
        check(Some("{\"answer\": 7}"), "reference-field answer", true);
        check(Some("{\"answer\": 7}"), "reference-field state", false);
        check(Some("no JSON"), "reference-field state", false);
        check(None, "artefact nowhere.json", false);
        check(None, "signal never", false);
    }

    #[test]
    fn artefacts_signals_and_results_are_found_by_name() {
        let mut episode = episode();
        let found =
            |episode: &Episode, read: &str| Reads::declared(&about(&[read]), &Vec::new()).unwrap().any_in(episode);
        episode.artefacts.clear();
        episode.signals = vec![crate::Signal { name: "distance".into(), value: 0.0 }];
        episode.turns.iter_mut().for_each(|turn| turn.tool_results.clear());
        assert!(found(&episode, "signal distance") && !found(&episode, "tool-results"));
        let bytes = Vec::new();
        episode.artefacts.push(crate::Artefact {
            name: "a.txt".into(),
            media_type: String::new(),
            bytes,
            extra: Vec::new(),
        });
        let result = crate::Message::text(crate::Role::Tool, crate::Origin::Environment, "done");
        episode.turns.iter_mut().for_each(|turn| turn.tool_results.push(result.clone()));
        assert!(found(&episode, "artefact a.txt") && found(&episode, "tool-results"));
        assert!(!found(&episode, "artefact b.txt"));
    }
}
