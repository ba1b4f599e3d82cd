//! What the tally decides.

use super::{Admitted, EndReason, Ended, LiveTrials, Tally, Trial, TrialSettings};
use crate::live::{Direction, EffectFinding, LiveEstimate, OddsRatio, Plan};
use crate::playbook::Playbook;
use crate::{Entry, EntryId, LearnError, Status};

/// The effect that a trial is planned for, on a scale of 0 to 1. A smaller one is not worth the sessions of other lessons.
const PLANNED_EFFECT: f64 = 0.2;
/// A trial ends without a finding when its effect is smaller than that with 95 % confidence, and at the latest after this many times the sessions
/// that it was planned for: an effect of the planned size is found in most trials by then (see the simulations of [`crate::live`]).
const PATIENCE: f64 = 1.5;
/// The share of comparisons of equal versions that end with a rollback.
const VERSION_ALPHA: f64 = 0.05;

/// What is decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// A lesson on trial helps: it is served from now on.
    Admit(Box<Entry>, LiveEstimate),
    /// A lesson on trial is dropped.
    Drop(EntryId, EndReason),
    /// A served lesson harms: it is taken out.
    Retire(EntryId, LiveEstimate),
    /// The version before is better: it is served again.
    RollBack {
        /// The newest version.
        from: u64,
        /// The one before.
        to: u64,
        /// The version before in comparison with the newest one.
        estimate: LiveEstimate,
    },
    /// The newest version is not worse as far as can be seen: no session gets the one before any more.
    Keep(u64),
}

/// How many sessions a trial needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrialNeeds {
    /// Sessions with feedback in all, for an effect of a fifth of the scale.
    pub planned: u64,
    /// Those so far.
    pub rewarded: u64,
    /// Sessions that are still needed, with or without feedback, at the share that gives feedback. `None`: none has given any so far.
    pub remaining: Option<u64>,
}

fn rewarded(estimate: Option<&LiveEstimate>) -> u64 {
    estimate.map_or(0, LiveEstimate::rewarded)
}

impl LiveTrials {
    /// How many sessions a trial needs.
    ///
    /// # Errors
    /// The settings are outside of their ranges.
    pub fn needs(&self, entry: &EntryId, tally: &Tally, settings: &TrialSettings) -> Result<TrialNeeds, LearnError> {
        let estimate = tally.estimate(entry);
        // The best of all that were tried needs the evidence that the first one would need among as many.
        let tried = (self.ended.len() + self.admitted.len() + self.on_trial.len()).max(1) as f64;
        let hidden = estimate.as_ref().map_or(0.5, |estimate| estimate.hidden.reward.clamp(0.0, 1.0));
        let plan = Plan::of(PLANNED_EFFECT, settings.share.value(), tried / settings.alpha).surviving(
            settings.odds_ratio,
            Direction::Helps,
            hidden,
        );
        let planned = plan.rewarded_sessions()?.unwrap_or(u64::MAX);
        let so_far = rewarded(estimate.as_ref());
        let sessions = estimate.as_ref().map_or(0, |estimate| estimate.shown.sessions + estimate.hidden.sessions);
        let remaining = (so_far > 0).then(|| {
            let left = planned.saturating_sub(so_far) as f64;
            (left * sessions as f64 / so_far as f64).ceil() as u64
        });
        Ok(TrialNeeds { planned, rewarded: so_far, remaining })
    }

    /// What can be decided now; at most one thing, for each changes what is served.
    ///
    /// # Errors
    /// The settings are outside of their ranges.
    pub fn decide(&self, tally: &Tally, settings: &TrialSettings) -> Result<Option<Decision>, LearnError> {
        if let Some(decision) = self.of_versions(tally, settings)? {
            return Ok(Some(decision));
        }
        let findings = tally.findings(settings.alpha);
        let finding = |entry: &EntryId| findings.get(entry).copied().unwrap_or(EffectFinding::Undecided);
        for Admitted { entry, .. } in &self.admitted {
            if finding(&entry.id) == EffectFinding::Harms
                && let Some(estimate) = tally.estimate(&entry.id)
            {
                return Ok(Some(Decision::Retire(entry.id.clone(), estimate)));
            }
        }
        for Trial { entry, .. } in &self.on_trial {
            let decision = match (finding(&entry.id), tally.estimate(&entry.id)) {
                (EffectFinding::Helps, Some(estimate)) => Some(Decision::Admit(Box::new(entry.clone()), estimate)),
                (EffectFinding::Harms, _) => Some(Decision::Drop(entry.id.clone(), EndReason::Harms)),
                (_, Some(estimate)) => {
                    let planned = self.needs(&entry.id, tally, settings)?.planned;
                    let is_over = rewarded(Some(&estimate)) as f64 >= PATIENCE * planned as f64;
                    let is_small = estimate.decidable() && estimate.interval.1 < PLANNED_EFFECT;
                    (is_over || is_small).then(|| Decision::Drop(entry.id.clone(), EndReason::NoEffect))
                }
                _ => None,
            };
            if decision.is_some() {
                return Ok(decision);
            }
        }
        Ok(None)
    }

    fn of_versions(&self, tally: &Tally, settings: &TrialSettings) -> Result<Option<Decision>, LearnError> {
        let (Some(watch), Some(versions)) = (&self.watch, tally.versions()) else { return Ok(None) };
        let estimate = versions.estimate();
        match (versions.finding(VERSION_ALPHA, settings.odds_ratio), estimate) {
            (EffectFinding::Helps, Some(estimate)) => {
                Ok(Some(Decision::RollBack { from: watch.version, to: watch.previous, estimate }))
            }
            (EffectFinding::Harms, _) => Ok(Some(Decision::Keep(watch.version))),
            (_, estimate) => {
                let plan = Plan::of(PLANNED_EFFECT, settings.previous.value(), VERSION_ALPHA.recip());
                let planned = plan.rewarded_sessions()?.unwrap_or(u64::MAX);
                let is_over = rewarded(estimate.as_ref()) as f64 >= PATIENCE * planned as f64;
                Ok(is_over.then_some(Decision::Keep(watch.version)))
            }
        }
    }

    /// Carries a decision out. Returns the playbook that is served from now on, if it changes. `served`: what is served; `previous`: the version
    /// before, for a rollback.
    pub fn carry_out(
        &mut self,
        decision: &Decision,
        (served, previous): (&Playbook, Option<&Playbook>),
        tally: &mut Tally,
        now: u64,
    ) -> Option<Playbook> {
        match decision {
            Decision::Admit(entry, estimate) => {
                self.on_trial.retain(|trial| trial.entry.id != entry.id);
                let entry = Entry { status: Status::Deployed, ..(**entry).clone() };
                let mut playbook = served.clone();
                playbook.entries.push(entry.clone());
                self.admitted.push(Admitted { entry, estimate: Some(estimate.clone()), at: now });
                Some(playbook)
            }
            Decision::Drop(id, reason) => {
                let position = self.on_trial.iter().position(|trial| trial.entry.id == *id)?;
                let trial = self.on_trial.remove(position);
                self.close(trial.entry, *reason, tally, now);
                None
            }
            Decision::Retire(id, _) => {
                let mut playbook = served.clone();
                playbook.entries.retain(|entry| entry.id != *id && !entry.needs.contains(id));
                self.leave(served, &playbook, EndReason::Retired, tally, now);
                Some(playbook)
            }
            Decision::RollBack { .. } => {
                let previous = previous?;
                self.leave(served, previous, EndReason::RolledBack, tally, now);
                Some(previous.clone())
            }
            Decision::Keep(_) => {
                self.watch = None;
                // No comparison is left that could not begin.
                let _ = tally.watch(None);
                None
            }
        }
    }

    /// Closes the lessons that are served no more.
    fn leave(&mut self, served: &Playbook, next: &Playbook, reason: EndReason, tally: &mut Tally, now: u64) {
        let stays = |id: &EntryId| next.entries.iter().any(|entry| entry.id == *id);
        for entry in served.entries.iter().filter(|entry| !stays(&entry.id)) {
            let was_admitted = self.admitted.iter().any(|one| one.entry.id == entry.id);
            if was_admitted || reason == EndReason::RolledBack {
                self.admitted.retain(|one| one.entry.id != entry.id);
                self.close(entry.clone(), reason, tally, now);
            }
        }
    }
}

/// How biased the feedback would have to be to undo what is found about two versions. `None`: nothing is found.
pub fn version_flip_point(estimate: &LiveEstimate) -> Option<OddsRatio> {
    let direction = if estimate.effect < 0.0 { Direction::Harms } else { Direction::Helps };
    estimate.flip_point(direction, VERSION_ALPHA.recip())
}

impl Ended {
    /// Why it ended, with the effect if there is one, for people.
    pub fn shown(&self) -> String {
        let effect = self.estimate.as_ref().map(|one| format!(", effect {:+.2}", one.effect)).unwrap_or_default();
        let is_blocked = self.estimate.as_ref().is_some_and(|one| one.feedback.blocks());
        let blocked = if is_blocked { "; sessions with it and without it gave feedback differently often" } else { "" };
        format!("{}{effect}{blocked}", self.reason.shown())
    }
}
