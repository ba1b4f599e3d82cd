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
        "layer {layer} could not be restored ({why}); its state is unknown, so the run stops, and can be resumed from its last checkpoint"
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
    /// Columns of a sequence that do not fit together.
    #[error("sequence {sequence}: {what}; nothing was computed")]
    Sequence {
        /// Its name, or its number in the step.
        sequence: String,
        /// What differs from what.
        what: String,
    },
    /// A log-prob that is none.
    #[error(
        "sequence {sequence}, token {position}: the {column} log-prob is {value}; log-probs are finite and at most 0: look for an overflow or a wrong sign where it was computed"
    )]
    LogProb {
        /// Its name, or its number in the step.
        sequence: String,
        /// From 0.
        position: usize,
        /// Which of its log-probs.
        column: &'static str,
        /// What stands there.
        value: f64,
    },
    /// Rollout and trainer give the same tokens different log-probs.
    #[error(
        "rollout and trainer disagree: {found}, largest in sequence {sequence} at token {position} ({rollout} against {trainer}); {allowed} is allowed: compare positions, temperature, masks and weights of both"
    )]
    Mismatch {
        /// The difference that is too large.
        found: String,
        /// Where it is largest.
        sequence: String,
        /// From 0.
        position: usize,
        /// The log-prob when it was sampled.
        rollout: f64,
        /// The log-prob that the trainer computes.
        trainer: f64,
        /// The largest difference allowed.
        allowed: String,
    },
    /// A name that no objective has.
    #[error("no objective is called `{name}`{hint}; there are {known}")]
    UnknownObjective {
        /// What was written.
        name: String,
        /// The nearest name, if one is near.
        hint: String,
        /// All names.
        known: String,
    },
    /// Settings of an objective that make no sense, or data that it cannot be computed from.
    #[error("objective: {0}")]
    Objective(String),
}
