//! Plugins as people name them: a path, perhaps with options.

use crate::exit::UsageError;
use clawhost_core::{About, Attributes, RewardSource, check_options};
use std::path::{Path, PathBuf};

/// `PLUGIN.wasm?name=value&name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginSpec {
    pub(crate) path: PathBuf,
    pub(crate) options: Attributes,
}

impl PluginSpec {
    pub(crate) fn parse(text: &str) -> Result<Self, UsageError> {
        // A file may have a question mark in its name.
        let (path, query) = match text.split_once('?') {
            Some((path, query)) if !Path::new(text).exists() => (path, query),
            _ => (text, ""),
        };
        if !Path::new(path).exists() && path.contains('#') {
            return Err(UsageError(format!(
                "`{text}`: what follows a `#` is for rewards of a run (#weight=W&source=S)"
            )));
        }
        let mut options = Attributes::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(UsageError(format!("`{pair}` in `{text}` is no option; write NAME=VALUE")));
            };
            if options.iter().any(|(known, _)| known == name) {
                return Err(UsageError(format!("option `{name}` stands twice in `{text}`")));
            }
            options.push((name.to_owned(), value.to_owned()));
        }
        // Their order means nothing: equal choices are equal.
        options.sort();
        Ok(Self { path: path.into(), options })
    }

    /// The path as text.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Refuses options that the plugin does not read, with the nearest one that it does.
    pub(crate) fn check(&self, about: &About) -> Result<(), UsageError> {
        check_options(about, &self.options).map_err(|unknown| {
            let nearest = nearest(&unknown.option, unknown.known.iter().map(String::as_str));
            let hint = nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            UsageError(format!("{unknown}{hint}"))
        })
    }
}

/// A reward as people name it: a plugin, perhaps with `#weight=W&source=S` behind it, which is for the host.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RewardSpec {
    pub(crate) plugin: PluginSpec,
    pub(crate) weight: f64,
    /// None: as the reward says of itself.
    pub(crate) source: Option<RewardSource>,
}

impl RewardSpec {
    pub(crate) fn parse(text: &str) -> Result<Self, UsageError> {
        let (plugin, choices) = match text.split_once('#') {
            Some((plugin, choices)) if !Path::new(text).exists() => (plugin, choices),
            _ => (text, ""),
        };
        let mut spec = Self { plugin: PluginSpec::parse(plugin)?, weight: 1.0, source: None };
        for pair in choices.split('&').filter(|pair| !pair.is_empty()) {
            let refuse = |why: String| Err(UsageError(format!("`#{choices}` behind {plugin}: {why}")));
            match pair.split_once('=') {
                Some(("weight", value)) => match value.parse() {
                    Ok(weight) if (0.0..=LARGEST_WEIGHT).contains(&weight) => spec.weight = weight,
                    _ => return refuse(format!("a weight is a number from 0 to {LARGEST_WEIGHT}, not `{value}`")),
                },
                Some(("source", value)) => {
                    let known = RewardSource::ALL.into_iter().find(|source| source.name() == value);
                    let Some(source) = known else {
                        return refuse(format!("`{value}` is no source; there are user, outcome, execution, judge"));
                    };
                    spec.source = Some(source);
                }
                _ => return refuse(format!("`{pair}` is neither weight=W nor source=S; options follow a `?`")),
            }
        }
        Ok(spec)
    }
}

/// Largest weight of a reward: only ratios matter, and sums must stay exact.
const LARGEST_WEIGHT: f64 = 1e6;

/// The known name nearest to what was typed, if any is near.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Below this two words have little in common.
    const ALIKE: f64 = 0.7;
    known
        .map(|name| (strsim::jaro_winkler(typed, name), name))
        .filter(|(likeness, _)| *likeness > ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<(&str, &[(&str, &str)]), &str>) {
        match (PluginSpec::parse(text), expected) {
            (Ok(spec), Ok((path, options))) => {
                assert_eq!(spec.name(), path, "{text}");
                let got: Vec<_> = spec.options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                assert_eq!(got, options, "{text}");
            }
            (Err(error), Err(part)) => assert!(error.0.contains(part), "{text}: {error}"),
            (got, _) => panic!("{text}: {got:?}"),
        }
    }

    #[test]
    fn options_follow_a_question_mark() {
        check("a/b.wasm", Ok(("a/b.wasm", &[])));
        check("b.wasm?size=10&kind=x=y", Ok(("b.wasm", &[("kind", "x=y"), ("size", "10")])));
        check("b.wasm?", Ok(("b.wasm", &[])));
        check("b.wasm?size", Err("write NAME=VALUE"));
        check("b.wasm?a=1&a=2", Err("twice"));
    }

    #[test]
    fn what_the_host_is_told_follows_a_hash() {
        let parse = |text: &str| RewardSpec::parse(text).map(|spec| (spec.plugin.name(), spec.weight, spec.source));
        assert_eq!(parse("r.wasm").unwrap(), ("r.wasm".into(), 1.0, None));
        let both = parse("r.wasm?a=1#weight=0.25&source=judge").unwrap();
        assert_eq!(both, ("r.wasm".into(), 0.25, Some(RewardSource::Judge)));
        for (text, part) in [
            ("r.wasm#weight=-1", "from 0 to"),
            ("r.wasm#weight=NaN", "from 0 to"),
            ("r.wasm#source=mine", "there are user, outcome, execution, judge"),
            ("r.wasm#a=1", "options follow a `?`"),
        ] {
            assert!(parse(text).unwrap_err().0.contains(part), "{text}");
        }
    }

    #[test]
    fn a_typo_finds_its_neighbour() {
        assert_eq!(nearest("tolerence", ["size", "tolerance"].into_iter()), Some("tolerance"));
        assert_eq!(nearest("zzz", ["size", "tolerance"].into_iter()), None);
    }
}
