//! A playbook as programs get it that put it into their own prompts.

use crate::AppError;
use crate::playbooks::document;
use crate::workspace::time;
use clawhost_core::{PlaybookReader as _, PlaybookVersion, StoreError};
use clawhost_gateway::{Guidance, GuidanceEntry, GuidanceSource};
use clawhost_learn::Entry;
use clawhost_learn::playbook::render;
use clawhost_store::Reader;
use std::path::Path;

/// Reads the newest version of a playbook; without a name, of the only one.
pub(crate) fn guidance(folder: &Path, name: Option<String>) -> GuidanceSource {
    let folder = folder.to_owned();
    Box::new(move || {
        let told = |error: StoreError| error.to_string();
        let reader = Reader::open(&folder).map_err(told)?;
        let names = reader.playbooks().map_err(told)?;
        let only = || names.first().filter(|_| names.len() == 1).cloned();
        let Some(name) = name.clone().or_else(only) else { return Ok(Guidance::default()) };
        let Some(version) = reader.newest_version(&name).map_err(told)? else { return Ok(Guidance::default()) };
        shown_guidance(&version).map_err(|error| error.to_string())
    })
}

/// A version of a playbook as a text for a prompt.
fn shown_guidance(version: &PlaybookVersion) -> Result<Guidance, AppError> {
    let playbook = document(version)?;
    let entries: Vec<&Entry> = playbook.entries.iter().collect();
    Ok(Guidance {
        prompt: render(&entries, &playbook.sections),
        version: version.number,
        updated_at: Some(time(version.created_at)),
        entries: entries
            .into_iter()
            .map(|entry| GuidanceEntry {
                id: entry.id.0.clone(),
                content: entry.lesson.prompt(),
                tags: entry.tags.clone(),
                source_episode_ids: entry.sources.iter().map(|source| source.episode.clone()).collect(),
            })
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawhost_core::Digest;
    use clawhost_learn::Lesson;
    use clawhost_learn::playbook::Playbook;

    #[test]
    fn a_version_is_shown_as_a_prompt_with_its_lessons() {
        let entry =
            Entry { tags: vec!["gold".into()], ..Entry::new(Lesson::read("when tier is gold: refund"), "import") };
        let playbook = Playbook { entries: vec![entry], ..Playbook::default() };
        let version = PlaybookVersion {
            name: "shop".into(),
            number: 4,
            digest: Digest::of(b""),
            document: serde_json::to_value(&playbook).unwrap(),
            why: String::new(),
            run: None,
            created_at: 1_800_014_400_000,
        };
        let shown = shown_guidance(&version).unwrap();
        assert_eq!(
            (shown.version, shown.prompt.as_str()),
            (4, "Lessons from experience:\n- when tier is gold: refund")
        );
        assert_eq!(
            (shown.entries[0].content.as_str(), &shown.entries[0].tags),
            ("- when tier is gold: refund", &vec!["gold".to_owned()])
        );
        assert!(shown_guidance(&PlaybookVersion { document: serde_json::json!([1]), ..version }).is_err());
    }

    #[test]
    fn without_a_playbook_there_is_nothing_to_show() {
        let folder = tempfile::tempdir().unwrap();
        drop(clawhost_store::Store::open(folder.path(), clawhost_store::StoreOptions::default()).unwrap());
        for name in [None, Some("shop".to_owned())] {
            assert_eq!(guidance(folder.path(), name)(), Ok(Guidance::default()));
        }
    }
}
