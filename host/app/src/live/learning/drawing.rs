//! What is drawn for a session when it begins.

use crate::AppError;
use clawhost_core::{Digest, Drawn, ModelRequest, Role, SessionDraw};
use clawhost_gateway::Guiding;
use clawhost_learn::live::trials::{LiveTrials, SERVED, SessionDraws, TrialSettings, VersionDraw, Watch, kind};
use clawhost_learn::live::{DrawSeed, EntryDraw, Propensity, Share, Unit};
use clawhost_learn::{Entry, EntryId};
use std::collections::BTreeSet;

/// Bytes of a first message that count as a large one, for the feature of its size.
const LARGE: f64 = (1 << 20) as f64;

/// What is tried and compared now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Lessons on trial.
    pub(crate) trials: Vec<Entry>,
    /// Served lessons that are held out in some sessions.
    pub(crate) held_out: BTreeSet<EntryId>,
    /// The newest version beside the one before.
    pub(crate) watch: Option<Watch>,
    settings: TrialSettings,
}

impl Plan {
    /// What the trials of a playbook ask for.
    pub(crate) fn of(trials: &LiveTrials, settings: TrialSettings) -> Self {
        Self {
            trials: trials.on_trial().iter().map(|trial| trial.entry.clone()).collect(),
            held_out: trials.held_out().cloned().collect(),
            watch: trials.watch().cloned(),
            settings,
        }
    }

    /// The probability with which a lesson is shown, if it is drawn.
    fn propensity(&self, entry: &EntryId) -> Option<Propensity> {
        if self.trials.iter().any(|trial| trial.id == *entry) {
            return Some(self.settings.share);
        }
        self.held_out.contains(entry).then(|| Propensity::new(SERVED).ok()).flatten()
    }
}

/// Draws for sessions. The draws are functions of a secret, the session and its user.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    seed: DrawSeed,
    /// The playbook whose trials these are.
    playbook: String,
    pub(crate) plan: Plan,
    /// Whether the versions in comparison differ by the manner of answers.
    by_user: bool,
}

/// The number of a user behind a key.
pub(crate) fn user_number(owner: &str, user: Option<&str>) -> u64 {
    Digest::of(b"user").extended(owner.as_bytes()).extended(user.unwrap_or_default().as_bytes()).prefix_u64()
}

/// What is drawn for one session.
pub(crate) struct SessionDrawing<'a> {
    drawing: &'a Drawing,
    guiding: &'a Guiding<'a>,
    user: String,
    /// The version, if it is drawn.
    pub(crate) version: Option<VersionDraw>,
}

impl Drawing {
    /// Draws from a secret.
    pub(crate) fn new(secret: &[u8], playbook: &str, plan: Plan) -> Self {
        Self { seed: DrawSeed::new(secret), playbook: playbook.to_owned(), plan, by_user: false }
    }

    /// The same with versions that are drawn once for each user, or for each session.
    #[must_use]
    pub(crate) fn versions_by_user(self, by_user: bool) -> Self {
        Self { by_user, ..self }
    }

    /// The draws for a session. `compares`: whether the version before is at hand.
    pub(crate) fn session<'a>(&'a self, guiding: &'a Guiding<'a>, compares: bool) -> SessionDrawing<'a> {
        let share: Share = self.plan.settings.previous;
        let user = user_number(guiding.owner, guiding.session.user.as_deref()).to_string();
        let version = self.plan.watch.as_ref().filter(|_| compares).map(|watch| {
            // Sessions without a user are not all one user's: they would all get the same version.
            let unit = match self.by_user && guiding.session.user.is_some() {
                true => Unit::User(&user),
                false => Unit::Session(guiding.episode),
            };
            let previous = self.seed.serves(unit, &watch.version.to_string(), share);
            VersionDraw { version: watch.version, previous, share }
        });
        SessionDrawing { drawing: self, guiding, user, version }
    }
}

impl SessionDrawing<'_> {
    /// A number of its user, for the choice between lessons on trial: a manner that is drawn for a user must not change with the session.
    pub(crate) fn number(&self) -> u64 {
        user_number(self.guiding.owner, self.guiding.session.user.as_deref())
    }

    /// Whether a lesson is shown, if it is drawn.
    pub(crate) fn shows(&self, entry: &Entry) -> Option<bool> {
        let propensity = self.drawing.plan.propensity(&entry.id)?;
        let unit = kind(&entry.lesson).unit(self.guiding.episode, &self.user);
        Some(self.drawing.seed.shows(unit, &entry.id, propensity))
    }

    /// The propensities of what was drawn: as an episode has them, and for the trials. `served`: the version that the session gets.
    ///
    /// # Errors
    /// They cannot be written.
    pub(crate) fn recorded(
        &self,
        drawn: &[(EntryId, bool)],
        served: u64,
    ) -> Result<(Vec<Drawn>, SessionDraw), AppError> {
        let of = |id: &EntryId| self.drawing.plan.propensity(id);
        let draws: Vec<EntryDraw> = drawn
            .iter()
            .filter_map(|(entry, shown)| {
                Some(EntryDraw { entry: entry.clone(), shown: *shown, propensity: of(entry)? })
            })
            .collect();
        let entries = draws.iter().map(|draw| Drawn {
            entry: draw.entry.0.clone(),
            shown: draw.shown,
            propensity: Some(draw.propensity.value()),
        });
        let entries = entries.collect();
        let Guiding { owner, session, request, .. } = *self.guiding;
        let session = SessionDraws {
            user: user_number(owner, session.user.as_deref()),
            class: session.agent.clone(),
            features: features(request),
            served,
            draws,
            version: self.version,
        };
        let document =
            serde_json::to_string(&session).map_err(|error| AppError::Host(format!("draws of a session: {error}")))?;
        Ok((entries, SessionDraw { playbook: self.drawing.playbook.clone(), document }))
    }
}

/// What is known of a session before its draws: the size of the first message of the user, and whether tools are offered.
fn features(request: &ModelRequest) -> Vec<f64> {
    let first = request.messages.iter().find(|message| message.role == Role::User);
    let bytes = first.map_or(0, |message| message.plain_text().len()) as f64;
    vec![(bytes.ln_1p() / LARGE.ln_1p()).min(1.0), f64::from(u8::from(!request.tools.is_empty()))]
}
