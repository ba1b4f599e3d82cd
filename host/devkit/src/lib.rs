//! Tools for people who write and run plugins (floor 5): new plugins, builds, test cases, and the doctor. The library prints nothing; the program does.
//!
//! [`doctor::examine`] checks toolchains, the data folder and the machine. It reports what works, what is missing, the
//! consequences, and the remedies. It changes nothing.

mod build;
mod cases;
mod check;
mod dev;
pub mod doctor;
mod error;
mod folder;
mod hand;
mod hints;
mod machine;
mod modules;
mod oracle;
mod scaffold;
mod template;
mod toolchain;
mod write;

pub use build::{BuildOptions, Built, build, is_outdated, newest_source};
pub use cases::{
    Bounds, Case, CaseFile, CaseResult, Expected, GivenTask, Happened, Mismatch, RecordedTurn, Saved, TestReport,
    TestRequest, save, test,
};
pub use check::{CHECK_FORMAT, CHECK_SEED, CheckReport, CheckRequest, Checked, CheckedPlugin, Outcome, check};
pub use dev::{Changes, DevEvent, DevOptions, FileWatch, dev};
pub use error::DevkitError;
pub use modules::{
    AddReport, AddRequest, CHECK_STATEMENT, Change, ChangedScore, Claim, Difference, PROVENANCE_STATEMENT,
    PublishReport, PublishRequest, RecordedScores, ScoreChanges, add, publish,
};
/// Turns of an episode if nobody says it: as a run has.
pub const TURNS: u32 = 64;

pub use hand::{Hand, HandRequest, play_by_hand};
pub use scaffold::{Created, NewPlugin, Sdk, TRACK, create, own_sdk};
pub use template::Template;
