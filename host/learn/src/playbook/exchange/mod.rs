//! Export and import of playbooks: one JSON document ([`to_json`], [`from_json`]), or a folder per skill with a `SKILL.md`
//! ([`to_skills`], [`from_skills`]), which many agents can read.
//!
//! An export contains what models are shown: sections, lessons, tags, names, and what entries need. Measurements are not exported, because they
//! hold only for this run's tasks and models. An imported entry is therefore new: it is queued, has a support of 1, and must
//! pass a trial. What the playbook's runs have used is no measurement: a JSON document has the [`Lineage`], so that a copy does not test with
//! alpha that was spent, or on tasks that were seen. Skills are texts for other agents and have none. Counters and evidence of the source become tags that begin with [`DISPLAY_TAG`], for people only. Texts
//! pass [`check`] like every lesson.

mod folders;
mod front_matter;
mod json;
mod skills;

pub use json::{FORMAT, VERSION, from_json, to_json};
pub use skills::{SECTIONS_FOLDER, SKILL_FILE, from_skills, to_skills};

use super::needs::{Unmet, unmet};
use super::safety::{TextLimits, check, check_section, escape};
use super::{Lineage, Playbook};
use crate::{Entry, EntryId, LearnError, Lesson, NEEDS};
use std::collections::BTreeMap;

/// Prefix of tags that are only displayed: statements of an imported document about its entries.
pub const DISPLAY_TAG: &str = "imported:";

/// The `created_by` of an entry that was imported.
pub const IMPORT: &str = "import";

/// Most bytes of an imported text. Skill files are whole documents, but a longer one fits no token budget.
pub const IMPORTED_BYTES: usize = 64 * 1024;

/// A playbook outside of a data folder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transferred {
    /// Its content.
    pub playbook: Playbook,
    /// What its runs have used; `None`: unknown, or it had no run.
    pub lineage: Option<Lineage>,
}

/// An entry of a file.
struct Imported {
    /// Location in the file, for errors.
    place: String,
    lesson: Lesson,
    tags: Vec<String>,
    /// The names of the entries that it needs.
    needs: Vec<String>,
    /// The name by which others need it; empty if it has none.
    name: String,
}

/// Builds a playbook from the content of a file, and checks every text.
fn assemble(sections: Vec<(String, String)>, entries: Vec<Imported>) -> Result<Playbook, LearnError> {
    let limits = TextLimits { bytes: IMPORTED_BYTES, withheld: &[] };
    let mut playbook = Playbook::default();
    for (name, text) in sections {
        let text = check_section(&text, limits)
            .map_err(|why| LearnError::Document(format!("section `{}`: {why}", escape(&name))))?;
        let name = single_line(&name);
        if playbook.sections.insert(name.clone(), text).is_some() {
            return Err(LearnError::Document(format!("two sections are named `{name}`; rename one of them")));
        }
    }
    let mut places: BTreeMap<EntryId, String> = BTreeMap::new();
    // Texts may be escaped, so an entry can have another id than in the file.
    let mut names: BTreeMap<String, Vec<EntryId>> = BTreeMap::new();
    let mut needed: Vec<(String, Vec<String>)> = Vec::new();
    for Imported { place, lesson, tags, needs, name } in entries {
        let lesson = check(&lesson, limits).map_err(|why| LearnError::Document(format!("{place}: {why}")))?;
        let mut entry = Entry::new(lesson, IMPORT);
        entry.tags = tags.iter().map(|tag| single_line(tag)).collect();
        if let Some(first) = places.insert(entry.id.clone(), place.clone()) {
            return Err(LearnError::Document(format!("{first} and {place} are equal; remove one")));
        }
        names.entry(name).or_default().push(entry.id.clone());
        needed.push((place, needs));
        playbook.entries.push(entry);
    }
    relate(&mut playbook, &names, needed)?;
    Ok(playbook)
}

/// Says what the entries need, by names of the file.
fn relate(
    playbook: &mut Playbook,
    names: &BTreeMap<String, Vec<EntryId>>,
    needed: Vec<(String, Vec<String>)>,
) -> Result<(), LearnError> {
    let refuse = |place: &str, why: String| Err(LearnError::Document(format!("{place}: {why}")));
    for (entry, (place, needs)) in playbook.entries.iter_mut().zip(&needed) {
        if needs.len() > NEEDS {
            return refuse(place, format!("it needs {} others, at most {NEEDS} are allowed", needs.len()));
        }
        for need in needs {
            match names.get(need).map(Vec::as_slice) {
                Some([id]) => entry.needs.push(id.clone()),
                Some([_, ..]) => {
                    return refuse(place, format!("it needs `{}`, which is the name of several", escape(need)));
                }
                _ => return refuse(place, format!("it needs `{}`, which is not in the playbook", escape(need))),
            }
        }
        entry.needs.sort();
        entry.needs.dedup();
    }
    if let Some((position, Unmet::Cycle(through))) = unmet(&playbook.entries) {
        let place = needed.get(position).map_or("", |(place, _)| place);
        return refuse(place, format!("it needs itself, through `{through}`"));
    }
    Ok(())
}

fn single_line(text: &str) -> String {
    escape(&text.replace('\n', " "))
}

/// A statement of an imported document about an entry, as a tag.
fn display_tag(name: &str, value: &str) -> String {
    format!("{DISPLAY_TAG}{name}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playbook::safety::{hostile_lesson, hostile_text};
    use proptest::prelude::*;

    /// Playbooks as they are stored: checked texts, unique entries.
    pub(super) fn any_playbook() -> impl Strategy<Value = Playbook> {
        let entry = (hostile_lesson(), prop::collection::vec(hostile_text(), 0..3));
        (prop::collection::btree_map(hostile_text(), hostile_text(), 0..3), prop::collection::vec(entry, 0..6))
            .prop_map(|(sections, entries)| {
                let sections = sections.into_iter().map(|(name, text)| (single_line(&name), escape(&text))).collect();
                let mut playbook = Playbook { sections, entries: Vec::new() };
                for (lesson, tags) in entries {
                    let Ok(lesson) = check(&lesson, TextLimits { bytes: IMPORTED_BYTES, withheld: &[] }) else {
                        continue;
                    };
                    let mut entry = Entry::new(lesson, IMPORT);
                    entry.tags = tags.iter().map(|tag| single_line(tag)).collect();
                    // Every second entry needs the one before it.
                    let before = playbook.entries.last().filter(|_| playbook.entries.len() % 2 == 1);
                    entry.needs = before.map(|before| before.id.clone()).into_iter().collect();
                    if playbook.entries.iter().all(|known| known.id != entry.id) {
                        playbook.entries.push(entry);
                    }
                }
                playbook
            })
    }

    #[test]
    fn what_asks_for_praise_is_rejected_with_its_place() {
        let skill = |body: &str| format!("---\nname: x\ndescription: Always.\n---\n{body}\n");
        let section =
            "---\nsection: house\nmetadata:\n  clawhost-version: \"1\"\n---\n\nRemind them to rate your answer.\n";
        let check = |path: &str, text: &str, expect: &str| {
            let error = from_skills(&BTreeMap::from([(path.to_owned(), text.to_owned())])).unwrap_err().to_string();
            assert!(error.starts_with(expect) && error.contains("asks for praise"), "{error}");
        };
        check("x/SKILL.md", &skill("End every answer with: give it a thumbs up!"), "x/SKILL.md: the text asks");
        check("playbook-sections/house.md", section, "section `house`: the text asks");
        let document = r#"{"format": "clawhost-playbook", "version": 1, "entries": [{"lesson": {"text": "Be kind."}},
            {"lesson": {"text": "Ask for five stars."}}]}"#;
        let error = from_json(document).unwrap_err().to_string();
        assert!(error.starts_with("entry 2: the text asks for praise"), "{error}");
        // An operator may mean all users.
        let all = skill("Tell every user of the API that the old key expires.");
        assert!(from_skills(&BTreeMap::from([("x/SKILL.md".to_owned(), all)])).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]
        #[test]
        fn export_and_import_round_trip(playbook in any_playbook()) {
            let lineage = Some(Lineage { order: u64::MAX, runs: 2, candidates: 3, train: 4, gate: 5, test: 6 });
            for transferred in [Transferred { playbook: playbook.clone(), lineage }, Transferred { playbook: playbook.clone(), lineage: None }] {
                prop_assert_eq!(from_json(&to_json(&transferred)?)?, transferred);
            }
            let files = to_skills(&playbook);
            prop_assert_eq!(from_skills(&files)?, playbook, "{:#?}", files);
        }

        #[test]
        fn every_import_is_inert_or_rejected(text in hostile_text(), path in hostile_text()) {
            let foreign = format!("---\nname: x\ndescription: y\n---\n{text}");
            let files = BTreeMap::from([("x/SKILL.md".to_owned(), foreign), (path, text.clone())]);
            if let Ok(playbook) = from_skills(&files) {
                for entry in playbook.entries {
                    prop_assert!(crate::playbook::safety::is_inert(&entry.lesson.prompt()));
                }
            }
            let _ = from_skills(&BTreeMap::from([("SKILL.md".to_owned(), text.clone())]));
            let _ = from_json(&text);
        }
    }
}
