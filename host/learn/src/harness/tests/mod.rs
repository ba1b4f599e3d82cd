//! A small world for the harness layer: lessons with known effects, groups of four, deterministic or seeded rewards.

mod approach;
mod bundle;
mod consolidation;
mod life;
mod playbook_view;
mod proposals;
mod relations;
mod simulation;
mod state;

use super::*;
use crate::gate::Question;
use crate::random::Random;
use crate::{Group, LayerOutcome, Member, Removed, learn};
use clawhost_core::{Change, Digest, EpisodeId, Proposal, StateId};

/// Members of a group.
const MEMBERS: u32 = 4;
/// The text that tasks show.
const TEXT: &str = "tier: silver";
/// Seed of the randomisation.
const SEED: u64 = 7;

fn lesson(text: &str) -> Lesson {
    Lesson::read(text)
}

fn id(text: &str) -> EntryId {
    lesson(text).id()
}

/// The n-th of many lessons that are always relevant and never duplicates.
fn rule(n: usize) -> String {
    format!("always: follow rule {n}")
}

fn plugin_entry(id: &str, text: &str) -> clawhost_core::Entry {
    clawhost_core::Entry { id: id.into(), text: text.into(), tags: Vec::new(), needs: Vec::new(), extra: Vec::new() }
}

fn proposal(change: Change) -> (String, Proposal) {
    ("reflector".into(), Proposal { change, evidence: Vec::new(), expected_effect: String::new() })
}

fn add(text: &str) -> (String, Proposal) {
    proposal(Change::Add(plugin_entry("", text)))
}

/// A new entry with a name, which needs others by name or id.
fn needing(name: &str, text: &str, needs: &[&str]) -> Proposal {
    let needs = needs.iter().map(|need| (*need).to_owned()).collect();
    proposal(Change::Add(clawhost_core::Entry { needs, ..plugin_entry(name, text) })).1
}

fn update(old: &str, text: &str) -> (String, Proposal) {
    proposal(Change::Update(plugin_entry(&id(old).0, text)))
}

fn retire(text: &str) -> (String, Proposal) {
    proposal(Change::Retire(id(text).0))
}

/// A batch in which each proposal is an answer.
fn batch(groups: Vec<Group>, proposals: Vec<(String, Proposal)>) -> Batch {
    let answer = |(reflector, proposal)| Answer { reflector, proposals: vec![proposal] };
    answered(groups, proposals.into_iter().map(answer).collect())
}

fn answered(groups: Vec<Group>, answers: Vec<Answer>) -> Batch {
    Batch { number: 0, state_id: StateId(Digest::of(b"")), groups, answers, removed: Removed::default() }
}

fn playbook(lessons: &[&str]) -> Playbook {
    let entries = lessons.iter().map(|text| Entry::new(lesson(text), "operator")).collect();
    Playbook { sections: BTreeMap::new(), entries }
}

/// A layer in a simulated world.
struct World {
    harness: Harness,
    /// Effects of entries on the reward.
    effects: BTreeMap<EntryId, f64>,
    /// Effects of two entries that are shown together, beside their own.
    joint: Vec<(EntryId, EntryId, f64)>,
    /// Draws rewards of 0 or 1. `None`: the reward is the sum of base and effects.
    random: Option<Random>,
    played: u64,
    events: Vec<String>,
}

impl World {
    fn new(settings: HarnessSettings, deployed: &[&str]) -> Self {
        let harness = Harness::new(settings, playbook(deployed));
        Self { harness, effects: BTreeMap::new(), joint: Vec::new(), random: None, played: 0, events: Vec::new() }
    }

    fn effect(&mut self, text: &str, effect: f64) {
        self.effects.insert(id(text), effect);
    }

    fn group(&mut self, showing: &PlaybookView, text: &str) -> Group {
        let number = self.played;
        self.played += 1;
        let mut drawn = Vec::new();
        let mut propensity = 0.0;
        let members = (0..MEMBERS).map(|member| {
            let chosen = showing.choose(number, member, MEMBERS, text);
            let shown =
                chosen.drawn.iter().enumerate().fold(0, |mask, (bit, (_, shown))| mask | (u64::from(*shown) << bit));
            drawn = chosen.drawn.into_iter().map(|(id, _)| id).collect();
            propensity = chosen.propensity;
            let both =
                |(one, other, _): &&(EntryId, EntryId, f64)| chosen.shown.contains(one) && chosen.shown.contains(other);
            let joint: f64 = self.joint.iter().filter(both).map(|(_, _, effect)| effect).sum();
            let worth: f64 = 0.5 + joint + chosen.shown.iter().filter_map(|id| self.effects.get(id)).sum::<f64>();
            let reward = match self.random.as_mut() {
                Some(random) => f64::from(random.uniform() < worth),
                None => worth.clamp(-1.0, 1.0),
            };
            Member { episode: EpisodeId(format!("ep-{number}-{member}")), reward, shown, generated: None }
        });
        let members = members.collect();
        Group { task: format!("task {number}"), seed: number, drawn, propensity, members }
    }

    /// Groups as the learning loop plays them.
    fn groups(&mut self, count: usize, text: &str) -> Vec<Group> {
        let showing = self.harness.training(SEED);
        (0..count).map(|_| self.group(&showing, text)).collect()
    }

    fn learn(&mut self, batch: &Batch) {
        let applied = learn(&mut [&mut self.harness], batch).unwrap();
        let [LayerOutcome::Stepped(_, step)] = applied.outcomes.as_slice() else { panic!("{applied:?}") };
        self.events.extend(step.events.iter().cloned());
    }

    fn play(&mut self, groups: usize) {
        let groups = self.groups(groups, TEXT);
        self.learn(&batch(groups, Vec::new()));
    }

    /// Groups without information about any entry.
    fn pass(&mut self, groups: u64) {
        let member = Member { episode: EpisodeId("ep".into()), reward: 0.0, shown: 0, generated: None };
        let group = Group { task: "t".into(), seed: 0, drawn: Vec::new(), propensity: 1.0, members: vec![member] };
        self.learn(&batch(vec![group; groups as usize], Vec::new()));
    }

    fn propose(&mut self, proposals: Vec<(String, Proposal)>) {
        self.learn(&batch(Vec::new(), proposals));
    }

    fn answer(&mut self, proposals: Vec<Proposal>) {
        self.learn(&answered(Vec::new(), vec![Answer { reflector: "reflector".into(), proposals }]));
    }

    fn add(&mut self, texts: &[&str]) {
        self.propose(texts.iter().map(|text| add(text)).collect());
    }

    fn status(&self, text: &str) -> &str {
        self.harness.status(&id(text)).map_or("unknown", Status::name)
    }

    #[track_caller]
    fn check(&self, expect: &[(&str, &str)]) {
        let actual: Vec<(&str, &str)> = expect.iter().map(|(text, _)| (*text, self.status(text))).collect();
        assert_eq!(actual, expect, "{:#?}", self.events);
    }

    fn promote(&mut self) -> Candidate {
        let candidate = self.harness.candidate().unwrap();
        self.harness.promote(&candidate);
        candidate
    }

    fn deployed(&self) -> Vec<String> {
        self.harness.deployed().entries.iter().map(|entry| entry.lesson.line()).collect()
    }
}

/// All entries may be on trial in one prompt, so that tests see each of them in every group.
pub(super) fn settings() -> HarnessSettings {
    HarnessSettings { trial_crowd: TRIAL_SLOTS, ..HarnessSettings::default() }
}
