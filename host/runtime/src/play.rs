//! One episode, turn by turn.

use crate::policy::ChatPolicy;
use crate::run::Cancel;
use crate::tools::{self, Settled};
use clawhost_core::{
    Artefact, Attributes, Clock, Context, Digest, EPISODE_FORMAT, Ending, Environment, Episode, EpisodeId,
    EpisodeRecords, Failure, FailureKind, LiveEpisode, Message, ModelResponse, Opening, Origin, PolicyRecord, Role,
    RunId, Signal, StartParams, StateId, Status, Task, Turn, TurnTiming, Untaken, code,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is to be played.
pub(crate) struct Assignment {
    pub(crate) run: RunId,
    pub(crate) id: EpisodeId,
    pub(crate) index: u64,
    pub(crate) group: u64,
    pub(crate) task: Arc<Task>,
    pub(crate) task_hash: Digest,
    pub(crate) environment_seed: u64,
    pub(crate) policy_seed: u64,
    pub(crate) options: Attributes,
    pub(crate) max_turns: u32,
    pub(crate) episode_bytes: usize,
    pub(crate) state_id: StateId,
}

/// What was played, and the notes that its instance wrote.
pub(crate) struct Played {
    pub(crate) episode: Episode,
    pub(crate) notes: BTreeMap<String, Option<Vec<u8>>>,
}

/// Collects what happens, so that whatever ends the episode, everything up to there is kept.
#[derive(Default)]
struct Recording {
    turns: Vec<Turn>,
    /// What the policy has not answered yet.
    pending: Vec<Message>,
    signals: Vec<Signal>,
    artefacts: Vec<Artefact>,
    untaken: Option<Untaken>,
    bytes: usize,
}

pub(crate) async fn play(
    environment: &dyn Environment,
    policy: &ChatPolicy,
    clock: &dyn Clock,
    cancel: &Cancel,
    assignment: Assignment,
) -> Played {
    let mut recording = Recording::default();
    let params = StartParams {
        // The reference is for rewards.
        task: assignment.task.without_reference(),
        context: Context { seed: assignment.environment_seed, options: assignment.options.clone() },
        max_turns: assignment.max_turns,
    };
    let begun = tokio::select! {
        biased;
        () = cancel.requested() => Err(cancelled()),
        begun = environment.start(params) => begun,
    };
    let (ending, opening, records, record) = match begun {
        Err(failure) => (Ending::Failed(failure), None, EpisodeRecords::default(), None),
        Ok((mut live, mut opening)) => {
            // There are no calls yet that a tool message could answer.
            opening.observation = tools::settle(&[], Vec::new(), opening.observation).observation;
            if opening.observation.is_empty() {
                opening.observation.push(silence());
            }
            let (ending, record) =
                turns(live.as_mut(), &opening, policy, clock, cancel, &assignment, &mut recording).await;
            (ending, Some(opening), live.take_records(), Some(record))
        }
    };
    let policy_record = record.unwrap_or_else(|| PolicyRecord {
        model: policy.identity(),
        seed: assignment.policy_seed,
        system_prompt: None,
    });
    let (tools, system_hint) = opening.map(|opening| (opening.tools, opening.system_hint)).unwrap_or_default();
    let episode = Episode {
        format: EPISODE_FORMAT,
        id: assignment.id,
        run: assignment.run,
        index: assignment.index,
        group: assignment.group,
        task: (*assignment.task).clone(),
        task_hash: assignment.task_hash,
        environment: environment.identity().clone(),
        seed: assignment.environment_seed,
        options: assignment.options,
        max_turns: assignment.max_turns,
        state_id: assignment.state_id,
        policy: policy_record,
        system_hint,
        tools,
        turns: recording.turns,
        closing: recording.pending,
        untaken: recording.untaken,
        ending,
        signals: recording.signals,
        artefacts: recording.artefacts,
        verdicts: Vec::new(),
        reward: None,
        log: records.log,
        journal: records.journal,
        created_at: clock.now_ms(),
    };
    Played { episode, notes: records.notes }
}

pub(crate) fn cancelled() -> Failure {
    Failure::new(FailureKind::Cancelled, code::CANCELLED, "stopped by the operator")
}

async fn turns(
    live: &mut dyn LiveEpisode,
    opening: &Opening,
    policy: &ChatPolicy,
    clock: &dyn Clock,
    cancel: &Cancel,
    assignment: &Assignment,
    recording: &mut Recording,
) -> (Ending, PolicyRecord) {
    let mut conversation = policy.converse(opening, assignment.policy_seed);
    recording.pending = opening.observation.clone();
    recording.artefacts = opening.artefacts.clone();
    for _ in 0..assignment.max_turns {
        let request = conversation.digest();
        let asked = clock.monotonic_us();
        let answer = tokio::select! {
            biased;
            () = cancel.requested() => return (Ending::Failed(cancelled()), conversation.record),
            answer = conversation.act() => answer,
        };
        let response = match answer {
            Ok(response) => response,
            Err(error) => return (Ending::Failed(error.into_failure()), conversation.record),
        };
        let answered = clock.monotonic_us();
        let sorted = tools::sort(&response.message, &opening.tools);
        let step = tokio::select! {
            biased;
            () = cancel.requested() => Err(cancelled()),
            step = live.step(&sorted.message, &sorted.answered) => step,
        };
        let result = match step {
            Ok(result) => result,
            Err(failure) => {
                let ModelResponse { message, usage, finish } = response;
                recording.untaken = Some(Untaken { request, action: message, finish, usage });
                return (Ending::Failed(failure), conversation.record);
            }
        };
        let stepped = clock.monotonic_us();
        let Settled { results, mut observation } =
            tools::settle(&response.message.tool_calls, sorted.answered, result.observation);
        let said = results.iter().chain(&observation).chain([&response.message]);
        recording.bytes = recording.bytes.saturating_add(size(said, &result.signals, &result.artefacts));
        if recording.bytes > assignment.episode_bytes {
            let message =
                format!("the episode is longer than the {} bytes that are recorded", assignment.episode_bytes);
            let ModelResponse { message: action, usage, finish } = response;
            recording.untaken = Some(Untaken { request, action, finish, usage });
            let failure = Failure::new(FailureKind::Limit, code::LENGTH, message);
            return (Ending::Failed(failure), conversation.record);
        }
        if result.status == Status::Running && results.is_empty() && observation.is_empty() {
            observation.push(silence());
        }
        conversation.extend(&results);
        conversation.extend(&observation);
        for signal in &result.signals {
            match recording.signals.iter_mut().find(|known| known.name == signal.name) {
                Some(known) => known.value = signal.value,
                None => recording.signals.push(signal.clone()),
            }
        }
        for artefact in result.artefacts {
            recording.artefacts.retain(|known| known.name != artefact.name);
            recording.artefacts.push(artefact);
        }
        recording.turns.push(Turn {
            observation: std::mem::replace(&mut recording.pending, observation),
            request,
            action: response.message,
            finish: response.finish,
            tool_results: results,
            signals: result.signals,
            usage: response.usage,
            fuel: live.last_fuel(),
            host_calls: live.host_calls(),
            extra: Vec::new(),
            timing: TurnTiming {
                policy_us: answered.saturating_sub(asked),
                environment_us: stepped.saturating_sub(answered),
            },
        });
        match result.status {
            Status::Running => {}
            Status::Terminated => return (Ending::Terminated, conversation.record),
            Status::Truncated(why) => return (Ending::Truncated(why), conversation.record),
        }
    }
    (Ending::Truncated(format!("{} turns", assignment.max_turns)), conversation.record)
}

/// What a model is told where the environment says nothing: endpoints want a conversation to end with something to answer.
fn silence() -> Message {
    Message::text(Role::User, Origin::Host, "(nothing is said; go on)")
}

/// Bytes that a turn adds to the record, about.
fn size<'a>(said: impl Iterator<Item = &'a Message>, signals: &[Signal], artefacts: &[Artefact]) -> usize {
    /// What a signal, a part or an artefact costs beside its text.
    const OVERHEAD: usize = 64;
    let said: usize =
        said.map(|message| message.len() + OVERHEAD * (1 + message.parts.len() + message.extra.len())).sum();
    let signals: usize = signals.iter().map(|signal| signal.name.len() + OVERHEAD).sum();
    let artefacts: usize = artefacts.iter().map(|artefact| artefact.bytes.len() + OVERHEAD).sum();
    said + signals + artefacts
}
