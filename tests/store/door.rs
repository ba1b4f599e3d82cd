//! The door before the store: no record repeats a key of this process.

use crate::records::{checkpoint, cost, episode, put, recorded, recorded_as, run, with_artefacts};
use clawhost_core::{
    Checkpoint, Digest, EpisodeReader as _, EpisodeStore as _, Judged, KnownSecrets, LearningStore as _,
    PlaybookLedger, PlaybookReader as _, PlaybookVersion, Recorded, RunId, RunRecord, Secret, SpecDocument, Verdict,
};
use clawhost_store::{ARTEFACT_BLOB_BYTES, Reader, Store, StoreOptions};
use std::collections::BTreeMap;
use std::path::Path;

const KEY: &str = "sk-Proj_4/7+a9Zq";

fn guarded(folder: &Path) -> Store {
    let secrets = KnownSecrets::default();
    let store = Store::open(folder, StoreOptions { secrets: secrets.clone(), ..StoreOptions::default() }).unwrap();
    // A key that is read after the store was opened.
    secrets.add(&Secret::new(KEY).unwrap());
    store
}

/// A text with the key, written with escapes as an endpoint may.
fn quoted() -> String {
    let escaped: String = KEY.chars().map(|one| format!("\\u{:04x}", u32::from(one))).collect();
    format!("one {KEY} two {escaped} three")
}

fn said(text: &str) -> Verdict {
    Verdict::NotApplicable(text.to_owned())
}

const CLEAN: &str = "one [key] two [key] three";

#[tokio::test]
async fn no_key_passes_the_door_before_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = guarded(folder.path());
    let id = RunId("run-a".into());
    let config = SpecDocument(serde_json::json!({ "policy": { "system_prompt": quoted() } }));
    store.begin_run(&RunRecord { config, ..run("run-a") }).await.unwrap();

    let large: Vec<u8> = KEY.bytes().chain(std::iter::repeat_n(b'.', ARTEFACT_BLOB_BYTES)).collect();
    let mut first = with_artefacts("run-a", 0, &[quoted().as_bytes(), &large]);
    first.task.input = quoted();
    first.verdicts[0].verdict = said(&quoted());
    let notes = BTreeMap::from([(KEY.to_owned(), Some(quoted().into_bytes()))]);
    put(&store, vec![Recorded { notes, ..recorded_as(first) }, recorded("run-a", 2)]).await.unwrap();

    let mut later = episode("run-a", 2).verdicts[0].clone();
    later.verdict = said(&quoted());
    later.reward.digest = Digest::of(b"another reward");
    let other = recorded("run-a", 2).episode.id.clone();
    let judged = Judged { run: id.clone(), episode: other.clone(), record: later, at: 9, key: None };
    store.judge(vec![judged]).await.unwrap();

    let value = serde_json::json!({ "text": quoted() });
    let state = Checkpoint {
        state: value.clone(),
        report: value.clone(),
        ledger: Some(PlaybookLedger { name: "shop".into(), document: value.clone() }),
        ..checkpoint("run-a", 1, &[])
    };
    store.checkpoint(state).await.unwrap();
    store.finish_run(&id, &value, cost()).await.unwrap();

    let reader = Reader::open(folder.path()).unwrap();
    let read = reader.episode(&format!("run-a/{}", recorded("run-a", 0).episode.id)).unwrap().unwrap();
    let told = reader.episode(&format!("run-a/{other}")).unwrap().unwrap();
    let clean = serde_json::json!({ "text": CLEAN });
    assert_eq!(read.task.input, CLEAN);
    assert_eq!(read.artefacts[0].bytes, CLEAN.as_bytes());
    assert!(read.artefacts[1].bytes.starts_with(b"[key]....") && read.artefacts[1].bytes.len() > ARTEFACT_BLOB_BYTES);
    assert_eq!(read.verdicts[0].verdict, said(CLEAN));
    assert!(told.verdicts.iter().any(|record| record.verdict == said(CLEAN)), "{:?}", told.verdicts);
    assert_eq!(reader.notes(&id).unwrap(), [("[key]".to_owned(), CLEAN.as_bytes().to_vec())]);
    let row = reader.runs(None).unwrap().swap_remove(0);
    assert_eq!((row.config.0["policy"]["system_prompt"].as_str(), row.summary), (Some(CLEAN), Some(clean.clone())));
    assert_eq!(store.last_checkpoint(&id).await.unwrap(), Some((1, clean.clone())));
    assert_eq!(store.iterations(&id).await.unwrap(), vec![clean.clone()]);
    assert_eq!(reader.ledger("shop").unwrap().unwrap().document, clean);
    assert_eq!(read.id, recorded("run-a", 0).episode.id, "everything else is as it was");
}

#[tokio::test]
async fn a_playbook_that_repeats_a_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = guarded(folder.path());
    let version = |text: &str| PlaybookVersion {
        name: "shop".into(),
        number: 0,
        digest: Digest::of(text.as_bytes()),
        document: serde_json::json!({ "text": text }),
        why: "a test".into(),
        run: None,
        created_at: 5,
    };
    let refused = store.add_version(version(&quoted()), None).await.unwrap_err().to_string();
    assert!(refused.contains("one of its lessons repeats a key") && !refused.contains(KEY), "{refused}");
    store.add_version(version("fine"), None).await.unwrap();
}
