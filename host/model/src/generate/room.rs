//! How much memory the keys and values of active requests may take.

use crate::memory;

/// What they may take of the memory that is free when an engine starts: the rest is for prompts that are kept, for other engines, and for learning.
const SHARE: u64 = 4;
/// What they may take where weights learn, 1 GiB, because learning needs memory of its own. A model of 0.6 B weights still answers sixteen requests of 256
/// tokens at once, so that each weight that is read is used for many of them.
const BESIDE_LEARNING: u64 = 1 << 30;

/// The bytes that keys and values of active requests may take. A request that needs more than this is answered alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room(u64);

impl Room {
    /// At most this number of bytes.
    pub fn of_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A quarter of the memory that is free now. Without bound, if that is unknown.
    pub fn of_machine() -> Self {
        Self(memory::free().map_or(u64::MAX, |free| free / SHARE))
    }

    /// The same where weights learn: at most 1 GiB.
    pub fn beside_learning() -> Self {
        Self(Self::of_machine().0.min(BESIDE_LEARNING))
    }

    /// Whether another need fits beside those of active requests.
    pub(super) fn fits(self, active: impl Iterator<Item = u64>, more: u64) -> bool {
        let mut active = active.peekable();
        active.peek().is_none() || active.fold(more, u64::saturating_add) <= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_fits_beside_others_up_to_the_bound_and_alone_always() {
        let room = Room::of_bytes(10);
        assert!(room.fits([4, 3].into_iter(), 3) && !room.fits([4, 3].into_iter(), 4));
        assert!(room.fits([].into_iter(), 99) && !room.fits([1].into_iter(), u64::MAX));
        assert!(Room::beside_learning().0 <= BESIDE_LEARNING);
    }
}
