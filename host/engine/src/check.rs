//! Checks values that guests return, right after lifting: lengths, finite numbers, distinct names. An invalid value is
//! rejected as a whole with the plugin's name and the rule; it is never truncated or clamped.

use crate::failure;
use clawhost_core::{
    About, Artefact, Attributes, Failure, Limits, Message, PluginIdentity, Role, Signal, Split, Task, ToolSpec, code,
};
use std::collections::BTreeSet;

/// The context of a check.
#[derive(Clone, Copy)]
pub(crate) struct Check<'a> {
    pub(crate) plugin: &'a PluginIdentity,
    pub(crate) export: &'a str,
    pub(crate) limits: &'a Limits,
}

/// Longest name of a tool in bytes, as model endpoints require.
const TOOL_NAME_BYTES: usize = 64;

impl Check<'_> {
    pub(crate) fn refuse<T>(&self, code: &str, what: impl AsRef<str>) -> Result<T, Failure> {
        Err(failure::invalid(self.plugin, self.export, code, what.as_ref()))
    }

    pub(crate) fn at_most(&self, what: &str, count: usize, limit: usize) -> Result<(), Failure> {
        if count > limit {
            return self.refuse(code::LENGTH, format!("{count} {what}, but at most {limit} are allowed"));
        }
        Ok(())
    }

    pub(crate) fn name(&self, what: &str, name: &str) -> Result<(), Failure> {
        if name.is_empty() {
            return self.refuse(code::MALFORMED, format!("{what} without a name"));
        }
        self.shown(&format!("the name of {what}"), name)?;
        self.at_most(&format!("bytes in the name of {what}"), name.len(), self.limits.name_bytes)
    }

    /// Text that people read when they decide what to trust: it must not hide or reorder other text.
    fn shown(&self, what: &str, text: &str) -> Result<(), Failure> {
        if text.chars().any(clawhost_core::is_hidden) {
            let text = clawhost_core::escaped(text, self.limits.name_bytes);
            return self.refuse(code::MALFORMED, format!("hidden characters in {what}: `{text}`"));
        }
        Ok(())
    }

    pub(crate) fn text(&self, what: &str, text: &str) -> Result<(), Failure> {
        self.at_most(&format!("bytes of {what}"), text.len(), self.limits.text_bytes)
    }

    pub(crate) fn attributes(&self, extra: &Attributes) -> Result<(), Failure> {
        self.at_most("attributes", extra.len(), self.limits.attributes)?;
        extra.iter().try_for_each(|(name, value)| {
            self.name("an attribute", name)?;
            self.text("an attribute", value)
        })
    }

    fn distinct<'n>(&self, what: &str, names: impl Iterator<Item = &'n str>) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                let name = clawhost_core::escaped(name, self.limits.name_bytes);
                return self.refuse(code::DUPLICATE, format!("two {what} named `{name}`"));
            }
        }
        Ok(())
    }

    pub(crate) fn finite(&self, what: &str, value: f64) -> Result<(), Failure> {
        if value.is_finite() {
            return Ok(());
        }
        let what = clawhost_core::escaped(what, self.limits.name_bytes);
        self.refuse(code::NOT_FINITE, format!("{what} is {value}, not a finite number"))
    }

    pub(crate) fn signals(&self, what: &str, signals: &[Signal]) -> Result<(), Failure> {
        self.at_most(what, signals.len(), self.limits.signals)?;
        for signal in signals {
            self.name("a signal", &signal.name)?;
            self.finite(&signal.name, signal.value)?;
        }
        self.distinct(what, signals.iter().map(|signal| signal.name.as_str()))
    }

    /// Checks an observation. An environment may use the roles user and tool; any other role becomes `user`, so that no
    /// plugin can imitate the system or the policy.
    pub(crate) fn observation(&self, mut messages: Vec<Message>) -> Result<Vec<Message>, Failure> {
        self.at_most("messages in an observation", messages.len(), self.limits.messages)?;
        let mut bytes = 0usize;
        for message in &mut messages {
            self.at_most("parts in a message", message.parts.len(), self.limits.parts)?;
            self.at_most("tool calls in a message", message.tool_calls.len(), self.limits.tool_calls)?;
            self.attributes(&message.extra)?;
            bytes = bytes.saturating_add(message.len());
            if message.role != Role::Tool {
                message.role = Role::User;
                message.tool_call_id = None;
            }
            message.tool_calls.clear();
        }
        self.at_most("bytes in an observation", bytes, self.limits.observation_bytes)?;
        Ok(messages)
    }

    pub(crate) fn tools(&self, tools: &[ToolSpec]) -> Result<(), Failure> {
        self.at_most("tools", tools.len(), self.limits.tools)?;
        let bytes = tools.iter().map(|tool| tool.description.len() + tool.input_schema.len()).sum();
        self.at_most("bytes of tool descriptions and schemas", bytes, self.limits.tools_bytes)?;
        for tool in tools {
            self.attributes(&tool.extra)?;
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if tool.name.is_empty() || tool.name.len() > TOOL_NAME_BYTES || !tool.name.bytes().all(plain) {
                let name = clawhost_core::escaped(&tool.name, TOOL_NAME_BYTES);
                let rule = "letters, digits, `_` and `-`, at most 64 bytes";
                return self.refuse(code::MALFORMED, format!("a tool named `{name}`; a tool's name has {rule}"));
            }
            match serde_json::from_str::<serde_json::Value>(&tool.input_schema) {
                Ok(serde_json::Value::Object(_)) => {}
                Ok(_) => return self.refuse(code::MALFORMED, format!("tool {}: its schema is no object", tool.name)),
                Err(error) => {
                    let what = format!("tool {}: its schema is not JSON ({error})", tool.name);
                    return self.refuse(code::MALFORMED, what);
                }
            }
        }
        self.distinct("tools", tools.iter().map(|tool| tool.name.as_str()))
    }

    pub(crate) fn artefacts(&self, artefacts: &[Artefact]) -> Result<(), Failure> {
        self.at_most("artefacts", artefacts.len(), self.limits.artefacts)?;
        artefacts.iter().try_for_each(|artefact| {
            self.name("an artefact", &artefact.name)?;
            self.name("an artefact's media type", &artefact.media_type)?;
            self.attributes(&artefact.extra)?;
            self.at_most("bytes in an artefact", artefact.bytes.len(), self.limits.artefact_bytes)
        })
    }

    pub(crate) fn about(&self, about: &About) -> Result<(), Failure> {
        self.name("a plugin", &about.name)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        if !about.name.bytes().all(plain) {
            let name = clawhost_core::escaped(&about.name, self.limits.name_bytes);
            return self.refuse(code::MALFORMED, format!("a plugin named `{name}`: letters, digits, `_`, `-` and `.`"));
        }
        for (what, text) in [("the version", &about.version), ("the summary", &about.summary)] {
            self.text(what, text)?;
            self.shown(what, text)?;
        }
        self.at_most("features", about.features.len(), self.limits.attributes)?;
        self.at_most("options", about.options.len(), self.limits.attributes)?;
        about.features.iter().try_for_each(|feature| self.name("a feature", feature))?;
        about.options.iter().try_for_each(|option| {
            self.name("an option", &option.name)?;
            self.text("an option's summary", &option.summary)?;
            self.shown("an option's summary", &option.summary)?;
            self.text("an option's default", &option.default_value)?;
            self.shown("an option's default", &option.default_value)
        })?;
        self.distinct("options", about.options.iter().map(|option| option.name.as_str()))?;
        self.attributes(&about.extra)
    }

    pub(crate) fn splits(&self, splits: &[Split]) -> Result<(), Failure> {
        if splits.is_empty() {
            return self.refuse(code::COUNT, "no splits; an environment has at least one");
        }
        self.at_most("splits", splits.len(), self.limits.splits)?;
        splits.iter().try_for_each(|split| self.name("a split", &split.name))?;
        self.distinct("splits", splits.iter().map(|split| split.name.as_str()))
    }

    pub(crate) fn tasks(&self, split: &str, tasks: &[Task], asked: u32) -> Result<(), Failure> {
        self.at_most("tasks", tasks.len(), asked as usize)?;
        let mut bytes = 0usize;
        for task in tasks {
            self.name("a task", &task.id)?;
            if task.split != split {
                return self.refuse(code::MALFORMED, format!("task {} says it is of another split", task.id));
            }
            self.at_most("tags of a task", task.tags.len(), self.limits.attributes)?;
            task.tags.iter().try_for_each(|tag| self.name("a tag", tag))?;
            self.attributes(&task.extra)?;
            let reference = task.reference.as_deref();
            if reference.is_some_and(|text| serde_json::from_str::<serde_json::Value>(text).is_err()) {
                return self.refuse(code::MALFORMED, format!("the reference of task {} is not JSON", task.id));
            }
            bytes = bytes.saturating_add(task.input.len() + reference.map_or(0, str::len));
        }
        self.at_most("bytes of tasks", bytes, self.limits.observation_bytes)?;
        self.distinct("tasks", tasks.iter().map(|task| task.id.as_str()))
    }
}
