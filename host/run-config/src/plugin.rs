//! Plugins as text: a path, optionally with options.

use clawhost_core::{Attributes, PluginIdentity, RewardSource, escaped};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// Longest part of a text that a message repeats, in bytes: a path with options can be long.
const SHOWN_BYTES: usize = 200;

/// Weights of a reward. Only ratios matter, and sums must stay exact.
const WEIGHT: RangeInclusive<f64> = 0.0..=1e6;

/// Why a text is not a plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PluginTextError(String);

/// A plugin: `PLUGIN.wasm?name=value&name=value`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSpec {
    /// The path of the component.
    pub path: String,
    /// Its options, sorted by name: their order has no meaning.
    pub options: Attributes,
    /// Its identity. The program sets it when the component is loaded.
    #[serde(default)]
    pub plugin: Option<PluginIdentity>,
}

impl PluginSpec {
    /// Parses a plugin.
    ///
    /// Names of files and folders may contain `?`: `exists` returns whether a file of this name exists. The path is the
    /// whole text if it exists, else the longest part before a `?` that exists, else the part before the first `?`.
    ///
    /// # Errors
    /// The path is missing, an option has no value or occurs twice, or there is a `#`, which only rewards and parts of a mixture have.
    pub fn parse(text: &str, exists: impl Fn(&str) -> bool) -> Result<Self, PluginTextError> {
        let (path, query) = if exists(text) { (text, "") } else { divided(text, '?', &exists) };
        if path.contains('#') && !exists(path) {
            let why = "only rewards of a run (#weight=W&source=S&for=PART) and environments that are mixed in (#weight=W&name=PART) have a `#`";
            return Err(PluginTextError(format!("`{}`: {why}", shown(text))));
        }
        if path.is_empty() {
            return Err(PluginTextError(format!("`{}` names no file", shown(text))));
        }
        Ok(Self { path: path.to_owned(), options: options(query, text)?, plugin: None })
    }

    /// Sets an option. Replaces an earlier value.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.options.retain(|(known, _)| known != name);
        self.options.push((name.to_owned(), value.to_owned()));
        self.options.sort();
    }
}

impl fmt::Display for PluginSpec {
    /// In the format of the option.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        for (position, (name, value)) in self.options.iter().enumerate() {
            write!(f, "{}{name}={value}", if position == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

/// A reward: a plugin, optionally followed by `#weight=W&source=S&for=PART`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardSpec {
    /// The plugin.
    pub plugin: PluginSpec,
    /// Its weight, 0 to 1,000,000. Default: 1.
    pub weight: f64,
    /// The source of its verdicts. `None`: the reward's own.
    pub source: Option<RewardSource>,
    /// The part of a mixture whose episodes it judges. `None`: all episodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
}

impl RewardSpec {
    /// Parses a reward. `exists` is as in [`PluginSpec::parse`].
    ///
    /// # Errors
    /// The plugin is invalid, or the part after `#` is none of weight, source and part.
    pub fn parse(text: &str, exists: impl Fn(&str) -> bool) -> Result<Self, PluginTextError> {
        let choices = Choices::parse(text, exists)?;
        let mut spec = Self { plugin: choices.plugin.clone(), weight: 1.0, source: None, part: None };
        for (name, value) in &choices.chosen {
            match *name {
                "weight" => spec.weight = choices.number(value, &WEIGHT)?,
                "source" => {
                    let Some(source) = RewardSource::ALL.into_iter().find(|source| source.name() == *value) else {
                        let known = RewardSource::ALL.map(RewardSource::name).join(", ");
                        return choices.refuse(format!("`{}` is not a source; available: {known}", shown(value)));
                    };
                    spec.source = Some(source);
                }
                "for" => spec.part = Some(choices.part_name(value)?),
                name => return choices.unknown(name, "weight=W, source=S, for=PART"),
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for RewardSpec {
    /// In the format of the option, with its weight.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#weight={}", self.plugin, self.weight)?;
        if let Some(source) = self.source {
            write!(f, "&source={}", source.name())?;
        }
        match &self.part {
            Some(part) => write!(f, "&for={part}"),
            None => Ok(()),
        }
    }
}

/// A plugin, and the choices behind its `#`.
pub(crate) struct Choices<'t> {
    pub(crate) plugin: PluginSpec,
    /// Name and value, each name once.
    pub(crate) chosen: Vec<(&'t str, &'t str)>,
    text: &'t str,
}

impl<'t> Choices<'t> {
    /// Parses `PLUGIN.wasm?OPTION=VALUE#NAME=VALUE&NAME=VALUE`. `exists` is as in [`PluginSpec::parse`].
    ///
    /// # Errors
    /// The plugin is invalid, or a choice has no value or occurs twice.
    pub(crate) fn parse(text: &'t str, exists: impl Fn(&str) -> bool) -> Result<Self, PluginTextError> {
        let is_plugin = |text: &str| exists(text) || before(text, '?').any(|(path, _)| exists(path));
        let (plugin, text) = if exists(text) { (text, "") } else { divided(text, '#', &is_plugin) };
        let mut choices = Self { plugin: PluginSpec::parse(plugin, &exists)?, chosen: Vec::new(), text };
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return choices.refuse(format!("`{}` has no value; write NAME=VALUE", shown(pair)));
            };
            if choices.chosen.iter().any(|(known, _)| *known == name) {
                return choices.refuse(format!("`{}` is given twice", shown(name)));
            }
            choices.chosen.push((name, value));
        }
        Ok(choices)
    }

    /// The error about these choices.
    pub(crate) fn refuse<T>(&self, why: String) -> Result<T, PluginTextError> {
        Err(PluginTextError(format!("`#{}` behind {}: {why}", shown(self.text), shown(&self.plugin.to_string()))))
    }

    /// The error about a choice of another name.
    pub(crate) fn unknown<T>(&self, name: &str, known: &str) -> Result<T, PluginTextError> {
        self.refuse(format!("`{}` is none of {known}; options follow a `?`", shown(name)))
    }

    /// A weight.
    pub(crate) fn number(&self, text: &str, range: &RangeInclusive<f64>) -> Result<f64, PluginTextError> {
        match text.parse() {
            Ok(weight) if range.contains(&weight) => Ok(weight),
            _ => {
                let (least, most) = (range.start(), range.end());
                self.refuse(format!("a weight is a number from {least} to {most}, not `{}`", shown(text)))
            }
        }
    }

    /// The name of a part.
    pub(crate) fn part_name(&self, text: &str) -> Result<String, PluginTextError> {
        match is_part_name(text) {
            true => Ok(text.to_owned()),
            false => self.refuse(format!("`{}` is not the name of a part: {PART_NAME}", shown(text))),
        }
    }
}

/// What a name of a part consists of.
pub const PART_NAME: &str = "letters, digits, `-`, `_` and `.`, at most 64, the first no dot";
/// Longest name of a part in bytes: it stands in front of every task of its environment in reports.
const PART_NAME_BYTES: usize = 64;

/// Whether a text may be the name of a part of a mixture. A name has no slash and no plus, which stand behind and between names.
pub fn is_part_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    // A playbook is named after the parts, and no name of a file begins with a dot.
    !text.starts_with('.') && !text.is_empty() && text.len() <= PART_NAME_BYTES && text.chars().all(is_plain)
}

/// Options from `name=value&name=value`, sorted.
fn options(query: &str, whole: &str) -> Result<Attributes, PluginTextError> {
    let mut options = Attributes::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            let (pair, whole) = (shown(pair), shown(whole));
            return Err(PluginTextError(format!("`{pair}` in `{whole}` is not an option; write NAME=VALUE")));
        };
        if options.iter().any(|(known, _)| known == name) {
            let (name, whole) = (shown(name), shown(whole));
            return Err(PluginTextError(format!("option `{name}` occurs twice in `{whole}`")));
        }
        options.push((name.to_owned(), value.to_owned()));
    }
    options.sort();
    Ok(options)
}

/// Splits a text at each `mark`, the longest first part first.
fn before(text: &str, mark: char) -> impl Iterator<Item = (&str, &str)> {
    text.rmatch_indices(mark).filter_map(|(at, mark)| Some((text.get(..at)?, text.get(at + mark.len()..)?)))
}

/// Splits a text at the `mark` that ends the name of an existing file.
fn divided<'t>(text: &'t str, mark: char, exists: &impl Fn(&str) -> bool) -> (&'t str, &'t str) {
    let named = before(text, mark).find(|(first, _)| exists(first));
    let whole = || exists(text).then_some((text, ""));
    named.or_else(whole).or_else(|| text.split_once(mark)).unwrap_or((text, ""))
}

fn shown(text: &str) -> String {
    escaped(text, SHOWN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, files: &[&str], expected: Result<(&str, &[(&str, &str)]), &str>) {
        match (PluginSpec::parse(text, |name| files.contains(&name)), expected) {
            (Ok(spec), Ok((path, options))) => {
                assert_eq!(spec.path, path, "{text}");
                let got: Vec<_> = spec.options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                assert_eq!(got, options, "{text}");
            }
            (Err(error), Err(part)) => assert!(error.0.contains(part), "{text}: {error}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    }

    #[test]
    fn options_follow_a_question_mark_and_are_sorted() {
        check("a/b.wasm", &[], Ok(("a/b.wasm", &[])));
        check("b.wasm?size=10&kind=x=y", &[], Ok(("b.wasm", &[("kind", "x=y"), ("size", "10")])));
        check("b.wasm?", &[], Ok(("b.wasm", &[])));
        check("b.wasm?a=b?c", &[], Ok(("b.wasm", &[("a", "b?c")])));
        check("b.wasm?size", &[], Err("write NAME=VALUE"));
        check("b.wasm?a=1&a=2", &[], Err("twice"));
        check("b.wasm#weight=1", &[], Err("only rewards"));
        check("?a=1", &[], Err("names no file"));
    }

    #[test]
    fn a_file_may_have_a_question_mark_or_a_hash_in_its_name() {
        check("b?a=1", &["b?a=1", "b"], Ok(("b?a=1", &[])));
        check("why?/b.wasm?a=1", &["why?/b.wasm"], Ok(("why?/b.wasm", &[("a", "1")])));
        check("b.wasm?a=b?c", &["b.wasm"], Ok(("b.wasm", &[("a", "b?c")])));
        check("c#/b.wasm?a=1", &["c#/b.wasm"], Ok(("c#/b.wasm", &[("a", "1")])));
    }

    #[test]
    fn weight_and_source_of_a_reward_follow_a_hash() {
        let parse = |text: &str| RewardSpec::parse(text, |_| false).map(|r| (r.plugin.path, r.weight, r.source));
        assert_eq!(parse("r.wasm").unwrap(), ("r.wasm".into(), 1.0, None));
        let both = parse("r.wasm?a=1#weight=0.25&source=judge").unwrap();
        assert_eq!(both, ("r.wasm".into(), 0.25, Some(RewardSource::Judge)));
        for (text, part) in [
            ("r.wasm#weight=-1", "from 0 to 1000000"),
            ("r.wasm#weight=1&weight=2", "`weight` is given twice"),
            ("r.wasm#source=user&weight=1&source=user", "`source` is given twice"),
            ("r.wasm#weight=1000001", "from 0 to 1000000"),
            ("r.wasm#weight=NaN", "from 0 to"),
            ("r.wasm#source=mine", "available: user, outcome, execution, judge"),
            ("r.wasm#a=1", "options follow a `?`"),
            ("r.wasm#weight", "`weight` has no value"),
            ("r.wasm#for=a/b", "not the name of a part"),
            ("r.wasm#for=", "not the name of a part"),
            ("r.wasm?size#weight=1", "write NAME=VALUE"),
        ] {
            assert!(parse(text).unwrap_err().0.contains(part), "{text}");
        }
        let files = ["c#/r.wasm"];
        let inside = RewardSpec::parse("c#/r.wasm?a=1#weight=2", |name| files.contains(&name)).unwrap();
        assert_eq!((inside.plugin.path.as_str(), inside.weight), ("c#/r.wasm", 2.0));
        let plain = RewardSpec::parse("c#/r.wasm?a=1", |name| files.contains(&name)).unwrap();
        assert_eq!((plain.plugin.path.as_str(), plain.weight), ("c#/r.wasm", 1.0));
    }

    #[test]
    fn a_plugin_round_trips() {
        for text in ["r.wasm#weight=1", "r.wasm?a=1&b=#weight=0.25&source=judge", "r.wasm#weight=1&for=shop"] {
            assert_eq!(RewardSpec::parse(text, |_| false).unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_plugin_text_is_escaped_in_messages() {
        let error = PluginSpec::parse("b.wasm?\u{1b}[31m", |_| false).unwrap_err().to_string();
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}
