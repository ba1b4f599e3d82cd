//! Failures: why something could not be done. Never a number.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Names of failures, stable so that machines may compare them.
pub mod code {
    /// The call used up its fuel: too much computing.
    pub const FUEL: &str = "fuel";
    /// The call kept a processor busy for too long.
    pub const BUSY: &str = "busy";
    /// The call took too long by the clock on the wall.
    pub const DEADLINE: &str = "deadline";
    /// The instance wanted more memory than it may have.
    pub const MEMORY: &str = "memory";
    /// The instance wanted a larger table than it may have.
    pub const TABLE: &str = "table";
    /// The component holds more core instances, memories or tables than one may.
    pub const INSTANCES: &str = "instances";
    /// The guest recursed too deeply.
    pub const STACK: &str = "stack";
    /// More bytes crossed the boundary in one value than may.
    pub const TRANSFER: &str = "transfer";
    /// More bytes or calls went to the host in one call than may.
    pub const HOST_CALLS: &str = "host-calls";
    /// Too many host resources were held.
    pub const HANDLES: &str = "handles";
    /// A text or list is longer than it may be.
    pub const LENGTH: &str = "length";
    /// A number is NaN or infinite.
    pub const NOT_FINITE: &str = "not-finite";
    /// A number is outside the range the plugin declared.
    pub const OUT_OF_RANGE: &str = "out-of-range";
    /// A list does not have as many items as it must.
    pub const COUNT: &str = "count";
    /// A name is used twice.
    pub const DUPLICATE: &str = "duplicate";
    /// A value has no meaning to this host.
    pub const UNKNOWN_CASE: &str = "unknown-case";
    /// A text is not what it must be.
    pub const MALFORMED: &str = "malformed";
    /// The guest stopped at `unreachable`: a panic, an abort or a failed assertion.
    pub const UNREACHABLE: &str = "unreachable";
    /// The guest called exit.
    pub const EXIT: &str = "exit";
    /// Any other trap.
    pub const TRAP: &str = "trap";
    /// The plugin answered with an error of its own.
    pub const PLUGIN_ERROR: &str = "error";
    /// A replayed plugin asks a model something that the record holds no answer to.
    pub const JOURNAL: &str = "journal";
    /// A replayed plugin does not come to what it came to before.
    pub const REPLAY: &str = "replay";
    /// The host has no memory left for another instance.
    pub const HOST_MEMORY: &str = "host-memory";
    /// The host itself failed.
    pub const HOST: &str = "host";
    /// The model's endpoint could not be reached or did not answer.
    pub const UNAVAILABLE: &str = "unavailable";
    /// The model refused the request.
    pub const REFUSED: &str = "refused";
    /// The model's answer could not be read.
    pub const GARBAGE: &str = "garbage";
    /// The run's token or cost budget is spent.
    pub const BUDGET: &str = "budget";
    /// The operator stopped it.
    pub const CANCELLED: &str = "cancelled";
}

/// What kind of failure it is: whose fault, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The guest trapped.
    Trap,
    /// The guest reached a limit.
    Limit,
    /// The guest gave a value that the boundary refuses.
    Invalid,
    /// The plugin answered with an error of its own.
    Plugin,
    /// A model did not answer.
    Llm,
    /// The host failed.
    Host,
    /// The operator stopped it.
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

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}: {message}", self.label())]
pub struct Failure {
    /// Whose fault.
    pub kind: FailureKind,
    /// A stable name from [`code`].
    pub code: String,
    /// What happened, where, and what to do.
    pub message: String,
    /// How things stood in the guest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Box<TrapReport>>,
}

impl Failure {
    /// A failure without a report.
    pub fn new(kind: FailureKind, code: &str, message: impl Into<String>) -> Self {
        Self { kind, code: code.to_owned(), message: message.into(), report: None }
    }

    /// Kind and code as one word, for counting: `limit(fuel)`.
    pub fn label(&self) -> String {
        match self.kind.to_string() {
            kind if kind == self.code => kind,
            kind => format!("{kind}({})", self.code),
        }
    }
}

/// How much of a call's budget was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallBudget {
    /// Fuel the call was given.
    pub fuel_limit: u64,
    /// Fuel it used; unknown after a call that was cancelled.
    pub fuel_used: Option<u64>,
    /// Linear memory held, in bytes.
    pub memory_bytes: u64,
    /// Calls it made to the host.
    pub host_calls: u32,
}

/// What an author needs to see after a trap: the cause first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrapReport {
    /// What happened, in one line.
    pub cause: String,
    /// Plugin name and digest.
    pub plugin: String,
    /// The export that was called.
    pub export: String,
    /// The last line the guest logged as an error: a panic's message and place.
    pub last_error_line: Option<String>,
    /// The last lines it logged or printed, oldest first; at most 12.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// Functions on the guest's stack, innermost first; at most 16.
    pub frames: Vec<String>,
    /// The last calls to the host, oldest first; at most 8.
    pub host_calls: Vec<String>,
    /// The call's budget.
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
