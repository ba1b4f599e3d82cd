//! The documents of a bundle beside its episodes: the rows of its runs, and what was learned.
//!
//! What differs between equal runs is no part of a claim: the id of the run, times, durations, paths, and what it cost.

use super::ProofError;
use clawhost_bundle::EntryName;
use clawhost_core::{Digest, RunId, RunKind, RunRow, RunState, SpecDocument, Usage};
use clawhost_learning::{ServedPlaybooks, TestPhase};
use clawhost_play::{Basis, Conditions};
use clawhost_run_config::RunSpec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A row of a run or a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimedRun {
    /// Its id in the bundle.
    pub(super) id: RunId,
    /// Its purpose.
    pub(super) kind: RunKind,
    /// The environment's name.
    pub(super) environment: String,
    /// Identity of the configuration.
    pub(super) state_id: String,
    /// The specification; null for a phase, whose run has it.
    pub(super) config: SpecDocument,
    /// The digest of the basis.
    pub(super) digest: Digest,
    /// Everything that determines its episodes.
    pub(super) basis: Value,
    /// The summary.
    pub(super) summary: Value,
    /// Planned episodes.
    pub(super) planned: u64,
}

impl ClaimedRun {
    pub(super) fn row(&self) -> RunRow {
        RunRow {
            id: self.id.clone(),
            kind: self.kind,
            environment: self.environment.clone(),
            state_id: self.state_id.clone(),
            config: self.config.clone(),
            digest: self.digest,
            basis: self.basis.clone(),
            created_at: 0,
            state: RunState::Finished,
            summary: Some(self.summary.clone()),
            planned: self.planned,
            spent: Usage::default(),
            reward_mean: None,
            scored: 0,
            pruned: false,
        }
    }
}

impl ClaimedRun {
    /// Everything that determines its episodes. `None`: it is a learning run, whose phases play them, or the document is not one.
    pub(super) fn basis(&self) -> Option<Basis> {
        serde_json::from_value(self.basis.clone()).ok()
    }

    /// The same without their number; of a learning run, what its phases have in common.
    pub(super) fn conditions(&self) -> Option<Conditions> {
        let basis = self.basis.get("run").unwrap_or(&self.basis);
        serde_json::from_value::<Basis>(basis.clone()).ok().map(|basis| basis.conditions)
    }
}

/// The rows of a run and of its phases, in the order in which they began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    pub(super) run: ClaimedRun,
    pub(super) phases: Vec<ClaimedRun>,
    /// The digest of the operator's system prompt, if it was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prompt_left_out: Option<Digest>,
    /// What generating answers again needs, if a local model answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) local: Option<LocalAnswers>,
}

/// A local model that answered the policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LocalAnswers {
    /// The name of its folder, which is part of its identity.
    pub(super) model: String,
    /// The class of the processor that packed the run: answers are generated again on such processors alone.
    pub(super) processor: String,
}

impl Claim {
    /// All rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &ClaimedRun> {
        std::iter::once(&self.run).chain(&self.phases)
    }

    /// The name of a phase, without the id of its run.
    pub(super) fn phase_name<'a>(&self, phase: &'a RunId) -> Option<&'a str> {
        phase.phase_of(&self.run.id)
    }

    /// The test phases, with their rows and their conditions.
    pub(super) fn tests(&self) -> impl Iterator<Item = (&ClaimedRun, TestPhase, Conditions)> {
        self.phases.iter().filter_map(|row| {
            let conditions = row.conditions()?;
            Some((row, TestPhase::of(self.phase_name(&row.id)?, &conditions)?, conditions))
        })
    }

    /// The specification of the run. `None`: it cannot be read.
    pub(super) fn spec(&self) -> Option<RunSpec> {
        RunSpec::from_document(self.run.config.0.clone()).ok()
    }
}

/// What a learning run learned, and its reports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LearnedClaim {
    /// The reports of the iterations, in order, without what they cost.
    pub(super) iterations: Vec<Value>,
    /// The playbooks that the test compared, if the harness learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) playbooks: Option<ServedPlaybooks>,
    /// The adapter in the bundle, if weights learned one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) adapter: Option<ClaimedAdapter>,
}

/// An adapter in a bundle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimedAdapter {
    /// The digest of the model's weights with it: those that answered the test after learning.
    pub(super) weights: Digest,
}

/// Reads a document of a bundle.
pub(super) fn document<T: DeserializeOwned>(name: EntryName, bytes: &[u8]) -> Result<T, ProofError> {
    serde_json::from_slice(bytes).map_err(|error| ProofError::Entry { entry: name.to_string(), why: error.to_string() })
}
