//! Learns from sessions while a gateway runs: lets them enter the trials, asks reflectors, and carries out what is decided.
//!
//! Everything of a pass is one transaction: the sessions that enter, the state of the trials, and a new version. If it fails, the state is read
//! again. Sessions enter in the order in which they began, with the rewards of their deadlines, and each may decide something; so what is decided
//! does not depend on when a pass runs.

use super::first_seen::FirstSeen;
use super::page::Insight;
use super::reflecting::{self, Proposed, TaughtSession};
use super::section::LearningSection;
use super::state::{Progress, TrialsState};
use crate::events::EventSink;
use crate::live::guide::LiveGuide;
use crate::live::opted_in::OptedIn;
use crate::models::ModelFactory;
use crate::playbooks::document;
use crate::plugins::Plugins;
use crate::{AppError, RequestError, Workspace, plugin_spec};
use clawhost_core::{
    Clock, EpisodeState, LeaseMode, LeaseSubject, Leases as _, LiveReader as _, MemoryReader as _, PlaybookReader as _,
    PlaybookVersion, RewardRecord, RewardSource, StoreReader, TrialsChange, TrialsStore as _, WaitingDraw, Withheld,
    effective_reward, verdicts_at,
};
use clawhost_engine::ModelGrants;
use clawhost_learn::live::trials::{Decision, Offer, SessionDraws, Tally, TrialSettings, version_flip_point};
use clawhost_learn::live::{LiveEstimate, OddsRatio};
use clawhost_learn::playbook::Playbook;
use clawhost_learning::Reflecting;
use clawhost_run_config::{BudgetSpec, Grant, Key};
use clawhost_store::{FileLeases, Reader, Store};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// Sessions that enter in one pass, so that a pass and its transaction stay small.
const ENTER: usize = 500;
/// Ended episodes that are looked at in one pass.
const ENDED: usize = 64;
/// Sessions that reflectors are asked about in one pass.
const REFLECT: usize = 8;
/// Milliseconds for which an ended session waits for feedback before reflectors see it. A client often closes a session first and gives its feedback
/// then. For verdicts that are expected, it waits as long as they are.
const SETTLE_MS: u64 = 30_000;
/// Failures in a row for one session until it is skipped: some two days, with an hour between two calls at last.
const MOST_FAILURES: u32 = 60;
/// Concurrent calls of one model.
const CONCURRENCY: usize = 4;

/// What is known, as long as the store has not failed.
struct Known {
    state: TrialsState,
    /// As the store has it.
    stored: TrialsState,
    tally: Tally,
    newest: Option<Arc<Newest>>,
}

/// What is served.
#[derive(Debug)]
struct Newest {
    number: u64,
    playbook: Playbook,
    /// Whether its content was served before.
    returns: bool,
}

/// What a pass read.
struct Round {
    newest: Arc<Newest>,
    /// Sessions that enter, with their rewards.
    enters: Vec<(WaitingDraw, Option<f64>)>,
    /// Sessions to reflect on.
    sessions: Vec<(TaughtSession, Place)>,
    /// How far it has looked, if reflectors fail for none of the sessions.
    ended: Option<u64>,
    remembered: Option<u64>,
    /// Number of the newest ended episode.
    newest_ended: u64,
}

/// Where a session to reflect on was found.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// The number of its episode.
    Ended(u64),
    /// The number of a memory that corrects it.
    Remembered(u64),
}

impl Place {
    /// Everything up to here was reflected on.
    fn advance(self, progress: &mut Progress) {
        match self {
            Self::Ended(number) => progress.ended = Some(number),
            Self::Remembered(number) => progress.remembered = Some(number),
        }
    }
}

/// Learns from live sessions.
pub(crate) struct LiveLearner {
    folder: PathBuf,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    guide: Arc<LiveGuide>,
    section: LearningSection,
    settings: TrialSettings,
    sources: Vec<RewardSource>,
    from: OptedIn,
    reflectors: Vec<Reflecting>,
    known: Option<(String, Known)>,
    first_seen: FirstSeen,
    insight: Insight,
}

impl LiveLearner {
    /// A learner as a configuration says.
    ///
    /// # Errors
    /// A reflector, a grant or a model cannot be used.
    pub(crate) async fn new(
        workspace: &Workspace,
        section: &LearningSection,
        guide: Arc<LiveGuide>,
        events: &dyn EventSink,
    ) -> Result<Self, AppError> {
        if section.reflectors.is_empty() {
            return Self::with(workspace, section, guide, Vec::new());
        }
        let grants: Vec<Grant> = section
            .grants
            .iter()
            .map(|text| text.parse().map_err(|expected: &str| wrong(format!("learning.grants: expected {expected}"))))
            .collect::<Result<_, _>>()?;
        let settings = workspace.settings().models.clone();
        let models = ModelFactory::new(settings, &BudgetSpec::default(), CONCURRENCY, workspace.secrets().clone());
        let granted: ModelGrants = models.grants(&grants, events)?;
        let (host, store) = (workspace.host()?, workspace.store());
        let plugins = Plugins { host: &host, store: &store, grants: &granted, events };
        let mut reflectors = Vec::new();
        for text in &section.reflectors {
            let spec = plugin_spec(text).map_err(|error| wrong(format!("learning.reflectors: {error}")))?;
            reflectors.push(plugins.reflector(&spec, Key::Reflectors).await?);
        }
        Self::with(workspace, section, guide, reflectors)
    }

    /// A learner with these reflectors.
    ///
    /// # Errors
    /// A value of the configuration is outside of its range.
    fn with(
        workspace: &Workspace,
        section: &LearningSection,
        guide: Arc<LiveGuide>,
        reflectors: Vec<Reflecting>,
    ) -> Result<Self, AppError> {
        Ok(Self {
            folder: workspace.folder().to_owned(),
            store: workspace.store(),
            clock: workspace.clock(),
            guide,
            section: section.clone(),
            settings: section.settings()?,
            sources: section.sources().map_err(wrong)?,
            from: section.opted_in().map_err(wrong)?,
            reflectors,
            known: None,
            first_seen: FirstSeen::default(),
            insight: Insight::default(),
        })
    }

    /// What it knows, for others.
    pub(crate) fn insight(&self) -> Insight {
        self.insight.clone()
    }

    /// Learns until it is dropped. What is not done by then is done after the next start.
    pub(crate) async fn run(mut self) {
        let mut problem = None;
        loop {
            let goes_on = match self.pass().await {
                Ok(goes_on) => {
                    if problem.take().is_some() {
                        self.insight.set_failure(None);
                    }
                    goes_on
                }
                Err(error) => {
                    // The store may have more than is known here, or less.
                    self.known = None;
                    let why = Some(error.to_string());
                    if why != problem {
                        tracing::error!("nothing is learned from live sessions now: {error}");
                    }
                    self.insight.set_failure(why.clone());
                    problem = why;
                    false
                }
            };
            if !goes_on {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Reads, asks, decides and writes once. Returns whether there is more to do at once.
    async fn pass(&mut self) -> Result<bool, AppError> {
        let Some(name) = self.guide.learned_playbook()? else { return Ok(false) };
        if self.known.as_ref().is_none_or(|(known, _)| *known != name) {
            let (folder, playbook, settings) = (self.folder.clone(), name.clone(), self.settings);
            let read = tokio::task::spawn_blocking(move || known(&folder, &playbook, &settings)).await;
            let known = read.map_err(|error| AppError::Host(error.to_string()))??;
            self.insight.update(&known.state, &known.tally, &self.settings);
            self.known = Some((name.clone(), known));
        }
        let Some((_, known)) = self.known.as_mut() else { return Ok(false) };
        let now = self.clock.now_ms();
        let (folder, playbook) = (self.folder.clone(), name.clone());
        let reading = Reading {
            now,
            deadline_ms: self.section.deadline_ms(),
            settled: self.first_seen.through(now.saturating_sub(self.section.deadline_ms().min(SETTLE_MS))),
            sources: self.sources.clone(),
            from: self.from.clone(),
            reflects: !self.reflectors.is_empty() && known.state.progress.rests_until <= now,
            newest: known.newest.clone(),
            progress: known.state.progress.clone(),
        };
        let read = tokio::task::spawn_blocking(move || reading.round(&Reader::open(&folder)?, &playbook)).await;
        let round = read.map_err(|error| AppError::Host(error.to_string()))??;
        let proposed = propose(&self.reflectors, known, &round, now).await;
        let state = &mut known.state;
        let Round { newest, enters, newest_ended, .. } = round;
        self.first_seen.note(now, newest_ended);
        known.newest = Some(newest.clone());
        for Proposed { by, teacher, proposals } in &proposed {
            for proposal in proposals {
                if let Offer::Refused(why) = state.trials.offer(by, proposal, *teacher, (&newest.playbook, now)) {
                    tracing::info!("a lesson of {by} from a live session is refused: {why}");
                }
            }
        }
        state.trials.follow((newest.number, &newest.playbook), newest.returns, &mut known.tally, now)?;
        let is_full = enters.len() == ENTER;
        let mut change = TrialsChange { playbook: name.clone(), ..TrialsChange::default() };
        // While a learning run or a person changes the playbook, sessions wait.
        let subject = LeaseSubject::Playbook(name.clone());
        let lease = FileLeases::new(&self.folder).acquire(&subject, LeaseMode::Exclusive)?;
        // A version that came while reflectors were asked is followed in the next pass, before anything is decided.
        let is_newest = newest_number(&self.folder, &name)? == newest.number;
        let lease = lease.filter(|_| is_newest);
        let enters = if lease.is_some() { enters } else { Vec::new() };
        let decision = enter(known, enters, &self.settings, &mut change)?;
        if let Some(decision) = &decision {
            change.version = self.carried_out(decision, &newest.playbook, &name, now)?;
        }
        let Some((_, known)) = self.known.as_mut() else { return Ok(false) };
        let state = &mut known.state;
        while self.section.live_trials
            && let Some(trial) = state.trials.begin(now)
        {
            tracing::info!("playbook {name}: a trial begins: {}", trial.entry.lesson.line());
        }
        let has_changed = state.trials != known.stored.trials;
        change.state = has_changed.then(|| state.trials_document()).transpose()?;
        let goes_on = state.progress != known.stored.progress;
        change.progress = goes_on.then(|| state.progress_document()).transpose()?;
        if has_changed || goes_on || !change.enters.is_empty() {
            known.stored = state.clone();
            self.store.change_trials(change).await?;
            self.insight.update(&known.state, &known.tally, &self.settings);
        }
        Ok(!is_newest || lease.is_some() && (is_full || decision.is_some()))
    }

    /// Carries a decision out. Returns the new version that it makes, if it makes one.
    fn carried_out(
        &mut self,
        decision: &Decision,
        served: &Playbook,
        name: &str,
        now: u64,
    ) -> Result<Option<PlaybookVersion>, AppError> {
        let Some((_, Known { state, tally, .. })) = self.known.as_mut() else { return Ok(None) };
        let previous = match decision {
            Decision::RollBack { to, .. } => Some(version(&self.folder, name, *to)?),
            _ => None,
        };
        let why = reason(decision, name, tally, &self.settings);
        let next = state.trials.carry_out(decision, (served, previous.as_ref()), tally, now);
        tracing::info!("{why}");
        Ok(next.map(|playbook| PlaybookVersion {
            name: name.to_owned(),
            // The store assigns the number.
            number: 0,
            digest: playbook.digest(),
            document: serde_json::json!(playbook),
            why,
            run: None,
            created_at: now,
        }))
    }
}

/// Lets sessions enter, in their order, until one of them decides something: what enters later belongs to what is served then.
fn enter(
    known: &mut Known,
    enters: Vec<(WaitingDraw, Option<f64>)>,
    settings: &TrialSettings,
    change: &mut TrialsChange,
) -> Result<Option<Decision>, AppError> {
    for (draw, reward) in enters {
        let draws = serde_json::from_str::<SessionDraws>(&draw.document).map_err(|error| error.to_string());
        let observed = draws.and_then(|draws| known.tally.observe(&draws, reward).map_err(|error| error.to_string()));
        // It enters all the same, so that it holds up no other.
        if let Err(why) = observed {
            tracing::warn!("session {}/{} is left out of the trials: {why}", draw.run, draw.episode);
        }
        change.enters.push((draw.number, reward));
        if let Some(decision) = known.state.trials.decide(&known.tally, settings)? {
            return Ok(Some(decision));
        }
    }
    Ok(None)
}

/// What the store has of the trials of a playbook. It reads all sessions that have entered.
fn known(folder: &Path, playbook: &str, settings: &TrialSettings) -> Result<Known, AppError> {
    let reader = Reader::open(folder)?;
    let stored = TrialsState::read(&reader, playbook)?;
    let mut state = stored.clone();
    // What ended before the first start is no experience of these trials.
    if state.progress.ended.is_none() {
        state.progress.ended = Some(reader.newest_ended()?);
    }
    if state.progress.remembered.is_none() {
        state.progress.remembered = Some(reader.newest_memory()?);
    }
    let tally = state.tally(&reader, playbook, settings)?;
    Ok(Known { state, stored, tally, newest: None })
}

fn wrong(why: String) -> AppError {
    RequestError::File { path: crate::GATEWAY_FILE.to_owned(), why }.into()
}

/// Asks reflectors about the sessions of a round, in their order, until one fails: that session and those behind it are asked about again later.
async fn propose(reflectors: &[Reflecting], known: &mut Known, round: &Round, now: u64) -> Vec<Proposed> {
    let shown = reflecting::shown(&round.newest.playbook, &known.state.trials);
    let progress = &mut known.state.progress;
    let mut all = Vec::new();
    for (session, place) in &round.sessions {
        match reflecting::reflect(reflectors, &shown, session).await {
            Ok(proposed) => {
                tracing::debug!("{} lessons are proposed from {}", reflecting::lessons(&proposed), session.name);
                all.extend(proposed);
            }
            Err(failure) if progress.failures >= MOST_FAILURES => {
                tracing::error!(
                    "nothing is learned from {}, since a reflector failed for days: {failure}",
                    session.name
                );
            }
            Err(failure) => {
                progress.failures += 1;
                progress.rests_until = now.saturating_add(reflecting::rest_ms(progress.failures));
                if progress.failures == 1 {
                    tracing::error!("a reflector failed for {}, and is asked again: {failure}", session.name);
                }
                return all;
            }
        }
        place.advance(progress);
        (progress.failures, progress.rests_until) = (0, 0);
    }
    round.ended.into_iter().for_each(|ended| progress.ended = Some(ended));
    round.remembered.into_iter().for_each(|remembered| progress.remembered = Some(remembered));
    all
}

/// The number of the newest version; 0 is the empty playbook.
fn newest_number(folder: &Path, name: &str) -> Result<u64, AppError> {
    Ok(Reader::open(folder)?.newest_version(name)?.map_or(0, |newest| newest.number))
}

/// A version of a playbook; 0 is the empty one.
fn version(folder: &Path, name: &str, number: u64) -> Result<Playbook, AppError> {
    match number {
        0 => Ok(Playbook::default()),
        number => document(&crate::playbooks::pick(&Reader::open(folder)?, name, Some(number))?),
    }
}

/// A decision for people: the reason of a version.
fn reason(decision: &Decision, name: &str, tally: &Tally, settings: &TrialSettings) -> String {
    let measured = |estimate: &LiveEstimate, flip_point: Option<OddsRatio>| {
        let (low, high) = estimate.interval;
        let sessions = estimate.rewarded();
        let flip_point = flip_point
            .map(|ratio| format!("; biased feedback would undo it from an odds ratio of {:.1} on", ratio.value()));
        format!(
            "effect {:+.2}, 95 % from {low:+.2} to {high:+.2}, {sessions} sessions with feedback{}",
            estimate.effect,
            flip_point.unwrap_or_default()
        )
    };
    let of_entry = |id, estimate| measured(estimate, tally.flip_point(id, settings.alpha));
    match decision {
        Decision::Admit(entry, estimate) => {
            format!(
                "a live trial found that {} helps: {}; {}",
                entry.id,
                entry.lesson.line(),
                of_entry(&entry.id, estimate)
            )
        }
        Decision::Drop(id, reason) => {
            format!("the live trial of {id} in playbook {name} has ended: {}", reason.shown())
        }
        Decision::Retire(id, estimate) => format!("live sessions found that {id} harms; {}", of_entry(id, estimate)),
        Decision::RollBack { from, to, estimate } => format!(
            "rolled back to version {to}: live sessions found that version {from} is worse; version {to}: {}",
            measured(estimate, version_flip_point(estimate))
        ),
        Decision::Keep(version) => format!("version {version} of playbook {name} is not worse than the one before"),
    }
}

/// What a pass reads.
struct Reading {
    now: u64,
    deadline_ms: u64,
    /// Number of the last episode that has waited long enough for feedback.
    settled: u64,
    sources: Vec<RewardSource>,
    /// Whose sessions teach.
    from: OptedIn,
    reflects: bool,
    /// What was served when it looked last.
    newest: Option<Arc<Newest>>,
    progress: Progress,
}

impl Reading {
    fn round(&self, reader: &dyn StoreReader, name: &str) -> Result<Round, AppError> {
        let newest = self.newest(reader, name)?;
        let due = reader.waiting_draws(name, self.now.saturating_sub(self.deadline_ms), ENTER)?;
        let enters = due.into_iter().map(|draw| {
            let reward = self.reward(reader, &draw)?;
            Ok((draw, reward))
        });
        let enters = enters.collect::<Result<_, AppError>>()?;
        let newest_ended = reader.newest_ended()?;
        let mut round = Round { newest, enters, sessions: Vec::new(), ended: None, remembered: None, newest_ended };
        if self.reflects {
            self.ended(reader, self.progress.ended.unwrap_or_default(), &mut round)?;
            self.remembered(reader, self.progress.remembered.unwrap_or_default(), &mut round)?;
        }
        Ok(round)
    }

    /// The reward of a session at its deadline. `None`: no verdict counts, or its client keeps it out of learning. Feedback about a session that is still
    /// open counts as it will when the session has ended.
    fn reward(&self, reader: &dyn StoreReader, draw: &WaitingDraw) -> Result<Option<f64>, AppError> {
        let deadline = draw.at.saturating_add(self.deadline_ms);
        let mut verdicts: Vec<RewardRecord> = Vec::new();
        if let Some(episode) = reader.episode(&format!("{}/{}", draw.run, draw.episode))? {
            let is_kept_out = matches!(episode.origin.withheld(), Some(Withheld::NoTrain | Withheld::Ambiguous));
            if is_kept_out || !episode.ending.is_complete() {
                return Ok(None);
            }
            verdicts.extend(verdicts_at(&episode.verdicts, deadline).cloned());
        }
        for feedback in reader.waiting_feedback(&draw.run, &draw.episode)? {
            if feedback.at <= deadline {
                // The last one about the same turn counts.
                verdicts.retain(|known| !known.is_about_the_same_as(&feedback.record));
                verdicts.push(feedback.record);
            }
        }
        verdicts.retain(|record| self.sources.contains(&record.source));
        Ok(effective_reward(&verdicts))
    }

    /// What is served. Versions are read only when there is a new one.
    fn newest(&self, reader: &dyn StoreReader, name: &str) -> Result<Arc<Newest>, AppError> {
        let newest = reader.newest_version(name)?;
        let number = newest.as_ref().map_or(0, |newest| newest.number);
        match (&self.newest, newest) {
            (Some(known), _) if known.number == number => Ok(known.clone()),
            (_, None) => Ok(Arc::new(Newest { number: 0, playbook: Playbook::default(), returns: false })),
            (_, Some(newest)) => {
                let mut earlier = reader.versions(name)?.into_iter().filter(|version| version.number < number);
                let is_empty = newest.digest == Playbook::default().digest();
                let returns = is_empty || earlier.any(|version| version.digest == newest.digest);
                Ok(Arc::new(Newest { number, playbook: document(&newest)?, returns }))
            }
        }
    }

    /// Sessions with feedback that have ended, up to the first one that may still get some.
    fn ended(&self, reader: &dyn StoreReader, behind: u64, round: &mut Round) -> Result<(), AppError> {
        for (number, name) in reader.ended_after(behind, ENDED)? {
            if round.sessions.len() >= REFLECT || number > self.settled {
                return Ok(());
            }
            if let Some(name) = name
                && let Some(episode) = reader.episode(&name)?
            {
                if episode.state(self.now) != EpisodeState::Decided {
                    return Ok(());
                }
                let session = reflecting::session(reader, &name, &episode, &self.from)?;
                round.sessions.extend(session.map(|session| (session, Place::Ended(number))));
            }
            round.ended = Some(number);
        }
        Ok(())
    }

    /// Sessions about which a correction came after their end.
    fn remembered(&self, reader: &dyn StoreReader, behind: u64, round: &mut Round) -> Result<(), AppError> {
        for (number, row) in reader.memories_behind(behind, ENDED)? {
            if round.sessions.len() >= REFLECT {
                return Ok(());
            }
            if let Some(name) = crate::live::book::corrected_episode(&row)
                && round.sessions.iter().all(|(session, _)| session.name != name)
                && let Some(episode) = reader.episode(&name)?
            {
                let session = reflecting::session(reader, &name, &episode, &self.from)?;
                round.sessions.extend(session.map(|session| (session, Place::Remembered(number))));
            }
            round.remembered = Some(number);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
