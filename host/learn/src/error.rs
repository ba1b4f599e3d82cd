//! Why something was not learned.

/// Why something was not learned. Variants say what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LearnError {
    /// A batch that no layer could learn from rightly.
    #[error("task {task}: {what}; the batch is refused, nothing was learned from it")]
    Batch {
        /// The task of the group.
        task: String,
        /// What is wrong.
        what: String,
    },
    /// A layer could not make use of a batch, or could not step.
    #[error("layer {layer}: {why}")]
    Layer {
        /// The layer's name.
        layer: String,
        /// In words.
        why: String,
    },
    /// A layer did not take back its own snapshot: its state is unknown, so the run stops.
    #[error(
        "layer {layer} could not be restored ({why}); its state is unknown, so the run stops: take it up again with --resume"
    )]
    Restore {
        /// The layer's name.
        layer: String,
        /// In words.
        why: String,
    },
    /// What the gate cannot compare by.
    #[error("gate: {0}")]
    Gate(String),
    /// An evolution that cannot begin, an answer to what was not asked, or bytes that are no evolution.
    #[error("evolution: {0}")]
    Evolution(String),
    /// A document that is no playbook, or one of another version.
    #[error("{0}")]
    Document(String),
}
