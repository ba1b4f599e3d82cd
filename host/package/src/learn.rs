//! What a run file says about learning.

/// The name of the layer that keeps the playbook; the only one that this version knows.
pub const HARNESS: &str = "harness";

/// `[learn]`: rollouts and updates alternate (`deterministic = true`, the only way in this version).
#[derive(Debug, Clone, PartialEq)]
pub struct Learn {
    /// How often a batch is played and learned from, 1 to 100 000. Default: 20.
    pub iterations: u64,
    /// Episodes per iteration: a multiple of the group, at most 100 000. Default: 64.
    pub episodes: u64,
    /// Episodes per task and seed, by which lessons are credited: even, 2 to 64. Default: 4.
    pub group: u32,
    /// The harness layer; in this version every learning run has it.
    pub harness: Harness,
    /// What lets candidates through.
    pub gate: Gate,
    /// Evolving sections of the prompt.
    pub evolve: Evolve,
    /// Measuring before and after.
    pub eval: Evaluation,
}

impl Learn {
    /// Learning with this reflector and every other value at its default.
    pub fn new(reflector: impl Into<String>) -> Self {
        let harness = Harness::new(reflector);
        Self {
            iterations: 20,
            episodes: 64,
            group: 4,
            evolve: Evolve::new(&harness.reflector),
            harness,
            gate: Gate::default(),
            eval: Evaluation::default(),
        }
    }
}

/// `[harness]`: the layer that keeps a playbook of lessons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Harness {
    /// What draws the lessons: `REFLECTOR.wasm?name=value`.
    pub reflector: String,
    /// The playbook's name: letters, digits, `-` and `_`, at most 128. Default: the environment's name.
    pub playbook: Option<String>,
    /// Most tokens of entries in one prompt, 1 to 1 000 000. Default: 2000.
    pub token_budget: u64,
    /// Entries on trial at once, 1 to 16. Default: 16.
    pub trial_slots: u32,
    /// The reflector is asked about at least every n-th batch, 1 to 100 000. Default: 1.
    pub reflect_every: u64,
    /// Texts that no lesson may quote; none is empty. Default: none.
    pub forbid: Vec<String>,
}

impl Harness {
    /// A harness with this reflector and every other value at its default.
    pub fn new(reflector: impl Into<String>) -> Self {
        Self {
            reflector: reflector.into(),
            playbook: None,
            token_budget: 2000,
            trial_slots: 16,
            reflect_every: 1,
            forbid: Vec::new(),
        }
    }
}

/// `[gate]`: a candidate is let through when it does better than what is deployed.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Iterations between candidates, 1 to 100 000. Default: 10.
    pub every: u64,
    /// Pairs of episodes that one session may cost, 1 to 1 000 000. Default: 512.
    pub pairs: u64,
    /// Chance of letting a candidate through that is no better, 0.000001 to 0.5. Default: 0.05.
    pub alpha: f64,
}

impl Default for Gate {
    fn default() -> Self {
        Self { every: 10, pairs: 512, alpha: 0.05 }
    }
}

/// `[evolve]`: sections of the prompt are rewritten, and the better ones kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evolve {
    /// Evaluations, at most 1 000 000. Default: 0, which evolves nothing.
    pub budget: u64,
    /// Episodes by which a section is judged at first, 1 to 64. Default: 3.
    pub minibatch: u32,
    /// The section's name: letters, digits, `-` and `_`, at most 128. Default: `rules`.
    pub section: String,
    /// What writes sections. Default: the harness's reflector with the option `write=section`.
    pub reflector: String,
}

impl Evolve {
    /// Nothing evolves; what is needed to begin comes from the harness's reflector.
    pub fn new(harness_reflector: &str) -> Self {
        Self { budget: 0, minibatch: 3, section: "rules".to_owned(), reflector: writing_sections(harness_reflector) }
    }
}

/// A reflector with the option `write=section`, in place of what it was to write before.
fn writing_sections(reflector: &str) -> String {
    let (path, query) = reflector.split_once('?').unwrap_or((reflector, ""));
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("write="));
    let pairs: Vec<&str> = kept.chain(["write=section"]).collect();
    format!("{path}?{}", pairs.join("&"))
}

/// `[eval]`: tasks of the test split are played with the playbook of before and with that of after; they teach nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    /// Pairs of episodes, at most 10 000 000; 0: nothing is measured. Default: 200.
    pub pairs: u64,
}

impl Default for Evaluation {
    fn default() -> Self {
        Self { pairs: 200 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_written_by_the_harness_reflector_with_one_option_more() {
        let check = |reflector: &str, expected: &str| assert_eq!(Evolve::new(reflector).reflector, expected);
        check("r.wasm", "r.wasm?write=section");
        check("r.wasm?", "r.wasm?write=section");
        check("r.wasm?facts=2", "r.wasm?facts=2&write=section");
        check("r.wasm?write=lessons&facts=2", "r.wasm?facts=2&write=section");
    }
}
