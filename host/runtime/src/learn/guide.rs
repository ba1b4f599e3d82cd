//! The playbook as guidance.

use crate::guidance::{Guidance, GroupSlot};
use clawhost_core::{Digest, Drawn, PlaybookRecord};
use clawhost_learn::harness::{Chosen, PlaybookView};
use std::sync::Arc;

/// One playbook for everybody; in training with draws.
pub struct UniformPlaybook(pub PlaybookView);

fn record(digest: Digest, chosen: Chosen) -> PlaybookRecord {
    PlaybookRecord {
        digest,
        text: chosen.text,
        shown: chosen.shown.into_iter().map(|id| id.0).collect(),
        drawn: chosen.drawn.into_iter().map(|(id, shown)| Drawn { entry: id.0, shown }).collect(),
        propensity: chosen.propensity,
    }
}

fn guide(showing: &PlaybookView, seat: GroupSlot, shown: &str) -> PlaybookRecord {
    record(showing.digest(), showing.choose(seat.group, seat.member, seat.members, shown))
}

impl Guidance for UniformPlaybook {
    fn digest(&self) -> Digest {
        self.0.digest()
    }

    fn state(&self, _: GroupSlot) -> Digest {
        self.0.digest()
    }

    fn guide(&self, seat: GroupSlot, shown: &str) -> PlaybookRecord {
        guide(&self.0, seat, shown)
    }
}

/// Members of a group are told from different playbooks: the n-th from the n-th.
pub(crate) struct Arms(pub(crate) Vec<Arc<PlaybookView>>);

impl Arms {
    fn arm(&self, seat: GroupSlot) -> Option<&PlaybookView> {
        let arms = u32::try_from(self.0.len()).unwrap_or(u32::MAX).max(1);
        self.0.get((seat.member % arms) as usize).map(Arc::as_ref)
    }
}

impl Guidance for Arms {
    fn digest(&self) -> Digest {
        self.0.iter().fold(Digest::of(b"arms"), |digest, arm| digest.extended(arm.digest().hex().as_bytes()))
    }

    fn state(&self, seat: GroupSlot) -> Digest {
        self.arm(seat).map_or_else(|| Digest::of(b""), PlaybookView::digest)
    }

    fn guide(&self, seat: GroupSlot, shown: &str) -> PlaybookRecord {
        match self.arm(seat) {
            Some(showing) => guide(showing, seat, shown),
            None => PlaybookRecord {
                digest: Digest::of(b""),
                text: String::new(),
                shown: Vec::new(),
                drawn: Vec::new(),
                propensity: 1.0,
            },
        }
    }
}
