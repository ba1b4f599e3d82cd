//! Values of records that are not what other records determine.

use serde::Serialize;
use std::fmt;

/// A value of a record that is not what the rest of the records determines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Discrepancy {
    /// The record: a run, or `RUN/ID` for an episode.
    pub record: String,
    /// The value: a column, a verdict, a part of the summary.
    pub what: String,
    /// What is recorded; `None`: nothing.
    pub recorded: Option<String>,
    /// What ought to be recorded; `None`: nothing.
    pub expected: Option<String>,
}

impl Discrepancy {
    /// `None` if both values are equal.
    pub fn between(
        record: &str,
        what: impl Into<String>,
        recorded: impl Into<Option<String>>,
        expected: impl Into<Option<String>>,
    ) -> Option<Self> {
        let (recorded, expected) = (recorded.into(), expected.into());
        (recorded != expected).then(|| Self { record: record.to_owned(), what: what.into(), recorded, expected })
    }
}

impl fmt::Display for Discrepancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, what, recorded, expected } = self;
        write!(f, "{record}: {what} ")?;
        match (recorded, expected) {
            (Some(recorded), Some(expected)) => write!(f, "is {recorded} and ought to be {expected}"),
            (None, Some(expected)) => write!(f, "is missing and ought to be {expected}"),
            (Some(recorded), None) => write!(f, "is {recorded} and ought not to be there"),
            (None, None) => f.write_str("is missing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discrepancy_says_what_is_and_what_ought_to_be() {
        let check = |recorded: Option<&str>, expected: Option<&str>, says: Option<&str>| {
            let found = Discrepancy::between("run-a", "x", recorded.map(str::to_owned), expected.map(str::to_owned));
            assert_eq!(found.map(|found| found.to_string()).as_deref(), says);
        };
        check(Some("1"), Some("1"), None);
        check(None, None, None);
        check(Some("1"), Some("2"), Some("run-a: x is 1 and ought to be 2"));
        check(None, Some("2"), Some("run-a: x is missing and ought to be 2"));
        check(Some("1"), None, Some("run-a: x is 1 and ought not to be there"));
    }
}
