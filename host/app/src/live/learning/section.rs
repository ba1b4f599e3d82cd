//! How lessons are learned from live sessions: the section `[learning]` of `gateway.toml`.

use crate::live::opted_in::OptedIn;
use clawhost_core::RewardSource;
use clawhost_learn::live::trials::TrialSettings;
use clawhost_learn::live::{LARGEST_ODDS_RATIO, OddsRatio, Propensity, Share};
use serde::Deserialize;

/// The share of sessions that are shown the lesson on trial. What is tried has not proved itself, so nine of ten sessions do without it.
const TRIAL_SHARE: f64 = 0.1;
/// The same in a rehearsal, where no person is behind a session: at a half most is learned from each.
const REHEARSAL_SHARE: f64 = 0.5;
/// The share of wrong ones among the lessons that are found to help.
const ALPHA: f64 = 0.1;
/// Values of it that make sense: below, nothing is found in the life of a service; above, more is wrong than a gate should let pass.
const ALPHA_RANGE: std::ops::RangeInclusive<f64> = 0.001..=0.25;
/// Seconds after its beginning at which a session enters the trials, with the feedback that it has by then: a day.
const DEADLINE_SECONDS: u64 = 24 * 60 * 60;
/// Longest such time: thirty days.
const LONGEST_DEADLINE_SECONDS: u64 = 30 * DEADLINE_SECONDS;

/// How lessons are learned from live sessions.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LearningSection {
    /// The reflectors that propose lessons after sessions, as of `clawhost learn`.
    #[serde(default)]
    pub reflectors: Vec<String>,
    /// Their permissions, as of `--grant`.
    #[serde(default)]
    pub grants: Vec<String>,
    /// Whether lessons are tried on live sessions.
    #[serde(default)]
    pub live_trials: bool,
    /// Whose sessions teach lessons, and are sessions of trials: `all`, `key:NAME`, or a scope as of memory. `None`: all.
    pub from: Option<Vec<String>>,
    /// Whether all users are simulated. Then a half of the sessions is shown the lesson on trial instead of a tenth.
    #[serde(default)]
    pub rehearsal: bool,
    /// The share of sessions that stay on the version before the newest one.
    pub previous_share: Option<f64>,
    /// Seconds after its beginning at which a session enters the trials.
    pub deadline_seconds: Option<u64>,
    /// The share of wrong ones among the lessons that are found to help.
    pub alpha: Option<f64>,
    /// The dependence of feedback on what was shown that a finding has to survive.
    pub odds_ratio: Option<f64>,
    /// The sources of the rewards that trials learn from. `None`: users and outcomes.
    pub train_from: Option<Vec<String>>,
}

impl LearningSection {
    /// Checks its values. The error says what is wrong.
    pub(crate) fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: Option<f64>, range: std::ops::RangeInclusive<f64>| match value {
            Some(value) if !range.contains(&value) => {
                Err(format!("learning.{name}: must be from {} to {}", range.start(), range.end()))
            }
            _ => Ok(()),
        };
        let shares = clawhost_learn::live::LEAST_SHARE..=clawhost_learn::live::MOST_SHARE;
        within("previous_share", self.previous_share, shares)?;
        within("alpha", self.alpha, ALPHA_RANGE)?;
        within("odds_ratio", self.odds_ratio, 1.0..=LARGEST_ODDS_RATIO)?;
        if self.deadline_seconds.is_some_and(|seconds| !(1..=LONGEST_DEADLINE_SECONDS).contains(&seconds)) {
            return Err(format!("learning.deadline_seconds: must be from 1 to {LONGEST_DEADLINE_SECONDS}"));
        }
        self.opted_in()?;
        self.sources().map(drop)
    }

    /// Whose sessions teach lessons, and are sessions of trials.
    ///
    /// # Errors
    /// A name is that of nobody.
    pub(crate) fn opted_in(&self) -> Result<OptedIn, String> {
        let named = |names: &Vec<String>| OptedIn::of(names).map_err(|why| format!("learning.from: {why}"));
        self.from.as_ref().map_or(Ok(OptedIn::All), named)
    }

    /// The sources of the rewards that trials learn from.
    ///
    /// # Errors
    /// A name is no source.
    pub(crate) fn sources(&self) -> Result<Vec<RewardSource>, String> {
        sources("learning.train_from", self.train_from.as_deref())
    }

    /// How lessons are tried.
    ///
    /// # Errors
    /// A value is outside of its range.
    pub(crate) fn settings(&self) -> Result<TrialSettings, clawhost_learn::LearnError> {
        Ok(TrialSettings {
            share: Propensity::new(if self.rehearsal { REHEARSAL_SHARE } else { TRIAL_SHARE })?,
            alpha: self.alpha.unwrap_or(ALPHA),
            previous: self.previous_share.map(Share::new).transpose()?.unwrap_or_default(),
            odds_ratio: self.odds_ratio.map(OddsRatio::new).transpose()?.unwrap_or(OddsRatio::USUAL),
        })
    }

    /// Milliseconds after its beginning at which a session enters the trials.
    pub(crate) fn deadline_ms(&self) -> u64 {
        self.deadline_seconds.unwrap_or(DEADLINE_SECONDS).saturating_mul(1000)
    }
}

/// The sources of rewards that a key of the configuration names. `None`: users and outcomes. The error says which is none.
pub(crate) fn sources(key: &str, names: Option<&[String]>) -> Result<Vec<RewardSource>, String> {
    let Some(names) = names else { return Ok(vec![RewardSource::User, RewardSource::Outcome]) };
    let source = |name: &String| {
        let known = RewardSource::ALL.into_iter().find(|source| source.name() == name);
        known.ok_or_else(|| {
            let name = clawhost_core::escaped(name, 60);
            format!("{key}: there is no source `{name}`; write user, outcome, execution or judge")
        })
    };
    names.iter().map(source).collect()
}

#[cfg(test)]
mod tests {
    use crate::GatewayFile;

    #[test]
    fn a_tenth_of_the_sessions_is_shown_what_is_tried_and_a_twentieth_stays_on_the_version_before() {
        let settings = |text: &str| GatewayFile::parse(text).unwrap().learning.settings().unwrap();
        let usual = settings("[learning]\nlive_trials = true");
        assert_eq!((usual.share.value(), usual.previous.value(), usual.odds_ratio.value()), (0.1, 0.05, 1.5));
        assert_eq!(settings("[learning]\nrehearsal = true").share.value(), 0.5);
    }

    #[test]
    fn values_outside_of_their_ranges_are_refused() {
        let check = |text: &str, part: &str| {
            let why = GatewayFile::parse(&format!("[learning]\n{text}")).map(|file| file.learning);
            match why {
                Ok(section) => assert!(part.is_empty(), "{text}: {section:?}"),
                Err(why) => assert!(!part.is_empty() && why.contains(part), "{text}: {why}"),
            }
        };
        check("live_trials = true\nrehearsal = true\nfrom = [\"key:shop\"]\nalpha = 0.05\ndeadline_seconds = 60", "");
        check("train_from = [\"user\", \"judge\"]", "");
        check("from = [\"shop\"]", "learning.from: `shop` names nobody");
        check("previous_share = 0.6", "learning.previous_share: must be from 0.01 to 0.5");
        check("alpha = 0.5", "learning.alpha: must be from 0.001 to 0.25");
        check("odds_ratio = 0.5", "learning.odds_ratio: must be from 1 to 20");
        check("deadline_seconds = 0", "learning.deadline_seconds: must be from 1 to 2592000");
        check("train_from = [\"users\"]", "learning.train_from: there is no source `users`");
        check("live_trial = true", "did you mean");
    }
}
