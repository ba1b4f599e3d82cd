//! Whether the test showed the playbook that the bundle contains.

use super::claim::{Claim, LearnedClaim};
use clawhost_core::{Discrepancy, Episode, Message, PlaybookRecord, RunId};
use clawhost_learning::{TestPhase, TestSide, UniformPlaybook};
use clawhost_play::{GroupSlot, Guidance as _};
use std::collections::HashMap;

/// A test phase, and the size and the position of its groups.
struct Phase {
    test: TestPhase,
    members: u32,
    first_group: u64,
}

/// The playbooks of a claim, and the phases that showed them.
pub(super) struct ShownPlaybooks {
    before: UniformPlaybook,
    after: UniformPlaybook,
    phases: HashMap<RunId, Phase>,
}

impl ShownPlaybooks {
    /// `None`: no playbook was learned.
    pub(super) fn of(claim: &Claim, learned: &LearnedClaim) -> Option<Self> {
        let [before, after] = learned.playbooks.as_ref()?.views(claim.spec()?.token_budget).map(UniformPlaybook);
        let phases = claim.tests().map(|(row, test, conditions)| {
            let phase = Phase { test, members: conditions.group.max(1), first_group: conditions.first_group };
            (row.id.clone(), phase)
        });
        Some(Self { before, after, phases: phases.collect() })
    }

    /// Compares what a test episode was shown with the playbook of its side. `None`: it is no test episode of a side, or never began.
    pub(super) fn check(&self, episode: &Episode) -> Option<Result<(), Discrepancy>> {
        let Phase { test, members, first_group } = self.phases.get(&episode.run)?;
        let (playbook, of) = match test.side(episode.group(), episode.index)? {
            TestSide::Before => (&self.before, "before learning"),
            TestSide::After => (&self.after, "after learning"),
        };
        let opening = episode.turns.first().map_or(&episode.closing, |turn| &turn.observation);
        if opening.is_empty() {
            return None;
        }
        let shown = opening.iter().map(Message::plain_text).collect::<Vec<_>>().join("\n");
        let member = u32::try_from(episode.index % u64::from(*members)).unwrap_or(0);
        let slot = GroupSlot { group: first_group.saturating_add(episode.group()), member, members: *members };
        let expected = playbook.guide(slot, &shown);
        if episode.policy.playbook.as_ref() == Some(&expected) {
            return Some(Ok(()));
        }
        let words = |record: &PlaybookRecord| format!("{} with {} entries", record.digest.short(), record.shown.len());
        let record = format!("{}/{}", episode.run, episode.id);
        let recorded = episode.policy.playbook.as_ref().map(words);
        let what = format!("the playbook {of} that it was shown");
        // Equal digests with other texts have equal words: the difference is there all the same.
        Some(Err(Discrepancy { record, what, recorded, expected: Some(words(&expected)) }))
    }
}
