//! Settings of the harness layer.

use crate::DRAWN_ENTRIES;
use crate::playbook::TOKEN_BUDGET;
use serde::{Deserialize, Serialize};

/// Most entries on trial at once. The variance of each estimate grows with this number.
pub const TRIAL_SLOTS: usize = 16;
/// Relevant groups after which a trial ends without a finding.
pub const EXPIRE_AFTER: u64 = 120;
/// Groups in total after which the trial of a rarely relevant entry ends, to free its slot.
pub const NEVER_RELEVANT_AFTER: u64 = 1_200;
/// Groups before a lesson that was found harmful can have a new trial, if it is proposed again.
pub const RETRIAL_AFTER_HARM: u64 = 1_200;
/// The same for an expired lesson. Shorter, because other entries may have changed its effect, and no evidence speaks
/// against it.
pub const RETRIAL_AFTER_EXPIRY: u64 = 320;
/// Most entries on trial in one prompt. Which relevant entries these are is drawn per group. Many competing lessons about
/// one case are rarely followed, so that less would be measured.
pub const TRIAL_CROWD: usize = 4;
/// An admitted entry is held out from half of the members in one of this many groups.
pub const MAINTENANCE: u64 = 10;
/// Most entries waiting for a trial. The entries with least support are dropped beyond it, and counted.
pub const QUEUE: usize = 256;
/// Most deployed entries under test at once. Each is held out from half of all training episodes.
pub const QUESTIONED: usize = TRIAL_SLOTS;
/// Most other entries held out in one group, so that entries on trial and under test always have a bit each.
pub const HELD_OUT: usize = DRAWN_ENTRIES - TRIAL_SLOTS - QUESTIONED;
/// Expected share of false decisions among the admitted entries, and among the retired ones.
pub const FALSE_DISCOVERY: f64 = 0.10;
/// Episodes stored as an entry's sources. Later ones are only counted.
pub const SOURCES: usize = 8;
/// Most bytes of a source's episode id. No stored episode has a longer one; others are not stored.
pub const SOURCE_BYTES: usize = 64;
/// Turns stored per source.
pub const SOURCE_TURNS: usize = 32;
/// Most bytes of an entry's tags together: about a dozen words for retrieval.
pub const TAG_BYTES: usize = 500;

/// Most different reasons of refusals that are counted separately.
pub const REFUSALS: usize = 64;

/// Which entries enter the playbook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// Entries that credit admitted and the gate accepted.
    #[default]
    Measured,
    /// All proposals together, if the gate accepts them together. For runs whose episodes do not suffice to measure each alone.
    Bundle,
    /// Every proposal, at once. A control that shows the value of measuring.
    Everything,
}

/// Settings of the harness layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HarnessSettings {
    /// Entries on trial at once, 1 to [`TRIAL_SLOTS`].
    pub trial_slots: usize,
    /// Most entries on trial in one prompt.
    pub trial_crowd: usize,
    /// Token budget of one prompt's sections and entries.
    pub token_budget: u64,
    /// Which entries enter the playbook.
    pub admission: Admission,
    /// Texts that no lesson may contain.
    pub forbidden: Vec<String>,
}

impl Default for HarnessSettings {
    fn default() -> Self {
        Self {
            trial_slots: TRIAL_SLOTS,
            trial_crowd: TRIAL_CROWD,
            token_budget: TOKEN_BUDGET,
            admission: Admission::Measured,
            forbidden: Vec::new(),
        }
    }
}
