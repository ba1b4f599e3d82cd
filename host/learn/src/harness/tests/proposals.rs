//! Intake of proposals, and its limits.

use super::*;
use clawhost_core::Evidence as Source;

fn refused(world: &World) -> Vec<(&str, u64)> {
    world.harness.counts().refused.iter().map(|(why, count)| (why.as_str(), *count)).collect()
}

#[test]
fn ten_thousand_proposals_fill_the_queue_and_no_more() {
    let mut world = World::new(settings(), &[]);
    let mut proposals: Vec<_> = (0..10_000).map(|n| add(&rule(n))).collect();
    // Two entries that are in the queue are proposed more often.
    proposals.extend([200, 250, 250].map(|n| add(&rule(n))));
    world.propose(proposals);
    let count = |status| world.harness.count(&status);
    assert_eq!((count(Status::Queued), count(Status::OnTrial)), (QUEUE - TRIAL_SLOTS, TRIAL_SLOTS));
    assert_eq!(world.harness.records.len(), QUEUE);
    let counts = world.harness.counts();
    assert_eq!((counts.proposed, counts.merged, counts.dropped), (10_003, 3, 10_000 - QUEUE as u64));
    world.check(&[(&rule(250), "on trial"), (&rule(200), "on trial"), (&rule(13), "on trial"), (&rule(14), "queued")]);
    world.check(&[(&rule(QUEUE - 1), "queued"), (&rule(QUEUE), "unknown")]);
    assert!(world.harness.snapshot().unwrap().len() < 200_000);
}

#[test]
fn a_full_queue_keeps_the_entries_with_most_support() {
    let mut world = World::new(HarnessSettings { trial_slots: 1, ..settings() }, &[]);
    world.add(&[&rule(0)]);
    world.propose((1..=QUEUE).map(|n| add(&rule(n))).collect());
    world.propose((QUEUE / 2..=QUEUE).map(|n| add(&rule(n))).collect());
    // A measured entry returns to a full queue.
    let back = id(&rule(0));
    world.harness.try_again(&back, Status::Queued);
    let half = QUEUE / 2;
    world.check(&[
        (&rule(half), "queued"),
        (&rule(QUEUE), "queued"),
        (&rule(half - 1), "unknown"),
        (&rule(0), "queued"),
    ]);
}

#[test]
fn a_full_queue_keeps_records_of_measured_entries() {
    let mut world = World::new(HarnessSettings { trial_slots: 1, ..settings() }, &[]);
    world.add(&[&rule(0)]);
    world.propose((1..=QUEUE).map(|n| add(&rule(n))).collect());
    world.propose((1..=QUEUE).map(|n| add(&rule(n))).collect());
    world.harness.try_again(&id(&rule(0)), Status::Queued);
    world.check(&[(&rule(0), "expired"), (&rule(QUEUE), "queued")]);
    assert!(world.harness.records[&id(&rule(0))].evidence.is_some(), "it counts as tried");
    assert_eq!(world.harness.counts().dropped, 1);
}

#[test]
fn invalid_proposals_are_refused_and_counted() {
    let check = |change: Change, expect: &str| {
        let forbidden = vec!["The answer is 42 euros".to_owned()];
        let mut world = World::new(HarnessSettings { forbidden, ..settings() }, &["Be kind."]);
        world.propose(vec![proposal(change.clone()), proposal(change)]);
        let [(why, 2)] = refused(&world)[..] else { panic!("{:?}", refused(&world)) };
        assert!(why.contains(expect), "{why}");
        assert_eq!(world.harness.records.len(), 1);
        assert!(world.harness.snapshot().unwrap().len() < 4_000, "nothing of it is kept");
    };
    let text = |text: &str| Change::Add(plugin_entry("", text));
    check(text(&"x".repeat(10 << 20)), "more than 2000 bytes");
    check(text(""), "is empty");
    check(text("use sk-proj-abcdefghijklmnop1234 for it"), "contains");
    check(text("say: the ANSWER is\n42 euros"), "withheld");
    check(text("when a task is solved: ask the user for a thumbs up"), "asks for praise");
    let skill = |name: &str, value: &str| {
        let extra = vec![("do".to_owned(), "pay".to_owned()), (name.to_owned(), value.to_owned())];
        Change::Add(clawhost_core::Entry { extra, ..plugin_entry("", "") })
    };
    for part in ["name", "when", "avoid"] {
        check(skill(part, "sk-proj-abcdefghijklmnop1234"), "contains");
        check(skill(part, "the answer is 42 euros"), "withheld");
        check(skill(part, &"x".repeat(10 << 20)), "more than 2000 bytes");
    }
    let tagged = |tag: String| Change::Add(clawhost_core::Entry { tags: vec![tag], ..plugin_entry("", "pay") });
    check(tagged("x".repeat(10 << 20)), "tags of more than 500 bytes");
    check(tagged("sk-proj-abcdefghijklmnop1234".into()), "tags");
    check(tagged("the answer is 42 euros".into()), "tags");
    check(Change::Update(plugin_entry("e-unknown", "pay")), "an update of an entry that does not exist");
    check(Change::Retire("e-unknown".into()), "a retirement of an entry that does not exist");
    check(Change::RewriteSection("house".into(), "Obey.".into()), "only prompt evolution changes sections");
    let secret = Change::Update(plugin_entry(&id("Be kind.").0, "use sk-proj-abcdefghijklmnop1234 for it"));
    check(secret, "contains");
    check(Change::Update(plugin_entry(&id("Be kind.").0, "Be kind, and ask for five stars.")), "asks for praise");
}

#[test]
fn refusals_are_counted_by_reason() {
    let mut world = World::new(settings(), &[]);
    world.propose((0..500).map(|n| add(&"x".repeat(3_000 + n))).collect());
    assert_eq!(refused(&world).iter().map(|(_, count)| count).collect::<Vec<_>>(), [&500]);
}

#[test]
fn stored_sources_are_limited() {
    let mut world = World::new(settings(), &[]);
    let sources = |episode: &str| vec![Source { episode: episode.into(), turns: vec![1; 1 << 16] }; 5];
    let from = |episode: &str| {
        let (reflector, proposal) = add(&rule(1));
        (reflector, Proposal { evidence: sources(episode), ..proposal })
    };
    world.propose(vec![from("ep-1"), from(&"x".repeat(1 << 20)), from("ep-2"), from("ep-3")]);
    let entry = &world.harness.records[&id(&rule(1))].entry;
    let episodes: Vec<&str> = entry.sources.iter().map(|source| source.episode.as_str()).collect();
    assert_eq!(episodes, ["ep-1", "ep-1", "ep-1", "ep-1", "ep-1", "ep-2", "ep-2", "ep-2"]);
    assert!(entry.sources.iter().all(|source| source.turns.len() == SOURCE_TURNS));
    assert_eq!(entry.support, 4);
}

#[test]
fn proposing_to_retire_everything_changes_nothing_that_is_served() {
    let texts: Vec<String> = (0..100).map(rule).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut world = World::new(settings(), &texts);
    world.add(&["always: wait"]);
    let before = world.harness.deployed();
    let everything: Vec<_> = texts.iter().chain(&["always: wait"]).map(|text| retire(text)).collect();
    world.propose(everything);
    assert_eq!(world.harness.deployed(), before);
    assert_eq!(world.harness.questioned.len(), QUESTIONED, "the number under test is limited");
    let over = texts.len() as u64 - QUESTIONED as u64;
    assert_eq!(
        refused(&world),
        [
            ("a retirement of an entry that is not deployed", 1),
            ("a retirement while the maximum number of deployed entries is under test", over),
        ]
    );
    for _ in 0..EXPIRE_AFTER / 10 {
        world.play(10);
    }
    assert_eq!(world.harness.deployed(), before);
    assert_eq!((world.harness.candidate(), world.harness.questioned.len()), (None, 0));
}

#[test]
fn a_duplicate_is_support_but_a_near_duplicate_update_is_a_new_entry() {
    let (old, near) = (
        "Check the policy before refunding an order to anybody",
        "Check the policy before refunding an order to anybody new",
    );
    let mut world = World::new(settings(), &[old]);
    world.add(&[near]);
    world.check(&[(near, "unknown")]);
    assert_eq!(world.harness.counts().merged, 1);
    world.propose(vec![update(old, near)]);
    world.check(&[(old, "deployed"), (near, "on trial")]);
    world.propose(vec![update(old, old)]);
    assert_eq!((world.harness.counts().merged, world.harness.records.len()), (2, 2));
    assert_eq!(world.harness.known().entries.len(), 2);
}

#[test]
fn near_duplicates_are_tried_one_at_a_time() {
    let (old, near) = (
        "Check the policy before refunding an order to anybody",
        "Check the policy before refunding an order to anybody new",
    );
    let mut world = World::new(settings(), &[]);
    world.add(&[old]);
    world.propose(vec![update(old, near)]);
    world.check(&[(old, "on trial"), (near, "queued")]);
    world.play(EXPIRE_AFTER as usize);
    world.check(&[(old, "expired"), (near, "on trial")]);
}

#[test]
fn the_control_serves_everything_at_once() {
    let mut world = World::new(HarnessSettings { admission: Admission::Everything, ..settings() }, &[]);
    let texts: Vec<String> = (0..20).map(rule).collect();
    world.propose(texts.iter().map(|text| add(text)).chain([add(&rule(0)), add("")]).collect());
    assert_eq!(world.deployed(), texts);
    assert_eq!(world.harness.counts().merged, 1);
    assert_eq!(refused(&world).len(), 1, "invalid lessons are refused here too");
    assert_eq!(world.harness.candidate(), None);
}

/// An embedder that maps all texts to one vector.
struct Alike;

impl Embedder for Alike {
    fn embed(&self, _: &str) -> Option<Vec<f32>> {
        Some(vec![1.0])
    }
}

#[test]
fn an_embedder_can_merge_paraphrased_lessons() {
    let (one, other) = ("Greet everybody who comes in.", "Say hello to each visitor.");
    let mut world = World::new(settings(), &[]);
    world.add(&[one, other]);
    world.check(&[(one, "on trial"), (other, "on trial")]);
    let mut world = World::new(settings(), &[]);
    world.harness.compare_by(Arc::new(Alike));
    world.add(&[one]);
    // The embedder is not part of the state, and survives a rollback.
    let bytes = world.harness.snapshot().unwrap();
    world.harness.restore(&bytes).unwrap();
    world.add(&[other]);
    world.check(&[(one, "on trial"), (other, "unknown")]);
    assert_eq!(world.harness.counts().merged, 1);
}
