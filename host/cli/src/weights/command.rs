//! The command that plays with what was learned last.

use crate::args::{MachineArgs, flag};
use crate::context::Context;
use crate::shell::{program, quoted};
use clawhost_app::Learned;
use clawhost_run_config::{Key, RunSpecPatch, Value};

/// Words of a command.
struct Words(Vec<String>);

impl Words {
    fn option(&mut self, flag: &str, value: &str) {
        match value.starts_with('-') {
            // It would be taken for an option itself.
            true => self.0.push(format!("{flag}={value}")),
            false => self.0.extend([flag.to_owned(), value.to_owned()]),
        }
    }

    /// An option as it was said; nothing where it was not.
    fn said(&mut self, said: &RunSpecPatch, key: Key) {
        match said.get(key).map(|(value, _)| value) {
            None => {}
            Some(Value::Texts(texts)) => texts.iter().for_each(|text| self.option(&flag(key), text)),
            Some(Value::Text(text)) => self.option(&flag(key), text),
            Some(Value::Whole(number)) => self.option(&flag(key), &number.to_string()),
            Some(Value::Number(number)) => self.option(&flag(key), &number.to_string()),
            Some(Value::Flag(value)) => self.option(&flag(key), &value.to_string()),
        }
    }
}

/// The command; none where no weights were learned. `said` is what the run was asked for.
pub(crate) fn command(
    context: &Context,
    machine: &MachineArgs,
    learned: &Learned,
    said: &RunSpecPatch,
) -> Option<String> {
    let last = &learned.weights.as_ref()?.last;
    let spec = &learned.spec;
    let plugin = match said.get(Key::Plugin) {
        Some((Value::Text(plugin), _)) => plugin.clone(),
        _ => spec.environment.to_string(),
    };
    let mut words = Words(vec![program(), "run".to_owned(), plugin]);
    words.option(&flag(Key::Model), &last.display().to_string());
    for key in [Key::Rewards, Key::Grants, Key::SystemPrompt, Key::SystemPromptFile] {
        words.said(said, key);
    }
    let learned_playbook = learned.report.harness().map(|harness| harness.name.as_str());
    let playbook = spec.playbook.as_ref().map(|playbook| playbook.name.as_str());
    if let Some(name) = playbook.or(learned_playbook) {
        words.option(&flag(Key::Playbook), name);
        words.option(&flag(Key::TokenBudget), &spec.token_budget.to_string());
    }
    words.said(said, Key::Temperature);
    machine.endpoint.api_key_file.iter().for_each(|file| words.option("--api-key-file", file));
    words.option(&flag(Key::MaxTokens), &spec.policy.max_tokens.to_string());
    words.option(&flag(Key::MaxTurns), &spec.play.max_turns.to_string());
    if let Some(data) = &context.common.data {
        words.option("--data", &data.display().to_string());
    }
    let host = [("--allow-interpreters", machine.allow_interpreters), ("--on-demand", machine.on_demand)];
    words.0.extend(host.into_iter().filter(|(_, is_on)| *is_on).map(|(option, _)| option.to_owned()));
    Some(words.0.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}
