//! Valid and invalid answers of models.

use super::*;
use clawhost_sdk::Change;
use proptest::prelude::*;

fn playbook() -> Playbook {
    let entry = |id: &str, text: &str| Entry { id: id.into(), ..Entry::new(text) };
    Playbook::new(vec![entry("e-1", "when a is b: wait"), entry("e-2", "always: smile")])
}

fn reading(text: &str, most: usize) -> Result<Reply, Complaint> {
    let episodes = ["ep-a".to_owned(), "ep-b".to_owned()];
    read(text, &Subject { playbook: &playbook(), episodes: &episodes }, most)
}

fn shown(proposal: &Proposal) -> String {
    match &proposal.change {
        Change::Add(entry) => format!("add {}", entry.text),
        Change::Update(entry) => format!("update {} {}", entry.id, entry.text),
        Change::Retire(id) => format!("retire {id}"),
        Change::Merge((ids, entry)) => format!("merge {} into {}", ids.join(" and "), entry.text),
        other => panic!("{other:?}"),
    }
}

/// The proposals, or the complaint.
fn check(text: &str, expect: Result<&[&str], &str>) {
    match (reading(text, 8), expect) {
        (Ok(reply), Ok(expect)) => assert_eq!(reply.proposals.iter().map(shown).collect::<Vec<_>>(), expect, "{text}"),
        (Err(Complaint(why)), Err(says)) => assert!(why.contains(says), "{text}: {why}"),
        (read, expect) => panic!("{text}: {read:?}, not {expect:?}"),
    }
}

fn one(draft: &str) -> String {
    format!("{{\"proposals\": [{draft}]}}")
}

#[test]
fn an_answer_is_one_json_document() {
    let add = one(r#"{"change": "add", "when": "a is c", "do": "go"}"#);
    check(&add, Ok(&["add when a is c: go"]));
    check(&format!("\n ```json\n{add}\n```\n"), Ok(&["add when a is c: go"]));
    check(&format!("Here it is:\n```\n{add}\n```\nGood luck!"), Ok(&["add when a is c: go"]));
    check(
        &one("{\"change\": \"add\", \"do\": \"write ``` around\"},\n{\"change\": \"add\", \"do\": \"code ```\"}"),
        Ok(&["add always: write ``` around", "add always: code ```"]),
    );
    check(r#"{"proposals": []}"#, Ok(&[]));
    for bad in
        ["", "I learned nothing.", "{}", "[]", "{\"proposals\": 1}", "{\"proposals\": [", &format!("{add} {add}")]
    {
        check(bad, Err("no JSON document of the form"));
    }
}

#[test]
fn entries_can_be_merged() {
    let merge = |ids: &str| one(&format!(r#"{{"change": "merge", "ids": {ids}, "when": "a is b", "do": "smile"}}"#));
    check(&merge(r#"["e-1", " e-2"]"#), Ok(&["merge e-1 and e-2 into when a is b: smile"]));
    check(&merge(r#"["e-1", "e-3"]"#), Err("no entry with the id `e-3`"));
}

#[test]
fn a_lesson_needs_others_by_their_names_or_ids() {
    let look = r#"{"change": "add", "name": "look first", "when": "a is unknown", "do": "look"}"#;
    let rule = |needs: &str| format!(r#"{{"change": "add", "when": "a is c", "do": "go", "needs": {needs}}}"#);
    let needs = |text: &str| -> Vec<(String, Vec<String>)> {
        let entry = |proposal: &Proposal| match &proposal.change {
            Change::Add(entry) => (entry.id.clone(), entry.needs.clone()),
            other => panic!("{other:?}"),
        };
        reading(text, 8).unwrap().proposals.iter().map(entry).collect()
    };
    let both = one(&format!("{}, {look}", rule(r#"["look first", "e-1"]"#)));
    let list = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    assert_eq!(needs(&both), [(String::new(), list(&["e-1", "look first"])), ("look first".to_owned(), list(&[]))]);
    assert_eq!(needs(&one(look)), [(String::new(), list(&[]))], "a name that nothing needs stays a label");
    check(&one(&rule(r#"["look"]"#)), Err("it needs `look`, which is neither"));

    // A look-up that the playbook has already is needed by its id.
    let known = playbook().entries.into_iter().find(|entry| entry.id == "e-1").unwrap().text;
    let (when, action) = known.trim_start_matches("when ").split_once(": ").unwrap();
    let repeated = format!(r#"{{"change": "add", "name": "again", "when": "{when}", "do": "{action}"}}"#);
    let both = one(&format!("{repeated}, {}", rule(r#"["again"]"#)));
    assert_eq!(needs(&both), [(String::new(), list(&["e-1"]))]);

    // What was not taken cannot be needed.
    let cut = reading(&one(&format!("{}, {look}", rule(r#"["look first"]"#))), 1).unwrap_err();
    assert!(cut.0.contains("a proposal needs `look first`, which was not taken"), "{}", cut.0);
}

#[test]
fn a_lesson_can_be_added_updated_and_retired() {
    check(
        &one(r#"{"change": "update", "id": " e-1 ", "when": "when a is b", "do": "run\n fast", "avoid": "falling"}"#),
        Ok(&["update e-1 when a is b: run fast\n  avoid: falling"]),
    );
    check(
        &one(r#"{"change": "add", "id": null, "name": null, "when": "Always", "do": "hum"}"#),
        Ok(&["add always: hum"]),
    );
    check(&one(r#"{"change": "retire", "id": "e-2", "do": null}"#), Ok(&["retire e-2"]));
}

#[test]
fn unusable_proposals_are_refused_with_the_reason() {
    let long = "x".repeat(601);
    for (draft, why) in [
        (r#"{"change": "burn", "id": "e-1", "do": "x"}"#, "`change` is `burn`"),
        (r#"{"do": "x"}"#, "`change` is ``"),
        (r#"{"change": "add"}"#, "`do` is empty"),
        (r#"{"change": "add", "do": " \n"}"#, "`do` is empty"),
        (r#"{"change": "add", "do": 7}"#, "invalid type"),
        (r#"7"#, "invalid type"),
        (r#"{"change": "update", "id": "e-9", "do": "x"}"#, "no entry with the id `e-9`"),
        (r#"{"change": "retire"}"#, "no entry with the id ``"),
        (r#"{"change": "update", "id": "e-1"}"#, "`do` is empty"),
        (&format!(r#"{{"change": "add", "do": "{long}{long}"}}"#), "the lesson has 1202 characters"),
        (&format!(r#"{{"change": "add", "do": "x", "because": "{long}"}}"#), "`because` has 601 characters"),
        (&format!(r#"{{"change": "add", "do": "x", "name": "{long}"}}"#), "`name` has 601 characters"),
        (&format!(r#"{{"change": "add", "do": "x", "tags": ["{long}"]}}"#), "`tags`"),
        (r#"{"change": "add", "do": "x", "tags": ["1","2","3","4","5","6","7","8","9"]}"#, "`tags`"),
        (r#"{"change": "add", "do": "x", "tags": ["a\u200bb"]}"#, "`tags`"),
        (r#"{"change": "add", "do": "x\u202ey"}"#, "hidden characters"),
    ] {
        check(&one(draft), Err(why));
    }
}

#[test]
fn an_answer_with_known_lessons_only_is_valid() {
    let known = r#"{"change": "add", "when": "A is B", "do": "wait"}"#;
    let reply = reading(&one(known), 8).unwrap();
    assert_eq!((reply.proposals.len(), reply.refused), (0, vec!["proposal 1: it is known already".to_owned()]));
    check(&one(&format!(r#"{known}, {{"change": "burn"}}"#)), Err("`change` is `burn`"));
}

#[test]
fn usable_proposals_are_used_and_the_others_reported() {
    let text = one(r#"{"change": "add", "do": "go"}, {"change": "burn"}, {"change": "add", "do": "Go"},
           {"change": "retire", "id": "e-1"}, {"change": "update", "id": "e-1", "do": "stop"}, {"change": "add", "do": "run"}"#);
    check(&text, Ok(&["add always: go", "retire e-1", "add always: run"]));
    let reply = reading(&text, 8).unwrap();
    assert_eq!(reply.refused.len(), 3, "{:?}", reply.refused);
    assert!(reply.refused[0].starts_with("proposal 2: `change`"), "{:?}", reply.refused);
    assert!(reply.refused[1].ends_with("known already") && reply.refused[2].ends_with("the same entry"));
    let reply = reading(&text, 1).unwrap();
    assert_eq!((reply.proposals.len(), reply.refused.len()), (1, 5));
    assert!(reply.refused[4].ends_with("at most 1 proposals are taken"), "{:?}", reply.refused);
}

#[test]
fn a_proposal_has_its_parts_reason_and_evidence() {
    let text = one(
        r#"{"change": "add", "name": "greet", "when": "a is c", "do": "say hello", "avoid": "shouting", "tags": ["b", "a", "b", " "],
            "because": "it is  kind", "episodes": [2, "1", 2, 0, 3, -1, "x", 1.5]}"#,
    );
    let proposal = reading(&text, 8).unwrap().proposals.remove(0);
    let Change::Add(entry) = &proposal.change else { panic!("{proposal:?}") };
    let parts = ["name", "when", "do", "avoid"].map(|name| entry.extra(name).unwrap());
    assert_eq!(parts, ["greet", "a is c", "say hello", "shouting"]);
    assert_eq!((&entry.tags[..], entry.id.as_str()), (&["a".to_owned(), "b".to_owned()][..], ""));
    assert_eq!(proposal.expected_effect, "it is kind");
    let evidence: Vec<&str> = proposal.evidence.iter().map(|seen| seen.episode.as_str()).collect();
    assert_eq!(evidence, ["ep-a", "ep-b"], "only episodes that were shown");
}

proptest! {
    #[test]
    fn any_answer_gives_proposals_or_a_complaint(text in "(\\{\"proposals\": ?\\[)?[\\{\\}\\[\\]\":,a-e`\n ]{0,60}(\\]\\})?") {
        // It does not panic, and never treats prose as success.
        if reading(&text, 8).is_ok() {
            prop_assert!(text.contains("proposals"));
        }
    }
}
