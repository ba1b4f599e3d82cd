//! The report of a verification.

use super::sample::Sample;
use super::signature::Signature;
use crate::Tally;
use clawhost_core::{Digest, Discrepancy, RunId, RunKind};
use clawhost_learning::Evaluation;
use serde::Serialize;

/// The result of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Proof {
    /// Everything that was to be played again was, and nothing differs.
    Reproduced,
    /// Nothing differs, but something could not be played again.
    Partly,
    /// Something differs.
    Changed,
}

/// Something that was, or was not, shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Statement {
    /// What, for people.
    pub what: String,
    /// How many. `None`: it is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

/// The report of a verification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verified {
    /// The digest of the manifest, which stands for the bundle.
    pub bundle: Digest,
    /// The program that made it, as the manifest says.
    pub program: String,
    /// The run, by its id in the bundle.
    pub run: RunId,
    /// Its purpose.
    pub kind: RunKind,
    /// Whether references and prompts are in the bundle.
    pub private: bool,
    /// What a signature says of it.
    pub signature: Signature,
    /// The result.
    pub proof: Proof,
    /// The sample. `None`: all episodes were to be played again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
    /// Episodes in the bundle.
    pub episodes: u64,
    /// Episodes that were played again.
    pub replay: Tally,
    /// Their verdicts, which were computed again.
    pub verdicts: Tally,
    /// The first class: computed again from the episodes.
    pub recomputed: Vec<Statement>,
    /// The second class: played again in the components of the bundle.
    pub replayed: Vec<Statement>,
    /// The third class: recorded, and taken as it is.
    pub recorded_only: Vec<Statement>,
    /// The fourth class: what no bundle can show.
    pub not_provable: Vec<Statement>,
    /// What differs, with the recorded value and the one that ought to be there.
    pub differences: Vec<Discrepancy>,
    /// What could not be played again, by reason.
    pub not_replayed: Vec<Statement>,
    /// The evaluation of a learning run, computed from its episodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Evaluation>,
    /// What was verified, in one sentence.
    pub conclusion: String,
}
