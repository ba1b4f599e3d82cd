//! The text of a test case: one table `[[case]]` of a file in the folder `tests` of a plugin.

use clawhost_core::{did_you_mean, escaped};
use clawhost_package::Kind;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Longest part of a message that is shown, in bytes.
const SHOWN_BYTES: usize = 300;

/// The cases of a file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The cases, in order.
    #[serde(default, rename = "case")]
    pub cases: Vec<Case>,
}

/// A case: what is given to the plugin, and what is expected.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Case {
    /// What the case shows, in words. Unique in its file.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Options of the plugin, over those of the manifest.
    pub options: BTreeMap<String, String>,
    /// Answers of granted models, by alias: each request gets the next one.
    pub replies: BTreeMap<String, Vec<String>>,

    /// The split of the task. Environments only; default: that of the manifest, or the first one.
    pub split: Option<String>,
    /// The id of the task. Environments only; default: the first task of the split.
    pub task: Option<String>,
    /// The seed with which tasks are published, if it is another one. Environments only.
    pub tasks_seed: Option<u64>,
    /// A task as it was, instead of one that is published now. Environments only.
    pub given: Option<GivenTask>,
    /// The agent's turns: a text, in which a line `calls TOOL {...}` calls a tool. The episode is truncated after the last one. Environments only.
    pub actions: Option<Vec<String>>,
    /// The agent, instead of its turns: `follower`, or `follower:FILE` with a prompt beside the manifest. Environments only.
    pub policy: Option<String>,
    /// Most turns. Environments only.
    pub max_turns: Option<u32>,

    /// The task's text. Rewards and reflectors only.
    pub input: String,
    /// The task's reference, as JSON. Rewards only.
    pub reference: Option<String>,
    /// The recorded turns. Rewards and reflectors only.
    pub turns: Vec<RecordedTurn>,
    /// Files that the episode left, as text. Rewards only.
    pub artefacts: BTreeMap<String, String>,
    /// What the environment said after the last turn. Rewards and reflectors only.
    pub closing: Option<String>,
    /// How the episode ended: `terminated`, or `truncated`. Rewards and reflectors only; default: `terminated`.
    pub ended: Option<String>,
    /// The reward that the episode had. Reflectors only.
    pub reward: Option<f64>,

    /// What is expected.
    pub expect: Expected,
}

/// A task that a case brings along.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GivenTask {
    /// Its id.
    pub id: String,
    /// Its split.
    pub split: String,
    /// Its text.
    pub input: String,
    /// Its reference, as JSON.
    pub reference: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its further fields, as pairs of names and values.
    pub extra: Vec<(String, String)>,
}

/// A recorded turn of a case for a reward or a reflector.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordedTurn {
    /// What the agent observed.
    pub observation: String,
    /// What it answered: a text, or `calls TOOL {...}`.
    pub answer: String,
    /// Answers to its tool calls, in order.
    pub results: Vec<String>,
    /// Signals of the environment.
    pub signals: BTreeMap<String, f64>,
}

/// What is expected. What is not named is not compared.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expected {
    /// The observations: the opening, then one for each turn, tool results included. A `*` stands for any text.
    pub observations: Option<Vec<String>>,
    /// How the episode ended: `terminated`, `truncated`, or the code of a failure, as `trap(unreachable)`.
    pub status: Option<String>,
    /// The last value of signals.
    pub signals: BTreeMap<String, f64>,
    /// Artefacts at the end, as text. A `*` stands for any text.
    pub artefacts: BTreeMap<String, String>,
    /// The reward: a number, or the least and the greatest one.
    pub reward: Option<Bounds>,
    /// `scored`, `not applicable` or `failed`. Rewards only.
    pub verdict: Option<String>,
    /// The reason that a verdict or a refusal gives. A `*` stands for any text.
    pub rationale: Option<String>,
    /// Texts of the proposals. A `*` stands for any text. Reflectors only.
    pub proposals: Option<Vec<String>>,
    /// Most fuel of one call, in millions of instructions.
    pub most_fuel_million: Option<f64>,
    /// Most bytes of all observations together.
    pub most_bytes: Option<u64>,
    /// Most turns.
    pub most_turns: Option<u32>,
}

/// A number, or a range.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a number, or the least and the greatest one in brackets")]
pub enum Bounds {
    /// Exactly this.
    Exactly(f64),
    /// From the first to the second one.
    Between([f64; 2]),
}

/// Numbers that were written with fewer digits than they have count as equal up to this difference.
const ROUNDING: f64 = 1e-9;

impl Bounds {
    /// Whether a number lies within.
    pub fn contains(self, number: f64) -> bool {
        let (least, greatest) = match self {
            Self::Exactly(one) => (one, one),
            Self::Between([least, greatest]) => (least, greatest),
        };
        (least - ROUNDING..=greatest + ROUNDING).contains(&number)
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(one) => write!(f, "{one}"),
            Self::Between([least, greatest]) => write!(f, "{least} to {greatest}"),
        }
    }
}

/// How an episode ends without a failure.
const STATUSES: [&str; 2] = ["terminated", "truncated"];
/// What a verdict can be.
const VERDICTS: [&str; 3] = ["scored", "not applicable", "failed"];
/// The keys that are for some kinds of plugins alone, in the order of [`Case`].
const OF_ENVIRONMENTS: [&str; 8] =
    ["split", "task", "tasks_seed", "given", "actions", "policy", "max_turns", "most_turns"];

impl Case {
    /// A key of this case that means nothing for this kind of plugin.
    pub(crate) fn stray(&self, kind: Kind) -> Option<&'static str> {
        let expect = &self.expect;
        let acted = [
            self.split.is_some(),
            self.task.is_some(),
            self.tasks_seed.is_some(),
            self.given.is_some(),
            self.actions.is_some(),
            self.policy.is_some(),
            self.max_turns.is_some(),
            expect.most_turns.is_some(),
        ];
        let is_recorded = [
            ("input", !self.input.is_empty()),
            ("reference", self.reference.is_some()),
            ("turns", !self.turns.is_empty()),
            ("artefacts", !self.artefacts.is_empty()),
            ("closing", self.closing.is_some()),
            ("ended", self.ended.is_some()),
        ];
        let is_observed = [
            ("observations", expect.observations.is_some()),
            ("status", expect.status.is_some()),
            ("signals", !expect.signals.is_empty()),
            ("expect.artefacts", !expect.artefacts.is_empty()),
            ("most_fuel_million", expect.most_fuel_million.is_some()),
            ("most_bytes", expect.most_bytes.is_some()),
        ];
        let is_judged = [
            ("expect.reward", expect.reward.is_some()),
            ("verdict", expect.verdict.is_some()),
            ("rationale", expect.rationale.is_some()),
        ];
        let acts = OF_ENVIRONMENTS.into_iter().zip(acted).collect::<Vec<_>>();
        let proposals = [("proposals", expect.proposals.is_some())];
        let reward = [("reward", self.reward.is_some())];
        let stray: Vec<(&'static str, bool)> = match kind {
            Kind::Environment => [&is_recorded[..], &proposals, &reward].concat(),
            Kind::Reward => [&acts[..], &is_observed, &proposals, &reward].concat(),
            Kind::Reflector => [&acts[..], &is_observed, &is_judged].concat(),
            Kind::Router => Vec::new(),
        };
        stray.into_iter().find(|(_, is_there)| *is_there).map(|(key, _)| key)
    }
}

impl Expected {
    /// Why an expectation can never be met.
    fn misspelt(&self) -> Option<String> {
        let shown = |text: &str| escaped(text, SHOWN_BYTES);
        // A failure has its code in brackets.
        let status = self.status.as_deref().filter(|one| !STATUSES.contains(one) && !one.ends_with(')'));
        let status = status.map(|one| {
            let why = "expected terminated, truncated, or the code of a failure, as `trap(unreachable)`";
            format!("status: found `{}`; {why}", shown(one))
        });
        let verdict = self.verdict.as_deref().filter(|one| !VERDICTS.contains(one));
        status
            .or_else(|| verdict.map(|one| format!("verdict: found `{}`; expected {}", shown(one), VERDICTS.join(", "))))
    }

    /// Whether nothing is expected.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The cases of a text.
///
/// # Errors
/// What is wrong, with its line.
pub(crate) fn parse(text: &str) -> Result<CaseFile, String> {
    let file: CaseFile = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count().saturating_add(1);
        format!("line {line}: {}{}", escaped(error.message(), SHOWN_BYTES), did_you_mean(error.message()))
    })?;
    let mut seen = Vec::new();
    for (number, case) in (1..).zip(&file.cases) {
        let name = escaped(&case.name, SHOWN_BYTES);
        if name.trim().is_empty() {
            return Err(format!("case {number} has no name: say in a few words what it shows"));
        }
        if seen.contains(&case.name) {
            return Err(format!("two cases are called `{name}`"));
        }
        if case.given.is_some() && (case.task.is_some() || case.split.is_some() || case.tasks_seed.is_some()) {
            return Err(format!("`{name}`: a case with a task of its own (`given`) names no published one"));
        }
        if let Some(why) = case.expect.misspelt() {
            return Err(format!("`{name}`: {why}"));
        }
        if case.max_turns == Some(0) {
            return Err(format!("`{name}`: max_turns: expected at least 1"));
        }
        if case.actions.is_some() && case.policy.is_some() {
            return Err(format!("`{name}`: of `actions` and `policy` one at most can be given"));
        }
        seen.push(case.name.clone());
    }
    Ok(file)
}

/// The parts of a pattern between its stars. `\*` is a star of the text.
fn parts(pattern: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = pattern.chars().peekable();
    while let Some(one) = characters.next() {
        match (one, characters.peek()) {
            ('\\', Some('*')) => {
                characters.next();
                parts.last_mut().into_iter().for_each(|part| part.push('*'));
            }
            ('*', _) => parts.push(String::new()),
            _ => parts.last_mut().into_iter().for_each(|part| part.push(one)),
        }
    }
    parts
}

/// Whether a text is what a pattern describes, in which `*` stands for any text, and `\*` for a star.
pub(crate) fn fits(pattern: &str, text: &str) -> bool {
    let parts = parts(pattern);
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return text.is_empty() };
    if parts.len() == 1 {
        return text == first;
    }
    let Some(mut rest) = text.strip_prefix(first.as_str()) else { return false };
    for part in parts.get(1..parts.len().saturating_sub(1)).unwrap_or_default() {
        // The earliest place leaves the most for what follows.
        match rest.find(part.as_str()) {
            Some(at) => rest = rest.get(at.saturating_add(part.len())..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}

/// A pattern that fits this text alone.
pub(crate) fn exactly(text: &str) -> String {
    text.replace('*', "\\*")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_and_a_mistake_is_named_with_its_line() {
        let file = parse(
            "[[case]]\nname = \"a\"\nseed = 3\nactions = [\"50\", \"calls look {}\"]\n\
             expect = { observations = [\"*\", \"lower\"], reward = [0.5, 1], status = \"terminated\" }\n",
        )
        .unwrap();
        let case = &file.cases[0];
        assert_eq!((case.seed, case.expect.reward), (3, Some(Bounds::Between([0.5, 1.0]))));
        let check = |text: &str, expect: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        };
        check("[[case]\n", "line 1: ");
        check("[[case]]\nname = \"a\"\nsed = 3\n", "line 3: unknown field `sed`");
        check("[[case]]\nname = \"a\"\nsed = 3\n", "did you mean `seed`?");
        check("[[case]]\nseed = 3\n", "case 1 has no name");
        check("[[case]]\nname = \"a\"\n[[case]]\nname = \"a\"\n", "two cases are called `a`");
        check("[[case]]\nname = \"a\"\nactions = []\npolicy = \"follower\"\n", "one at most");
        check("[[case]]\nname = \"a\"\ntask = \"t\"\ngiven = { id = \"t\" }\n", "names no published one");
        check(
            "[[case]]\nname = \"a\"\nexpect = { status = \"fialed\" }\n",
            "status: found `fialed`; expected terminated",
        );
        check("[[case]]\nname = \"a\"\nexpect = { verdict = \"scroed\" }\n", "expected scored, not applicable, failed");
        check(
            "[[case]]\nname = \"a\"\nexpect = { reward = \"1\" }\n",
            "expected a number, or the least and the greatest one",
        );
        check("[[case]]\nname = \"a\"\nexpect = { rewrad = 1 }\n", "did you mean `reward`?");
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let check =
            |pattern: &str, text: &str, expect: bool| assert_eq!(fits(pattern, text), expect, "{pattern} {text}");
        check("", "", true);
        check("a", "a", true);
        check("a", "ab", false);
        check("*", "", true);
        check("*", "anything\nat all", true);
        check("a*", "abc", true);
        check("*c", "abc", true);
        check("a*c", "abc", true);
        check("a*b*c", "aXbYc", true);
        check("a*b*c", "aXcYb", false);
        check("*ab", "abab", true);
        check("ab*ab", "ab", false);
        check(r"3 \* 4", "3 * 4", true);
        check(r"3 \* 4", "3 and 4", false);
        check(r"*\*", "a*", true);
        check(r"*\*", "a", false);
        for text in ["3 * 4", "*", r"a\*b", r"\", "plain", "**"] {
            check(&exactly(text), text, true);
            check(&exactly(text), &text.replace('*', "x"), !text.contains('*'));
        }
    }

    #[test]
    fn bounds_include_their_ends() {
        let check = |bounds: Bounds, number: f64, expect: bool| assert_eq!(bounds.contains(number), expect);
        check(Bounds::Exactly(1.0), 1.0, true);
        check(Bounds::Exactly(0.1), 0.1 + 0.2 - 0.2, true);
        check(Bounds::Exactly(1.0), 0.9, false);
        check(Bounds::Between([0.5, 1.0]), 0.5, true);
        check(Bounds::Between([0.5, 1.0]), 1.1, false);
        check(Bounds::Exactly(1.0), f64::NAN, false);
    }
}
