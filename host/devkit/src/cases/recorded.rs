//! Episodes that a case describes, for rewards and reflectors.

use super::answer::answered;
use super::text::{Case, RecordedTurn};
use clawhost_core::{
    Artefact, Attributes, Closing, Digest, Ending, Episode, EpisodeHeader, EpisodeId, EpisodeOrigin, EpisodeRecorder,
    Grants, LlmIdentity, Message, ModelResponse, Observed, Origin, PluginIdentity, PolicyRecord, Role, RunId, Sampling,
    Signal, Simulated, StateId, Task, Usage,
};

/// The name of the environment that described episodes come from.
const ENVIRONMENT: &str = "case";
/// The task of a described episode.
const TASK: &str = "case-0";

/// The episode of a case. `episode_bytes`: its largest size.
///
/// # Errors
/// The case describes no episode: what is wrong with it.
pub(crate) fn episode(case: &Case, seed: u64, episode_bytes: usize) -> Result<Episode, String> {
    let opening = case.turns.first().map(|turn| observed(&turn.observation)).unwrap_or_default();
    let mut recorder = EpisodeRecorder::open(opening, episode_bytes);
    for (index, turn) in case.turns.iter().enumerate() {
        let next = case.turns.get(index.saturating_add(1)).map(|next| next.observation.as_str());
        record(
            &mut recorder,
            turn,
            index,
            next.or(case.closing.as_deref()).unwrap_or_default(),
            case,
            index.saturating_add(1) == case.turns.len(),
        )
        .map_err(|why| format!("turn {}: {why}", index.saturating_add(1)))?;
    }
    let ending = match case.ended.as_deref() {
        None | Some("terminated") => Ending::Terminated,
        Some("truncated") => Ending::Truncated("as the case says".to_owned()),
        Some(other) => {
            return Err(format!(
                "ended: found `{}`; expected terminated or truncated",
                clawhost_core::escaped(other, 60)
            ));
        }
    };
    let task = Task { input: case.input.clone(), reference: case.reference.clone(), ..Task::new("train", TASK) };
    let header = EpisodeHeader {
        run: RunId("case".to_owned()),
        id: EpisodeId(format!("ep-{seed:016x}")),
        index: 0,
        task_hash: task.digest(),
        task,
        origin: EpisodeOrigin::Simulated(Simulated {
            group: 0,
            environment: PluginIdentity::native(ENVIRONMENT),
            seed,
            options: Attributes::new(),
            max_turns: u32::try_from(case.turns.len()).unwrap_or(u32::MAX),
            grants: Grants::default(),
            branch: None,
        }),
        expects: Vec::new(),
        state_id: StateId(Digest::of(b"case")),
        policy: PolicyRecord {
            model: LlmIdentity { provider: "case".into(), model: "case".into(), version: String::new() },
            seed,
            system_prompt: None,
            sampling: Sampling::default(),
            playbook: None,
        },
    };
    let mut episode = recorder.close(header, ending, Closing::default());
    episode.reward = case.reward;
    Ok(episode)
}

fn observed(text: &str) -> Vec<Message> {
    match text.is_empty() {
        true => Vec::new(),
        false => vec![Message::text(Role::User, Origin::Environment, text)],
    }
}

fn record(
    recorder: &mut EpisodeRecorder,
    turn: &RecordedTurn,
    index: usize,
    next: &str,
    case: &Case,
    is_last: bool,
) -> Result<(), String> {
    let mut answer = answered(&turn.answer)?;
    for (position, call) in answer.tool_calls.iter_mut().enumerate() {
        call.id = format!("call-{index}-{position}");
    }
    if turn.results.len() > answer.tool_calls.len() {
        return Err(format!("{} results for {} tool calls", turn.results.len(), answer.tool_calls.len()));
    }
    let results = answer.tool_calls.iter().enumerate().map(|(position, call)| {
        let text = turn.results.get(position).cloned().unwrap_or_default();
        Message { tool_call_id: Some(call.id.clone()), ..Message::text(Role::Tool, Origin::Environment, text) }
    });
    let tool_results: Vec<Message> = results.collect();
    let finish = if answer.tool_calls.is_empty() { "stop" } else { "tool_calls" };
    let artefacts = case.artefacts.iter().filter(|_| is_last).map(|(name, text)| Artefact {
        name: name.clone(),
        media_type: "text/plain".to_owned(),
        bytes: text.clone().into_bytes(),
        extra: Attributes::new(),
    });
    let signals = turn.signals.iter().map(|(name, value)| Signal { name: name.clone(), value: *value });
    let observed = Observed {
        signals: signals.collect(),
        artefacts: artefacts.collect(),
        ..Observed::messages(tool_results, observed(next))
    };
    recorder.request(Digest::of(b"case")).map_err(|error| error.to_string())?;
    recorder.answer(ModelResponse::new(answer, Usage::default(), finish), 0).map_err(|error| error.to_string())?;
    recorder.observe(observed).map_err(|error| error.to_string())
}
