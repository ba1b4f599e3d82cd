//! Plays one episode, turn by turn.

use crate::guidance::GroupSlot;
use crate::plan::Cancel;
use crate::policy::{CONTEXT_FULL, ChatPolicy, Conversation};
use crate::tools::{self, Settled};
use clawhost_core::{
    Attributes, Branch, Clock, Closing, Context, Digest, Ending, Environment, Episode, EpisodeHeader, EpisodeId,
    EpisodeOrigin, EpisodeRecorder, EpisodeRecords, Expectation, Failure, FailureKind, LiveEpisode, Message,
    ModelCallSource, ModelError, Observed, Opening, Origin, RecorderError, Role, RunId, Simulated, StartParams,
    StateId, Status, Task, Turn, code,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The parameters of one episode.
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
    /// Verdicts that the episode waits for.
    pub(crate) expects: Vec<Expectation>,
    pub(crate) state_id: StateId,
    /// Source of the model answers that the environment requests.
    pub(crate) answers: ModelCallSource,
}

impl Assignment {
    pub(crate) fn params(&self) -> StartParams {
        StartParams {
            // References are for rewards only.
            task: self.task.without_reference(),
            context: Context { seed: self.environment_seed, options: self.options.clone() },
            max_turns: self.max_turns,
            answers: self.answers.clone(),
        }
    }
}

/// A played episode, and the notes that its instance wrote.
pub(crate) struct Played {
    pub(crate) episode: Episode,
    pub(crate) notes: BTreeMap<String, Option<Vec<u8>>>,
}

/// An episode in progress.
pub(crate) struct Scene {
    pub(crate) live: Box<dyn LiveEpisode>,
    pub(crate) opening: Opening,
    pub(crate) conversation: Conversation,
    pub(crate) recording: EpisodeRecorder,
}

/// The participants of an episode.
#[derive(Clone, Copy)]
pub(crate) struct Player<'a> {
    pub(crate) environment: &'a dyn Environment,
    pub(crate) policy: &'a ChatPolicy,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) cancel: &'a Cancel,
    /// Looks at every turn when it is recorded.
    pub(crate) watch: Option<&'a OnTurn<'a>>,
}

/// Looks at a turn, and at what the environment said after it.
pub type OnTurn<'a> = dyn Fn(&Turn, &[Message]) + Sync + 'a;

/// Plays an episode from beginning to end.
pub(crate) async fn play(player: Player<'_>, assignment: Assignment) -> Played {
    match player.begin(&assignment).await {
        Err(failure) => player.fail(assignment, None, failure),
        Ok(scene) => player.end(assignment, scene, None).await,
    }
}

pub(crate) fn cancelled(cancel: &Cancel) -> Failure {
    Failure::new(FailureKind::Cancelled, code::CANCELLED, cancel.words())
}

impl Player<'_> {
    /// Starts an instance and opens the conversation.
    pub(crate) async fn begin(&self, assignment: &Assignment) -> Result<Scene, Failure> {
        let (live, mut opening) = tokio::select! {
            biased;
            () = self.cancel.requested() => Err(cancelled(self.cancel)),
            begun = self.environment.start(assignment.params()) => begun,
        }?;
        // There are no calls yet that tool messages could answer.
        opening.observation = tools::settle(&[], Vec::new(), opening.observation).observation;
        if opening.observation.is_empty() {
            opening.observation.push(silence());
        }
        let conversation = self.policy.converse(&opening, assignment.policy_seed, assignment.seat);
        let recording = EpisodeRecorder::open(opening.observation.clone(), assignment.episode_bytes)
            .introduced(opening.system_hint.clone(), opening.artefacts.clone())
            .with_tools(opening.tools.clone());
        recording.check().map_err(out_of_order)?;
        Ok(Scene { live, opening, conversation, recording })
    }

    /// Plays the rest of an episode and records it.
    pub(crate) async fn end(&self, assignment: Assignment, mut scene: Scene, branch: Option<Branch>) -> Played {
        let max_turns = assignment.max_turns;
        let ending = self.play_until(&mut scene, max_turns).await;
        let ending = ending.unwrap_or_else(|| Ending::Truncated(format!("{max_turns} turns")));
        self.record(assignment, Some(scene), branch, ending)
    }

    /// Records an episode that failed before its first turn, or before its branch point.
    pub(crate) fn fail(&self, assignment: Assignment, branch: Option<Branch>, failure: Failure) -> Played {
        self.record(assignment, None, branch, Ending::Failed(failure))
    }

    /// The record of a played episode.
    pub(crate) fn record(
        &self,
        assignment: Assignment,
        scene: Option<Scene>,
        branch: Option<Branch>,
        ending: Ending,
    ) -> Played {
        let (records, policy, recording) = match scene {
            None => {
                let policy = self.policy.record(assignment.policy_seed, assignment.seat);
                (EpisodeRecords::default(), policy, EpisodeRecorder::open(Vec::new(), assignment.episode_bytes))
            }
            Some(Scene { mut live, conversation, recording, .. }) => {
                (live.take_records(), conversation.record, recording)
            }
        };
        let at = self.clock.now_ms();
        let header = EpisodeHeader {
            run: assignment.run,
            id: assignment.id,
            index: assignment.index,
            task: (*assignment.task).clone(),
            task_hash: assignment.task_hash,
            origin: EpisodeOrigin::Simulated(Simulated {
                group: assignment.group,
                environment: self.environment.identity().clone(),
                seed: assignment.environment_seed,
                options: assignment.options,
                max_turns: assignment.max_turns,
                grants: self.environment.grants(),
                branch,
            }),
            expects: assignment.expects.iter().map(|expected| expected.from(at)).collect(),
            state_id: assignment.state_id,
            policy,
        };
        let closing = Closing { log: records.log, journal: records.journal, at };
        let episode = recording.close(header, ending, closing);
        Played { episode, notes: records.notes }
    }

    /// Plays until this many turns are recorded; `None` if the episode is still running.
    pub(crate) async fn play_until(&self, scene: &mut Scene, until: u32) -> Option<Ending> {
        while scene.recording.turns().len() < until as usize {
            let before = scene.recording.turns().len();
            let ended = self.turn(scene).await;
            if let (Some(watch), Some(turn)) = (self.watch, scene.recording.turns().get(before)) {
                watch(turn, scene.recording.pending());
            }
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
    async fn turn(&self, scene: &mut Scene) -> Result<Status, Failure> {
        let Scene { live, opening, conversation, recording } = scene;
        recording.request(conversation.digest()).map_err(out_of_order)?;
        let asked = self.clock.monotonic_us();
        let response = tokio::select! {
            biased;
            () = self.cancel.requested() => return Err(cancelled(self.cancel)),
            answer = conversation.act() => answer,
        };
        let response = match response {
            Ok(response) => response,
            // A conversation that exceeds the context after the first turn is truncated, as part of the policy's behaviour.
            // A first prompt that is too long is a failure.
            Err(ModelError::TooLong(_)) if !recording.turns().is_empty() => {
                return Ok(Status::Truncated(CONTEXT_FULL.to_owned()));
            }
            Err(error) => return Err(error.into_failure()),
        };
        let answered = self.clock.monotonic_us();
        let sorted = tools::sort(&response.message, &opening.tools);
        let calls = response.message.tool_calls.clone();
        recording.answer(response, answered.saturating_sub(asked)).map_err(out_of_order)?;
        let result = tokio::select! {
            biased;
            () = self.cancel.requested() => Err(cancelled(self.cancel)),
            step = live.step(&sorted.message, &sorted.answered) => step,
        }?;
        let stepped = self.clock.monotonic_us();
        let Settled { results, mut observation } = tools::settle(&calls, sorted.answered, result.observation);
        if result.status == Status::Running && results.is_empty() && observation.is_empty() {
            observation.push(silence());
        }
        let said: Vec<Message> = results.iter().chain(&observation).cloned().collect();
        let observed = Observed {
            tool_results: results,
            observation,
            signals: result.signals,
            artefacts: result.artefacts,
            fuel: live.last_fuel(),
            host_calls: live.host_calls(),
            environment_us: stepped.saturating_sub(answered),
        };
        recording.observe(observed).map_err(out_of_order)?;
        conversation.extend(&said);
        Ok(result.status)
    }
}

/// Converts a recorder error: the episode is too long, or the host has a bug.
fn out_of_order(error: RecorderError) -> Failure {
    match error {
        RecorderError::TooLong { .. } => Failure::new(FailureKind::Limit, code::LENGTH, error.to_string()),
        _ => Failure::new(FailureKind::Host, code::HOST, error.to_string()),
    }
}

/// The message that a model gets if the environment returns none: endpoints require a message to answer.
fn silence() -> Message {
    Message::text(Role::User, Origin::Host, "(nothing is said; go on)")
}
