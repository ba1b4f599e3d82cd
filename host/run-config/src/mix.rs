//! The other environments of a run: parts of a mixture, beside the first.

use crate::PluginSpec;
use crate::plugin::{Choices, PluginTextError};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// Weights of a part. Only ratios matter; a part with a smaller share would get no group in any run.
const WEIGHT: RangeInclusive<f64> = 0.001..=1000.0;

/// Most environments that are mixed in: each has its instances, its tasks in memory and a line in every report.
pub const MOST_PARTS: usize = 15;

/// A part of a mixture: an environment, optionally followed by `#weight=W&name=PART`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartSpec {
    /// The environment.
    pub plugin: PluginSpec,
    /// Its share of the groups, relative to the first environment, which has 1. From 0.001 to 1,000.
    pub weight: f64,
    /// Its name. `None`: that of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl PartSpec {
    /// Parses a part. `exists` is as in [`PluginSpec::parse`].
    ///
    /// # Errors
    /// The plugin is invalid, or the part after `#` is neither a weight nor a name.
    pub fn parse(text: &str, exists: impl Fn(&str) -> bool) -> Result<Self, PluginTextError> {
        let choices = Choices::parse(text, exists)?;
        let mut spec = Self { plugin: choices.plugin.clone(), weight: 1.0, name: None };
        for (name, value) in &choices.chosen {
            match *name {
                "weight" => spec.weight = choices.number(value, &WEIGHT)?,
                "name" => spec.name = Some(choices.part_name(value)?),
                name => return choices.unknown(name, "weight=W, name=PART"),
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for PartSpec {
    /// In the format of the option, with its weight.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#weight={}", self.plugin, self.weight)?;
        match &self.name {
            Some(name) => write!(f, "&name={name}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_plugin_with_a_weight_and_a_name() {
        let check = |text: &str, expect: Result<(&str, f64, Option<&str>), &str>| match (
            PartSpec::parse(text, |_| false),
            expect,
        ) {
            (Ok(part), Ok((plugin, weight, name))) => {
                assert_eq!((part.plugin.to_string().as_str(), part.weight), (plugin, weight));
                assert_eq!(part.name.as_deref(), name);
                assert_eq!(PartSpec::parse(&part.to_string(), |_| false).unwrap(), part, "it round-trips");
            }
            (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{text}: {error}"),
            (found, _) => panic!("{text}: {found:?}"),
        };
        check("b.wasm", Ok(("b.wasm", 1.0, None)));
        check("b.wasm?size=3#weight=0.5&name=small", Ok(("b.wasm?size=3", 0.5, Some("small"))));
        check("b.wasm#weight=0", Err("from 0.001 to 1000"));
        check("b.wasm#weight=NaN", Err("from 0.001 to 1000"));
        check("b.wasm#name=a/b", Err("not the name of a part"));
        check("b.wasm#name=a+b", Err("not the name of a part"));
        check("b.wasm#name=..", Err("not the name of a part"));
        check("b.wasm#source=user", Err("`source` is none of weight=W, name=PART"));
        check("b.wasm#name=a&name=b", Err("given twice"));
        check("#weight=1", Err("names no file"));
    }
}
