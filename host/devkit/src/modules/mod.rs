//! Modules of teams: published with what proves them, added with what changes.

mod add;
mod difference;
mod provenance;
mod publish;
mod rescored;

pub use add::{AddReport, AddRequest, Claim, add};
pub use difference::{Change, Difference};
pub use publish::{PublishReport, PublishRequest, publish};
pub use rescored::{ChangedScore, RecordedScores, ScoreChanges};

/// What the statement of a check is: the report of `clawhost check`, as JSON.
pub const CHECK_STATEMENT: &str = "https://github.com/clawhost/clawhost/check/v1";
/// What a statement of provenance is, as the SLSA specification names it.
pub const PROVENANCE_STATEMENT: &str = "https://slsa.dev/provenance/v1";
