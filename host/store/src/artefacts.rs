//! The stored document of an episode: without its verdicts, which have rows of their own, and with references in place
//! of large artefacts, whose bytes are blobs. The digest of its task is omitted if it follows from the task: it would
//! take as many bytes as all other fields of most tasks.

use crate::blobs::Blobs;
use clawhost_core::{Artefact, Digest, Episode, StoreError};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Artefacts of this size or more are blobs. SQLite reads smaller content faster from the database than from files of its own,
/// and larger content slower; the two are equal near 100 KB.
pub const ARTEFACT_BLOB_BYTES: usize = 64 << 10;

/// Replaces a task's digest that follows from the task. No task has this digest.
static OF_THE_TASK: LazyLock<Option<Digest>> = LazyLock::new(|| format!("sha256:{}", "0".repeat(64)).parse().ok());

/// An episode prepared for its row.
pub(crate) struct StoredEpisode {
    pub(crate) document: String,
    /// Positions and digests of the artefacts that the document refers to.
    pub(crate) large: Vec<(usize, Digest)>,
}

/// Whether an episode has an artefact that becomes a blob.
pub(crate) fn has_large(episode: &Episode) -> bool {
    episode.artefacts.iter().any(is_large)
}

fn is_large(artefact: &Artefact) -> bool {
    artefact.bytes.len() >= ARTEFACT_BLOB_BYTES
}

/// The position of an artefact's bytes in a document. A digest is not base64, so the two cannot be confused.
fn bytes_of(document: &mut Value, position: usize) -> Option<&mut Value> {
    document.get_mut("artefacts")?.get_mut(position)?.get_mut("bytes")
}

pub(crate) fn write(episode: &Episode) -> serde_json::Result<StoredEpisode> {
    let large: Vec<(usize, Digest)> = episode
        .artefacts
        .iter()
        .enumerate()
        .filter(|(_, artefact)| is_large(artefact))
        .map(|(position, artefact)| (position, Digest::of(&artefact.bytes)))
        .collect();
    let mut plain = Episode { verdicts: Vec::new(), ..episode.clone() };
    if let Some(stands_for) = OF_THE_TASK.filter(|_| episode.task_hash == episode.task.digest()) {
        plain.task_hash = stands_for;
    }
    if large.is_empty() {
        return Ok(StoredEpisode { document: serde_json::to_string(&plain)?, large });
    }
    plain.artefacts.iter_mut().filter(|artefact| is_large(artefact)).for_each(|artefact| artefact.bytes.clear());
    let mut document = serde_json::to_value(&plain)?;
    for (position, digest) in &large {
        if let Some(bytes) = bytes_of(&mut document, *position) {
            *bytes = Value::String(digest.to_string());
        }
    }
    Ok(StoredEpisode { document: document.to_string(), large })
}

/// Why a document cannot be read as an episode.
pub(crate) enum Unreadable {
    Document(serde_json::Error),
    Blob(StoreError),
}

/// The episode of a document. `blobs` has the sizes of the blobs that it refers to.
pub(crate) fn read(
    text: &str,
    what: &str,
    sizes: &BTreeMap<Digest, u64>,
    blobs: &Blobs,
) -> Result<Episode, Unreadable> {
    let mut episode = match sizes.is_empty() {
        true => serde_json::from_str(text).map_err(Unreadable::Document)?,
        false => with_blobs(text, what, sizes, blobs)?,
    };
    if Some(episode.task_hash) == *OF_THE_TASK {
        episode.task_hash = episode.task.digest();
    }
    Ok(episode)
}

fn with_blobs(text: &str, what: &str, sizes: &BTreeMap<Digest, u64>, blobs: &Blobs) -> Result<Episode, Unreadable> {
    let mut document: Value = serde_json::from_str(text).map_err(Unreadable::Document)?;
    let mut large = Vec::new();
    let count = document.get("artefacts").and_then(Value::as_array).map_or(0, Vec::len);
    for position in 0..count {
        let Some(bytes) = bytes_of(&mut document, position) else { continue };
        let digest = bytes.as_str().and_then(|text| text.parse::<Digest>().ok());
        if let Some((digest, size)) = digest.and_then(|digest| Some((digest, *sizes.get(&digest)?))) {
            *bytes = Value::String(String::new());
            large.push((position, digest, size));
        }
    }
    let mut episode: Episode = serde_json::from_value(document).map_err(Unreadable::Document)?;
    for (position, digest, size) in large {
        if let Some(artefact) = episode.artefacts.get_mut(position) {
            artefact.bytes = blobs.get(what, &digest, size).map_err(Unreadable::Blob)?;
        }
    }
    Ok(episode)
}
