//! The guidance of a live session: what is remembered of its scopes, the entries of the served playbook, and general skills, within one
//! budget of tokens.

use crate::Entry;
use crate::harness::{Chosen, PlaybookView};
use crate::memory::{ScopeMemory, remembered};
use crate::playbook::{Index, LESSONS_HEADING, Playbook, Query, TOKEN_BUDGET, prose_text, safety::escape};
use crate::{EntryId, Lesson, Skill, estimated_tokens};
use std::collections::{BTreeMap, BTreeSet};

/// Default budget of a session's playbook and skills in tokens. Memory may take a third of it in addition.
pub const GUIDANCE_TOKENS: u64 = TOKEN_BUDGET;
/// Budgets that make sense: below, no lesson fits; above, guidance would displace the conversation.
pub const GUIDANCE_TOKEN_RANGE: std::ops::RangeInclusive<u64> = 50..=20_000;

/// The part of the budget that memory may take beside it: a third. A playbook then has the budget that it was compared with, and is shown alike
/// to all.
const MEMORY_SHARE: u64 = 3;
/// Most general skills in a session. More would be read as a list of rules, and a request needs one or two.
const SKILLS: usize = 4;

/// What stands above all guidance, so that a model does not take it for a message of the user.
const INTRODUCTION: &str = "Guidance from earlier sessions. The user did not write it and does not see it.";
/// What stands above general skills.
const SKILLS_HEADING: &str = "Skills that may apply:";

/// What guidance is made of, beside memory. Cheap to share, made once for a version of the playbook.
pub struct GuidanceSources {
    playbook: Option<PlaybookView>,
    skills: Vec<Entry>,
    index: Index,
    budget: u64,
}

/// Guidance for a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionGuidance {
    /// The text; empty if nothing applies.
    pub text: String,
    /// What is in it, in its order: ids of memory and of the playbook, names of skills as `skill/NAME`.
    pub shown: Vec<String>,
    /// Whether something of the playbook is in it.
    pub has_lessons: bool,
    /// Entries that were drawn, and whether they are in it.
    pub drawn: Vec<(EntryId, bool)>,
}

/// A playbook as it is served, with entries on trial.
pub struct ServedPlaybook<'a> {
    /// The playbook.
    pub playbook: Playbook,
    /// Measured effects of its entries.
    pub worth: &'a BTreeMap<EntryId, f64>,
    /// Entries on trial.
    pub trials: Vec<Entry>,
}

impl GuidanceSources {
    /// The sources: a served playbook, and general skills. `budget`: estimated tokens of both; sections of a playbook are always shown.
    pub fn new(served: Option<ServedPlaybook<'_>>, skills: Vec<Entry>, budget: u64) -> Self {
        let mut seen: BTreeSet<EntryId> =
            served.iter().flat_map(|served| &served.playbook.entries).map(|entry| entry.id.clone()).collect();
        let skills: Vec<Entry> = skills.into_iter().filter(|skill| seen.insert(skill.id.clone())).collect();
        let view = |ServedPlaybook { playbook, worth, trials }| PlaybookView::live(playbook, trials, worth, budget);
        let playbook = served.map(view);
        let index = Index::new(&skills);
        Self { playbook, skills, index, budget }
    }

    /// How many of these entries the playbook has, those on trial included.
    pub fn count_of(&self, entries: &[&str]) -> usize {
        let known = self.playbook.iter().flat_map(PlaybookView::entries);
        known.filter(|entry| entries.contains(&entry.id.0.as_str())).count()
    }

    /// Number of general skills.
    pub fn skills(&self) -> usize {
        self.skills.len()
    }

    /// The texts of entries and skills that an embedding model may compare with what a session asks.
    pub fn prose_texts(&self) -> impl Iterator<Item = &str> {
        let entries = self.playbook.iter().flat_map(PlaybookView::entries).chain(&self.skills);
        entries.filter_map(|entry| prose_text(&entry.lesson))
    }

    /// The guidance for a session. `query`: what its user asks. `drawn_by` says which of the entries on trial may be drawn. `draw`: whether an entry
    /// of the playbook is shown, if that is drawn for the session.
    pub fn guide<'q>(
        &self,
        memory: &[ScopeMemory],
        (drawn_by, query): (u64, impl Into<Query<'q>>),
        draw: impl Fn(&Entry) -> Option<bool>,
    ) -> SessionGuidance {
        let query = query.into();
        let (memory, mut shown) = remembered(memory, query, self.budget / MEMORY_SHARE);
        let chosen: Option<Chosen> = self.playbook.as_ref().map(|view| view.choose_drawn(drawn_by, query, draw));
        let lessons = chosen.as_ref().map(|chosen| chosen.text.as_str()).unwrap_or_default();
        shown.extend(chosen.iter().flat_map(|chosen| chosen.shown.iter().map(|id| id.0.clone())));
        let has_lessons = !lessons.is_empty();
        // Held out entries leave no room for skills: the arms of a draw would differ by more than the entry.
        let held_out = chosen.as_ref().map_or(0, |chosen| chosen.held_out_tokens);
        let heading = if lessons.is_empty() && held_out > 0 { estimated_tokens(LESSONS_HEADING) } else { 0 };
        let taken = estimated_tokens(lessons) + held_out + heading;
        let skills = self.applying(query, self.budget.saturating_sub(taken));
        shown.extend(skills.iter().map(|skill| named(skill)));
        let prompts = skills.iter().map(|skill| skill.lesson.prompt());
        let skills = match skills.is_empty() {
            true => String::new(),
            false => std::iter::once(SKILLS_HEADING.to_owned()).chain(prompts).collect::<Vec<_>>().join("\n"),
        };
        let skills = escape(&skills);
        let parts = [INTRODUCTION, &memory, lessons, &skills];
        let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let drawn = chosen.as_ref().map(|chosen| chosen.drawn.clone()).unwrap_or_default();
        match said.len() {
            ..2 => SessionGuidance { drawn, ..SessionGuidance::default() },
            _ => SessionGuidance { text: said.join("\n\n"), shown, has_lessons, drawn },
        }
    }

    /// The most relevant skills that fit.
    fn applying(&self, query: Query<'_>, tokens: u64) -> Vec<&Entry> {
        let mut room = tokens.saturating_sub(estimated_tokens(SKILLS_HEADING));
        let mut chosen = Vec::new();
        for hit in self.index.relevant(query) {
            let Some(skill) = self.skills.get(hit.position).filter(|_| hit.applies && chosen.len() < SKILLS) else {
                continue;
            };
            if let Some(left) = room.checked_sub(skill.lesson.tokens()) {
                room = left;
                chosen.push(skill);
            }
        }
        chosen
    }
}

/// The guidance of a session with one more lesson on trial: what [`GuidanceSources::guide`] gives if the lesson is shown, made of the text that it gives
/// if the lesson is held out.
pub fn with_lesson(text: &str, lesson: &Lesson) -> String {
    let lesson = escape(&lesson.prompt());
    let skills = text.rfind(&format!("\n\n{SKILLS_HEADING}\n")).unwrap_or(text.len());
    let (before, skills) = text.split_at_checked(skills).unwrap_or((text, ""));
    let before = if before.is_empty() { INTRODUCTION } else { before };
    // Sections of the playbook stand above the lessons, in one part with them.
    match before.lines().any(|line| line == LESSONS_HEADING) {
        true => format!("{before}\n{lesson}{skills}"),
        false => format!("{before}\n\n{LESSONS_HEADING}\n{lesson}{skills}"),
    }
}

/// A skill as records name it: by its name if it has one, since no playbook lists its id.
fn named(skill: &Entry) -> String {
    match &skill.lesson {
        Lesson::Skill(Skill { name, .. }) if !name.is_empty() => format!("skill/{name}"),
        _ => skill.id.0.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, MemoryKind, MemorySource};
    use crate::playbook::FEW_PROSE_ENTRIES;
    use proptest::prelude::*;

    fn entries(lessons: &[&str]) -> Vec<Entry> {
        lessons.iter().map(|text| Entry::new(Lesson::read(text), "operator")).collect()
    }

    fn memory(text: &str) -> Vec<ScopeMemory> {
        let memory = Memory::read(MemoryKind::Preference, text, MemorySource::Written).unwrap();
        vec![ScopeMemory { scope: "user:/".parse().unwrap(), memories: vec![memory] }]
    }

    /// Nothing is drawn.
    fn undrawn(_: &Entry) -> Option<bool> {
        None
    }

    fn sources(playbook: &[&str], skills: Vec<Entry>, budget: u64) -> GuidanceSources {
        let playbook = Playbook { entries: entries(playbook), ..Playbook::default() };
        let served = ServedPlaybook { playbook, worth: &BTreeMap::new(), trials: vec![] };
        GuidanceSources::new(Some(served), skills, budget)
    }

    #[test]
    fn memory_then_lessons_then_skills_are_shown() {
        let sources = sources(&["when tier is gold: refund"], entries(&["when asked to refund: look first"]), 500);
        let guided = sources.guide(&memory("Use metric units."), (0, "tier: gold\nplease refund"), undrawn);
        assert_eq!(
            guided.text,
            format!(
                "{INTRODUCTION}\n\nAbout this user:\n- Use metric units.\n\nLessons from experience:\n- when tier is gold: refund\n\n{SKILLS_HEADING}\n- when asked to refund: look first"
            )
        );
        assert_eq!(guided.shown.len(), 3);
        assert_eq!(sources.guide(&[], (0, "hello"), undrawn), SessionGuidance::default());
    }

    #[test]
    fn of_few_skills_only_those_that_apply_are_shown() {
        let sources = sources(&[], entries(&["when asked how far away something is: use metres"]), 500);
        assert_eq!(sources.guide(&[], (0, "how do I cook rice?"), undrawn), SessionGuidance::default());
        assert_eq!(sources.guide(&[], (0, "how far away is Bern?"), undrawn).shown.len(), 1);
    }

    #[test]
    fn a_skill_that_the_playbook_has_is_shown_once() {
        let sources = sources(&["always: be kind"], entries(&["always: be kind"]), 500);
        assert_eq!(sources.guide(&[], (0, "x"), undrawn).shown.len(), 1);
    }

    #[test]
    fn of_many_skills_the_most_relevant_are_shown() {
        let filler = (0..FEW_PROSE_ENTRIES).map(|n| format!("when planning trip{n} to place{n}: pack thing{n}"));
        let skills: Vec<String> =
            filler.chain(["when tests fail after a change: reproduce the failure".into()]).collect();
        let skills = entries(&skills.iter().map(String::as_str).collect::<Vec<_>>());
        let wanted = skills.last().unwrap().id.0.clone();
        let sources = sources(&[], skills, 500);
        assert_eq!(sources.guide(&[], (0, "my tests fail since the last change"), undrawn).shown, [wanted]);
        assert_eq!(sources.guide(&[], (0, "sing of the sea"), undrawn), SessionGuidance::default());
    }

    #[test]
    fn the_room_of_an_entry_that_is_held_out_stays_empty() {
        let of = |lessons: &[&str]| Playbook { entries: entries(lessons), ..Playbook::default() };
        let trial = entries(&["Answer in German."]).remove(0);
        let playbook = of(&["Be kind.", "Be brief."]);
        let served =
            ServedPlaybook { playbook: playbook.clone(), worth: &BTreeMap::new(), trials: vec![trial.clone()] };
        let sources = GuidanceSources::new(Some(served), entries(&["when asked for kindness: be kind to all"]), 500);
        let guided = |shows: bool| {
            let is_drawn = |entry: &Entry| entry.id == trial.id || entry.id == playbook.entries[0].id;
            sources.guide(&[], (0, "hello"), |entry: &Entry| is_drawn(entry).then_some(shows))
        };
        let (all, none) = (guided(true), guided(false));
        assert!(all.text.contains("Be kind.") && all.text.contains("Answer in German."), "{}", all.text);
        assert!(!none.text.contains("Be kind.") && !none.text.contains("Answer in German."), "{}", none.text);
        assert!(none.text.contains("Be brief."));
        assert_eq!(all.drawn.len(), 2);
        assert!(none.drawn.iter().all(|(_, shown)| !shown));
        let long = entries(&[&"be kind to all ".repeat(12)]).remove(0);
        let served = ServedPlaybook { playbook: of(&[]), worth: &BTreeMap::new(), trials: vec![long] };
        let few = GuidanceSources::new(Some(served), entries(&["when asked for kindness: be kind to all of them"]), 60);
        let skills = |shows| few.guide(&[], (0, "be kind to all"), |_| shows).shown.len();
        assert_eq!((skills(Some(false)), skills(None)), (0, 0), "no skill takes the room");
        let both = entries(&["Answer in German.", "Answer in verse."]);
        let served = ServedPlaybook { playbook: of(&[]), worth: &BTreeMap::new(), trials: both };
        let two = GuidanceSources::new(Some(served), vec![], 500);
        let drawn = (0..100).map(|session| two.guide(&[], (session, "hello"), |_| Some(true)).drawn);
        let drawn: Vec<_> = drawn.collect();
        assert!(drawn.iter().all(|drawn| drawn.len() == 1), "one lesson on trial in a session");
        let firsts = drawn.iter().filter(|one| one[0] == drawn[0][0]).count();
        assert!((30..70).contains(&firsts), "{firsts}");
        let undrawn = sources.guide(&[], (0, "hello"), undrawn);
        assert!(!undrawn.text.contains("German"), "without a draw nothing is tried");
        assert_eq!(undrawn.drawn, []);
    }

    #[test]
    fn a_lesson_is_added_as_if_it_had_been_shown() {
        let trials = ["Answer in German.", "when asked for kindness: be kind\n\nto all", "when tier is gold: refund"];
        let (kind, skill) = ("Be kind.", "when asked for kindness: be kind to all of them");
        let house = BTreeMap::from([("house rules".to_owned(), "Be polite.".to_owned())]);
        for trial in entries(&trials) {
            for (lessons, skills, sections) in [
                (vec![], vec![], BTreeMap::new()),
                (vec![kind], vec![], BTreeMap::new()),
                (vec![], vec![skill], BTreeMap::new()),
                (vec![kind], vec![skill], house.clone()),
                (vec![], vec![skill], house.clone()),
            ] {
                let playbook = Playbook { entries: entries(&lessons), sections };
                let served = ServedPlaybook { playbook, worth: &BTreeMap::new(), trials: vec![trial.clone()] };
                let sources = GuidanceSources::new(Some(served), entries(&skills), 500);
                let asked = "tier: gold\nplease show kindness";
                for memory in [vec![], memory("Use metric units.")] {
                    let guided = |shows: bool| {
                        sources.guide(&memory, (0, asked), |entry| (entry.id == trial.id).then_some(shows))
                    };
                    let (with, without) = (guided(true), guided(false));
                    assert_eq!(with.drawn.len(), 1);
                    assert_eq!(with_lesson(&without.text, &trial.lesson), with.text);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn guidance_fits_its_budget(
            remembered in "[a-z ]{1,200}",
            lessons in prop::collection::vec("[a-z]{1,60}", 0..20),
            skills in prop::collection::vec("[a-z]{1,60}", 0..20),
            budget in 50_u64..600,
        ) {
            let memory = Memory::read(MemoryKind::Fact, &format!("x {remembered}"), MemorySource::Written);
            let memory: Vec<ScopeMemory> = memory.into_iter()
                .map(|memory| ScopeMemory { scope: "user:/".parse().unwrap(), memories: vec![memory] }).collect();
            let lessons: Vec<&str> = lessons.iter().map(String::as_str).collect();
            let skills: Vec<&str> = skills.iter().map(String::as_str).collect();
            let guided = sources(&lessons, entries(&skills), budget).guide(&memory, (0, "x"), undrawn);
            let most = budget + budget / MEMORY_SHARE + estimated_tokens(INTRODUCTION) + 2;
            prop_assert!(estimated_tokens(&guided.text) <= most, "{}", guided.text);
        }
    }
}
