//! Compares the records of a run with each other while it is replayed: columns, expected verdicts, summaries and content roots.

use clawhost_core::{
    Attributes, Digest, Discrepancy, Episode, RunId, RunKind, RunRow, RunState, StoreError, StoreReader,
    content_root_of_phases, recorded_root,
};
use clawhost_play::{Basis, Conditions, EpisodeSummary, check_episode, check_run};
use clawhost_run_config::{PluginSpec, RunSpec, Work};
use std::collections::BTreeMap;

/// A run or a phase, and its episodes so far.
struct Part {
    row: RunRow,
    /// `None`: nothing that the episodes determine is known, as for captured ones.
    basis: Option<Basis>,
    episodes: Vec<EpisodeSummary>,
}

/// Compares the records of one run and its phases.
pub(super) struct RecordCheck<'a> {
    reader: &'a dyn StoreReader,
    parts: BTreeMap<RunId, Part>,
    found: Vec<Discrepancy>,
}

impl<'a> RecordCheck<'a> {
    pub(super) fn new(reader: &'a dyn StoreReader) -> Self {
        Self { reader, parts: BTreeMap::new(), found: Vec::new() }
    }

    fn part(&mut self, run: &RunId) -> Result<Option<&mut Part>, StoreError> {
        if !self.parts.contains_key(run) {
            let row = match self.reader.run(run) {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(None),
                Err(StoreError::Damaged { what, why, .. }) => {
                    self.damaged(what, &why);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            };
            let basis = serde_json::from_value(row.basis.clone()).ok();
            self.parts.insert(run.clone(), Part { row, basis, episodes: Vec::new() });
        }
        Ok(self.parts.get_mut(run))
    }

    fn damaged(&mut self, record: String, why: &str) {
        let what = format!("its record is damaged: {why}; it");
        let found = Discrepancy { record, what, recorded: None, expected: Some("readable".to_owned()) };
        if !self.found.contains(&found) {
            self.found.push(found);
        }
    }

    /// Compares an episode with its columns and with the basis of its run.
    pub(super) fn episode(&mut self, episode: &Episode) -> Result<(), StoreError> {
        let mut found = self.reader.columns_unlike(episode)?;
        if let Some(part) = self.part(&episode.run)? {
            if let Some(basis) = &part.basis {
                found.extend(check_episode(basis, episode));
            }
            part.episodes.push(EpisodeSummary::of(&episode.as_recorded()));
        }
        self.found.extend(found);
        Ok(())
    }

    /// Compares the run and its phases with their episodes. `damaged`: some episodes could not be read.
    pub(super) fn run(mut self, run: &RunId, damaged: bool) -> Result<Vec<Discrepancy>, StoreError> {
        let mut roots = BTreeMap::new();
        let phases = match self.reader.phases(run) {
            Err(StoreError::Damaged { what, why, .. }) => {
                self.damaged(what, &why);
                Vec::new()
            }
            phases => phases?,
        };
        for phase in phases {
            self.part(&phase.id)?;
            // What was not finished belongs to no root: it is played again.
            if let Some(part) = self.parts.get(&phase.id).filter(|part| part.row.state == RunState::Finished) {
                let root = part.row.summary.as_ref().and_then(recorded_root);
                roots.extend(phase.id.phase_of(run).map(str::to_owned).zip(root));
            }
        }
        self.part(run)?;
        for (id, Part { row, episodes, .. }) in self.parts {
            if row.kind == RunKind::Learn && id == *run {
                self.found.extend(learned_root(&row, &roots));
            }
            self.found.extend(specified(&row));
            let is_complete = !damaged && !row.pruned;
            self.found.extend(check_run(&row, is_complete.then_some(episodes)));
        }
        self.found.sort();
        Ok(self.found)
    }

    /// What was found, of single episodes.
    pub(super) fn found(self) -> Vec<Discrepancy> {
        self.found
    }
}

/// The content root of a learning run follows from those of its phases.
pub(crate) fn learned_root(row: &RunRow, roots: &BTreeMap<String, Digest>) -> Option<Discrepancy> {
    let summary = row.summary.as_ref().filter(|_| !row.pruned)?;
    let recorded = recorded_root(summary).map(|root| root.to_string());
    let what = "summary.content_root";
    Discrepancy::between(&row.id.0, what, recorded, content_root_of_phases(roots).to_string())
}

/// The differences between the parts of a mixture in a run's basis and in its specification.
fn parts_unlike(row: &RunRow, spec: &RunSpec, conditions: &Conditions) -> Option<Discrepancy> {
    let parts = spec.part_names().into_iter().zip(spec.environments()).filter(|_| !spec.mix.is_empty());
    let part = |(name, (plugin, weight)): (String, (&PluginSpec, f64))| {
        Some(serde_json::json!((name, weight, plugin.plugin.as_ref()?.digest)))
    };
    let specified: Option<Vec<_>> = parts.map(part).collect();
    let recorded: Vec<_> = conditions.parts.iter().map(|part| (&part.name, part.weight, part.environment)).collect();
    let (recorded, specified) = (serde_json::json!(recorded).to_string(), serde_json::json!(specified?).to_string());
    Discrepancy::between(&row.id.0, "the parts of the basis", recorded, specified)
}

/// The differences between a run's row and the specification that it repeats.
pub(crate) fn specified(row: &RunRow) -> Vec<Discrepancy> {
    // A phase has the specification of its run. If this version cannot read it, there is nothing to compare with.
    let Ok(spec) = RunSpec::from_document(row.config.0.clone()) else { return Vec::new() };
    let kind = match spec.work {
        Work::Play => RunKind::Play,
        Work::Learn(_) => RunKind::Learn,
        Work::Evaluate(_) => RunKind::Evaluate,
    };
    let unlike =
        |what: &str, recorded: String, expected: String| Discrepancy::between(&row.id.0, what, recorded, expected);
    let mut found = vec![unlike("kind", row.kind.name().to_owned(), kind.name().to_owned())];
    if let Some(name) = spec.environment_name() {
        found.push(unlike("environment", row.environment.clone(), name));
    }
    let basis = match row.kind {
        RunKind::Learn => row.basis.get("run").cloned().unwrap_or_default(),
        _ => row.basis.clone(),
    };
    let Ok(Basis { conditions, episodes, .. }) = serde_json::from_value(basis) else {
        return found.into_iter().flatten().collect();
    };
    let options = |options: &Attributes| serde_json::json!(options).to_string();
    if let Some(plugin) = spec.environment.plugin.as_ref().filter(|_| spec.mix.is_empty()) {
        let (recorded, expected) = (conditions.environment.to_string(), plugin.digest.to_string());
        found.push(unlike("the environment of the basis", recorded, expected));
        let (recorded, expected) = (options(&conditions.options), options(&spec.environment.options));
        found.push(unlike("the options of the basis", recorded, expected));
    }
    found.push(parts_unlike(row, &spec, &conditions));
    found.push(unlike("the seed of the basis", conditions.seed.to_string(), spec.play.seed.to_string()));
    found.push(unlike("the turns of the basis", conditions.max_turns.to_string(), spec.play.max_turns.to_string()));
    // A learning run without rewards is judged by the default one, and other kinds choose their number of episodes.
    if row.kind == RunKind::Play {
        let named = spec.rewards.iter().filter_map(|reward| reward.plugin.plugin.as_ref());
        let named: Vec<String> = named.map(|plugin| plugin.digest.to_string()).collect();
        let decided: Vec<String> = conditions.rewards.iter().map(|reward| reward.0.to_string()).collect();
        found.push(unlike("the rewards of the basis", decided.join(", "), named.join(", ")));
        found.push(unlike("the episodes of the basis", episodes.to_string(), spec.play.episodes.to_string()));
    }
    found.into_iter().flatten().collect()
}
