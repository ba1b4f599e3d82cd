//! Branching: a group that starts from one state in mid-episode.
//!
//! The *trunk* is played once, with a policy seed of its own. Every member of the group then goes on from its last turn. Where
//! the environment offers snapshots, and a restored instance does what the original does, members are restored; else an
//! instance takes the trunk's turns again, which is exact for every plugin (a fork is a replay). Either way the shared turns
//! stand in every member's record, as if it had been played alone.

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

/// The feature by which an environment says that it offers snapshots.
const SNAPSHOTS: &str = "snapshot";

/// The shared beginning of a group.
pub(crate) struct Trunk {
    opening: Opening,
    recording: EpisodeRecorder,
    journal: Arc<[JournalEntry]>,
    snapshot: Option<Snapshot>,
    seed: u64,
    /// Why members are not restored, where the environment offers snapshots.
    reason: Option<String>,
}

/// Plays the trunk of a group.
///
/// # Errors
/// Why there is no turn to branch at: members play from the beginning.
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
    // The last turn that an episode may have is everybody's own.
    let at = at.min(assignment.max_turns.saturating_sub(1));
    let ended = player.go_on(&mut scene, at).await;
    let played = scene.recording.turns().len();
    let keep = match ended {
        Some(Ending::Failed(failure)) if played == 0 => return Err(words(failure)),
        None => played,
        // What the environment cannot take may be what one member does and another does not.
        Some(Ending::Failed(failure)) if !by_host(&failure) => played,
        // Neither the environment nor the policy has come to an end: nothing is known about this task.
        Some(Ending::Failed(failure)) => return Err(words(failure)),
        // The last turn is open again: members may end it otherwise.
        Some(_) => played.saturating_sub(1),
    };
    if keep == 0 {
        return Err("the episode is over after its first turn".into());
    }
    if keep < played || !scene.recording.is_ready() {
        let journal = covered(scene.live.take_records().journal, keep);
        // One after the other, because nobody waits for an instance while holding one.
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

/// Brings a fresh instance to where these turns lead.
///
/// # Errors
/// It cannot be started, or it does not come to the same.
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
    let ended = player.go_on(&mut scene, through).await;
    if let Some(Ending::Failed(failure)) = ended {
        return Err(failure);
    }
    let plugin = &player.environment.identity().name;
    let differs = |how: String| {
        Err(Failure::new(FailureKind::Host, code::REPLAY, format!("{plugin} does not repeat itself: {how}")))
    };
    if let Some(Difference { what, recorded, replayed, .. }) = difference(turns, scene.recording.turns()) {
        return differs(format!("{what} was {recorded} and is {replayed}"));
    }
    match ended {
        None => Ok(scene),
        Some(_) => differs("it is over where it went on".into()),
    }
}

/// A snapshot; none where the environment offers none.
///
/// # Errors
/// Why there is none, where it offers them.
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

/// The snapshot, if it can be relied on: an instance restored from it is given the trunk's actions once more, as the original
/// was, and must make the same of them.
///
/// # Errors
/// Why it cannot be relied on.
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
        Some(step) => Err(format!("a restored run differs from the original, {} steps on", step + 1)),
        None if original.len() != restored.len() => Err("a restored run ends elsewhere than the original".into()),
        None => Ok(Some(snapshot)),
    }
}

/// What an instance makes of actions, until it ends.
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

/// Plays a member of the group from the trunk's last turn on.
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

/// The mark of an episode that shares nothing, though its group was to share turns.
pub(crate) fn unshared(mut played: Played, reason: &str) -> Played {
    let seed = played.episode.policy.seed;
    let branch = Branch { at: 0, seed, way: BranchWay::Replay, pays: true, reason: Some(reason.to_owned()) };
    if let EpisodeOrigin::Simulated(simulated) = &mut played.episode.origin {
        simulated.branch = Some(branch);
    }
    played
}

/// An episode in its middle, with a policy seed of its own from here on.
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
