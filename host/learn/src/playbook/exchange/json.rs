//! The JSON document of a playbook.

use super::{Imported, Transferred, assemble, display_tag};
use crate::playbook::Lineage;
use crate::{Entry, EntryId, LearnError, Lesson};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Value of the document's field `format`.
pub const FORMAT: &str = "clawhost-playbook";

/// The document version that this program writes and reads.
pub const VERSION: u64 = 1;

/// The fields that are read first, to decide whether the rest can be read.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    format: serde_json::Value,
    #[serde(default)]
    version: serde_json::Value,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u64,
    #[serde(default)]
    sections: BTreeMap<String, String>,
    #[serde(default)]
    entries: Vec<DocumentEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lineage: Option<Lineage>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentEntry {
    lesson: Lesson,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    /// The name by which other entries need it. Exported only if one does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    id: String,
    /// The names of the entries that it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    needs: Vec<String>,
    /// How often the source found the entry helpful. Imported as a display tag, never exported.
    #[serde(default, skip_serializing)]
    helpful: Option<u64>,
    /// How often the source found the entry harmful.
    #[serde(default, skip_serializing)]
    harmful: Option<u64>,
    /// The source's references to evidence.
    #[serde(default, skip_serializing)]
    evidence: Vec<String>,
}

/// Serialises a playbook as a JSON document.
///
/// # Errors
/// [`LearnError::Document`]: serialisation failed.
pub fn to_json(Transferred { playbook, lineage }: &Transferred) -> Result<String, LearnError> {
    let needed: BTreeSet<&EntryId> = playbook.entries.iter().flat_map(|entry| &entry.needs).collect();
    let entry = |Entry { id, lesson, tags, needs, .. }: &Entry| DocumentEntry {
        lesson: lesson.clone(),
        tags: tags.clone(),
        id: if needed.contains(id) { id.0.clone() } else { String::new() },
        needs: needs.iter().map(|need| need.0.clone()).collect(),
        helpful: None,
        harmful: None,
        evidence: Vec::new(),
    };
    let document = Document {
        format: FORMAT.to_owned(),
        version: VERSION,
        sections: playbook.sections.clone(),
        entries: playbook.entries.iter().map(entry).collect(),
        lineage: *lineage,
    };
    let text = serde_json::to_string_pretty(&document);
    text.map(|text| text + "\n")
        .map_err(|error| LearnError::Document(format!("the playbook cannot be written: {error}")))
}

/// Parses a JSON document. See the [module](super) for what is imported.
///
/// # Errors
/// Another format or version, an unknown field, a duplicate entry, a lineage that no runs can have, or a text that the check rejects.
pub fn from_json(text: &str) -> Result<Transferred, LearnError> {
    let unreadable = |error: serde_json::Error| LearnError::Document(format!("not a playbook document: {error}"));
    let head: Head = serde_json::from_str(text).map_err(unreadable)?;
    if head.format != FORMAT {
        return Err(LearnError::Document(format!(
            "not a playbook document: `format` is {}, not \"{FORMAT}\"; export the playbook with `clawhost playbook export`",
            head.format
        )));
    }
    if head.version != VERSION {
        return Err(LearnError::Document(format!(
            "this playbook document has version {}, this clawhost reads {VERSION}; export it again with a clawhost of the same version",
            head.version
        )));
    }
    let document: Document = serde_json::from_str(text).map_err(|error| {
        LearnError::Document(format!(
            "the playbook document cannot be read: {error}; correct it, or take the field out if it is not known"
        ))
    })?;
    let entry = |(position, entry): (usize, DocumentEntry)| {
        let counters = [("helpful", entry.helpful), ("harmful", entry.harmful)];
        let counters = counters.into_iter().filter_map(|(name, count)| Some(display_tag(name, &count?.to_string())));
        let evidence = entry.evidence.iter().map(|episode| display_tag("evidence", episode));
        Imported {
            place: format!("entry {}", position + 1),
            lesson: entry.lesson,
            tags: entry.tags.into_iter().chain(counters).chain(evidence).collect(),
            needs: entry.needs,
            name: entry.id,
        }
    };
    if document.lineage.is_some_and(|lineage| !lineage.is_reachable()) {
        return Err(LearnError::Document(
            "its `lineage` has numbers that no run reaches; export the playbook again".to_owned(),
        ));
    }
    let entries = document.entries.into_iter().enumerate().map(entry).collect();
    let playbook = assemble(document.sections.into_iter().collect(), entries)?;
    Ok(Transferred { playbook, lineage: document.lineage })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;
    use crate::playbook::Playbook;

    #[test]
    fn a_playbook_is_a_readable_document() {
        let mut entry = Entry::new(Lesson::read("when tier is gold: refund"), "reflector");
        entry.tags.push("money".into());
        (entry.support, entry.status) = (9, Status::Deployed);
        let playbook =
            Playbook { sections: BTreeMap::from([("house".into(), "Be kind.".into())]), entries: vec![entry] };
        let expect = r#"{
  "format": "clawhost-playbook",
  "version": 1,
  "sections": {
    "house": "Be kind."
  },
  "entries": [
    {
      "lesson": {
        "skill": {
          "when": "tier is gold",
          "do": "refund"
        }
      },
      "tags": [
        "money"
      ]
    }
  ]
}
"#;
        let transferred = Transferred { playbook: playbook.clone(), lineage: None };
        assert_eq!(to_json(&transferred).unwrap(), expect);
        let back = from_json(expect).unwrap().playbook;
        assert_eq!(back.digest(), playbook.digest());
        let entry = &back.entries[0];
        assert_eq!((entry.support, &entry.status, entry.created_by.as_str()), (1, &Status::Queued, "import"));
    }

    #[test]
    fn imported_counters_and_evidence_become_display_tags() {
        let text = r#"{"format": "clawhost-playbook", "version": 1, "entries": [{"lesson": {"text": "Be kind."},
            "tags": ["a"], "helpful": 7, "harmful": 0, "evidence": ["e-1"]}]}"#;
        let entry = &from_json(text).unwrap().playbook.entries[0];
        assert_eq!(entry.tags, ["a", "imported:helpful=7", "imported:harmful=0", "imported:evidence=e-1"]);
        assert_eq!((entry.support, entry.sources.len(), &entry.status), (1, 0, &Status::Queued));
    }

    #[test]
    fn imported_texts_are_escaped() {
        let text = r#"{"format": "clawhost-playbook", "version": 1, "sections": {"a\nb": "system: x"},
            "entries": [{"lesson": {"text": "<|im_start|>"}, "tags": ["\u202e"]}]}"#;
        let playbook = from_json(text).unwrap().playbook;
        assert_eq!(playbook.sections, BTreeMap::from([("a b".into(), r"system\: x".into())]));
        assert_eq!(playbook.entries[0].lesson, Lesson::Text(r"<\|im_start|>".into()));
        assert_eq!(playbook.entries[0].tags, [r"\u{202e}"]);
        assert_eq!(playbook.entries[0].id, playbook.entries[0].lesson.id());
    }

    #[test]
    fn errors_name_the_remedy() {
        let check = |text: &str, expect: &str| {
            let error = from_json(text).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        let document = |rest: &str| format!(r#"{{"format": "clawhost-playbook", "version": 1{rest}}}"#);
        check("x", "not a playbook document: expected value at line 1");
        check("{}", "`format` is null, not \"clawhost-playbook\"; export");
        check(r#"{"format": "clawhost-playbook"}"#, "has version null, this clawhost reads 1; export it again");
        check(r#"{"format": "clawhost-playbook", "version": 2, "new": 1}"#, "has version 2, this clawhost reads 1");
        check(&document(r#", "notes": 1"#), "unknown field `notes`");
        check(&document(r#", "entries": [{"lesson": {"text": "a"}, "wins": 1}]"#), "unknown field `wins`");
        check(&document(r#", "entries": [{"lesson": {"skill": {"does": "a"}}}]"#), "unknown field `does`");
        check(
            &document(r#", "entries": [{"lesson": {"text": "a"}}, {"lesson": {"text": "A"}}]"#),
            "entry 1 and entry 2 are equal; remove one",
        );
        check(&document(r#", "entries": [{"lesson": {"text": " "}}]"#), "entry 1: the lesson is empty");
        check(
            &document(r#", "entries": [{"lesson": {"text": "a"}, "needs": ["x"]}]"#),
            "entry 1: it needs `x`, which is not",
        );
        check(
            &document(
                r#", "entries": [{"lesson": {"text": "a"}, "id": "x", "needs": ["y"]}, {"lesson": {"text": "b"}, "id": "y", "needs": ["x"]}]"#,
            ),
            "entry 1: it needs itself, through `e-",
        );
        check(
            &document(
                r#", "entries": [{"lesson": {"text": "a"}, "id": "x"}, {"lesson": {"text": "b"}, "id": "x"}, {"lesson": {"text": "c"}, "needs": ["x"]}]"#,
            ),
            "entry 3: it needs `x`, which is the name of several",
        );
        check(&document(r#", "sections": {"a": "AKIAIOSFODNN7EXAMPLE"}"#), "section `a`: the lesson contains a key");
        check(&document(r#", "sections": {"a b": "", "a\nb": ""}"#), "two sections are named `a b`");
        let lineage = |train: &str| {
            let rest = format!(r#""order": 1, "runs": 1, "candidates": 1, "train": {train}, "gate": 0, "test": 0"#);
            document(&format!(r#", "lineage": {{{rest}}}"#))
        };
        check(&lineage("18446744073709551615"), "its `lineage` has numbers that no run reaches; export");
        check(&lineage("-1"), "invalid value: integer `-1`");
        assert_eq!(from_json(&lineage("7")).unwrap().lineage.map(|lineage| lineage.train), Some(7));
    }
}
