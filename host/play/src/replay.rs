//! Replay: an episode that is stored is played again, from its plugin, options, seed, actions and journal, and compared
//! with its record turn by turn, byte for byte.
//!
//! Everything else follows from these: time, chance and notes are functions of the seed and of what the plugin does. An
//! ending that the host caused (a deadline, no memory left, a stop by the operator, a model that did not answer) is no
//! function of them: such an episode is replayed up to its last completed turn.

use crate::branch;
use crate::compare::{Difference, TURNS, first_difference, first_field};
use crate::guidance::GroupSlot;
use crate::plan::Cancel;
use crate::play::{Assignment, Player, Scene};
use crate::policy::ChatPolicy;
use crate::score::group_digest;
use clawhost_core::{
    BranchWay, Clock, Context, Digest, Ending, Environment, Episode, Failure, FailureKind, ModelCallSource,
    REPLAYABLE_FORMAT, Reward, RewardRecord, RewardScope, Verdict, code, derive_seed, effective_reward, escaped,
};
use serde::Serialize;
use std::sync::Arc;

/// What came of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplayOutcome {
    /// Everything is as it was recorded.
    Exact,
    /// Every completed turn is; the ending was caused by the host, as the text says.
    ExactTurns(String),
    /// The first difference.
    Differs(Difference),
    /// It could not be played here and now: the text says why. Nothing is known about it.
    NotReplayed(String),
}

/// Whether a failure says something about the host, the model or the operator and nothing about the plugin.
pub(crate) fn by_host(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Llm | FailureKind::Cancelled => true,
        // A plugin that asks something else than before does not repeat itself: that is about the plugin.
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

/// Plays a recorded episode again. `environment` is the plugin of its digest, with the grants that it had; its models are
/// not asked.
pub async fn replay_episode(
    environment: &dyn Environment,
    recorded: &Episode,
    episode_bytes: usize,
    clock: &dyn Clock,
) -> ReplayOutcome {
    if recorded.format < REPLAYABLE_FORMAT {
        return ReplayOutcome::NotReplayed("it was recorded by a version that kept less than a replay needs".into());
    }
    let Some(simulated) = recorded.simulated() else { return ReplayOutcome::NotReplayed(outside(recorded)) };
    // What the host cut short may come further now: it is replayed as far as it came then.
    let policy = ChatPolicy::replaying(recorded, caused_by_host(&recorded.ending).is_none());
    if let Some(difference) = out_of_step(recorded, &policy) {
        return ReplayOutcome::Differs(difference);
    }
    let cancel = Cancel::default();
    let player = Player { environment, policy: &policy, clock, cancel: &cancel };
    let assignment = Assignment {
        run: recorded.run.clone(),
        id: recorded.id.clone(),
        index: recorded.index,
        group: simulated.group,
        // What was told there is recorded.
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

/// Why an episode that was captured cannot be played again.
pub fn outside(recorded: &Episode) -> String {
    format!(
        "a live episode cannot be played again: its agent, {}, works outside of this program",
        escaped(recorded.origin.name(), 100)
    )
}

/// What a record says twice, and not alike.
fn out_of_step(recorded: &Episode, policy: &ChatPolicy) -> Option<Difference> {
    let differs = |what: &str, recorded: String, replayed: String| {
        Some(Difference { turn: None, what: what.into(), recorded, replayed })
    };
    let (task, state) = (recorded.task.digest(), policy.state_at(GroupSlot::default()));
    if recorded.task_hash != task {
        return differs("task_hash", recorded.task_hash.to_string(), task.to_string());
    }
    if recorded.state_id != state {
        // Model, prompt or sampling are not those that acted.
        return differs("state_id", recorded.state_id.to_string(), state.to_string());
    }
    let reward = effective_reward(&recorded.verdicts);
    if recorded.reward != reward {
        return differs("reward", format!("{:?}", recorded.reward), format!("{reward:?}"));
    }
    None
}

/// Up to where the episode is played to its end: the beginning, or where it branched off. An ending: it came no further.
async fn play_again(
    player: Player<'_>,
    assignment: &Assignment,
    recorded: &Episode,
) -> Result<(Scene, Option<Ending>), Failure> {
    let mut scene = player.begin(assignment).await?;
    let Some(branch) = recorded.branch() else { return Ok((scene, None)) };
    if let Some(ending) = player.go_on(&mut scene, branch.at).await {
        // It never came to its own seed, which is the record's all the same.
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
    // Where the replay came no further, its ending says why.
    if let Some(difference) = difference.as_mut().filter(|found| found.what == TURNS) {
        difference.replayed = format!("{}, {}", difference.replayed, replayed.ending);
    }
    match (difference, host, caused_by_host(&replayed.ending)) {
        // It ended for want of something that the record had: what came before is as it was, or was not reached. That says
        // nothing about a record that the host had cut short either.
        (Some(difference), _, Some(now)) if cut_short(&difference, replayed) && !is_end_of_record(now) => {
            ReplayOutcome::NotReplayed(now.to_string())
        }
        (Some(difference), ..) => ReplayOutcome::Differs(difference),
        (None, Some(then), _) => ReplayOutcome::ExactTurns(then.to_string()),
        (None, None, _) => ReplayOutcome::Exact,
    }
}

/// Whether a difference is only that the replay stopped early.
fn cut_short(difference: &Difference, replayed: &Episode) -> bool {
    difference.turn.is_none_or(|turn| turn >= replayed.turns.len() as u64)
}

/// The recorded policy had nothing more to say: the environment went on where it had ended before.
fn is_end_of_record(failure: &Failure) -> bool {
    failure.kind == FailureKind::Llm
}

/// Asks a reward again about what it judged, with the answers that models gave then. `records` are the verdicts about the
/// episodes of `group`, in order: one of each for a reward of scope `each`.
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
        return all(ReplayOutcome::NotReplayed("the group that it judged is not here any more".into()));
    }
    let asked = (
        reward.identity().clone(),
        Digest::of_json(&serde_json::json!(first.options)),
        group.first().map_or(0, |episode| derive_seed(episode.seed(), "reward", episode.index)),
    );
    let told = (first.reward.clone(), first.options_digest, first.seed);
    if asked != told {
        let (recorded, replayed) = (format!("{told:?}"), format!("{asked:?}"));
        return all(ReplayOutcome::Differs(Difference { turn: None, what: "question".into(), recorded, replayed }));
    }
    let context = Context { seed: first.seed, options: first.options.clone() };
    let scoring = reward.score_again(&context, group, first.journal.clone().into()).await;
    let verdicts = scoring.verdicts.unwrap_or_else(|failure| vec![Verdict::Failed(failure); records.len()]);
    let outcomes = records.iter().zip(&verdicts).map(|(record, verdict)| judge_verdict(&record.verdict, verdict));
    let mut outcomes: Vec<ReplayOutcome> = outcomes.collect();
    // The log and the answers belong to the call: the first verdict keeps them.
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
