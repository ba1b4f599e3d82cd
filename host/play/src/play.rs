//! One episode, turn by turn.

use crate::guidance::GroupSlot;
use crate::plan::Cancel;
use crate::policy::{CONTEXT_FULL, ChatPolicy, Conversation};
use crate::tools::{self, Settled};
use clawhost_core::{
    Artefact, Attributes, Branch, Clock, Context, Digest, EPISODE_FORMAT, Ending, Environment, Episode, EpisodeId,
    EpisodeRecords, Failure, FailureKind, LiveEpisode, Message, ModelCallSource, ModelError, ModelResponse, Opening,
    Origin, Role, RunId, Signal, StartParams, StateId, Status, Task, Turn, TurnTiming, UnappliedAction, code,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is to be played.
#[derive(Clone)]
pub(crate) struct Assignment {
    pub(crate) run: RunId,
    pub(crate) id: EpisodeId,
    pub(crate) index: u64,
    pub(crate) group: u64,
    pub(crate) seat: GroupSlot,
    pub(crate) task: Arc<Task>,
    pub(crate) task_hash: Digest,
    pub(crate) environment_seed: u64,
    pub(crate) policy_seed: u64,
    pub(crate) options: Attributes,
    pub(crate) max_turns: u32,
    pub(crate) episode_bytes: usize,
    pub(crate) state_id: StateId,
    /// Where the answers of models come from that the environment asks.
    pub(crate) answers: ModelCallSource,
}

impl Assignment {
    pub(crate) fn params(&self) -> StartParams {
        StartParams {
            // The reference is for rewards.
            task: self.task.without_reference(),
            context: Context { seed: self.environment_seed, options: self.options.clone() },
            max_turns: self.max_turns,
            answers: self.answers.clone(),
        }
    }
}

/// What was played, and the notes that its instance wrote.
pub(crate) struct Played {
    pub(crate) episode: Episode,
    pub(crate) notes: BTreeMap<String, Option<Vec<u8>>>,
}

/// Collects what happens, so that whatever ends the episode, everything up to there is kept.
#[derive(Clone, Default)]
pub(crate) struct Recording {
    pub(crate) turns: Vec<Turn>,
    /// What the policy has not answered yet.
    pub(crate) pending: Vec<Message>,
    signals: Vec<Signal>,
    artefacts: Vec<Artefact>,
    untaken: Option<UnappliedAction>,
    bytes: usize,
}

impl Recording {
    /// Whether a step failed.
    pub(crate) fn untaken(&self) -> bool {
        self.untaken.is_some()
    }
}

/// An episode under way.
pub(crate) struct Scene {
    pub(crate) live: Box<dyn LiveEpisode>,
    pub(crate) opening: Opening,
    pub(crate) conversation: Conversation,
    pub(crate) recording: Recording,
}

/// Who plays where.
#[derive(Clone, Copy)]
pub(crate) struct Player<'a> {
    pub(crate) environment: &'a dyn Environment,
    pub(crate) policy: &'a ChatPolicy,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) cancel: &'a Cancel,
}

/// Plays an episode from its beginning to its end.
pub(crate) async fn play(player: Player<'_>, assignment: Assignment) -> Played {
    match player.begin(&assignment).await {
        Err(failure) => player.fail(assignment, None, failure),
        Ok(scene) => player.end(assignment, scene, None).await,
    }
}

pub(crate) fn cancelled() -> Failure {
    Failure::new(FailureKind::Cancelled, code::CANCELLED, "stopped by the operator")
}

impl Player<'_> {
    /// Starts an instance and opens the conversation.
    pub(crate) async fn begin(&self, assignment: &Assignment) -> Result<Scene, Failure> {
        let (live, mut opening) = tokio::select! {
            biased;
            () = self.cancel.requested() => Err(cancelled()),
            begun = self.environment.start(assignment.params()) => begun,
        }?;
        // There are no calls yet that a tool message could answer.
        opening.observation = tools::settle(&[], Vec::new(), opening.observation).observation;
        if opening.observation.is_empty() {
            opening.observation.push(silence());
        }
        let conversation = self.policy.converse(&opening, assignment.policy_seed, assignment.seat);
        let (pending, artefacts) = (opening.observation.clone(), opening.artefacts.clone());
        let recording = Recording { pending, artefacts, ..Recording::default() };
        Ok(Scene { live, opening, conversation, recording })
    }

    /// Plays what is left of an episode, and records it.
    pub(crate) async fn end(&self, assignment: Assignment, mut scene: Scene, branch: Option<Branch>) -> Played {
        let max_turns = assignment.max_turns;
        let ending = self.go_on(&mut scene, &assignment, max_turns).await;
        let ending = ending.unwrap_or_else(|| Ending::Truncated(format!("{max_turns} turns")));
        self.record(assignment, Some(scene), branch, ending)
    }

    /// Records an episode that did not come to its first turn, or to the turn where it branches off.
    pub(crate) fn fail(&self, assignment: Assignment, branch: Option<Branch>, failure: Failure) -> Played {
        self.record(assignment, None, branch, Ending::Failed(failure))
    }

    /// The record of what was played.
    pub(crate) fn record(
        &self,
        assignment: Assignment,
        scene: Option<Scene>,
        branch: Option<Branch>,
        ending: Ending,
    ) -> Played {
        let (records, opening, policy, recording) = match scene {
            None => {
                let policy = self.policy.record(assignment.policy_seed, assignment.seat);
                (EpisodeRecords::default(), None, policy, Recording::default())
            }
            Some(Scene { mut live, opening, conversation, recording }) => {
                (live.take_records(), Some(opening), conversation.record, recording)
            }
        };
        let (tools, system_hint) = opening.map(|opening| (opening.tools, opening.system_hint)).unwrap_or_default();
        let episode = Episode {
            format: EPISODE_FORMAT,
            id: assignment.id,
            run: assignment.run,
            index: assignment.index,
            group: assignment.group,
            task: (*assignment.task).clone(),
            task_hash: assignment.task_hash,
            environment: self.environment.identity().clone(),
            seed: assignment.environment_seed,
            options: assignment.options,
            max_turns: assignment.max_turns,
            grants: self.environment.grants(),
            branch,
            state_id: assignment.state_id,
            policy,
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
            created_at: self.clock.now_ms(),
        };
        Played { episode, notes: records.notes }
    }

    /// Plays until so many turns are recorded; none: it still goes on.
    pub(crate) async fn go_on(&self, scene: &mut Scene, assignment: &Assignment, until: u32) -> Option<Ending> {
        while scene.recording.turns.len() < until as usize {
            let ended = self.turn(scene, assignment.episode_bytes).await;
            match ended {
                Ok(Status::Running) => {}
                Ok(Status::Terminated) => return Some(Ending::Terminated),
                Ok(Status::Truncated(why)) => return Some(Ending::Truncated(why)),
                Err(failure) => return Some(Ending::Failed(failure)),
            }
        }
        None
    }

    /// One turn: the policy answers, the environment steps.
    async fn turn(&self, scene: &mut Scene, episode_bytes: usize) -> Result<Status, Failure> {
        let Scene { live, opening, conversation, recording } = scene;
        let request = conversation.digest();
        let asked = self.clock.monotonic_us();
        let response = tokio::select! {
            biased;
            () = self.cancel.requested() => return Err(cancelled()),
            answer = conversation.act() => answer,
        };
        let response = match response {
            Ok(response) => response,
            // Talking until the model can read no more is part of how it plays; a first question that is too long is not.
            Err(ModelError::TooLong(_)) if !recording.turns.is_empty() => {
                return Ok(Status::Truncated(CONTEXT_FULL.to_owned()));
            }
            Err(error) => return Err(error.into_failure()),
        };
        let answered = self.clock.monotonic_us();
        let sorted = tools::sort(&response.message, &opening.tools);
        let step = tokio::select! {
            biased;
            () = self.cancel.requested() => Err(cancelled()),
            step = live.step(&sorted.message, &sorted.answered) => step,
        };
        let result = match step {
            Ok(result) => result,
            Err(failure) => {
                let ModelResponse { message, usage, finish, .. } = response;
                recording.untaken = Some(UnappliedAction { request, action: message, finish, usage });
                return Err(failure);
            }
        };
        let stepped = self.clock.monotonic_us();
        let Settled { results, mut observation } =
            tools::settle(&response.message.tool_calls, sorted.answered, result.observation);
        let said = results.iter().chain(&observation).chain([&response.message]);
        recording.bytes = recording.bytes.saturating_add(size(said, &result.signals, &result.artefacts));
        if recording.bytes > episode_bytes {
            let message = format!("the episode is longer than the {episode_bytes} bytes that are recorded");
            let ModelResponse { message: action, usage, finish, .. } = response;
            recording.untaken = Some(UnappliedAction { request, action, finish, usage });
            return Err(Failure::new(FailureKind::Limit, code::LENGTH, message));
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
            tokens: response.tokens,
            fuel: live.last_fuel(),
            host_calls: live.host_calls(),
            extra: Vec::new(),
            timing: TurnTiming {
                policy_us: answered.saturating_sub(asked),
                environment_us: stepped.saturating_sub(answered),
            },
        });
        Ok(result.status)
    }
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
