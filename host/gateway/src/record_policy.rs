//! What is recorded of clients without a key. A key says it of its own traffic.

use std::str::FromStr;

/// What is recorded of clients without a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordPolicy {
    /// Everything, to learn from.
    #[default]
    All,
    /// Everything, and learning leaves it out.
    NoTrain,
    /// Nothing.
    Off,
}

/// A text that is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no record policy: write all, no-train or off")]
pub struct NoRecordPolicy(String);

impl RecordPolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::All, Self::NoTrain, Self::Off];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::NoTrain => "no-train",
            Self::Off => "off",
        }
    }
}

impl FromStr for RecordPolicy {
    type Err = NoRecordPolicy;

    fn from_str(text: &str) -> Result<Self, NoRecordPolicy> {
        let known = Self::ALL.into_iter().find(|policy| policy.name() == text);
        known.ok_or_else(|| NoRecordPolicy(clawhost_core::escaped(text, 60)))
    }
}

impl<'de> serde::Deserialize<'de> for RecordPolicy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
