//! References of playbooks: the runs that created their versions, and the episodes that their lessons cite as evidence.

use clawhost_core::{EpisodeFilter, Evidence, RunId, StoreError, StoreReader};
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// References of all playbooks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Citations {
    /// Playbooks with a version that a run created, by run.
    pub(super) playbooks: BTreeMap<RunId, BTreeSet<String>>,
    /// Names of episodes as lessons cite them: `ID`, or `RUN/ID`.
    episodes: BTreeSet<String>,
}

impl Citations {
    /// Reads every version and every ledger of all playbooks.
    pub(super) fn read(reader: &dyn StoreReader) -> Result<Self, StoreError> {
        let mut all = Self::default();
        for name in reader.playbooks()? {
            for version in reader.versions(&name)? {
                if let Some(run) = version.run {
                    all.playbooks.entry(run).or_default().insert(name.clone());
                }
                all.cite(&version.document);
            }
            if let Some(ledger) = reader.ledger(&name)? {
                all.cite(&ledger.document);
            }
        }
        Ok(all)
    }

    /// Collects all evidence in a document, at any place: documents of other versions of the program count too.
    fn cite(&mut self, document: &Value) {
        if let Ok(Evidence { episode, .. }) = Evidence::deserialize(document) {
            self.episodes.insert(episode);
        }
        match document {
            Value::Object(fields) => fields.values().for_each(|field| self.cite(field)),
            Value::Array(items) => items.iter().for_each(|item| self.cite(item)),
            _ => {}
        }
    }

    fn is_cited(&self, run: &str, id: &str) -> bool {
        self.episodes.contains(id) || self.episodes.contains(&format!("{run}/{id}"))
    }

    /// Episodes of a run and its phases that lessons cite, as `RUN/ID`. Runs of one configuration give their episodes
    /// equal names: such an episode is cited in each of them.
    pub(super) fn of_run(&self, reader: &dyn StoreReader, run: &RunId) -> Result<BTreeSet<String>, StoreError> {
        if self.episodes.is_empty() {
            return Ok(BTreeSet::new());
        }
        let listed = reader.list_episodes(&EpisodeFilter::of(run))?;
        let rows = listed.rows.into_iter().filter(|row| self.is_cited(&row.run, &row.id));
        let cited = rows.map(|row| format!("{}/{}", row.run, row.id));
        let is_cited = |name: &String| name.split_once('/').is_some_and(|(run, id)| self.is_cited(run, id));
        Ok(cited.chain(listed.damaged.into_iter().map(|one| one.record).filter(is_cited)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_learn::playbook::Playbook;
    use clawhost_learn::{Entry, Lesson};
    use serde_json::json;

    #[test]
    fn evidence_is_found_in_versions_and_ledgers() {
        let source = |episode: &str| Evidence { episode: episode.into(), turns: vec![1] };
        let entry = |sources: Vec<Evidence>| Entry { sources, ..Entry::new(Lesson::read("Be kind."), "operator") };
        let entries = vec![entry(vec![source("ep-1"), source("run-a/ep-2")]), entry(Vec::new())];
        let mut citations = Citations::default();
        citations.cite(&json!(Playbook { entries, ..Playbook::default() }));
        citations.cite(&json!([{ "entry": entry(vec![source("ep-3")]), "decided": null }]));
        assert_eq!(citations.episodes, ["ep-1", "ep-3", "run-a/ep-2"].map(str::to_owned).into());
        assert!(citations.is_cited("run-b", "ep-1") && citations.is_cited("run-a", "ep-2"));
        assert!(!citations.is_cited("run-b", "ep-2") && !citations.is_cited("run-a", "ep-4"));
    }
}
