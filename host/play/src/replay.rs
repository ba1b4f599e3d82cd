//! Replay: plays a stored episode again from its plugin, options, seed, actions and journal, and compares it with its record
//! turn by turn, byte for byte.
//!
//! Everything else follows from these: time, randomness and notes are functions of the seed and of the plugin's behaviour.
//! Endings caused by the host (a deadline, exhausted memory, a stop, a model that did not answer) are not; such an episode
//! is replayed up to its last complete turn.

use crate::branch;
use crate::compare::{Difference, TURNS, first_difference, first_field};
use crate::guidance::GroupSlot;
use crate::plan::Cancel;
use crate::play::{Assignment, Player, Scene};
use crate::policy::ChatPolicy;
use crate::score::group_digest;
use clawhost_core::{
    BranchWay, Clock, Context, Digest, Ending, Environment, Episode, Failure, FailureKind, Llm, ModelCallSource,
    REPLAYABLE_FORMAT, Reward, RewardRecord, RewardScope, Verdict, code, derive_seed, effective_reward, escaped,
};
use serde::Serialize;
use std::sync::Arc;

/// The result of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayOutcome {
    /// Everything equals the record.
    Exact,
    /// All complete turns equal the record; the ending was caused by the host, as the text says.
    ExactTurns(String),
    /// The first difference.
    Differs(Difference),
    /// The replay was not possible, for the reason in the text. Nothing follows for the record.
    NotReplayed(String),
}

/// Whether a failure was caused by the host, the model or the operator rather than the plugin.
pub(crate) fn by_host(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Llm | FailureKind::Cancelled => true,
        // A plugin that makes a request that is not in the journal is not deterministic: its own failure.
        FailureKind::Host => failure.code != code::JOURNAL,
        FailureKind::Limit => [code::BUSY, code::DEADLINE].contains(&failure.code.as_str()),
        _ => false,
    }
}

fn caused_by_host(ending: &Ending) -> Option<&Failure> {
    match ending {
        Ending::Failed(failure) => Some(failure).filter(|failure| by_host(failure)),
        _ => None,
    }
}

/// Replays a recorded episode. `environment` must be the plugin with the recorded digest and grants; its models are not
/// called.
pub async fn replay_episode(
    environment: &dyn Environment,
    recorded: &Episode,
    episode_bytes: usize,
    clock: &dyn Clock,
) -> ReplayOutcome {
    replay_answered(environment, recorded, None, (episode_bytes, clock)).await
}

/// As [`replay_episode`], but this model answers instead of the record: then the policy's answers are computed again, too. It must have
/// the identity of the recorded one, and give equal answers to equal requests.
pub async fn replay_answered(
    environment: &dyn Environment,
    recorded: &Episode,
    answering: Option<Arc<dyn Llm>>,
    (episode_bytes, clock): (usize, &dyn Clock),
) -> ReplayOutcome {
    if recorded.format < REPLAYABLE_FORMAT {
        return ReplayOutcome::NotReplayed(
            "it was recorded by a version that did not store everything a replay needs".into(),
        );
    }
    let Some(simulated) = recorded.simulated() else { return ReplayOutcome::NotReplayed(outside(recorded)) };
    // The replay may get further than an episode that the host ended, so it stops where the record ends.
    let mut policy = ChatPolicy::replaying(recorded, caused_by_host(&recorded.ending).is_none());
    if let Some(model) = answering {
        policy = policy.with_model(model);
    }
    if let Some(difference) = out_of_step(recorded, &policy) {
        return ReplayOutcome::Differs(difference);
    }
    let cancel = Cancel::default();
    let player = Player { environment, policy: &policy, clock, cancel: &cancel, watch: None };
    let assignment = Assignment {
        run: recorded.run.clone(),
        id: recorded.id.clone(),
        index: recorded.index,
        group: simulated.group,
        // The guidance is recorded.
        seat: GroupSlot::default(),
        task: Arc::new(recorded.task.clone()),
        task_hash: recorded.task_hash,
        environment_seed: simulated.seed,
        policy_seed: simulated.branch.as_ref().map_or(recorded.policy.seed, |branch| branch.seed),
        options: simulated.options.clone(),
        max_turns: simulated.max_turns,
        episode_bytes,
        expects: Vec::new(),
        state_id: recorded.state_id,
        answers: ModelCallSource::Recorded { journal: recorded.journal.clone().into(), through: u32::MAX },
    };
    let replayed = match play_again(player, &assignment, recorded).await {
        Ok((scene, None)) => player.end(assignment, scene, simulated.branch.clone()).await,
        Ok((scene, Some(ending))) => player.record(assignment, Some(scene), simulated.branch.clone(), ending),
        Err(failure) => player.fail(assignment, None, failure),
    };
    judge(recorded, &replayed.episode)
}

/// Why a captured episode cannot be replayed.
pub fn outside(recorded: &Episode) -> String {
    format!(
        "a live episode cannot be played again: its agent, {}, works outside of this program",
        escaped(recorded.origin.name(), 100)
    )
}

/// An inconsistency inside the record.
fn out_of_step(recorded: &Episode, policy: &ChatPolicy) -> Option<Difference> {
    let differs = |what: &str, recorded: String, replayed: String| {
        Some(Difference { turn: None, what: what.into(), recorded, replayed })
    };
    let (task, state) = (recorded.task.digest(), policy.state_at(GroupSlot::default()));
    if recorded.task_hash != task {
        return differs("task_hash", recorded.task_hash.to_string(), task.to_string());
    }
    if recorded.state_id != state {
        // Model, prompt or sampling differ from those of the record.
        return differs("state_id", recorded.state_id.to_string(), state.to_string());
    }
    let reward = effective_reward(&recorded.verdicts);
    if recorded.reward != reward {
        return differs("reward", format!("{:?}", recorded.reward), format!("{reward:?}"));
    }
    None
}

/// Plays the recorded turns from the beginning or the branch point. Returns an ending if it stopped earlier.
async fn play_again(
    player: Player<'_>,
    assignment: &Assignment,
    recorded: &Episode,
) -> Result<(Scene, Option<Ending>), Failure> {
    let mut scene = player.begin(assignment).await?;
    let Some(branch) = recorded.branch() else { return Ok((scene, None)) };
    if let Some(ending) = player.play_until(&mut scene, branch.at).await {
        // It never used its own policy seed, but the record contains it.
        scene.conversation.record.seed = recorded.policy.seed;
        return Ok((scene, Some(ending)));
    }
    let Scene { mut live, opening, recording, .. } = scene;
    if branch.way == BranchWay::Snapshot {
        let snapshot = live.snapshot().await?;
        drop(live);
        live = player.environment.restore(assignment.params(), &snapshot).await?;
    }
    Ok((branch::continued(player.policy, live, opening, recording, (recorded.policy.seed, assignment.seat)), None))
}

fn judge(recorded: &Episode, replayed: &Episode) -> ReplayOutcome {
    let host = caused_by_host(&recorded.ending);
    let through = host.map(|_| recorded.turns.len());
    let mut difference = first_difference(recorded, replayed, through);
    // If the replay stopped earlier, its ending has the reason.
    if let Some(difference) = difference.as_mut().filter(|found| found.what == TURNS) {
        difference.replayed = format!("{}, {}", difference.replayed, replayed.ending);
    }
    match (difference, host, caused_by_host(&replayed.ending)) {
        // The replay ended because it lacked something that the record had; the turns before are equal or were not reached.
        // If the host had also ended the record, the difference is reported.
        (Some(difference), _, Some(now)) if cut_short(&difference, replayed) && !is_end_of_record(now) => {
            ReplayOutcome::NotReplayed(now.to_string())
        }
        (Some(difference), ..) => ReplayOutcome::Differs(difference),
        (None, Some(then), _) => ReplayOutcome::ExactTurns(then.to_string()),
        (None, None, _) => ReplayOutcome::Exact,
    }
}

/// Whether the only difference is that the replay stopped early.
fn cut_short(difference: &Difference, replayed: &Episode) -> bool {
    difference.turn.is_none_or(|turn| turn >= replayed.turns.len() as u64)
}

/// The recorded policy had no more answers: the environment continued where it had ended before.
fn is_end_of_record(failure: &Failure) -> bool {
    failure.kind == FailureKind::Llm
}

/// Asks a reward again for recorded verdicts, with the recorded model answers. `records` are the verdicts about the episodes
/// of `group`, in order; for a reward of scope `each` there is exactly one.
pub async fn replay_verdicts(
    reward: &dyn Reward,
    records: &[&RewardRecord],
    group: &[Arc<Episode>],
) -> Vec<ReplayOutcome> {
    let Some(first) = records.first() else { return Vec::new() };
    let all = |outcome: ReplayOutcome| vec![outcome; records.len()];
    if records.len() != group.len() {
        return all(ReplayOutcome::NotReplayed("not every episode of its group has this verdict".into()));
    }
    if reward.description().scope == RewardScope::Group && first.group_digest != Some(group_digest(group)) {
        return all(ReplayOutcome::NotReplayed("the group that it judged is not stored any more".into()));
    }
    let asked = (
        reward.identity().clone(),
        Digest::of_json(&serde_json::json!(first.options)),
        group.first().map_or(0, |episode| derive_seed(episode.seed(), "reward", episode.index)),
    );
    let recorded_question = (first.reward.clone(), first.options_digest, first.seed);
    if asked != recorded_question {
        let (recorded, replayed) = (format!("{recorded_question:?}"), format!("{asked:?}"));
        return all(ReplayOutcome::Differs(Difference { turn: None, what: "question".into(), recorded, replayed }));
    }
    let context = Context { seed: first.seed, options: first.options.clone() };
    let scoring = reward.score_again(&context, group, first.journal.clone().into()).await;
    let verdicts = scoring.verdicts.unwrap_or_else(|failure| vec![Verdict::Failed(failure); records.len()]);
    let outcomes = records.iter().zip(&verdicts).map(|(record, verdict)| judge_verdict(&record.verdict, verdict));
    let mut outcomes: Vec<ReplayOutcome> = outcomes.collect();
    // The log and the journal belong to the call: the first verdict has them.
    if let Some(outcome @ ReplayOutcome::Exact) = outcomes.first_mut() {
        let of_call = |log: &[String], journal: &[clawhost_core::JournalEntry]| serde_json::json!({ "log": log, "journal": journal });
        let (then, now) = (of_call(&first.log, &first.journal), of_call(&scoring.log, &scoring.journal));
        if let Some((what, recorded, replayed)) = first_field(&["log", "journal"], &then, &now) {
            *outcome = ReplayOutcome::Differs(Difference { turn: None, what, recorded, replayed });
        }
    }
    outcomes
}

fn judge_verdict(recorded: &Verdict, replayed: &Verdict) -> ReplayOutcome {
    let host = |verdict: &Verdict| match verdict {
        Verdict::Failed(failure) if by_host(failure) && failure.code != code::BUDGET => Some(failure.to_string()),
        _ => None,
    };
    let wrapped = |verdict: &Verdict| serde_json::json!({ "verdict": verdict });
    match (host(recorded), first_field(&["verdict"], &wrapped(recorded), &wrapped(replayed))) {
        (Some(then), _) => ReplayOutcome::ExactTurns(then),
        (None, None) => ReplayOutcome::Exact,
        (None, Some((what, recorded, now))) => match host(replayed) {
            Some(failure) => ReplayOutcome::NotReplayed(failure),
            None => ReplayOutcome::Differs(Difference { turn: None, what, recorded, replayed: now }),
        },
    }
}
