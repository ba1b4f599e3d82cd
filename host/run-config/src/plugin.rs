//! Plugins as people name them: a path, perhaps with options.

use clawhost_core::{Attributes, PluginIdentity, RewardSource, escaped};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// How much of a text a message repeats, in bytes: a path with options is long.
const SHOWN_BYTES: usize = 200;

/// Weights of a reward: only ratios matter, and sums must stay exact.
const WEIGHT: RangeInclusive<f64> = 0.0..=1e6;

/// A text names no plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PluginTextError(String);

/// A plugin: `PLUGIN.wasm?name=value&name=value`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginSpec {
    /// Where the component lies.
    pub path: String,
    /// Its options, sorted by name: their order means nothing.
    pub options: Attributes,
    /// Which plugin it is. The program fills it when it has loaded the component.
    #[serde(default)]
    pub plugin: Option<PluginIdentity>,
}

impl PluginSpec {
    /// Reads the text of a plugin.
    ///
    /// Names of files and folders may contain `?`: `exists` tells whether a file of this name exists. The path is the whole
    /// text if it exists, or else the longest part before a `?` that exists, or else the part before the first `?`.
    ///
    /// # Errors
    /// No path, an option without a value, an option twice, or a `#`, which only rewards have.
    pub fn parse(text: &str, exists: impl Fn(&str) -> bool) -> Result<Self, PluginTextError> {
        let (path, query) = if exists(text) { (text, "") } else { divided(text, '?', &exists) };
        if path.contains('#') && !exists(path) {
            let why = "only rewards of a run have a `#` (#weight=W&source=S)";
            return Err(PluginTextError(format!("`{}`: {why}", shown(text))));
        }
        if path.is_empty() {
            return Err(PluginTextError(format!("`{}` names no file", shown(text))));
        }
        Ok(Self { path: path.to_owned(), options: options(query, text)?, plugin: None })
    }

    /// Sets an option in place of an earlier one of that name.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.options.retain(|(known, _)| known != name);
        self.options.push((name.to_owned(), value.to_owned()));
        self.options.sort();
    }
}

impl fmt::Display for PluginSpec {
    /// As it is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        for (position, (name, value)) in self.options.iter().enumerate() {
            write!(f, "{}{name}={value}", if position == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

/// A reward: a plugin, perhaps with `#weight=W&source=S` behind it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewardSpec {
    /// What judges.
    pub plugin: PluginSpec,
    /// How much it counts, 0 to 1 000 000. Default: 1.
    pub weight: f64,
    /// Where its judgement comes from. None: as the reward says of itself.
    pub source: Option<RewardSource>,
}

impl RewardSpec {
    /// Reads the text of a reward. `exists` is as in [`PluginSpec::parse`].
    ///
    /// # Errors
    /// The plugin is none, or what follows the `#` is neither a weight nor a source.
    pub fn parse(text: &str, exists: impl Fn(&str) -> bool) -> Result<Self, PluginTextError> {
        let is_plugin = |text: &str| exists(text) || before(text, '?').any(|(path, _)| exists(path));
        let (plugin, choices) = if exists(text) { (text, "") } else { divided(text, '#', &is_plugin) };
        let mut spec = Self { plugin: PluginSpec::parse(plugin, &exists)?, weight: 1.0, source: None };
        for pair in choices.split('&').filter(|pair| !pair.is_empty()) {
            let refuse =
                |why: String| Err(PluginTextError(format!("`#{}` behind {}: {why}", shown(choices), shown(plugin))));
            match pair.split_once('=') {
                Some(("weight", value)) => match value.parse() {
                    Ok(weight) if WEIGHT.contains(&weight) => spec.weight = weight,
                    _ => {
                        let (least, most) = (WEIGHT.start(), WEIGHT.end());
                        return refuse(format!("a weight is a number from {least} to {most}, not `{}`", shown(value)));
                    }
                },
                Some(("source", value)) => {
                    let Some(source) = RewardSource::ALL.into_iter().find(|source| source.name() == value) else {
                        let known = RewardSource::ALL.map(RewardSource::name).join(", ");
                        return refuse(format!("`{}` is no source; there are {known}", shown(value)));
                    };
                    spec.source = Some(source);
                }
                _ => {
                    let pair = shown(pair);
                    return refuse(format!("`{pair}` is neither weight=W nor source=S; options follow a `?`"));
                }
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for RewardSpec {
    /// As it is written, with its weight.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#weight={}", self.plugin, self.weight)?;
        match self.source {
            Some(source) => write!(f, "&source={}", source.name()),
            None => Ok(()),
        }
    }
}

/// Options from `name=value&name=value`, sorted.
fn options(query: &str, whole: &str) -> Result<Attributes, PluginTextError> {
    let mut options = Attributes::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            let (pair, whole) = (shown(pair), shown(whole));
            return Err(PluginTextError(format!("`{pair}` in `{whole}` is no option; write NAME=VALUE")));
        };
        if options.iter().any(|(known, _)| known == name) {
            let (name, whole) = (shown(name), shown(whole));
            return Err(PluginTextError(format!("option `{name}` stands twice in `{whole}`")));
        }
        options.push((name.to_owned(), value.to_owned()));
    }
    options.sort();
    Ok(options)
}

/// A text before and after each `mark`, the longest first part first.
fn before(text: &str, mark: char) -> impl Iterator<Item = (&str, &str)> {
    text.rmatch_indices(mark).filter_map(|(at, mark)| Some((text.get(..at)?, text.get(at + mark.len()..)?)))
}

/// A text before and after the `mark` that ends the name of something that exists.
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
            ("r.wasm#weight=1000001", "from 0 to 1000000"),
            ("r.wasm#weight=NaN", "from 0 to"),
            ("r.wasm#source=mine", "there are user, outcome, execution, judge"),
            ("r.wasm#a=1", "options follow a `?`"),
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
    fn a_plugin_reads_back_as_it_is_written() {
        for text in ["r.wasm#weight=1", "r.wasm?a=1&b=#weight=0.25&source=judge"] {
            assert_eq!(RewardSpec::parse(text, |_| false).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_text_that_names_no_plugin_reaches_no_terminal_raw() {
        let error = PluginSpec::parse("b.wasm?\u{1b}[31m", |_| false).unwrap_err().to_string();
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}
