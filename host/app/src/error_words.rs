//! Parts of messages that several errors share.

use clawhost_core::{RunId, escaped};
use clawhost_run_config::Difference;

/// The first runs of several.
pub(crate) fn listed(runs: &[RunId]) -> String {
    let shown: Vec<String> = runs.iter().take(SHOWN).map(|run| escaped(&run.0, 100)).collect();
    let more = if runs.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// What is wrong with the alias of a model.
pub(crate) fn which_model(unknown: Option<&str>) -> String {
    match unknown {
        None => "the alias of a model is needed".to_owned(),
        Some(alias) => format!("the gateway has no model `{}`", escaped(alias, 60)),
    }
}

/// The aliases that could be meant.
pub(crate) fn known_aliases(known: &[String]) -> String {
    if known.is_empty() {
        return "; gateway.toml has none".to_owned();
    }
    format!("; the gateway's models: {}", known.iter().map(|alias| escaped(alias, 60)).collect::<Vec<_>>().join(", "))
}

pub(crate) fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Number of differences that are shown. The others usually have the same cause.
const SHOWN: usize = 3;

pub(crate) fn differences(all: &[Difference]) -> String {
    let shown: Vec<String> = all.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = match all.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(", and {more} more differ"),
    };
    format!("{}{more}", shown.join(", "))
}
