//! The errors of learning.

/// Why learning failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LearnError {
    /// A batch is invalid for every layer.
    #[error("task {task}: {what}; the batch is refused, nothing was learned from it")]
    Batch {
        /// The task of the group.
        task: String,
        /// What is wrong.
        what: String,
    },
    /// A layer could not use a batch, or could not step.
    #[error("layer {layer}: {why}")]
    Layer {
        /// The layer's name.
        layer: String,
        /// The reason.
        why: String,
    },
    /// A computation was stopped. Nothing of it was kept.
    #[error(
        "the step was stopped before its end; nothing of it was kept, and the run can be resumed from its last checkpoint"
    )]
    Interrupted,
    /// Where a layer computes cannot be reached now. The same may succeed later.
    #[error("layer {layer} cannot be reached: {why}")]
    Unavailable {
        /// The layer's name.
        layer: String,
        /// The reason.
        why: String,
    },
    /// A layer could not be restored from its own snapshot: its state is unknown, and the run stops.
    #[error(
        "layer {layer} could not be restored ({why}); its state is unknown, so the run stops, and can be resumed from its last checkpoint"
    )]
    Restore {
        /// The layer's name.
        layer: String,
        /// The reason.
        why: String,
    },
    /// A budget of episodes with which nothing can be learned.
    #[error("{budget} episodes are too few to learn anything from: the smallest budget is {fewest}")]
    Budget {
        /// The wanted budget.
        budget: u64,
        /// The smallest one.
        fewest: u64,
    },
    /// A budget whose pairs cannot decide about a playbook, because earlier candidates have used its alpha.
    #[error(
        "{budget} episodes decide nothing about a playbook after {candidates} tested candidates: only alpha {alpha:.1e} is left for the next one"
    )]
    AlphaSpent {
        /// The wanted budget.
        budget: u64,
        /// Candidates that were tested.
        candidates: u32,
        /// The alpha of the next one.
        alpha: f64,
    },
    /// The gate has no basis for a comparison.
    #[error("gate: {0}")]
    Gate(String),
    /// An evolution cannot start, got a result for a request it did not make, or its serialised state is invalid.
    #[error("evolution: {0}")]
    Evolution(String),
    /// A document is not a playbook, or is one of an unsupported version.
    #[error("{0}")]
    Document(String),
    /// Columns of a sequence differ in length.
    #[error("sequence {sequence}: {what}; nothing was computed")]
    Sequence {
        /// Name of the sequence, or its index in the step.
        sequence: String,
        /// What differs.
        what: String,
    },
    /// A value that is not a log-prob.
    #[error(
        "sequence {sequence}, token {position}: the {column} log-prob is {value}; log-probs are finite and at most 0: look for an overflow or a wrong sign where it was computed"
    )]
    LogProb {
        /// Name of the sequence, or its index in the step.
        sequence: String,
        /// Token index, from 0.
        position: usize,
        /// Which of the sequence's log-prob columns.
        column: &'static str,
        /// The invalid value.
        value: f64,
    },
    /// Rollout and trainer assign different log-probs to the same tokens.
    #[error(
        "rollout and trainer disagree: {found}, largest in sequence {sequence} at token {position} ({rollout} against {trainer}); {allowed} is allowed: compare positions, temperature, masks and weights of both"
    )]
    Mismatch {
        /// The statistic that is too large, with its value.
        found: String,
        /// Sequence with the largest difference.
        sequence: String,
        /// Token index in that sequence, from 0.
        position: usize,
        /// Log-prob at sampling time, nats.
        rollout: f64,
        /// Log-prob computed by the trainer, nats.
        trainer: f64,
        /// The largest allowed value.
        allowed: String,
    },
    /// No objective has this name.
    #[error("no objective is called `{name}`{hint}; there are {known}")]
    UnknownObjective {
        /// The name as written.
        name: String,
        /// The most similar name as a hint; empty if there is none.
        hint: String,
        /// All names.
        known: String,
    },
    /// Proximal policy optimisation, which predicts values.
    #[error("ppo needs a critic, and there is none; dapo and grpo have its clip, with the group as baseline")]
    NoCritic,
    /// Settings of an objective are invalid, or data is missing that it needs.
    #[error("objective: {0}")]
    Objective(String),
    /// A table of models is empty.
    #[error("router: there is no model to choose from; name at least one, with its price")]
    NoModels,
    /// A price that is none.
    #[error("router: the price of {model} is {price}; prices are 0 to 1e9, and 0 means free")]
    Price {
        /// The model.
        model: String,
        /// Its price.
        price: f64,
    },
    /// A model that the table does not have.
    #[error("router: there is no model {model} in the table of models; there is {known}")]
    UnknownModel {
        /// The model.
        model: String,
        /// Those of the table.
        known: String,
    },
    /// A feature that is no finite number.
    #[error("router: feature {name} is {value}; features are finite numbers of at most 1e9")]
    Feature {
        /// The feature.
        name: String,
        /// Its value.
        value: f64,
    },
    /// A decision that another version recorded.
    #[error(
        "router: a decision of format {found}; this version reads format {expected}, so evaluate it with the version that recorded it"
    )]
    DecisionFormat {
        /// Format of the record.
        found: u32,
        /// Format of this version.
        expected: u32,
    },
    /// Settings, features, a decision or an outcome of a router are invalid.
    #[error("router: {0}")]
    Router(String),
    /// A live session, or a setting of the estimates from live sessions, is invalid. Nothing is changed.
    #[error("live sessions: {0}")]
    Live(String),
}
