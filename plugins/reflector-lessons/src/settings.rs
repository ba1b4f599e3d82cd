//! Options and their ranges.

use clawhost_sdk::{Context, OptionSpec, Result};

const ALIAS: &str = "reflector";
const DEFAULT_RETRIES: u32 = 1;
/// A model that fails three times will fail again.
const MOST_RETRIES: u32 = 3;
const DEFAULT_PROPOSALS: usize = 8;
/// Largest number of proposals that the host accepts from one call.
const MOST_PROPOSALS: usize = 64;
const DEFAULT_TOKENS: u32 = 4096;

/// The operator's settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// The alias of the granted model.
    pub(crate) alias: String,
    /// Number of retries after an invalid answer.
    pub(crate) retries: u32,
    /// Largest number of proposals from one answer.
    pub(crate) most: usize,
    /// `None`: the model's own.
    pub(crate) temperature: Option<f32>,
    /// Largest number of tokens of one answer.
    pub(crate) max_tokens: u32,
}

impl Settings {
    pub(crate) fn specs() -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("model", ALIAS, "which granted model to ask, by its alias"),
            OptionSpec::new("retries", "1", "how often to ask again when an answer is of no use, 0 to 3"),
            OptionSpec::new("most", "8", "most proposals at a time, 1 to 64"),
            OptionSpec::new("temperature", "", "of the model, 0 to 2; empty: the model's own"),
            OptionSpec::new("max_tokens", "4096", "most tokens of one answer"),
        ]
    }

    /// # Errors
    /// A value is invalid.
    pub(crate) fn of(context: &Context) -> Result<Self> {
        let alias = context.option("model").unwrap_or(ALIAS);
        let retries = context.option_or("retries", DEFAULT_RETRIES)?;
        let most = context.option_or("most", DEFAULT_PROPOSALS)?;
        let temperature = match context.option("temperature") {
            None | Some("") => None,
            Some(text) => Some(text.parse().map_err(|_| format!("temperature={text} is no number"))?),
        };
        let max_tokens = context.option_or("max_tokens", DEFAULT_TOKENS)?;
        if alias.trim().is_empty() {
            return Err(format!("model must name a granted model, as in model={ALIAS}").into());
        }
        let sensible = temperature.is_none_or(|temperature: f32| (0.0..=2.0).contains(&temperature));
        if retries > MOST_RETRIES || !(1..=MOST_PROPOSALS).contains(&most) || !sensible || max_tokens == 0 {
            return Err("retries must be 0 to 3, most 1 to 64, temperature 0 to 2, max_tokens at least 1".into());
        }
        Ok(Self { alias: alias.to_owned(), retries, most, temperature, max_tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, value: &str, works: bool) {
        let settings = Settings::of(&Context::new(0, vec![(name.to_owned(), value.to_owned())]));
        assert_eq!(settings.is_ok(), works, "{name}={value}: {settings:?}");
        let complaint = settings.err().map(|error| error.message().contains(name));
        assert!(complaint.unwrap_or(true), "{name}={value}: the text says which");
    }

    #[test]
    fn invalid_options_are_refused() {
        for (name, value) in [
            ("model", " "),
            ("retries", "4"),
            ("retries", "-1"),
            ("most", "0"),
            ("most", "65"),
            ("temperature", "2.1"),
            ("temperature", "NaN"),
            ("temperature", "warm"),
            ("max_tokens", "0"),
        ] {
            check(name, value, false);
        }
        for (name, value) in
            [("retries", "0"), ("retries", "3"), ("most", "64"), ("temperature", "0"), ("model", "big")]
        {
            check(name, value, true);
        }
    }

    #[test]
    fn described_options_have_the_defaults() {
        let shown = Settings::specs().into_iter().map(|spec| (spec.name, spec.default_value)).collect();
        assert_eq!(Settings::of(&Context::new(0, shown)).unwrap(), Settings::of(&Context::new(0, vec![])).unwrap());
    }
}
