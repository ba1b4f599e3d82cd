//! Arguments of a chat template beside the conversation: whether to think, the date, documents.

use crate::LocalModelError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Names that are the host's own.
const OWN: [&str; 3] = ["messages", "tools", "add_generation_prompt"];

/// The argument with the time that `strftime_now` gives to templates: `2026-11-29`, or with a time of day, `2026-11-29T14:30:00`. A template gets no
/// clock, so that equal conversations give equal texts.
pub const NOW: &str = "now";

/// Arguments by name. They reach the template alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TemplateArguments(Map<String, Value>);

impl TemplateArguments {
    /// Checks the names and the time.
    ///
    /// # Errors
    /// A name is one of the host's own, or the time cannot be read.
    pub fn new(arguments: Map<String, Value>) -> Result<Self, LocalModelError> {
        if let Some(name) = OWN.iter().find(|name| arguments.contains_key(**name)) {
            return Err(LocalModelError::Request(format!("{name} cannot be an argument of the chat template")));
        }
        let arguments = Self(arguments);
        if arguments.0.contains_key(NOW) && arguments.now().is_none() {
            let why = "the argument now of the chat template must be a date or a time, such as 2026-11-29T14:30:00";
            return Err(LocalModelError::Request(why.to_owned()));
        }
        Ok(arguments)
    }

    /// These arguments, with others that replace those of the same names.
    pub fn with(&self, others: Self) -> Self {
        let mut all = self.clone();
        all.0.extend(others.0);
        all
    }

    /// The time, if it was given.
    pub(super) fn now(&self) -> Option<chrono::NaiveDateTime> {
        let text = self.0.get(NOW)?.as_str()?;
        let day = || Some(text.parse::<chrono::NaiveDate>().ok()?.and_time(chrono::NaiveTime::MIN));
        text.parse().ok().or_else(day)
    }

    /// All of them.
    pub(super) fn values(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_the_host_and_unreadable_times_are_refused() {
        let of = |name: &str, value: Value| TemplateArguments::new(Map::from_iter([(name.to_owned(), value)]));
        for name in OWN {
            assert!(of(name, json!([])).is_err(), "{name}");
        }
        for now in [json!("today"), json!(1), json!("2026-13-01")] {
            assert!(of(NOW, now.clone()).is_err(), "{now}");
        }
        for (now, hour) in [("2026-11-29", 0), ("2026-11-29T14:30:00", 14)] {
            assert_eq!(chrono::Timelike::hour(&of(NOW, json!(now)).unwrap().now().unwrap()), hour, "{now}");
        }
    }
}
