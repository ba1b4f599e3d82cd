//! Why a run is not packed, or a bundle not verified.

use clawhost_bundle::BundleError;
use clawhost_core::Hint;

/// Why a run is not packed, or a bundle not verified.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The file of the bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// A run that has not ended.
    #[error("{run} has not finished, so it claims nothing yet")]
    NotFinished {
        /// The run.
        run: String,
    },
    /// A run that has no tasks and no plugins of its own.
    #[error("{run} was captured from agents: nobody can play its episodes again, so it is no proof")]
    Captured {
        /// The run.
        run: String,
    },
    /// Parts of the run were removed.
    #[error(
        "records of {run} were removed on request, so what is left proves nothing about all of it; prove another run"
    )]
    Removed {
        /// The run.
        run: String,
    },
    /// A record that cannot be read.
    #[error("{record} is damaged ({why}), so {run} is not packed")]
    Damaged {
        /// The run.
        run: String,
        /// The record.
        record: String,
        /// The reason.
        why: String,
    },
    /// Episodes are missing.
    #[error("{run} has {found} of the {planned} episodes that it played, so it is not packed")]
    Incomplete {
        /// The run or phase.
        run: String,
        /// Its recorded episodes.
        found: u64,
        /// Its planned episodes.
        planned: u64,
    },
    /// A component that is not in the data folder.
    #[error("the component {digest} of {run} is not in the data folder, so its episodes cannot be played again")]
    NoComponent {
        /// The run.
        run: String,
        /// The digest.
        digest: String,
    },
    /// A record repeats a key.
    #[error("{record} repeats a key of this program, so it is not packed")]
    Key {
        /// The record.
        record: String,
    },
    /// The file exists.
    #[error("{path} is there already; a bundle never replaces a file")]
    Exists {
        /// The file.
        path: String,
    },
    /// Answers of a local model that cannot be generated again here.
    #[error("{run} has no answers of a local model that can be generated again")]
    NoLocalAnswers {
        /// The run, by its id in the bundle.
        run: String,
    },
    /// As [`Self::NoLocalAnswers`], because of the processor.
    #[error("its local model answered on a processor of class {}, and this one is {here}: log-probs may differ", clawhost_core::escaped(.there, 60))]
    OtherProcessor {
        /// The class of the processor that packed it.
        there: String,
        /// The class of this one.
        here: String,
    },
    /// A proof of other weights than those that are exported.
    #[error(
        "the proof is about the weights {there}, and those of the export are {here}; export what the run wrote last"
    )]
    OtherWeights {
        /// The weights of the bundle.
        there: String,
        /// The weights of the export.
        here: String,
    },
    /// An entry that is not what its name says.
    #[error("{entry} of the bundle cannot be read: {why}")]
    Entry {
        /// The entry.
        entry: String,
        /// The reason.
        why: String,
    },
}

impl ProofError {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Bundle(_) | Self::Entry { .. } => "bundle",
            _ => "proof",
        }
    }

    /// Suggested remedies.
    pub fn hints(&self) -> Vec<Hint> {
        match self {
            Self::NotFinished { .. } => vec![Hint::Resume],
            Self::Damaged { .. } | Self::Incomplete { .. } => {
                vec![Hint::command("replay --all", "names every damaged record")]
            }
            Self::NoLocalAnswers { .. } | Self::OtherProcessor { .. } => {
                vec![Hint::outside("verify without the model: then its answers count as recorded only")]
            }
            _ => Vec::new(),
        }
    }
}
