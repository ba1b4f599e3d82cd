//! Guidance: what a policy is told beside its base prompt. Who is told what may depend on the seat, so that what it does can
//! be measured: members of one group see different entries of a playbook, or one sees the candidate and one what is deployed.

use clawhost_core::{Digest, PlaybookRecord};

/// Where an episode sits in its run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupSlot {
    /// The group's position in its split.
    pub group: u64,
    /// The member's position in its group, from 0.
    pub member: u32,
    /// Members of the group.
    pub members: u32,
}

/// Decides what is told to whom.
pub trait Guidance: Send + Sync {
    /// Names all that can change what is told, at any seat.
    fn digest(&self) -> Digest;
    /// Names all that can change what is told at this seat; what the record of the episode says.
    fn state(&self, seat: GroupSlot) -> Digest;
    /// What is told at this seat, to whoever is shown this text first.
    fn guide(&self, seat: GroupSlot, shown: &str) -> PlaybookRecord;
}

/// What was told before.
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
