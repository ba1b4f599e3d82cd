//! Branching: groups whose members start from a shared state in mid-episode.
//!
//! The *trunk* is played once, with its own policy seed. Every member of the group continues from its last turn. If the
//! environment supports snapshots and a restored instance behaves like the original, members are restored from a snapshot.
//! Otherwise a new instance replays the trunk's turns, which is exact for every plugin. In both cases every member's record
//! contains the shared turns, as if it had been played alone.

use crate::compare::{Difference, difference};
use crate::guidance::GroupSlot;
use crate::play::{Assignment, Played, Player, Scene};
use crate::policy::ChatPolicy;
use crate::replay::by_host;
use crate::tools;
use clawhost_core::{
    Branch, BranchWay, Ending, EpisodeOrigin, EpisodeRecorder, Failure, FailureKind, JournalEntry, LiveEpisode,
    ModelCallSource, Opening, Snapshot, StepResult, Turn, code, derive_seed,
};
use std::sync::Arc;

/// The feature name by which an environment declares snapshots.
const SNAPSHOTS: &str = "snapshot";

/// The shared turns of a group.
pub(crate) struct Trunk {
    opening: Opening,
    recording: EpisodeRecorder,
    journal: Arc<[JournalEntry]>,
    snapshot: Option<Snapshot>,
    seed: u64,
    /// Why members are not restored, if the environment supports snapshots.
    reason: Option<String>,
}

/// Plays the trunk of a group.
///
/// # Errors
/// The reason why there is no turn to branch at; then members play from the beginning.
pub(crate) async fn trunk(
    player: Player<'_>,
    mut assignment: Assignment,
    run_seed: u64,
    at: u32,
) -> Result<Trunk, String> {
    let words = |failure: Failure| failure.to_string();
    let seed = derive_seed(run_seed, "trunk", assignment.group);
    assignment.policy_seed = seed;
    let mut scene = player.begin(&assignment).await.map_err(words)?;
    // The last turn that an episode may have is never shared.
    let at = at.min(assignment.max_turns.saturating_sub(1));
    let ended = player.play_until(&mut scene, at).await;
    let played = scene.recording.turns().len();
    let keep = match ended {
        Some(Ending::Failed(failure)) if played == 0 => return Err(words(failure)),
        None => played,
        // The action that the environment failed on may be specific to this sample: other members may act differently.
        Some(Ending::Failed(failure)) if !by_host(&failure) => played,
        // Failures of the host are not caused by the task.
        Some(Ending::Failed(failure)) => return Err(words(failure)),
        // The last turn is not shared, because members may end the episode differently.
        Some(_) => played.saturating_sub(1),
    };
    if keep == 0 {
        return Err("the episode is over after its first turn".into());
    }
    if keep < played || !scene.recording.is_ready() {
        let journal = covered(scene.live.take_records().journal, keep);
        // One after the other: a task must not wait for an instance while it holds one.
        let Scene { recording, .. } = scene;
        let mut turns = recording.into_turns();
        turns.truncate(keep);
        scene = retrace(player, &assignment, &turns, &journal).await.map_err(words)?;
    }
    let Scene { mut live, opening, recording, .. } = scene;
    let taken = take_snapshot(player, live.as_mut()).await;
    let original =
        probe(live.as_mut(), &opening, if matches!(taken, Ok(Some(_))) { recording.turns() } else { &[] }).await;
    let journal = covered(live.take_records().journal, keep);
    drop(live);
    let relied_on = match taken {
        Ok(Some(snapshot)) => rely_on(player, &assignment, snapshot, &opening, recording.turns(), &original).await,
        other => other,
    };
    let (snapshot, reason) = match relied_on {
        Ok(snapshot) => (snapshot, None),
        Err(reason) => (None, Some(reason)),
    };
    Ok(Trunk { opening, recording, journal, snapshot, seed, reason })
}

/// The part of a journal that belongs to the first turns.
fn covered(journal: Vec<JournalEntry>, turns: usize) -> Arc<[JournalEntry]> {
    journal.into_iter().filter(|entry| entry.turn as usize <= turns).collect()
}

/// Brings a new instance to the state after these turns.
///
/// # Errors
/// The instance cannot be started, or its replay differs from the record.
async fn retrace(
    player: Player<'_>,
    assignment: &Assignment,
    turns: &[Turn],
    journal: &Arc<[JournalEntry]>,
) -> Result<Scene, Failure> {
    let through = u32::try_from(turns.len()).unwrap_or(u32::MAX);
    let answers = ModelCallSource::Recorded { journal: journal.clone(), through };
    let again = Assignment { answers, ..assignment.clone() };
    let policy = player.policy.saying(turns);
    let player = Player { policy: &policy, ..player };
    let mut scene = player.begin(&again).await?;
    let ended = player.play_until(&mut scene, through).await;
    if let Some(Ending::Failed(failure)) = ended {
        return Err(failure);
    }
    let plugin = &player.environment.identity().name;
    let differs = |how: String| {
        Err(Failure::new(FailureKind::Host, code::REPLAY, format!("{plugin} is not deterministic: {how}")))
    };
    if let Some(Difference { what, recorded, replayed, .. }) = difference(turns, scene.recording.turns()) {
        return differs(format!("{what} was {recorded} and is {replayed}"));
    }
    match ended {
        None => Ok(scene),
        Some(_) => differs("it is over where it went on".into()),
    }
}

/// Takes a snapshot; `None` if the environment does not support snapshots.
///
/// # Errors
/// The reason why the snapshot failed.
async fn take_snapshot(player: Player<'_>, live: &mut dyn LiveEpisode) -> Result<Option<Snapshot>, String> {
    let features = &player.environment.description().about.features;
    if !features.iter().any(|feature| feature == SNAPSHOTS) {
        return Ok(None);
    }
    if !player.environment.grants().models.is_empty() {
        return Err("it may ask models, so a restored run cannot be compared".into());
    }
    live.snapshot().await.map(Some).map_err(|failure| failure.to_string())
}

/// Verifies a snapshot: an instance restored from it gets the trunk's actions again and must respond like the original.
///
/// # Errors
/// The reason why the snapshot is not usable.
async fn rely_on(
    player: Player<'_>,
    assignment: &Assignment,
    snapshot: Snapshot,
    opening: &Opening,
    turns: &[Turn],
    original: &Probed,
) -> Result<Option<Snapshot>, String> {
    let restored = player.environment.restore(assignment.params(), &snapshot).await;
    let mut live = restored.map_err(|failure| failure.to_string())?;
    let restored = probe(live.as_mut(), opening, turns).await;
    let differs = original.iter().zip(&restored).position(|(one, other)| one != other);
    match differs {
        Some(step) => Err(format!("a restored instance differs from the original after {} steps", step + 1)),
        None if original.len() != restored.len() => {
            Err("a restored instance ends at another step than the original".into())
        }
        None => Ok(Some(snapshot)),
    }
}

/// The responses of an instance to actions, until it ends.
type Probed = Vec<(Result<StepResult, String>, clawhost_core::Digest)>;

async fn probe(live: &mut dyn LiveEpisode, opening: &Opening, turns: &[Turn]) -> Probed {
    let mut probed = Vec::new();
    for turn in turns {
        let sorted = tools::sort(&turn.action, &opening.tools);
        let result = live.step(&sorted.message, &sorted.answered).await.map_err(|failure| failure.to_string());
        let over = result.as_ref().map_or(true, |result| result.status != clawhost_core::Status::Running);
        probed.push((result, live.host_calls()));
        if over {
            break;
        }
    }
    probed
}

/// Plays a member of the group from the trunk's last turn.
pub(crate) async fn member(player: Player<'_>, assignment: Assignment, trunk: &Trunk, pays: bool) -> Played {
    let seed = assignment.policy_seed;
    let way = if trunk.snapshot.is_some() { BranchWay::Snapshot } else { BranchWay::Replay };
    let at = u32::try_from(trunk.recording.turns().len()).unwrap_or(u32::MAX);
    let branch = Branch { at, seed: trunk.seed, way, pays, reason: trunk.reason.clone() };
    let (live, recording) = match &trunk.snapshot {
        Some(snapshot) => match player.environment.restore(assignment.params(), snapshot).await {
            Ok(live) => (live, trunk.recording.clone()),
            Err(failure) => return player.fail(assignment, None, failure),
        },
        None => {
            let trunk_seed = Assignment { policy_seed: trunk.seed, ..assignment.clone() };
            match retrace(player, &trunk_seed, trunk.recording.turns(), &trunk.journal).await {
                Ok(scene) => (scene.live, scene.recording),
                Err(failure) => return player.fail(assignment, None, failure),
            }
        }
    };
    let opening = trunk.opening.clone();
    let scene = continued(player.policy, live, opening, recording, (seed, assignment.seat));
    player.end(assignment, scene, Some(branch)).await
}

/// Marks an episode that shares no turns although its group should.
pub(crate) fn unshared(mut played: Played, reason: &str) -> Played {
    let seed = played.episode.policy.seed;
    let branch = Branch { at: 0, seed, way: BranchWay::Replay, pays: true, reason: Some(reason.to_owned()) };
    if let EpisodeOrigin::Simulated(simulated) = &mut played.episode.origin {
        simulated.branch = Some(branch);
    }
    played
}

/// An episode at the branch point, with its own policy seed from here on.
pub(crate) fn continued(
    policy: &ChatPolicy,
    live: Box<dyn LiveEpisode>,
    opening: Opening,
    recording: EpisodeRecorder,
    (seed, seat): (u64, GroupSlot),
) -> Scene {
    let conversation = policy.converse_on(&opening, seed, seat, recording.turns(), recording.pending());
    Scene { live, opening, conversation, recording }
}
