//! Records for tests, and helpers that write them.
#![allow(dead_code, reason = "two test targets share this file, and neither uses all of it")]

use clawhost_core::{
    Artefact, Checkpoint, Digest, Episode, EpisodeFilter, EpisodeId, EpisodeReader as _, EpisodeStore as _, LargeState,
    PluginIdentity, Recorded, RunId, RunKind, RunLabels, RunRecord, SpecDocument, StateId, StoreError, Usage,
};
use clawhost_store::{Reader, Store, StoreOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn golden(name: &str) -> Episode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    serde_json::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

pub(crate) fn episode(run: &str, index: u64) -> Episode {
    let base = golden(if index.is_multiple_of(2) { "episode-2.json" } else { "episode-2-failed.json" });
    Episode { run: RunId(run.into()), id: EpisodeId(format!("ep-{index:04}")), index, ..base }
}

pub(crate) fn recorded(run: &str, index: u64) -> Recorded {
    recorded_as(episode(run, index))
}

pub(crate) fn recorded_as(episode: Episode) -> Recorded {
    Recorded { episode: Arc::new(episode), notes: BTreeMap::new(), replaces_existing: false }
}

/// An episode with artefacts.
pub(crate) fn with_artefacts(run: &str, index: u64, artefacts: &[&[u8]]) -> Episode {
    let one = |bytes: &&[u8]| Artefact {
        name: "board.bin".into(),
        media_type: "application/octet-stream".into(),
        bytes: bytes.to_vec(),
        extra: Vec::new(),
    };
    Episode { artefacts: artefacts.iter().map(one).collect(), ..episode(run, index) }
}

pub(crate) fn run(id: &str) -> RunRecord {
    let state_id: StateId = golden("episode-2.json").state_id;
    RunRecord {
        id: RunId(id.into()),
        parent: None,
        kind: RunKind::Play,
        environment: "guess".into(),
        state_id,
        config: SpecDocument(serde_json::json!({"seed": 7})),
        basis: serde_json::json!("configuration"),
        planned: 4,
        created_at: 1,
        labels: RunLabels::default(),
    }
}

pub(crate) fn phase(id: &str, parent: &str) -> RunRecord {
    let parent = Some(RunId(parent.into()));
    RunRecord { parent, kind: RunKind::Phase, config: SpecDocument::none(), ..run(id) }
}

pub(crate) fn cost() -> Usage {
    cost_of(7)
}

pub(crate) fn cost_of(prompt_tokens: u64) -> Usage {
    Usage { prompt_tokens, ..Usage::default() }
}

/// Appends episodes of one run to a store, with a cost of 7 tokens.
pub(crate) async fn put(store: &Store, recorded: Vec<Recorded>) -> Result<(), StoreError> {
    let run = recorded.first().map_or(RunId("run-a".into()), |first| first.episode.run.clone());
    store.append(&run, recorded, cost()).await
}

pub(crate) fn opened(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

pub(crate) async fn filled(folder: &Path, run_id: &str, count: u64) -> Store {
    let store = opened(folder);
    store.begin_run(&run(run_id)).await.unwrap();
    put(&store, (0..count).map(|index| recorded(run_id, index)).collect()).await.unwrap();
    store
}

pub(crate) fn checkpoint(run: &str, iteration: u64, large: &[(&str, LargeState)]) -> Checkpoint {
    Checkpoint {
        run: RunId(run.into()),
        iteration,
        state: serde_json::json!({"iteration": iteration}),
        report: serde_json::json!({"number": iteration}),
        versions: Vec::new(),
        ledger: None,
        large: large.iter().map(|(name, state)| ((*name).to_owned(), state.clone())).collect(),
        spent: cost(),
    }
}

pub(crate) fn written(bytes: &[u8]) -> LargeState {
    LargeState::Written(bytes.into())
}

pub(crate) fn plugin(bytes: &[u8]) -> PluginIdentity {
    PluginIdentity { name: "guess".into(), version: "1".into(), digest: Digest::of(bytes) }
}

/// The names of all stored episodes, newest run first.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let rows = Reader::open(folder).unwrap().episodes(&EpisodeFilter::default()).unwrap();
    rows.into_iter().map(|row| format!("{}/{}", row.run, row.id)).collect()
}

pub(crate) fn blob_path(folder: &Path, bytes: &[u8]) -> PathBuf {
    let hex = Digest::of(bytes).hex();
    folder.join("blobs/sha256").join(&hex[..2]).join(hex)
}

/// All files in the folder of blobs, by name, in order.
pub(crate) fn blob_files(folder: &Path) -> Vec<String> {
    let Ok(folders) = std::fs::read_dir(folder.join("blobs/sha256")) else { return Vec::new() };
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The names that [`blob_files`] gives for these blobs.
pub(crate) fn blob_names(contents: &[&[u8]]) -> Vec<String> {
    let mut names: Vec<String> = contents.iter().map(|bytes| Digest::of(bytes).hex()).collect();
    names.sort();
    names.dedup();
    names
}
