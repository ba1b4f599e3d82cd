//! Playbooks as guidance of a policy.

use crate::sides::Sides;
use clawhost_core::{Digest, Drawn, PlaybookRecord};
use clawhost_learn::harness::{Chosen, PlaybookView};
use clawhost_play::{GroupSlot, Guidance};
use std::sync::Arc;

/// One playbook for all members of a group. A training view randomises entries per member.
pub struct UniformPlaybook(pub PlaybookView);

fn record(digest: Digest, chosen: Chosen) -> PlaybookRecord {
    PlaybookRecord {
        digest,
        text: chosen.text,
        shown: chosen.shown.into_iter().map(|id| id.0).collect(),
        drawn: chosen.drawn.into_iter().map(|(id, shown)| Drawn { entry: id.0, shown, propensity: None }).collect(),
        retrieval: None,
        propensity: chosen.propensity,
    }
}

fn guide(showing: &PlaybookView, slot: GroupSlot, shown: &str) -> PlaybookRecord {
    record(showing.digest(), showing.choose(slot.group, slot.member, slot.members, shown))
}

impl Guidance for UniformPlaybook {
    fn digest(&self) -> Digest {
        self.0.digest()
    }

    fn state(&self, _: GroupSlot) -> Digest {
        self.0.digest()
    }

    fn guide(&self, slot: GroupSlot, shown: &str) -> PlaybookRecord {
        guide(&self.0, slot, shown)
    }
}

/// Different guidance for the members of a group. `None`: the arm has no guidance.
pub(crate) struct Arms {
    arms: Vec<Option<Arc<dyn Guidance>>>,
    sides: Sides,
}

impl Arms {
    /// Arm n plays side n of every group. `seed` draws the members of the sides.
    pub(crate) fn new(arms: Vec<Option<Arc<dyn Guidance>>>, seed: u64) -> Self {
        let sides = Sides::new(seed, arms.len());
        Self { arms, sides }
    }

    fn arm(&self, slot: GroupSlot) -> Option<&dyn Guidance> {
        self.arms.get(self.sides.of(slot.group, u64::from(slot.member)))?.as_deref()
    }
}

impl Guidance for Arms {
    fn digest(&self) -> Digest {
        let name = |arm: &Option<Arc<dyn Guidance>>| arm.as_ref().map_or_else(String::new, |arm| arm.digest().hex());
        let drawn = Digest::of(b"arms").extended(&self.sides.bytes());
        self.arms.iter().fold(drawn, |digest, arm| digest.extended(name(arm).as_bytes()))
    }

    fn state(&self, slot: GroupSlot) -> Digest {
        self.arm(slot).map_or_else(|| Digest::of(b""), |arm| arm.state(slot))
    }

    fn guide(&self, slot: GroupSlot, shown: &str) -> PlaybookRecord {
        match self.arm(slot) {
            Some(arm) => arm.guide(slot, shown),
            None => PlaybookRecord {
                digest: Digest::of(b""),
                text: String::new(),
                shown: Vec::new(),
                drawn: Vec::new(),
                retrieval: None,
                propensity: 1.0,
            },
        }
    }
}
