//! The command that plays with the learned model.

use crate::args::{MachineArgs, flag};
use crate::context::Context;
use crate::words::Words;
use clawhost_app::Learned;
use clawhost_run_config::{Key, LocalModelText, RunSpecPatch, Value};

/// The command. `None`: there are no learned weights. `said` has the options of the run.
pub(crate) fn command(
    context: &Context,
    machine: &MachineArgs,
    learned: &Learned,
    said: &RunSpecPatch,
) -> Option<String> {
    let last = learned.weights.as_ref()?.last.as_ref()?;
    let spec = &learned.spec;
    let plugin = match said.get(Key::Plugin) {
        Some((Value::Text(plugin), _)) => plugin.clone(),
        _ => spec.environment.to_string(),
    };
    let mut words = Words::of("run");
    words.word(plugin);
    let options = LocalModelText::of(&spec.policy.model).map_or("", |text| text.options);
    words.option(&flag(Key::Model), &format!("{}{options}", last.display()));
    for key in [Key::Mix, Key::Rewards, Key::Grants, Key::SystemPrompt, Key::SystemPromptFile] {
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
    host.into_iter().filter(|(_, is_on)| *is_on).for_each(|(option, _)| words.word(option));
    Some(words.line())
}
