//! The proof of live learning: a crowd of users with hidden preferences talks to the follower through a real gateway and gives sparse thumbs and
//! corrections. Held-out users, who give no feedback, then get better answers. Three controls run beside it: shuffled feedback, no skills, and a silent
//! reflector.

use super::halted::{DemoOutcome, Part, outcome};
use super::live_crowd::Crowd;
use super::plugins::plugin_folder;
use super::step::{DemoStep, LiveArm};
use super::{DemoMachine, SEED};
use crate::live::LiveMode;
use crate::{
    AppError, Event, EventSink, GATEWAY_FILE, HostSettings, ServeRequest, Silent, SystemClock, Workspace,
    WorkspaceSettings, serve,
};
use clawhost_core::{Clock as _, PlaybookReader as _, Secret, TrialsReader as _};
use clawhost_play::{Cancel, StopReason};
use clawhost_providers::GatewayClient;
use clawhost_store::Reader;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The plugin that proposes lessons.
const REFLECTOR: &str = "reflector_rules.wasm";
/// Default number of rounds of sessions. Between two of them the gateway learns.
pub const LIVE_ROUNDS: u64 = 14;
/// Sessions of a round.
pub const LIVE_SESSIONS: usize = 320;
/// Seconds after which a session enters the trials.
const DEADLINE_SECONDS: u64 = 1;
/// How often it is looked whether the gateway has learned from a round.
const LOOK: Duration = Duration::from_millis(100);
/// Looks until a round goes on without that: half a minute.
const LOOKS: u32 = 300;
/// The playbook that is learned.
const PLAYBOOK: &str = "live";

/// The demonstration of live learning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveDemo {
    /// The seed of the preferences and of the traffic. The draws of the gateway have a secret of their own.
    pub seed: u64,
    /// Rounds of sessions.
    pub rounds: u64,
    /// Folder with `reflector_rules.wasm`. `None`: the usual one.
    pub plugins: Option<PathBuf>,
}

impl Default for LiveDemo {
    fn default() -> Self {
        Self { seed: SEED, rounds: LIVE_ROUNDS, plugins: None }
    }
}

/// The share of answers that are as their users want them, with a 95 % interval over users.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Satisfaction {
    /// The mean, 0 to 1.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Satisfaction {
    /// Of the shares of users.
    pub(super) fn of(users: &[f64]) -> Self {
        const NORMAL_95: f64 = 1.96;
        let count = users.len().max(2) as f64;
        let mean = users.iter().sum::<f64>() / count;
        let variance = users.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let margin = NORMAL_95 * (variance / count).sqrt();
        Self { mean, low: (mean - margin).max(0.0), high: (mean + margin).min(1.0) }
    }
}

/// The results of the demonstration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveProof {
    /// Held-out users before anything was learned.
    pub heldout_before: Satisfaction,
    /// The same users after the crowd's sessions.
    pub heldout_after: Satisfaction,
    /// Where thumbs and corrections were those of other sessions.
    pub shuffled_after: Satisfaction,
    /// Where the gateway recorded alone.
    pub skills_off_after: Satisfaction,
    /// Where the reflector proposed nothing.
    pub silent_after: Satisfaction,
    /// Requests of all crowds.
    pub requests: u64,
    /// Those that the gateway refused.
    pub requests_refused: u64,
    /// The lessons that are served in the end.
    pub lessons: Vec<String>,
    /// When it began, in milliseconds since 1970.
    #[serde(skip)]
    pub started_ms: u64,
    /// How long it took.
    #[serde(skip)]
    pub wall: Duration,
}

/// A reason why the proof of live learning failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveDoubt {
    /// Held-out users are not measurably more satisfied than before.
    NotImproved,
    /// Held-out users of a control are as satisfied.
    ControlAsGood(LiveArm),
    /// Requests were refused.
    Refused(u64),
}

impl LiveProof {
    /// The reasons why the proof failed. Empty: it succeeded.
    pub fn doubts(&self) -> Vec<LiveDoubt> {
        let mut doubts = Vec::new();
        if self.heldout_after.low <= self.heldout_before.high {
            doubts.push(LiveDoubt::NotImproved);
        }
        let controls = [
            (LiveArm::Shuffled, self.shuffled_after),
            (LiveArm::SkillsOff, self.skills_off_after),
            (LiveArm::Silent, self.silent_after),
        ];
        let as_good = controls.into_iter().filter(|(_, after)| after.high >= self.heldout_after.low);
        doubts.extend(as_good.map(|(arm, _)| LiveDoubt::ControlAsGood(arm)));
        if self.requests_refused > 0 {
            doubts.push(LiveDoubt::Refused(self.requests_refused));
        }
        doubts
    }
}

/// The result of an arm.
struct ArmResult {
    before: Satisfaction,
    after: Satisfaction,
    requests: u64,
    refused: u64,
    lessons: Vec<String>,
}

/// Lets a crowd teach a gateway, and three others that should learn nothing.
///
/// # Errors
/// The plugin is missing, or a gateway cannot be started or used.
pub async fn demonstrate_live(
    demo: &LiveDemo,
    machine: &DemoMachine,
    cancel: &Cancel,
    events: &dyn EventSink,
) -> Result<DemoOutcome<LiveProof>, AppError> {
    outcome(play(demo, machine, (cancel, events)).await, cancel)
}

async fn play(demo: &LiveDemo, machine: &DemoMachine, watched: (&Cancel, &dyn EventSink)) -> Part<LiveProof> {
    let (began, started_ms) = (Instant::now(), SystemClock::default().now_ms());
    let folder = plugin_folder(demo.plugins.as_deref(), REFLECTOR)?;
    let reflector = std::path::absolute(folder.join(REFLECTOR)).map_err(|error| AppError::Host(error.to_string()))?;
    watched.1.event(Event::Demo(DemoStep::Crowds));
    let arm = |arm: LiveArm| run(arm, demo, (machine, &reflector), watched);
    // They wait for deadlines most of the time.
    let (learned, shuffled, off, silent) =
        tokio::try_join!(arm(LiveArm::Learned), arm(LiveArm::Shuffled), arm(LiveArm::SkillsOff), arm(LiveArm::Silent))?;
    let all = [&learned, &shuffled, &off, &silent];
    Ok(LiveProof {
        heldout_before: learned.before,
        heldout_after: learned.after,
        shuffled_after: shuffled.after,
        skills_off_after: off.after,
        silent_after: silent.after,
        requests: all.iter().map(|one| one.requests).sum(),
        requests_refused: all.iter().map(|one| one.refused).sum(),
        lessons: learned.lessons.clone(),
        started_ms,
        wall: began.elapsed(),
    })
}

/// The configuration of an arm's gateway.
fn configuration(arm: LiveArm, reflector: &Path) -> String {
    let mode = if arm == LiveArm::SkillsOff { LiveMode::Observe } else { LiveMode::Auto };
    let silent = if arm == LiveArm::Silent { "?mode=silent" } else { "" };
    let reflector = format!("{}{silent}", reflector.display());
    format!(
        "[gateway]\nmode = \"{}\"\n[learning]\nlive_trials = true\nrehearsal = true\ndeadline_seconds = {DEADLINE_SECONDS}\nreflectors = [{}]\n",
        mode.name(),
        serde_json::json!(reflector)
    )
}

/// Runs an arm in a data folder of its own, which is removed afterwards.
async fn run(
    arm: LiveArm,
    demo: &LiveDemo,
    (machine, reflector): (&DemoMachine, &Path),
    (cancel, events): (&Cancel, &dyn EventSink),
) -> Part<ArmResult> {
    let failed = |error: std::io::Error| AppError::Host(format!("a folder for the demonstration: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    std::fs::write(folder.path().join(GATEWAY_FILE), configuration(arm, reflector)).map_err(failed)?;
    // Several gateways at once leave no address space for pools.
    let host = HostSettings { on_demand: true, ..machine.host.clone() };
    let settings = WorkspaceSettings { host, ..WorkspaceSettings::new(folder.path()) };
    let workspace = Workspace::open(settings)?;
    let request = ServeRequest {
        listen: Some("127.0.0.1:0".to_owned()),
        upstreams: vec!["m=follower".to_owned()],
        ..ServeRequest::default()
    };
    let serving = serve(&workspace, request, events).await?;
    if arm == LiveArm::Learned {
        let key = crate::admin_key::admin_key(folder.path())?;
        events.event(Event::DemoPage { page: format!("{}/dashboard/playbook", serving.origin()), key });
    }
    let client = GatewayClient::new(serving.address(), None, None::<Secret>).map_err(AppError::from)?;
    let mut crowd = Crowd::new(client, demo.seed, arm == LiveArm::Shuffled);
    let silent: &dyn EventSink = &Silent;
    let shown = if arm == LiveArm::Learned { events } else { silent };
    let played = rounds(&mut crowd, demo.rounds, folder.path(), (cancel, shown)).await;
    serving.stop().await;
    let (before, after) = played?;
    let (requests, refused) = crowd.requests();
    let lessons = served(folder.path())?;
    Ok(ArmResult { before, after, requests, refused, lessons })
}

/// The sessions of an arm: held-out users before and after, and the crowd between.
async fn rounds(
    crowd: &mut Crowd,
    rounds: u64,
    folder: &Path,
    (cancel, events): (&Cancel, &dyn EventSink),
) -> Part<(Satisfaction, Satisfaction)> {
    let before = crowd.held_out("before").await?;
    for done in 1..=rounds {
        if cancel.is_requested() {
            return Err(StopReason::Cancelled.into());
        }
        crowd.round(LIVE_SESSIONS).await?;
        settled(folder).await?;
        events.event(Event::Progress { done, total: rounds });
    }
    Ok((before, crowd.held_out("after").await?))
}

/// Waits until the sessions so far have entered the trials.
async fn settled(folder: &Path) -> Part<()> {
    for _ in 0..LOOKS {
        if Reader::open(folder).map_err(AppError::from)?.count_waiting_draws(PLAYBOOK).map_err(AppError::from)? == 0 {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// The lessons that are served.
fn served(folder: &Path) -> Part<Vec<String>> {
    let newest = Reader::open(folder).map_err(AppError::from)?.newest_version(PLAYBOOK).map_err(AppError::from)?;
    let playbook = newest.as_ref().map(crate::playbooks::document).transpose()?.unwrap_or_default();
    Ok(playbook.entries.iter().map(|entry| entry.lesson.line()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mean: f64) -> Satisfaction {
        Satisfaction { mean, low: mean - 0.05, high: mean + 0.05 }
    }

    fn proof(after: f64, shuffled: f64, refused: u64) -> LiveProof {
        LiveProof {
            heldout_before: at(0.1),
            heldout_after: at(after),
            shuffled_after: at(shuffled),
            skills_off_after: at(0.1),
            silent_after: at(0.1),
            requests: 10,
            requests_refused: refused,
            lessons: vec![],
            started_ms: 0,
            wall: Duration::ZERO,
        }
    }

    #[test]
    fn a_proof_needs_a_rise_that_no_control_shares() {
        let check = |proof: LiveProof, expect: &[LiveDoubt]| assert_eq!(proof.doubts(), expect);
        check(proof(0.8, 0.1, 0), &[]);
        check(proof(0.8, 0.8, 0), &[LiveDoubt::ControlAsGood(LiveArm::Shuffled)]);
        check(proof(0.8, 0.1, 2), &[LiveDoubt::Refused(2)]);
        let all = [LiveArm::Shuffled, LiveArm::SkillsOff, LiveArm::Silent].map(LiveDoubt::ControlAsGood);
        check(proof(0.1, 0.1, 0), &[&[LiveDoubt::NotImproved], all.as_slice()].concat());
    }

    #[test]
    fn satisfaction_has_an_interval_over_users() {
        let found = Satisfaction::of(&[1.0, 0.0, 1.0, 0.0]);
        assert!((found.mean, found.high) == (0.5, 1.0) && found.low < 0.1);
        assert_eq!(Satisfaction::of(&[0.5; 8]), Satisfaction { mean: 0.5, low: 0.5, high: 0.5 });
    }
}
