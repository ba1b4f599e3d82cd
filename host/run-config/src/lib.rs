//! The description of a run (floor 1): every option once, with its range and its default, for the command line and
//! `run.toml`.
//!
//! A front end fills a [`RunSpecPatch`]: the command line from flags, [`RunSpecPatch::from_toml`] from a file.
//! [`RunSpecPatch::over`] lays one over another. [`RunSpecPatch::resolve`] is the one validator: it checks ranges and
//! rules between keys, fills defaults, and returns a [`RunSpec`] or all [`Problems`] at once. The store keeps the
//! resolved spec as a versioned document; [`RunSpec::diff`] names what differs between two of them.
//!
//! The table in `key.rs` states every option once. Help texts, the reader of files, the validator and the comparison read
//! that table.
//!
//! Invariants: pure; the crate opens no file and reads no clock. Paths and the names of models stay text. Messages name
//! keys and never flags: a front end renders its own names with [`Problem::render`].

mod check;
mod diff;
mod document;
mod entries;
mod expectation;
mod folder;
mod grant;
mod key;
mod layer;
mod local_model;
mod mix;
mod patch;
mod plugin;
mod price;
mod problem;
mod published;
mod read;
mod resolve;
mod sample;
mod spec;
mod spec_patch;
mod spec_weights;
mod sweep;
mod unknown;
mod value;
mod write;

pub use diff::Difference;
pub use document::{SPEC_VERSION, SpecError};
pub use expectation::Expected;
pub use folder::{plugin_in, policy_in};
pub use grant::Grant;
pub use key::{Key, Kind, Topic};
pub use layer::{Layer, Scope, Verb};
pub use local_model::LocalModelText;
pub use mix::{MOST_PARTS, PartSpec};
pub use patch::RunSpecPatch;
pub use plugin::{PART_NAME, PluginSpec, PluginTextError, RewardSpec, is_part_name};
pub use price::Price;
pub use problem::{Part, Problem, Problems};
pub use sample::sample;
pub use spec::{
    AllowanceSpec, Amount, BudgetSpec, EpisodeCost, EvaluateSpec, EvolveSpec, HarnessSpec, LayerSpec, LearnSpec,
    PlaySpec, PlaybookSpec, PolicySpec, RouterSpec, RunSpec, ScheduleKind, Work,
};
pub use spec_weights::{AdapterSpec, CreditUnit, Optimizer, Truncated, WeightsSpec};
pub use sweep::{SWEEP_POINTS, SweepMethod, SweepPatch, SweepPoint};
pub use value::{Source, Value};
