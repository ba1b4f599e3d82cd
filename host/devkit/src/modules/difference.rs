//! What changes between two versions of a module: permissions, results of checks, and scores of recorded episodes.

use super::rescored::RecordedScores;
use crate::{CheckReport, Outcome};
use clawhost_engine::ComponentOutline;
use serde::Serialize;
use std::collections::BTreeSet;

/// A change of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// What changed.
    pub what: String,
    /// How it was. `None`: it was not there.
    pub before: Option<String>,
    /// How it is. `None`: it is not there any more.
    pub after: Option<String>,
}

/// All changes between two versions of a component.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Imported interfaces: what the component can do.
    pub imports: Vec<Change>,
    /// What its manifest asks an operator to grant.
    pub grants: Vec<Change>,
    /// Results of checks.
    pub checks: Vec<Change>,
    /// What two versions of a reward say about recorded episodes. `None`: it is no reward.
    pub scores: Option<RecordedScores>,
}

/// What the manifest of a component asks for.
pub(super) fn asked(outline: &ComponentOutline) -> BTreeSet<String> {
    let grants = outline.manifest.as_ref().map(|manifest| manifest.grants.clone()).unwrap_or_default();
    let notes = grants.kv.then(|| "kv".to_owned());
    notes.into_iter().chain(grants.llm.into_iter().map(|alias| format!("llm:{alias}"))).collect()
}

/// What is only in one of two sets.
fn changes(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<Change> {
    let gone =
        before.difference(after).map(|one| Change { what: one.clone(), before: Some("yes".to_owned()), after: None });
    let new =
        after.difference(before).map(|one| Change { what: one.clone(), before: None, after: Some("yes".to_owned()) });
    gone.chain(new).collect()
}

fn result(report: &CheckReport, check: &str) -> Option<String> {
    let one = report.checks.iter().find(|one| one.check == check)?;
    Some(match one.outcome {
        Outcome::Passed => "passed".to_owned(),
        Outcome::Failed => "failed".to_owned(),
        Outcome::Skipped => "skipped".to_owned(),
    })
}

impl Difference {
    /// The difference between two components with their checks.
    pub(super) fn between(
        (before, checked_before): (&ComponentOutline, &CheckReport),
        (after, checked_after): (&ComponentOutline, &CheckReport),
    ) -> Self {
        let imports = |outline: &ComponentOutline| outline.imports.iter().cloned().collect::<BTreeSet<String>>();
        let names: BTreeSet<&str> =
            checked_before.checks.iter().chain(&checked_after.checks).map(|one| one.check.as_str()).collect();
        let checks = names.into_iter().filter_map(|name| {
            let (before, after) = (result(checked_before, name), result(checked_after, name));
            (before != after).then(|| Change { what: name.to_owned(), before, after })
        });
        Self {
            imports: changes(&imports(before), &imports(after)),
            grants: changes(&asked(before), &asked(after)),
            checks: checks.collect(),
            scores: None,
        }
    }

    /// Whether permissions and results of checks are the same.
    pub fn is_empty(&self) -> bool {
        self.imports.is_empty() && self.grants.is_empty() && self.checks.is_empty()
    }
}
