//! Checks a value on its own: its shape, its range, and the meaning of its text.
//!
//! Rules between options are in `resolve`.

use crate::mix::MOST_PARTS;
use crate::value::{SHOWN_BYTES, found_text};
use crate::{Expected, Grant, Key, Kind, PartSpec, PluginSpec, Price, RewardSpec, Truncated, Value};
use clawhost_core::nearest;
use clawhost_core::{Attributes, RUN_TAGS, RunName, RunTag, escaped};

/// Longest name of a playbook or of a section in bytes, as for names from plugins.
const NAME_BYTES: usize = 128;
/// Shorter texts occur in many lessons by chance, so they cannot be forbidden.
const FORBIDDEN_CHARACTERS: usize = 8;

/// Whether a file of this name exists.
pub(crate) type Exists<'e> = &'e dyn Fn(&str) -> bool;

/// Messages about a value. Empty: the value is valid on its own.
pub(crate) fn wrong(key: Key, value: &Value, exists: Exists<'_>) -> Vec<String> {
    let kind = key.kind();
    let is_right = match (&kind, value) {
        (Kind::Whole { range }, Value::Whole(number)) => range.contains(number),
        // No range contains NaN.
        (Kind::Number { range }, Value::Number(number)) => range.contains(number),
        // An empty prompt is a prompt, and replaces the environment's hint.
        (Kind::Text, Value::Text(text)) => !text.is_empty() || key == Key::SystemPrompt,
        (Kind::Flag, Value::Flag(_)) => true,
        (Kind::Texts, Value::Texts(_)) => true,
        _ => false,
    };
    if !is_right {
        return vec![expected(&value.found(), &shape(key))];
    }
    match value {
        Value::Text(text) => wrong_text(key, text, exists).into_iter().collect(),
        Value::Texts(texts) => wrong_texts(key, texts, exists),
        Value::Whole(_) | Value::Number(_) | Value::Flag(_) => Vec::new(),
    }
}

/// The expected shape of a value.
pub(crate) fn shape(key: Key) -> String {
    match key {
        Key::SystemPrompt => "a text".to_owned(),
        Key::Price => Price::EXPECTED.to_owned(),
        Key::Truncated => Truncated::EXPECTED.to_owned(),
        _ if key.kind() == Kind::Text && !key.choices().is_empty() => format!("one of {}", key.choices().join(", ")),
        _ => key.kind().expected(),
    }
}

impl Key {
    /// Parses the text of a flag to the raw value of this option; for a list, one of its texts. The range is not
    /// checked yet.
    ///
    /// # Errors
    /// The found text and the expected shape, if the text does not have it.
    pub fn read(self, text: &str) -> Result<Value, String> {
        let value = match self.kind() {
            Kind::Whole { .. } => text.parse().ok().map(Value::Whole),
            Kind::Number { .. } => text.parse().ok().map(Value::Number),
            Kind::Flag => text.parse().ok().map(Value::Flag),
            Kind::Text => Some(Value::Text(text.to_owned())),
            Kind::Texts => Some(Value::Texts(vec![text.to_owned()])),
        };
        value.ok_or_else(|| {
            let is_number = text.parse::<f64>().is_ok();
            let found = if is_number { escaped(text, SHOWN_BYTES) } else { found_text(text) };
            expected(&found, &shape(self))
        })
    }
}

/// The common form of messages about a value.
pub(crate) fn expected(found: &str, expected: &str) -> String {
    format!("found {found}; expected {expected}")
}

fn wrong_text(key: Key, text: &str, exists: Exists<'_>) -> Option<String> {
    let why = match key {
        Key::Plugin | Key::EvolveReflector => return PluginSpec::parse(text, exists).err().map(|why| why.to_string()),
        Key::Price => text.parse::<Price>().err().map(str::to_owned),
        Key::Truncated => text.parse::<Truncated>().err().map(str::to_owned),
        Key::Playbook => {
            let is_name = is_plain(text, &['-', '_', '.']) && !text.starts_with('.');
            let why = format!(
                "a name of letters, digits, `-`, `_` and `.` that does not begin with `.`, at most {NAME_BYTES}"
            );
            (!is_name).then_some(why)
        }
        Key::Name => text.parse::<RunName>().err().map(|_| format!("a name of {}", RunName::EXPECTED)),
        Key::EvolveSection => {
            let why = format!("a name of letters, digits, `-` and `_`, at most {NAME_BYTES}");
            (!is_plain(text, &['-', '_'])).then_some(why)
        }
        _ => no_choice(key, text),
    };
    why.map(|why| expected(&found_text(text), &why))
}

fn is_plain(name: &str, others: &[char]) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || others.contains(&c);
    !name.is_empty() && name.len() <= NAME_BYTES && name.chars().all(is_plain)
}

/// The expectation, if only some words are allowed.
fn no_choice(key: Key, text: &str) -> Option<String> {
    let choices = key.choices();
    if choices.is_empty() || choices.contains(&text) {
        return None;
    }
    let alike = || nearest(text, choices.iter().copied()).map(|name| format!("; did you mean `{name}`?"));
    let hint = key.instead_of(text).map(|why| format!("; {why}")).or_else(alike).unwrap_or_default();
    Some(format!("one of {}{hint}", choices.join(", ")))
}

fn wrong_texts(key: Key, texts: &[String], exists: Exists<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut earlier: Vec<&str> = Vec::new();
    for text in texts {
        let why = match key {
            _ if text.is_empty() => Some("texts that are not empty".to_owned()),
            Key::Rewards => {
                wrong.extend(RewardSpec::parse(text, exists).err().map(|why| why.to_string()));
                None
            }
            Key::Mix if earlier.len() == MOST_PARTS => {
                Some(format!("at most {MOST_PARTS} environments beside the first"))
            }
            Key::Mix => {
                wrong.extend(PartSpec::parse(text, exists).err().map(|why| why.to_string()));
                None
            }
            Key::Reflectors => {
                wrong.extend(PluginSpec::parse(text, exists).err().map(|why| why.to_string()));
                None
            }
            Key::Tags if text.parse::<RunTag>().is_err() => Some(format!("tags of {}", RunTag::EXPECTED)),
            Key::Tags if earlier.len() == RUN_TAGS => Some(format!("at most {RUN_TAGS} tags")),
            Key::Grants => wrong_grant(text, &earlier),
            Key::Expect => wrong_expectation(text, &earlier),
            Key::Forbid if text.chars().count() < FORBIDDEN_CHARACTERS => Some(format!(
                "texts of at least {FORBIDDEN_CHARACTERS} characters: shorter ones stand in many lessons by chance"
            )),
            Key::Demonstrations => wrong_option(text, &earlier),
            Key::AdapterTargets if earlier.contains(&text.as_str()) => Some("each projection once".to_owned()),
            _ => no_choice(key, text),
        };
        wrong.extend(why.map(|why| expected(&found_text(text), &why)));
        earlier.push(text);
    }
    wrong
}

fn wrong_grant(text: &str, earlier: &[&str]) -> Option<String> {
    let grant: Grant = match text.parse() {
        Ok(grant) => grant,
        Err(why) => return Some(str::to_owned(why)),
    };
    let mut earlier = earlier.iter().filter_map(|text| text.parse::<Grant>().ok());
    earlier.any(|other| other.is_rival(&grant)).then(|| "each grant and each alias once".to_owned())
}

fn wrong_expectation(text: &str, earlier: &[&str]) -> Option<String> {
    let expectation: Expected = match text.parse() {
        Ok(expectation) => expectation,
        Err(why) => return Some(str::to_owned(why)),
    };
    let mut earlier = earlier.iter().filter_map(|text| text.parse::<Expected>().ok());
    earlier.any(|other| other.source == expectation.source).then(|| "each source once".to_owned())
}

fn wrong_option(text: &str, earlier: &[&str]) -> Option<String> {
    let Some((name, _)) = option(text) else {
        return Some("OPTION=VALUE, as in demonstrate=clumsy".to_owned());
    };
    let is_known = earlier.iter().filter_map(|text| option(text)).any(|(known, _)| known == name);
    is_known.then(|| "each option once".to_owned())
}

/// Splits `OPTION=VALUE`.
fn option(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(name, _)| !name.is_empty())
}

/// An environment's options from valid texts, sorted.
pub(crate) fn options(texts: &[String]) -> Attributes {
    let pairs = texts.iter().filter_map(|text| option(text));
    let mut options: Attributes = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    options.sort();
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_of(key: Key, value: Value) -> Vec<String> {
        wrong(key, &value, &|_| false)
    }

    fn takes(key: Key, value: Value) -> bool {
        wrong_of(key, value).is_empty()
    }

    #[test]
    fn integers_are_accepted_up_to_the_ends_of_their_ranges() {
        for key in Key::ALL {
            let Kind::Whole { range } = key.kind() else { continue };
            let (least, most) = range.into_inner();
            assert!(takes(*key, Value::Whole(least)) && takes(*key, Value::Whole(most)), "{key:?}");
            for beyond in [least.checked_sub(1), most.checked_add(1)].into_iter().flatten() {
                let wrong = wrong_of(*key, Value::Whole(beyond));
                assert_eq!(wrong.len(), 1, "{key:?}: {beyond}");
                assert!(wrong[0].starts_with(&format!("found {beyond}; expected a whole number ")), "{wrong:?}");
            }
        }
    }

    #[test]
    fn numbers_are_accepted_up_to_the_ends_of_their_ranges() {
        for key in Key::ALL {
            let Kind::Number { range } = key.kind() else { continue };
            let (least, most) = range.into_inner();
            assert!(takes(*key, Value::Number(least)) && takes(*key, Value::Number(most)), "{key:?}");
            let beyond = [least.next_down(), most.next_up(), f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
            for beyond in beyond {
                let wrong = wrong_of(*key, Value::Number(beyond));
                assert_eq!(wrong.len(), 1, "{key:?}: {beyond}");
                assert!(wrong[0].contains("; expected a number"), "{wrong:?}");
            }
        }
        assert!(!takes(Key::Rate, Value::Number(0.0)) && !takes(Key::AdapterAlpha, Value::Number(0.0)));
    }

    #[test]
    fn wrong_shapes_and_empty_texts_other_than_prompts_are_refused() {
        for key in Key::ALL {
            let shapes = [
                Value::Flag(true),
                Value::Whole(1),
                Value::Number(0.5),
                Value::Text("keep".into()),
                Value::Texts(Vec::new()),
            ];
            let fits = |value: &Value| {
                matches!(
                    (key.kind(), value),
                    (Kind::Whole { .. }, Value::Whole(_))
                        | (Kind::Number { .. }, Value::Number(_))
                        | (Kind::Text, Value::Text(_))
                        | (Kind::Flag, Value::Flag(_))
                        | (Kind::Texts, Value::Texts(_))
                )
            };
            for shape in shapes.into_iter().filter(|shape| !fits(shape)) {
                assert_eq!(wrong_of(*key, shape.clone()).len(), 1, "{key:?}: {shape:?}");
            }
            if key.kind() == Kind::Text {
                assert_eq!(takes(*key, Value::Text(String::new())), *key == Key::SystemPrompt, "{key:?}");
            }
            if key.kind() == Kind::Texts {
                assert!(!takes(*key, Value::Texts(vec![String::new()])), "{key:?}");
            }
        }
    }

    #[test]
    fn names_are_plain_and_at_most_128_long() {
        let text = |text: &str| Value::Text(text.to_owned());
        for key in [Key::Playbook, Key::EvolveSection] {
            assert!(takes(key, text("a-b_C1")) && takes(key, text(&"n".repeat(128))), "{key:?}");
            for odd in [&"n".repeat(129), "a b", "..", ".a", "a/b", "ä"] {
                assert!(!takes(key, text(odd)), "{key:?}: {odd}");
            }
        }
        assert!(takes(Key::Playbook, text("shop.v2")));
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_allowed_ones() {
        let wrong = wrong_of(Key::Optimizer, Value::Text("adam".into()));
        assert_eq!(wrong, ["found the text \"adam\"; expected one of muon, adamw; did you mean `adamw`?"]);
        let wrong = wrong_of(Key::AdapterTargets, Value::Texts(vec!["q_proj".into(), "q_proj".into(), "x".into()]));
        assert_eq!(wrong.len(), 2);
        assert!(wrong[0].ends_with("expected each projection once"), "{wrong:?}");
    }

    #[test]
    fn every_wrong_text_of_a_list_is_named() {
        let texts = |texts: &[&str]| Value::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
        let grants = ["file", "llm:a b=follower", "kv", "kv", "llm:x=follower", "llm:x=script:f"];
        assert_eq!(wrong_of(Key::Grants, texts(&grants)).len(), 4);
        assert_eq!(wrong_of(Key::Demonstrations, texts(&["clumsy", "=clumsy", "a=1", "a=2", "b="])).len(), 3);
        assert_eq!(wrong_of(Key::Forbid, texts(&["1234567", "12345678", "äöüßäöüß"])).len(), 1);
        assert_eq!(wrong_of(Key::Rewards, texts(&["r.wasm?a", "r.wasm#weight=2"])).len(), 1);
        assert_eq!(wrong_of(Key::Reflectors, texts(&["r.wasm#weight=2", "r.wasm"])).len(), 1);
    }
}
