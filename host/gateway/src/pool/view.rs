//! Trajectories as JSON, with their steps: those that were submitted, and those of the captured episode.

use clawhost_core::{Episode, StepRow, StoreError, StoreReader, TokenRecord, TrajectoryRow, Turn};
use serde_json::{Map, Value, json};

/// Which steps of a trajectory are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    /// From this position on.
    pub(crate) from: u64,
    /// Most of them.
    pub(crate) limit: u64,
    /// Only those that trainers get.
    pub(crate) only_trainable: bool,
}

/// All steps that trainers get.
pub(crate) const TRAINABLE: Steps = Steps { from: 0, limit: u64::MAX >> 1, only_trainable: true };

/// A trajectory without its steps.
pub(crate) fn row(row: &TrajectoryRow) -> Value {
    let mut value = serde_json::to_value(row).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        let episode = row.episode.as_ref().map(|(run, episode)| format!("{run}/{episode}"));
        object.insert("episode".to_owned(), episode.into());
    }
    value
}

/// A trajectory with its steps.
pub(crate) fn trajectory(reader: &dyn StoreReader, found: &TrajectoryRow, which: Steps) -> Result<Value, StoreError> {
    let steps = reader.steps(found.number, which.from, which.limit)?;
    let is_captured = steps.iter().any(|step| step.document.is_none());
    let turns = match &found.episode {
        Some((run, id)) if is_captured => reader.episode(&format!("{run}/{id}"))?.map(|episode| turns(&episode)),
        _ => None,
    };
    let mut shown = Vec::new();
    let mut left_out = 0_u64;
    for step in steps {
        if which.only_trainable && !step.trainable {
            left_out += 1;
            continue;
        }
        shown.push(document(&step, turns.as_deref()));
    }
    let mut value = row(found);
    if let Some(object) = value.as_object_mut() {
        object.insert("steps".to_owned(), shown.into());
        if left_out > 0 {
            object.insert("steps_left_out".to_owned(), left_out.into());
        }
    }
    Ok(value)
}

/// A step. One that was captured and whose episode is not recorded yet has its position alone.
fn document(step: &StepRow, turns: Option<&[Map<String, Value>]>) -> Value {
    let StepRow { position, trainable, policy_version, document } = step;
    let mut object = Map::new();
    object.insert("position".to_owned(), (*position).into());
    object.insert("trainable".to_owned(), (*trainable).into());
    if let Some(version) = policy_version {
        object.insert("policy_version".to_owned(), (*version).into());
    }
    let submitted = document.as_deref().and_then(|document| serde_json::from_str(document).ok());
    let captured = || turns?.get(usize::try_from(*position).ok()?).cloned();
    object.extend(submitted.or_else(captured).unwrap_or_default());
    Value::Object(object)
}

/// The turns of an episode as steps: `messages` are those that are new since the answer before.
fn turns(episode: &Episode) -> Vec<Map<String, Value>> {
    let mut steps = Vec::with_capacity(episode.turns.len());
    let mut prompt: Vec<u32> = Vec::new();
    let system = episode.policy.system_prompt.as_ref();
    for (at, turn) in episode.turns.iter().enumerate() {
        let results = at.checked_sub(1).and_then(|before| episode.turns.get(before)).map(|before| &before.tool_results);
        let said = results.into_iter().flatten().chain(&turn.observation);
        let mut step = Map::new();
        if let Some(text) = system.filter(|_| at == 0) {
            step.insert("system".to_owned(), text.as_str().into());
        }
        step.insert("messages".to_owned(), said.map(|message| json!(message)).collect());
        step.insert("response".to_owned(), json!(turn.action));
        step.insert("finish".to_owned(), turn.finish.as_str().into());
        step.insert("usage".to_owned(), json!(turn.usage));
        let model = turn.answered_by.as_ref().map(|by| by.model.clone());
        step.insert("model".to_owned(), model.unwrap_or_else(|| episode.policy.model.model.clone()).into());
        tokens(turn, &mut prompt, &mut step);
        steps.push(step);
    }
    steps
}

/// The tokens of a turn, as far as they are known.
fn tokens(turn: &Turn, prompt: &mut Vec<u32>, step: &mut Map<String, Value>) {
    if let Some(record) = &turn.tokens {
        let TokenRecord { version, shared, prompt: rest, tokens, logprob_sampled, logprob_model, grammar, .. } =
            record.as_ref();
        prompt.truncate(*shared);
        prompt.extend(rest);
        step.insert("prompt_ids".to_owned(), json!(prompt));
        step.insert("response_ids".to_owned(), json!(tokens));
        step.insert("log_probs".to_owned(), json!(logprob_sampled));
        step.insert("weights_version".to_owned(), (*version).into());
        if let Some(grammar) = grammar {
            // The log-probs above are among the tokens that it allowed.
            step.insert("grammar".to_owned(), json!(grammar));
            step.insert("log_probs_unmasked".to_owned(), json!(logprob_model));
        }
        prompt.extend(tokens);
    } else if !turn.logprobs.is_empty() {
        step.insert("token_log_probs".to_owned(), json!(turn.logprobs));
    }
}
