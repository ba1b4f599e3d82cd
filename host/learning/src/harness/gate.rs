//! The gate: compares a candidate playbook with the deployed one in pairs, on validation tasks.
//!
//! Both members of a pair have the same task, environment seed and sampling seed; they differ only in the playbook. Every
//! pair uses new seeds. [`clawhost_learn::gate`] contains the statistical test.

use super::stage::{GatePlan, HarnessStage};
use crate::Staged;
use crate::experience::by_group;
use crate::playbook_guidance::{Arms, UniformPlaybook};
use crate::report::Missing;
use crate::sides::Sides;
use crate::stage::StageContext;
use clawhost_core::{Digest, Episode};
use clawhost_learn::gate::{Decision, Form, GateEvidence, Question, Report, Test, difference_of_failed, sign};
use clawhost_learn::harness::Candidate;
use clawhost_learn::playbook::Lineage;
use clawhost_learn::{EntryId, LessonUse, lesson_use};
use clawhost_play::{Guidance, Plan};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Sessions before an undecided candidate is abandoned in favour of others.
pub(super) const SESSIONS: u32 = 2;

/// Pairs between two looks at the evidence.
const LOOK: u64 = 32;

/// The gate's state across sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct GateState {
    /// Number of candidates so far, over all runs of the playbook; each makes the threshold for the next one higher.
    pub(super) candidates: u32,
    /// Pairs played so far, over all runs of the playbook; the next session continues with new tasks and seeds.
    pub(super) pairs: u64,
    /// An undecided candidate with its evidence.
    open: Option<Open>,
}

/// An undecided candidate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Open {
    candidate: Digest,
    /// The form of the bets while the evidence was collected.
    form: Form,
    evidence: GateEvidence,
    /// What was seen in the pairs of the evidence.
    #[serde(default)]
    seen: Seen,
    sessions: u32,
}

/// Counts over pairs, beside their rewards.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Seen {
    /// Pairs in which both sides acted alike in every turn.
    alike: u64,
    /// How often each new entry could apply, where the candidate played.
    uses: BTreeMap<EntryId, LessonUse>,
}

impl GateState {
    /// Behind what earlier runs of the playbook used.
    pub(super) fn new(lineage: &Lineage) -> Self {
        Self { candidates: lineage.candidates, pairs: lineage.gate, open: None }
    }
}

impl Seen {
    /// Before the first pair of a candidate.
    fn new(candidate: &Candidate) -> Self {
        let added = candidate.playbook.entries.iter().filter(|entry| candidate.added.contains(&entry.id));
        Self { alike: 0, uses: added.map(|entry| (entry.id.clone(), LessonUse::new(&entry.lesson))).collect() }
    }

    fn add(&mut self, deployed: &Episode, proposed: &Episode) {
        self.alike += u64::from(acted_alike(deployed, proposed));
        lesson_use::observe(&mut self.uses, proposed);
    }
}

/// Whether two episodes have the same actions, apart from the ids of tool calls.
fn acted_alike(one: &Episode, other: &Episode) -> bool {
    let calls = |turn: &clawhost_core::Turn| -> Vec<(String, String)> {
        turn.action.tool_calls.iter().map(|call| (call.name.clone(), call.arguments.clone())).collect()
    };
    one.turns.len() == other.turns.len()
        && one
            .turns
            .iter()
            .zip(&other.turns)
            .all(|(turn, beside)| turn.action.parts == beside.action.parts && calls(turn) == calls(beside))
}

/// How often a new entry could apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateUse {
    /// The entry.
    pub entry: EntryId,
    /// What it says.
    pub lesson: String,
    /// Over the candidate's episodes in the pairs of the evidence.
    #[serde(flatten)]
    pub usage: LessonUse,
}

/// Report of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    /// Number of the candidate, over all runs of the playbook.
    pub candidate: u32,
    /// Digest of the candidate.
    pub playbook: Digest,
    /// Entries that it adds.
    pub added: Vec<EntryId>,
    /// Entries that it removes.
    pub removed: Vec<EntryId>,
    /// Names of the sections that it rewrites.
    #[serde(default)]
    pub rewritten: Vec<String>,
    /// The entry that takes the place of the removed ones, if the candidate is a merger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<EntryId>,
    /// The decision.
    pub decision: Decision,
    /// The evidence.
    pub evidence: Report,
    /// Size of an evidence difference of 1, in units of reward.
    pub scale: f64,
    /// Pairs of the evidence in which both sides acted alike in every turn.
    #[serde(default)]
    pub alike: u64,
    /// How often each new entry could apply in the pairs of the evidence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<GateUse>,
    /// Episodes of this session, two for each pair.
    #[serde(default)]
    pub episodes: u64,
    /// Number of different tasks in this session.
    pub tasks: u64,
    /// Pairs of this session of which a side failed: it lost them. Pairs of which both failed count for neither. A candidate that fails
    /// significantly more often than the deployed playbook is rejected.
    pub missing: Missing,
}

impl GateReport {
    /// The reason of a promoted version, for people.
    pub(crate) fn why(&self) -> String {
        let rewritten = match self.rewritten.as_slice() {
            [] => String::new(),
            names => format!(", sections rewritten: {}", names.join(", ")),
        };
        let (added, removed, pairs) = (self.added.len(), self.removed.len(), self.evidence.pairs);
        if let Some(into) = &self.merged_into {
            let parts: Vec<&str> = self.removed.iter().map(|id| id.0.as_str()).collect();
            return format!("passed the gate: {} merged into {into}, after {pairs} pairs", parts.join(", "));
        }
        format!("passed the gate: {added} entries in, {removed} out{rewritten}, after {pairs} pairs")
    }
}

/// What was seen of the new entries, in the candidate's order.
fn uses(candidate: &Candidate, seen: &Seen) -> Vec<GateUse> {
    let known = |entry: &clawhost_learn::Entry| {
        let usage = seen.uses.get(&entry.id)?.clone();
        Some(GateUse { entry: entry.id.clone(), lesson: entry.lesson.line(), usage })
    };
    candidate.playbook.entries.iter().filter_map(known).collect()
}

impl HarnessStage {
    /// Tests the candidate, if there is one. `after` is the prefix of the phase names.
    pub(super) async fn judge_candidate(
        &mut self,
        after: &str,
        context: &StageContext<'_>,
    ) -> Staged<Option<GateReport>> {
        let Some(candidate) = self.state.harness.candidate() else { return Ok(None) };
        let digest = candidate.digest();
        let pairs = self.plan.gate.pairs;
        let (mut evidence, mut seen, sessions) = match self.state.gate.open.take() {
            // If training has seen a third reward value since, the evidence is void, as within a session.
            Some(mut open) if open.candidate == digest && open.form == self.state.scale.form() => {
                open.evidence.extend(pairs);
                (open.evidence, open.seen, open.sessions + 1)
            }
            _ => (self.new_evidence(&candidate)?, Seen::new(&candidate), 1),
        };
        let seed = context.plan.play.seed;
        let sides = Sides::new(seed, 2);
        let policy = {
            let harness = &self.state.harness;
            let arm = |playbook| Some(Arc::new(UniformPlaybook(harness.serving(playbook))) as Arc<dyn Guidance>);
            context
                .policy
                .guided(Arc::new(Arms::new(vec![arm(harness.deployed()), arm(candidate.playbook.clone())], seed)))
        };
        let range = Self::range(context);
        let (mut missing, mut played, mut tasks) = (Missing::default(), 0, BTreeSet::new());
        // Pairs without scores count towards the session's budget.
        while evidence.decision() == Decision::Continue && played < pairs {
            let name = format!("{after}-gate-{played}");
            let next_look = sign::looks(pairs).into_iter().find(|look| *look > played);
            let wanted = match next_look.filter(|_| self.plan.budget.is_some()) {
                Some(look) => look - played,
                None => LOOK.min(pairs - played),
            };
            let plan = Plan {
                episodes: wanted * 2,
                group: 2,
                first_group: self.state.gate.pairs,
                paired: true,
                branch_at: None,
                split: Some(context.splits.val.split.clone()),
                // The candidate is half of the episodes and may fail in all of them; the gate handles that. Beyond it the
                // failure budget applies.
                failure_budget: 0.5 + context.plan.play.failure_budget / 2.0,
                ..context.plan.play.clone()
            };
            let first = plan.first_group;
            let phase = context.phase(&name, plan, policy.clone(), context.val.clone()).await?;
            if let Some(allowance) = &self.plan.allowance {
                self.state.spent.judge(allowance, &phase.episodes);
            }
            self.state.gate.pairs += wanted;
            played += wanted;
            for (group, members) in by_group(&phase.episodes) {
                let side = |side: usize| {
                    let episode = members.iter().find(|one| sides.of(first + group, one.index) == side)?;
                    Some((episode, episode.reward?))
                };
                let sides = (side(0), side(1));
                let rewards = [sides.0, sides.1].into_iter().flatten().map(|(_, reward)| reward);
                // A third reward value changes the form of the bets and voids the evidence.
                if rewards.fold(false, |is_new, reward| self.state.scale.add(reward) | is_new) {
                    evidence = self.new_evidence(&candidate)?;
                    seen = Seen::new(&candidate);
                }
                let difference = match sides {
                    (Some((before, deployed)), Some((after, proposed))) => {
                        seen.add(before, after);
                        Some(self.state.scale.difference(deployed, proposed, range))
                    }
                    (before, after) => {
                        missing.add(before.is_none(), after.is_none());
                        // In a planned comparison a pair without scores is a draw: the looks stay where they were planned.
                        let void = (evidence.report().test == Test::Sign).then_some(0.0);
                        difference_of_failed(before.is_none(), after.is_none()).or(void)
                    }
                };
                if let Some(difference) = difference {
                    tasks.extend(members.first().map(|member| member.task.key()));
                    evidence.observe(difference)?;
                }
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
            merged_into: candidate.merger.as_ref().map(|merger| merger.into.clone()),
            decision,
            evidence: evidence.report(),
            scale: self.state.scale.scale(range),
            alike: seen.alike,
            uses: uses(&candidate, &seen),
            episodes: played * 2,
            tasks: tasks.len() as u64,
            missing,
        };
        let form = self.state.scale.form();
        self.settle(&candidate, decision, Open { candidate: digest, form, evidence, seen, sessions });
        Ok(Some(report))
    }

    /// Empty evidence for the next candidate of the playbook.
    fn new_evidence(&mut self, candidate: &Candidate) -> Staged<GateEvidence> {
        self.state.gate.candidates = self.state.gate.candidates.saturating_add(1);
        let number = NonZeroU32::new(self.state.gate.candidates).unwrap_or(NonZeroU32::MIN);
        let GatePlan { pairs, alpha, .. } = self.plan.gate;
        let form = self.state.scale.form();
        if self.plan.budget.is_some() && form == Form::Binary && candidate.question == Question::Better {
            return Ok(GateEvidence::planned(number, alpha, pairs)?);
        }
        let evidence = GateEvidence::new(number, form, candidate.question, alpha, pairs)?;
        // A run with a budget has one session.
        Ok(if self.plan.budget.is_some() { evidence.of_one_session() } else { evidence })
    }

    fn settle(&mut self, candidate: &Candidate, decision: Decision, open: Open) {
        match decision {
            Decision::Promote => self.state.harness.promote(candidate),
            Decision::Futile => self.state.harness.reject(candidate),
            // If the next candidate is the same, its evidence is continued.
            Decision::Undecided | Decision::Continue if open.sessions < SESSIONS => self.state.gate.open = Some(open),
            Decision::Undecided | Decision::Continue => self.state.harness.abandon(candidate),
        }
    }
}
