//! The JSON of a finding's hints.

use clawhost_core::Hint;
use serde::ser::{SerializeSeq as _, Serializer};

/// The JSON form of a hint: its kind, and the fields of that kind.
#[derive(serde::Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Listed<'a> {
    Option {
        key: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<&'a str>,
    },
    ChangeThis,
    Without {
        key: &'a str,
    },
    OtherDataFolder,
    MakeRoom,
    Resume,
    NewRun,
    SameSpecification,
    Command {
        words: &'a str,
        does: &'a str,
    },
    Outside {
        text: &'a str,
    },
}

impl<'a> From<&'a Hint> for Listed<'a> {
    fn from(hint: &'a Hint) -> Self {
        match hint {
            Hint::Option { key, value } => Self::Option { key, value: value.as_deref() },
            Hint::ChangeThis => Self::ChangeThis,
            Hint::Without(key) => Self::Without { key },
            Hint::OtherDataFolder => Self::OtherDataFolder,
            Hint::MakeRoom => Self::MakeRoom,
            Hint::Resume => Self::Resume,
            Hint::NewRun => Self::NewRun,
            Hint::SameSpecification => Self::SameSpecification,
            Hint::Command { words, does } => Self::Command { words, does },
            Hint::Outside(text) => Self::Outside { text },
        }
    }
}

/// Writes hints as a list.
pub(crate) fn listed<S: Serializer>(hints: &[Hint], serializer: S) -> Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(hints.len()))?;
    for hint in hints {
        list.serialize_element(&Listed::from(hint))?;
    }
    list.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Finding;

    #[test]
    fn findings_list_their_hints_by_kind() {
        let finding = Finding::missing("pool", "none", "time", "raise the limit").with_hints([
            Hint::set("on_demand", "true"),
            Hint::change("max_turns"),
            Hint::Without("tasks"),
            Hint::OtherDataFolder,
            Hint::command("doctor", "lists the devices"),
        ]);
        let expected = serde_json::json!([
            {"kind": "option", "key": "on_demand", "value": "true"},
            {"kind": "option", "key": "max_turns"},
            {"kind": "without", "key": "tasks"},
            {"kind": "other_data_folder"},
            {"kind": "command", "words": "doctor", "does": "lists the devices"},
        ]);
        assert_eq!(serde_json::to_value(finding).unwrap()["hints"], expected);
        let good = serde_json::to_value(Finding::good("pool", "well")).unwrap();
        assert_eq!(good, serde_json::json!({"topic": "pool", "state": "good", "says": "well"}));
    }
}
