//! Modules of teams: published with what proves them, added with what changes.

mod add;
mod difference;
mod provenance;
mod publish;

pub use add::{AddReport, AddRequest, Claim, add};
pub use difference::{Change, Difference};
pub use publish::{PublishReport, PublishRequest, publish};

/// What the statement of a check is: the report of `clawhost check`, as JSON.
pub const CHECK_STATEMENT: &str = "https://github.com/clawhost/clawhost/check/v1";
/// What a statement of provenance is, as the SLSA specification names it.
pub const PROVENANCE_STATEMENT: &str = "https://slsa.dev/provenance/v1";
/// What the readme of a module is, in a list of what is attached to it.
pub const README: &str = "application/vnd.clawhost.readme.v1";
/// What the licence of a module is, in the same list.
pub const LICENSE: &str = "application/vnd.clawhost.license.v1";
