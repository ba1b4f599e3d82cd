//! Expected verdicts of a run's episodes, in the format of the option `expect`: `user=24h`.

use clawhost_core::{Expectation, RewardSource};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An expected verdict with its time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Expected {
    /// Its source.
    pub source: RewardSource,
    /// The time limit in seconds, at least 1.
    pub seconds: u64,
}

/// The longest time limit: a hundred years, so that a deadline can be represented.
const LONGEST_SECONDS: u64 = 100 * 366 * 86_400;

/// Units of time with their seconds, the largest first.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

const FORM: &str = "SOURCE=TIME, as in user=24h; sources are user, outcome, execution and judge, units s, m, h and d";

impl fmt::Display for Expected {
    /// In the largest unit without a fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.into_iter().find(|(_, seconds)| self.seconds.is_multiple_of(*seconds));
        let (unit, seconds) = unit.unwrap_or(('s', 1));
        write!(f, "{}={}{unit}", self.source.name(), self.seconds / seconds)
    }
}

impl FromStr for Expected {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (source, time) = text.split_once('=').ok_or(FORM)?;
        let source = RewardSource::ALL.into_iter().find(|known| known.name() == source).ok_or(FORM)?;
        let (unit, length) = UNITS.into_iter().find(|(unit, _)| time.ends_with(*unit)).ok_or(FORM)?;
        let number: u64 = time.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or(FORM)?;
        let seconds = number.checked_mul(length).filter(|seconds| (1..=LONGEST_SECONDS).contains(seconds));
        Ok(Self { source, seconds: seconds.ok_or("a time from 1s to 36600d")? })
    }
}

impl From<Expected> for String {
    fn from(expected: Expected) -> Self {
        expected.to_string()
    }
}

impl TryFrom<String> for Expected {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Expected> for Expectation {
    fn from(expected: Expected) -> Self {
        Self { source: expected.source, within_ms: expected.seconds.saturating_mul(1000) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expectation_round_trips() {
        let check = |text: &str, expect: Result<(RewardSource, u64, &str), &str>| {
            let found = text.parse::<Expected>();
            let found = found.as_ref().map(|found| (found.source, found.seconds, found.to_string()));
            match (found, expect) {
                (Ok(found), Ok((source, seconds, written))) => {
                    assert_eq!(found, (source, seconds, written.to_owned()), "{text}");
                }
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        };
        check("user=24h", Ok((RewardSource::User, 86_400, "user=1d")));
        check("judge=90s", Ok((RewardSource::Judge, 90, "judge=90s")));
        check("outcome=5m", Ok((RewardSource::Outcome, 300, "outcome=5m")));
        for text in ["", "user", "user=", "user=1", "user=h", "user=-1h", "user=1.5h", "boss=1h", "user=1w"] {
            check(text, Err("SOURCE=TIME"));
        }
        for text in ["user=0s", "user=99999999d", "user=18446744073709551615d"] {
            check(text, Err("from 1s"));
        }
    }
}
