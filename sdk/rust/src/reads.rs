//! The parts of an episode that a reward reads, declared so that the host can warn if none of them exists.

/// The name in `about.extra` under which a reward declares the parts that it reads, one pair for each.
pub(crate) const READS: &str = "reads";

/// A part of an episode that a reward reads. If no judged episode has any of the declared parts, `clawhost run` and
/// `clawhost score` warn.
///
/// ```
/// use clawhost_sdk::Reads;
///
/// let reads = [Reads::reference_field("records"), Reads::artefact("records.json"), Reads::signal("<name>")];
/// assert_eq!(reads.map(|one| one.to_string()), ["reference-field records", "artefact records.json", "signal <name>"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reads(String);

impl Reads {
    /// The task's reference, of any type.
    pub fn reference() -> Self {
        Self("reference".to_owned())
    }

    /// The task's reference, if it is a text or a number.
    pub fn reference_value() -> Self {
        Self("reference-value".to_owned())
    }

    /// A field of the task's reference.
    pub fn reference_field(name: &str) -> Self {
        Self(format!("reference-field {name}"))
    }

    /// An artefact. `<OPTION>` is replaced by the value of one of the reward's options.
    pub fn artefact(name: &str) -> Self {
        Self(format!("artefact {name}"))
    }

    /// A signal. `<OPTION>` is replaced by the value of one of the reward's options.
    pub fn signal(name: &str) -> Self {
        Self(format!("signal {name}"))
    }

    /// Results of tool calls.
    pub fn tool_results() -> Self {
        Self("tool-results".to_owned())
    }
}

impl std::fmt::Display for Reads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
