//! The plain data of the contract, with constructors.

pub use crate::bindings::observer::clawhost::types::types::{
    Artefact, Attributes, Context, Message, OptionSpec, Origin, Part, Role, Signal, Task, ToolCall, ToolSpec, Usage,
};

/// The name of the pair in a message's `extra` with the demonstrated answer.
const DEMONSTRATION: &str = "demonstration";

impl Message {
    /// A message with one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![Part::Text(text.into())],
            tool_calls: Vec::new(),
            tool_call_id: None,
            origin: Origin::Environment,
            extra: Vec::new(),
        }
    }

    /// An observation for the policy.
    pub fn user(text: impl Into<String>) -> Self {
        Self::text(Role::User, text)
    }

    /// A message of the policy, for tests.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { origin: Origin::Policy, ..Self::text(Role::Assistant, text) }
    }

    /// The answer to a tool call.
    pub fn tool_result(call: &ToolCall, text: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call.id.clone()), ..Self::text(Role::Tool, text) }
    }

    /// A message of the policy with a tool call, for tests.
    pub fn calling(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        let call = ToolCall::new(id, name, arguments);
        Self { parts: Vec::new(), tool_calls: vec![call], ..Self::assistant("") }
    }

    /// Adds a demonstrated answer, for local models that learn by imitation. The policy does not see it. It belongs to
    /// the last message of an observation.
    pub fn demonstrating(mut self, answer: impl Into<String>) -> Self {
        self.extra.retain(|(name, _)| name != DEMONSTRATION);
        self.extra.push((DEMONSTRATION.to_owned(), answer.into()));
        self
    }

    /// The demonstrated answer.
    pub fn demonstration(&self) -> Option<&str> {
        self.extra.iter().find(|(name, _)| name == DEMONSTRATION).map(|(_, answer)| answer.as_str())
    }

    /// All text and JSON parts, joined by line ends.
    pub fn plain_text(&self) -> String {
        let texts: Vec<&str> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) | Part::Json(text) => Some(text.as_str()),
                Part::Blob(_) | Part::Other(_) => None,
            })
            .collect();
        texts.join("\n")
    }
}

impl ToolCall {
    /// A tool call of a policy, for tests.
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), arguments: arguments.into(), extra: Vec::new() }
    }

    /// The arguments, parsed as your type.
    ///
    /// # Errors
    /// They do not fit. The text explains the problem to the model.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> crate::Result<T> {
        serde_json::from_str(&self.arguments).map_err(|error| {
            crate::Error::from(format!("error: {} was called with wrong arguments: {error}", self.name))
        })
    }
}

impl ToolSpec {
    /// A tool. `input_schema` is JSON Schema as text.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            input_schema: input_schema.into(),
            extra: Vec::new(),
        }
    }
}

impl Task {
    /// A task without reference and tags.
    pub fn new(split: impl Into<String>, id: impl Into<String>, input: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            split: split.into(),
            input: input.into(),
            reference: None,
            tags: Vec::new(),
            extra: Vec::new(),
        }
    }

    /// Sets the reference (a correct answer or checker data) as JSON text. Only rewards see it.
    pub fn with_reference(mut self, json: impl Into<String>) -> Self {
        self.reference = Some(json.into());
        self
    }

    /// Adds a name-value pair. The environment receives it again at the start of the episode; the policy does not see it.
    pub fn with_extra(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra.push((name.into(), value.into()));
        self
    }

    /// The value of a pair.
    pub fn extra(&self, name: &str) -> Option<&str> {
        self.extra.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Adds a tag.
    pub fn with_tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }
}

impl Signal {
    /// A named number.
    pub fn new(name: impl Into<String>, value: f64) -> Self {
        Self { name: name.into(), value }
    }
}

impl OptionSpec {
    /// An option with its default.
    pub fn new(name: impl Into<String>, default_value: impl Into<String>, summary: impl Into<String>) -> Self {
        Self { name: name.into(), summary: summary.into(), default_value: default_value.into(), extra: Vec::new() }
    }
}

impl Artefact {
    /// Bytes with a name.
    pub fn new(name: impl Into<String>, media_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), media_type: media_type.into(), bytes: bytes.into(), extra: Vec::new() }
    }
}

/// Largest number of a world: JSON readers that only know doubles must represent it exactly.
pub const LARGEST_WORLD: u64 = 1 << 53;

impl Context {
    /// A seed and options, for tests.
    pub fn new(seed: u64, options: Attributes) -> Self {
        Self { seed, options, extra: Vec::new() }
    }

    /// The operator's value of an option, if there is one.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The operator's value of an option, or the default.
    ///
    /// # Errors
    /// The value cannot be parsed as a `T`.
    pub fn option_or<T: std::str::FromStr + std::fmt::Display>(&self, name: &str, default: T) -> crate::Result<T> {
        match self.option(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                crate::Error::from(format!("{name}={text} cannot be read; write it as in {name}={default}"))
            }),
        }
    }

    /// Whether an option has the other of two values instead of the usual one.
    ///
    /// # Errors
    /// It has a third value.
    pub fn is_other(&self, name: &str, [usual, other]: [&str; 2]) -> crate::Result<bool> {
        match self.option(name).unwrap_or(usual) {
            value if value == usual => Ok(false),
            value if value == other => Ok(true),
            value => Err(format!("{name}={value}: choose {usual} or {other}").into()),
        }
    }

    /// The number of a world that an environment draws: the operator's value of an option, or the seed. At most [`LARGEST_WORLD`].
    ///
    /// # Errors
    /// The value is no number, or too large.
    pub fn world(&self, name: &str) -> crate::Result<u64> {
        let Some(text) = self.option(name).filter(|text| !text.is_empty()) else {
            return Ok(self.seed.min(LARGEST_WORLD));
        };
        let world = text.parse().map_err(|_| format!("{name}={text} cannot be read; write it as in {name}=7"))?;
        if world > LARGEST_WORLD {
            return Err(format!("{name} must be at most {LARGEST_WORLD}").into());
        }
        Ok(world)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(value: &str) -> Context {
        Context::new(9, vec![("given".to_owned(), value.to_owned())])
    }

    #[test]
    fn an_option_of_two_values_has_no_third() {
        let check = |name: &str, value: &str, expect: Result<bool, &str>| {
            let found = context(value).is_other(name, ["off", "on"]);
            assert_eq!(found.map_err(|error| error.message().to_owned()), expect.map_err(str::to_owned), "{value}");
        };
        check("given", "on", Ok(true));
        check("given", "off", Ok(false));
        check("absent", "on", Ok(false));
        check("given", "maybe", Err("given=maybe: choose off or on"));
    }

    #[test]
    fn a_world_is_named_by_its_option_or_by_the_seed() {
        let check = |value: &str, expect: Result<u64, &str>| {
            let found = context(value).world("given");
            assert_eq!(found.map_err(|error| error.message().to_owned()), expect.map_err(str::to_owned), "{value}");
        };
        check("7", Ok(7));
        check("", Ok(9));
        check("mine", Err("given=mine cannot be read; write it as in given=7"));
        check("9007199254740993", Err("given must be at most 9007199254740992"));
        assert_eq!(context("7").world("absent").unwrap(), 9);
        assert_eq!(Context::new(u64::MAX, vec![]).world("given").unwrap(), LARGEST_WORLD);
    }
}
