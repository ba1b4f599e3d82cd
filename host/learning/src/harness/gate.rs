//! The gate: a candidate playbook against what is deployed, pair by pair, on tasks that taught nothing.
//!
//! Both members of a pair get the same task, the same environment seed and the same seed for their answers; they differ by
//! what they are told. Every pair has seeds that no pair had before. What decides is [`clawhost_learn::gate`].

use super::stage::{GatePlan, HarnessStage};
use crate::Staged;
use crate::experience::by_group;
use crate::playbook_guidance::{Arms, UniformPlaybook};
use crate::report::Missing;
use crate::stage::StageContext;
use clawhost_core::Digest;
use clawhost_learn::EntryId;
use clawhost_learn::gate::{Decision, Form, GateEvidence, Report};
use clawhost_learn::harness::Candidate;
use clawhost_play::{Guidance, Plan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

/// Sessions after which a candidate of which the gate cannot tell makes room for others.
const SESSIONS: u32 = 2;

/// Pairs between two looks at the evidence.
const LOOK: u64 = 32;

/// Everything that the gate remembers from session to session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct GateState {
    /// Candidates so far: each makes it harder for the next.
    candidates: u32,
    /// Pairs played so far: tasks and seeds go on from there.
    pairs: u64,
    /// An undecided candidate, with the evidence about it.
    open: Option<Open>,
}

/// A candidate of which the gate could not tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Open {
    candidate: Digest,
    /// What rewards were like when its evidence was gathered.
    form: Form,
    evidence: GateEvidence,
    sessions: u32,
}

/// What a session came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    /// Which candidate of the run.
    pub candidate: u32,
    /// What it says.
    pub playbook: Digest,
    /// Its new entries.
    pub added: Vec<EntryId>,
    /// What it lacks.
    pub removed: Vec<EntryId>,
    /// Sections that say something else in it.
    #[serde(default)]
    pub rewritten: Vec<String>,
    /// What came of it.
    pub decision: Decision,
    /// The evidence.
    pub evidence: Report,
    /// A lift of 1 of the evidence in units of reward.
    pub scale: f64,
    /// Different tasks among the pairs of this session.
    pub tasks: u64,
    /// Pairs of this session that could not be compared. A candidate that fails more often than what is deployed is turned
    /// down: what fails where it would lose must not seem to win.
    pub missing: Missing,
}

impl GateReport {
    /// How a version came about that was let through, for people.
    pub(crate) fn why(&self) -> String {
        let rewritten = match self.rewritten.as_slice() {
            [] => String::new(),
            names => format!(", sections rewritten: {}", names.join(", ")),
        };
        let (added, removed, pairs) = (self.added.len(), self.removed.len(), self.evidence.pairs);
        format!("passed the gate: {added} entries in, {removed} out{rewritten}, after {pairs} pairs")
    }
}

impl HarnessStage {
    /// Judges the candidate, if there is one, in phases that are named after what led to it.
    pub(super) async fn judge_candidate(
        &mut self,
        after: &str,
        context: &StageContext<'_>,
    ) -> Staged<Option<GateReport>> {
        let Some(candidate) = self.state.harness.candidate() else { return Ok(None) };
        let digest = candidate.digest();
        let pairs = self.plan.gate.pairs;
        let (mut evidence, sessions) = match self.state.gate.open.take() {
            // Where training has seen a third reward since, what was bet is void as it is in mid-session.
            Some(mut open) if open.candidate == digest && open.form == self.state.scale.form() => {
                open.evidence.extend(pairs);
                (open.evidence, open.sessions + 1)
            }
            _ => (self.new_evidence(&candidate)?, 1),
        };
        let policy = {
            let harness = &self.state.harness;
            let arm = |playbook| Some(Arc::new(UniformPlaybook(harness.serving(playbook))) as Arc<dyn Guidance>);
            context.policy.guided(Arc::new(Arms(vec![arm(harness.deployed()), arm(candidate.playbook.clone())])))
        };
        let range = Self::range(context);
        let (mut missing, mut played, mut tasks) = (Missing::default(), 0, BTreeSet::new());
        // Pairs without a score are played for nothing, and count to the budget of the session all the same.
        while evidence.decision() == Decision::Continue && played < pairs {
            let name = format!("{after}-gate-{played}");
            let wanted = LOOK.min(pairs - played);
            let plan = Plan {
                episodes: wanted * 2,
                group: 2,
                first_group: self.state.gate.pairs,
                paired: true,
                branch_at: None,
                split: Some(context.splits.val.split.clone()),
                // A candidate may fail wherever it plays, which is half: that is for the gate to judge. Beyond that the budget holds.
                failure_budget: 0.5 + context.plan.play.failure_budget / 2.0,
                ..context.plan.play.clone()
            };
            let phase = context.phase(&name, plan, policy.clone(), context.val.clone()).await?;
            self.state.gate.pairs += wanted;
            played += wanted;
            for members in by_group(&phase.episodes).values() {
                let reward =
                    |member: u64| members.iter().find(|one| one.index % 2 == member).and_then(|one| one.reward);
                let rewards = (reward(0), reward(1));
                let (Some(deployed), Some(proposed)) = rewards else {
                    missing.add(rewards.0.is_none(), rewards.1.is_none());
                    continue;
                };
                tasks.extend(members.first().map(|member| member.task.id.clone()));
                // Rewards that took two values so far may take a third: what was bet on the form of two is void.
                if self.state.scale.add(deployed) | self.state.scale.add(proposed) {
                    evidence = self.new_evidence(&candidate)?;
                }
                evidence.observe(self.state.scale.difference(deployed, proposed, range))?;
            }
        }
        let decision = match evidence.decision() {
            _ if missing.second_fails_more() => Decision::Futile,
            Decision::Continue => Decision::Undecided,
            decided => decided,
        };
        let report = GateReport {
            candidate: self.state.gate.candidates,
            playbook: digest,
            added: candidate.added.clone(),
            removed: candidate.removed.clone(),
            rewritten: candidate.rewritten.clone(),
            decision,
            evidence: evidence.report(),
            scale: self.state.scale.scale(range),
            tasks: tasks.len() as u64,
            missing,
        };
        let form = self.state.scale.form();
        self.settle(&candidate, decision, Open { candidate: digest, form, evidence, sessions });
        Ok(Some(report))
    }

    /// Nothing is known yet about the next candidate of the run.
    fn new_evidence(&mut self, candidate: &Candidate) -> Staged<GateEvidence> {
        self.state.gate.candidates = self.state.gate.candidates.saturating_add(1);
        let number = NonZeroU32::new(self.state.gate.candidates).unwrap_or(NonZeroU32::MIN);
        let GatePlan { pairs, alpha, .. } = self.plan.gate;
        Ok(GateEvidence::new(number, self.state.scale.form(), candidate.question, alpha, pairs)?)
    }

    fn settle(&mut self, candidate: &Candidate, decision: Decision, open: Open) {
        match decision {
            Decision::Promote => self.state.harness.promote(candidate),
            Decision::Futile => self.state.harness.turn_down(candidate),
            // Kept: if the candidate is the same next time, it goes on.
            Decision::Undecided | Decision::Continue if open.sessions < SESSIONS => self.state.gate.open = Some(open),
            Decision::Undecided | Decision::Continue => self.state.harness.give_up(candidate),
        }
    }
}
