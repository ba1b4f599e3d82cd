//! Guidance: text added to a policy's system prompt. It may differ between the members of a group, so that its effect can be
//! measured: members see different entries of a playbook, or one sees the candidate and one the deployed playbook.

use clawhost_core::{Digest, PlaybookRecord};

/// The position of an episode in its run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupSlot {
    /// Position of the group in its split.
    pub group: u64,
    /// Index of the member in its group, from 0.
    pub member: u32,
    /// Size of the group.
    pub members: u32,
}

/// Selects the guidance of each episode.
pub trait Guidance: Send + Sync {
    /// Digest of everything that can change the guidance of any slot.
    fn digest(&self) -> Digest;
    /// Digest of everything that can change the guidance of this slot. Part of the episode's record.
    fn state(&self, seat: GroupSlot) -> Digest;
    /// The guidance of this slot, for a task whose first text is `shown`.
    fn guide(&self, seat: GroupSlot, shown: &str) -> PlaybookRecord;
}

/// Recorded guidance, for replays.
pub(crate) struct Fixed(pub(crate) PlaybookRecord);

impl Guidance for Fixed {
    fn digest(&self) -> Digest {
        self.0.digest
    }

    fn state(&self, _: GroupSlot) -> Digest {
        self.0.digest
    }

    fn guide(&self, _: GroupSlot, _: &str) -> PlaybookRecord {
        self.0.clone()
    }
}
