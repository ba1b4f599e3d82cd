//! Failures: why an operation failed. A failure is never a number.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Codes of failures, stable for comparisons by programs.
pub mod code {
    /// The call used up its fuel.
    pub const FUEL: &str = "fuel";
    /// The call used a processor for too long.
    pub const BUSY: &str = "busy";
    /// The call exceeded its wall-clock deadline.
    pub const DEADLINE: &str = "deadline";
    /// The instance exceeded its memory limit.
    pub const MEMORY: &str = "memory";
    /// The instance exceeded its table limit.
    pub const TABLE: &str = "table";
    /// The component has too many core instances, memories or tables.
    pub const INSTANCES: &str = "instances";
    /// The guest's stack overflowed.
    pub const STACK: &str = "stack";
    /// A value exceeded the transfer limit.
    pub const TRANSFER: &str = "transfer";
    /// The bytes or the number of host calls in one call exceeded their limit.
    pub const HOST_CALLS: &str = "host-calls";
    /// The instance held too many host resources.
    pub const HANDLES: &str = "handles";
    /// A text or list is too long.
    pub const LENGTH: &str = "length";
    /// A number is NaN or infinite.
    pub const NOT_FINITE: &str = "not-finite";
    /// A number is outside the declared range.
    pub const OUT_OF_RANGE: &str = "out-of-range";
    /// A list has the wrong number of items.
    pub const COUNT: &str = "count";
    /// A name is used twice.
    pub const DUPLICATE: &str = "duplicate";
    /// This host does not know a variant of a value.
    pub const UNKNOWN_CASE: &str = "unknown-case";
    /// A text is malformed.
    pub const MALFORMED: &str = "malformed";
    /// The guest executed `unreachable`: a panic, an abort or a failed assertion.
    pub const UNREACHABLE: &str = "unreachable";
    /// The guest called exit.
    pub const EXIT: &str = "exit";
    /// Any other trap.
    pub const TRAP: &str = "trap";
    /// The plugin returned an error.
    pub const PLUGIN_ERROR: &str = "error";
    /// A replayed plugin requested a model answer that the journal does not contain.
    pub const JOURNAL: &str = "journal";
    /// A replayed plugin behaved differently than in the record.
    pub const REPLAY: &str = "replay";
    /// The host has no memory for another instance.
    pub const HOST_MEMORY: &str = "host-memory";
    /// The host itself failed.
    pub const HOST: &str = "host";
    /// The model's endpoint could not be reached or did not answer.
    pub const UNAVAILABLE: &str = "unavailable";
    /// The model refused the request.
    pub const REFUSED: &str = "refused";
    /// The model's answer could not be parsed.
    pub const GARBAGE: &str = "garbage";
    /// The run's token or cost budget is exhausted.
    pub const BUDGET: &str = "budget";
    /// Stopped by the operator, or with its run, whose budget was spent.
    pub const CANCELLED: &str = "cancelled";
}

/// The kind of a failure, which tells who caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The guest trapped.
    Trap,
    /// The guest exceeded a limit.
    Limit,
    /// The guest returned an invalid value.
    Invalid,
    /// The plugin returned an error.
    Plugin,
    /// A model did not answer.
    Llm,
    /// The host failed.
    Host,
    /// Stopped by the operator, or with its run, whose budget was spent.
    Cancelled,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trap => "trap",
            Self::Limit => "limit",
            Self::Invalid => "invalid",
            Self::Plugin => "plugin",
            Self::Llm => "llm",
            Self::Host => "host",
            Self::Cancelled => "cancelled",
        })
    }
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}: {message}", self.label())]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// A stable code from [`code`].
    pub code: String,
    /// What happened, where, and what to do.
    pub message: String,
    /// State of the guest at a trap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Box<TrapReport>>,
}

impl Failure {
    /// A failure without a report.
    pub fn new(kind: FailureKind, code: &str, message: impl Into<String>) -> Self {
        Self { kind, code: code.to_owned(), message: message.into(), report: None }
    }

    /// Kind and code, for statistics: `limit(fuel)`.
    pub fn label(&self) -> String {
        match self.kind.to_string() {
            kind if kind == self.code => kind,
            kind => format!("{kind}({})", self.code),
        }
    }
}

/// Resource consumption of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallBudget {
    /// Fuel limit of the call.
    pub fuel_limit: u64,
    /// Fuel used; unknown after a cancelled call.
    pub fuel_used: Option<u64>,
    /// Linear memory in bytes.
    pub memory_bytes: u64,
    /// Number of host calls.
    pub host_calls: u32,
}

/// Diagnosis of a trap, the cause first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrapReport {
    /// The cause, on one line.
    pub cause: String,
    /// Plugin name and digest.
    pub plugin: String,
    /// The export that was called.
    pub export: String,
    /// The last line that the guest logged as an error: a panic's message and location.
    pub last_error_line: Option<String>,
    /// The last log and output lines, oldest first; at most 12.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Functions on the guest's stack, innermost first; at most 16.
    pub frames: Vec<String>,
    /// The last host calls, oldest first; at most 8.
    pub host_calls: Vec<String>,
    /// Resource consumption of the call.
    pub budget: CallBudget,
}

impl fmt::Display for TrapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "cause:  {}", self.cause)?;
        writeln!(f, "plugin: {}", self.plugin)?;
        writeln!(f, "export: {}", self.export)?;
        if let Some(line) = &self.last_error_line {
            writeln!(f, "said:   {line}")?;
        }
        if self.log.len() > 1 {
            writeln!(f, "last lines of its log:")?;
            for line in &self.log {
                writeln!(f, "  {line}")?;
            }
        }
        if !self.frames.is_empty() {
            writeln!(f, "frames:")?;
            for frame in &self.frames {
                writeln!(f, "  {frame}")?;
            }
        }
        if !self.host_calls.is_empty() {
            writeln!(f, "last host calls: {}", self.host_calls.join(", "))?;
        }
        let used = self.budget.fuel_used.map_or_else(|| "unknown".to_owned(), |fuel| fuel.to_string());
        write!(
            f,
            "budget: fuel {used} of {}, memory {} KiB, host calls {}",
            self.budget.fuel_limit,
            self.budget.memory_bytes / 1024,
            self.budget.host_calls
        )
    }
}
