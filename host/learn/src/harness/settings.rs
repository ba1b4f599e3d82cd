//! How the harness layer goes about it.

use crate::DRAWN_ENTRIES;
use crate::playbook::TOKEN_BUDGET;
use serde::{Deserialize, Serialize};

/// Entries on trial at once: what the credit of each is measured with grows with it.
pub const TRIAL_SLOTS: usize = 16;
/// Groups in which an entry was relevant before it expires without a verdict.
pub const EXPIRE_AFTER: u64 = 120;
/// Groups altogether before an entry on trial expires that is hardly ever relevant: its place is wanted.
pub const NEVER_RELEVANT_AFTER: u64 = 1_200;
/// Groups after which a lesson that was found harmful may be tried again, if it is proposed again.
pub const RETRIAL_AFTER_HARM: u64 = 1_200;
/// The same for one that expired: what it lacked may have been learned since, and nothing speaks against it.
pub const RETRIAL_AFTER_EXPIRY: u64 = 320;
/// Entries on trial that one prompt holds at most; which of those that are relevant is drawn for each group. Lessons that say
/// different things about one case are in each other's way: of many that compete hardly any is followed, so less would be learned.
pub const TRIAL_CROWD: usize = 4;
/// An admitted entry is held out from half of the members in one group of so many, as long as it lives.
pub const MAINTENANCE: u64 = 10;
/// Entries waiting for a trial: past it those with least support are dropped, and counted.
pub const QUEUE: usize = 256;
/// Deployed entries that reflectors put to the test at once: each is held out from half of all training episodes.
pub const QUESTIONED: usize = TRIAL_SLOTS;
/// Most other entries that are held out in one group: who is on trial or put to the test must have one of the bits too.
pub const HELD_OUT: usize = DRAWN_ENTRIES - TRIAL_SLOTS - QUESTIONED;
/// Expected share of wrong entries among those that are admitted, and among those that are retired.
pub const FALSE_DISCOVERY: f64 = 0.10;
/// Episodes noted as an entry's sources; later ones only count.
pub const SOURCES: usize = 8;
/// Most bytes of a source's episode, which has no more in any store; others are not noted.
pub const SOURCE_BYTES: usize = 64;
/// Turns noted of a source.
pub const SOURCE_TURNS: usize = 32;
/// Most bytes of an entry's tags together: a dozen words for retrieval.
pub const TAG_BYTES: usize = 500;

/// Who comes into the playbook.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// Entries that were measured to help, once the gate has passed them.
    #[default]
    Measured,
    /// Whatever is proposed, at once: a control, to see what measuring is worth.
    Everything,
}

/// How the harness layer goes about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HarnessSettings {
    /// Entries on trial at once, 1 to [`TRIAL_SLOTS`].
    pub trial_slots: usize,
    /// Entries on trial that one prompt holds at most.
    pub trial_crowd: usize,
    /// Tokens of entries in one prompt.
    pub token_budget: u64,
    /// Who comes into the playbook.
    pub admission: Admission,
    /// Texts that no lesson may quote.
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
