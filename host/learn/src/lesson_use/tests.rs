//! Lessons that apply, lessons that do not, and the explanations.

use super::*;
use clawhost_core::{Origin, PlaybookRecord, Role, Turn};

/// An episode with these observations, one per turn, and with these entries in its prompt.
fn episode(observed: &[&str], shown: &[&EntryId]) -> Episode {
    let mut episode: Episode = serde_json::from_str(include_str!("../../../../tests/golden/episode-2.json")).unwrap();
    let turn = Turn { tool_results: Vec::new(), ..episode.turns[0].clone() };
    let message = |text: &str| Message::text(Role::User, Origin::Environment, text);
    let turn = |text: &&str| Turn { observation: vec![message(text)], ..turn.clone() };
    episode.turns = observed.iter().map(turn).collect();
    episode.policy.system_prompt = None;
    episode.system_hint = None;
    let shown = shown.iter().map(|id| id.0.clone()).collect();
    let digest = clawhost_core::Digest::of(b"");
    let (text, drawn, propensity) = (String::new(), Vec::new(), 1.0);
    episode.policy.playbook = Some(PlaybookRecord { digest, text, shown, drawn, retrieval: None, propensity });
    episode
}

/// The counts of a lesson that was in the prompt of each of these episodes.
fn watched(lesson: &str, episodes: &[&[&str]]) -> LessonUse {
    let lesson = Lesson::read(lesson);
    let (id, mut usage) = (lesson.id(), LessonUse::new(&lesson));
    episodes.iter().for_each(|observed| observe([(&id, &mut usage)], &episode(observed, &[&id])));
    usage
}

#[test]
fn a_lesson_is_applicable_if_its_condition_holds_before_an_answer() {
    let check = |lesson: &str, observed: &[&str], expect: Option<u64>| {
        let usage = watched(lesson, &[observed]);
        assert_eq!((usage.applicable, usage.applied, usage.shown), (expect, expect, 1), "{lesson} {observed:?}");
    };
    check("when tier is gold: wait", &["tier: Gold"], Some(1));
    check("when tier is gold: wait", &["tier: silver"], Some(0));
    check("when tier is gold: wait", &["tier: unknown", "tier: gold", "tier: silver"], Some(1));
    check("when tier is gold and age is days: wait", &["tier: gold\nage: days"], Some(1));
    check("when tier is gold and age is days: wait", &["tier: gold\nage: years", "tier: silver\nage: days"], Some(0));
    check("always: wait", &["anything"], Some(1));
    check("always: wait", &[], Some(0));
    check("when in doubt: wait", &["tier: gold"], None);
    check("Be kind.", &["tier: gold"], None);
}

#[test]
fn tool_results_count_in_the_next_turn() {
    let lesson = Lesson::read("when tier is gold: wait");
    let told = |turns: usize| {
        let (id, mut usage) = (lesson.id(), LessonUse::new(&lesson));
        let mut episode = episode(&["look it up", "and now"], &[&id]);
        let result = Message::text(Role::Tool, Origin::Environment, "tier: gold");
        episode.turns[0].tool_results.push(result);
        episode.turns.truncate(turns);
        observe([(&id, &mut usage)], &episode);
        usage.applicable
    };
    assert_eq!((told(1), told(2)), (Some(0), Some(1)));
}

#[test]
fn a_lesson_outside_the_prompt_did_not_apply() {
    let lesson = Lesson::read("when tier is gold: wait");
    let (id, mut usage) = (lesson.id(), LessonUse::new(&lesson));
    observe([(&id, &mut usage)], &episode(&["tier: gold"], &[]));
    assert_eq!((usage.applicable, usage.applied, usage.shown), (Some(1), Some(0), 0));
    assert_eq!(usage.why_dead().unwrap(), "its condition held in 1 episode, but no prompt had the lesson");
}

#[test]
fn a_lesson_that_never_applied_is_explained_with_the_observed_values() {
    let check = |lesson: &str, episodes: &[&[&str]], expect: Option<&str>| {
        assert_eq!(watched(lesson, episodes).why_dead().as_deref(), expect, "{lesson} {episodes:?}");
    };
    let tiers: [&[&str]; 3] = [&["tier: silver"], &["tier: Bronze"], &["tier: gold"]];
    check(
        "when tier is sliver: wait",
        &tiers,
        Some("no observation states `tier: sliver`; values seen for tier: bronze, gold, silver"),
    );
    check("when tier is gold: wait", &tiers, None);
    check(
        "when teir is gold: wait",
        &tiers,
        Some("no observation states a fact `teir`; the most similar one is `tier`"),
    );
    check("when weather is fine: wait", &tiers, Some("no observation states a fact `weather`"));
    check(
        "when tier is gold and age is days: wait",
        &[&["tier: gold\nage: years"], &["tier: silver\nage: days"]],
        Some("its conditions never held at the same time"),
    );
    check("when tier is gold: wait", &[], None);
    check("when in doubt: ask", &tiers, None);
    check(
        "when tier is x\u{1b}[31m: wait",
        &[&["tier: \u{1b}y"]],
        Some("no observation states `tier: x\\u{1b}[31m`; values seen for tier: \\u{1b}y"),
    );
}

#[test]
fn the_most_similar_values_are_kept_in_any_order_of_episodes() {
    let values: Vec<String> =
        (0..40).map(|number| format!("amount: {number}")).chain(["amount: silver".into()]).collect();
    let forward: Vec<[&str; 1]> = values.iter().map(|text| [text.as_str()]).collect();
    let backward: Vec<[&str; 1]> = values.iter().rev().map(|text| [text.as_str()]).collect();
    let seen = |episodes: &[[&str; 1]]| {
        let episodes: Vec<&[&str]> = episodes.iter().map(|observed| observed.as_slice()).collect();
        watched("when amount is sliver: wait", &episodes)
    };
    assert_eq!(seen(&forward), seen(&backward));
    let seen = seen(&forward);
    assert_eq!((seen.conditions[0].seen.len(), seen.conditions[0].seen[0].as_str()), (VALUES, "silver"));
    assert!(seen.why_dead().unwrap().ends_with(", ..."));
}
